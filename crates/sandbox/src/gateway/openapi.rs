//! The API's description, made from the types that are read and written.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::bodies::{ErrorBody, OutputEvent, StepResult};
use super::routes::{For, Route, table};

/// A type's schema.
pub(super) type Made = fn(&mut SchemaGenerator) -> Schema;
type Named = &'static [(&'static str, &'static str)];

/// What an answer is.
pub(super) enum Sent {
    /// Nothing.
    Nothing,
    /// Anything of that content type.
    Raw(&'static str),
    /// Something of that content type and schema.
    Json(&'static str, Made),
}

/// A type as JSON.
pub(super) fn json<T: JsonSchema>() -> Sent {
    Sent::Json("application/json", SchemaGenerator::subschema_for::<T>)
}

/// Bytes.
pub(super) fn raw() -> Sent {
    Sent::Raw("application/octet-stream")
}

/// What is said about a route.
pub(super) struct About {
    name: &'static str,
    summary: &'static str,
    status: u16,
    answer: Sent,
    body: Sent,
    query: Named,
    headers: Named,
    events: bool,
}

impl About {
    pub(super) fn new(name: &'static str, summary: &'static str, status: u16, answer: Sent) -> Self {
        Self { name, summary, status, answer, body: Sent::Nothing, query: &[], headers: &[], events: false }
    }

    pub(super) fn body<T: JsonSchema>(self) -> Self {
        Self { body: json::<T>(), ..self }
    }

    pub(super) fn raw(self) -> Self {
        Self { body: raw(), ..self }
    }

    pub(super) fn query(self, query: Named) -> Self {
        Self { query, ..self }
    }

    pub(super) fn headers(self, headers: Named) -> Self {
        Self { headers, ..self }
    }

    pub(super) fn events(self) -> Self {
        Self { events: true, ..self }
    }
}

/// The whole description, as JSON text.
pub fn document() -> String {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut made = settings.into_generator();
    let mut paths = Map::new();
    for route in table() {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation(&route, &mut made);
    }
    let failure = made.subschema_for::<ErrorBody>();
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Thane sandbox gateway",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Sessions in warm sandboxes: steps, files, snapshots and forks.",
        },
        "paths": paths,
        "components": {
            "schemas": made.take_definitions(false),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "responses": {"Error": {"description": "Why not", "content": {"application/json": {"schema": failure}}}},
        },
    });
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn operation(route: &Route, made: &mut SchemaGenerator) -> Value {
    let about = &route.about;
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameter = |place: &str, name: &str, description: &str, required: bool| json!({"name": name, "in": place, "description": description, "required": required, "schema": {"type": "string"}});
    let mut parameters: Vec<Value> = in_path.map(|name| parameter("path", name, "what it is called", true)).collect();
    parameters.extend(about.query.iter().map(|(name, text)| parameter("query", name, text, false)));
    parameters.extend(about.headers.iter().map(|(name, text)| parameter("header", name, text, false)));
    let mut answer = json!({"description": about.summary});
    if let Some(content) = content(&about.answer, made) {
        answer["content"] = content;
    }
    if about.events {
        let (output, result) = (made.subschema_for::<OutputEvent>(), made.subschema_for::<StepResult>());
        answer["content"]["text/event-stream"] = json!({"schema": {"anyOf": [output, result]}});
    }
    let mut responses = Map::new();
    responses.insert(about.status.to_string(), answer);
    responses.insert("default".to_owned(), json!({"$ref": "#/components/responses/Error"}));
    let mut operation = json!({
        "operationId": about.name,
        "summary": about.summary,
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(content) = content(&about.body, made) {
        operation["requestBody"] = json!({"required": true, "content": content});
    }
    if route.who != For::All {
        operation["security"] = json!([{"key": []}]);
    }
    operation
}

fn content(sent: &Sent, made: &mut SchemaGenerator) -> Option<Value> {
    match sent {
        Sent::Nothing => None,
        Sent::Raw(kind) => Some(json!({*kind: {}})),
        Sent::Json(kind, schema) => Some(json!({*kind: {"schema": schema(made)}})),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Where the committed description is.
    const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/openapi.json");

    #[test]
    fn the_committed_description_is_current() {
        let current = document();
        if std::env::var_os("THANE_WRITE_OPENAPI").is_some() {
            std::fs::write(COMMITTED, &current).unwrap();
        }
        let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
        assert!(committed == current, "write it again: THANE_WRITE_OPENAPI=1 cargo test -p thane-sandbox openapi");
    }

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn everything_that_is_referred_to_is_there_and_names_are_unique() {
        let document: Value = serde_json::from_str(&document()).unwrap();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 20);
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        let names: Vec<_> = table().iter().map(|route| route.about.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
