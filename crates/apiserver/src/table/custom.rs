//! Rows of custom resources, by the columns their definition asks for.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use crate::jsonpath::JsonPath;
use crate::metadata;

/// The columns of one version of a custom resource.
#[derive(Debug, Clone, Default)]
pub(crate) struct Printer {
    definitions: Vec<Value>,
    columns: Vec<(String, JsonPath)>,
}

impl Printer {
    /// Reads `additionalPrinterColumns`; without any there is a column with the age. The error is what Kubernetes says
    /// about a path it cannot read.
    pub(crate) fn new(columns: &[Value]) -> Result<Self, String> {
        let age = [json!({
            "name": "Age",
            "type": "date",
            "description": "Time since the object was made.",
            "jsonPath": ".metadata.creationTimestamp",
        })];
        let name = json!({"name": "Name", "type": "string", "format": "name", "description": "Name of the object.", "priority": 0});
        let mut printer = Self { definitions: vec![name], columns: Vec::new() };
        for column in if columns.is_empty() { &age } else { columns } {
            let text = |field: &str| column.get(field).and_then(Value::as_str).unwrap_or_default();
            let path = text("jsonPath");
            let parsed = JsonPath::parse(path).map_err(|_| format!("unrecognized column definition {path:?}"))?;
            let description = match text("description") {
                "" => format!("Custom resource definition column (in JSONPath format): {path}"),
                given => given.to_owned(),
            };
            printer.definitions.push(json!({
                "name": text("name"),
                "type": text("type"),
                "format": text("format"),
                "description": description,
                "priority": column.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            }));
            printer.columns.push((text("type").to_owned(), parsed));
        }
        Ok(printer)
    }

    /// The `columnDefinitions`.
    pub(crate) fn definitions(&self) -> &[Value] {
        &self.definitions
    }

    /// The cells of one object.
    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = Value::from(metadata::name(object));
        let others = self.columns.iter().map(|(kind, path)| {
            let found = path.find(object);
            found.ok().and_then(|found| found.first().map(|value| cell(kind, value, now))).unwrap_or_default()
        });
        std::iter::once(name).chain(others).collect()
    }
}

fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", value) => printed(value).into(),
        ("integer", Value::Number(number)) => {
            number.as_i64().map_or_else(|| whole(number.as_f64().unwrap_or_default()), Value::from)
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match text.as_str() {
            "" | "null" => "<unknown>".into(),
            text if text.parse::<Timestamp>().is_err() => "<invalid>".into(),
            text => age(text, now).into(),
        },
        _ => Value::Null,
    }
}

/// A number without its fraction.
fn whole(number: f64) -> Value {
    format!("{:.0}", number.trunc()).parse::<i64>().map_or(Value::Null, Value::from)
}

/// A value as text: texts bare, lists and maps as JSON.
fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<no value>".to_owned(),
        other => other.to_string(),
    }
}
