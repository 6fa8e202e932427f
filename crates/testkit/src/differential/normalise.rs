//! Takes out of answers what two correct servers, or two runs on one, may choose freely.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

static UID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
/// Scripts use years before 2020 where a time is theirs.
static TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"));
static TOKEN: LazyLock<Regex> = LazyLock::new(|| pattern(r"eyJ[\w-]+\.[\w-]+\.[\w-]+"));
static CERTIFICATE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?s)-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----"));
static CLUSTER_ADDRESS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b10\.98\.\d{1,3}\.\d{1,3}\b"));
static VERSION_IN_TEXT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(in record \(|resourceVersion\\*":\\*"|current: |too old resource version: \d+ \(|StorageError: .*, ResourceVersion: )\d+"#,
    )
});
static ACCESS_VOLUME: LazyLock<Regex> = LazyLock::new(|| pattern(r"kube-api-access-[a-z0-9]{5}\b"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns in this file are constants that a test compiles")
}

/// Turns the raw records of one run of one sequence into comparable ones.
#[derive(Debug, Default)]
pub struct Normaliser {
    /// Literal texts and what stands for them: the namespace, the server's address, generated names.
    literals: Vec<(String, String)>,
    uids: BTreeMap<String, usize>,
    /// All versions seen of each object, so that versions become their order.
    versions: BTreeMap<String, BTreeSet<u64>>,
}

impl Normaliser {
    /// Starts with texts that differ by run and what to put in their place.
    pub fn new(literals: Vec<(String, String)>) -> Self {
        Self { literals, ..Self::default() }
    }

    /// Normalises the records of a whole sequence, in order.
    pub fn records(mut self, records: Vec<Value>) -> Vec<Value> {
        for record in &records {
            self.learn(record);
        }
        records.into_iter().map(|record| self.value(record)).collect()
    }

    fn learn(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                self.learn_object(fields);
                fields.values().for_each(|field| self.learn(field));
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn learn_object(&mut self, fields: &Map<String, Value>) {
        let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        if let (uid, Ok(version)) = (text("uid"), text("resourceVersion").parse())
            && !uid.is_empty()
        {
            self.versions.entry(uid.to_owned()).or_default().insert(version);
        }
        let (prefix, name) = (text("generateName"), text("name"));
        let known = self.literals.iter().any(|(literal, _)| literal == name);
        if !prefix.is_empty() && name.len() > prefix.len() && name.starts_with(prefix) && !known {
            let number = self.literals.iter().filter(|(_, shown)| shown.contains("<generated-")).count() + 1;
            self.literals.push((name.to_owned(), format!("{prefix}<generated-{number}>")));
        }
    }

    fn value(&mut self, value: Value) -> Value {
        match value {
            Value::Object(fields) => Value::Object(self.object(fields)),
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.value(item)).collect()),
            Value::String(text) => Value::String(self.text(&text)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }

    fn object(&mut self, fields: Map<String, Value>) -> Map<String, Value> {
        let uid = fields.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_table = fields.get("kind").is_some_and(|kind| kind == "Table");
        let mut out = Map::new();
        // Servers may write fields in any order; ids are numbered in the order of names.
        let sorted: BTreeMap<String, Value> = fields.into_iter().collect();
        for (key, field) in sorted {
            let field = match (key.as_str(), &field) {
                ("resourceVersion", Value::String(version)) => Value::String(self.version(&uid, version)),
                ("continue", Value::String(token)) if !token.is_empty() => Value::from("<continue>"),
                ("nodePort" | "healthCheckNodePort", Value::Number(port)) if port.as_u64() > Some(0) => {
                    Value::from("<port>")
                }
                ("managedFields", Value::Array(_)) => sorted_managers(self.value(field)),
                ("token", Value::String(token)) if TOKEN.is_match(token) => Value::from("<token>"),
                _ => self.value(field),
            };
            out.insert(self.text(&key), field);
        }
        if is_table {
            hide_ages(&mut out);
            drop_descriptions(&mut out);
        }
        if let Some(Value::Array(causes)) = out.get_mut("causes") {
            // Kubernetes repeats what several of its layers check.
            causes.dedup();
        }
        out
    }

    fn version(&self, uid: &str, version: &str) -> String {
        let Ok(number) = version.parse::<u64>() else { return version.to_owned() };
        match self.versions.get(uid) {
            Some(seen) => format!("<version-{}>", seen.range(..=number).count()),
            // Versions of lists and bookmarks depend on what else goes on in the server.
            None if number == 0 => version.to_owned(),
            None => "<version>".to_owned(),
        }
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (literal, shown) in &self.literals {
            if text.contains(literal.as_str()) {
                text = text.replace(literal.as_str(), shown);
            }
        }
        let uids = &mut self.uids;
        let text = UID.replace_all(&text, |found: &regex::Captures<'_>| {
            let next = uids.len() + 1;
            format!("<uid-{}>", uids.entry(found[0].to_owned()).or_insert(next))
        });
        let text = sorted_values(&text);
        let text = TIME.replace_all(&text, "<time>");
        let text = TOKEN.replace_all(&text, "<token>");
        let text = CERTIFICATE.replace_all(&text, "<certificate>");
        let text = CLUSTER_ADDRESS.replace_all(&text, "<cluster-address>");
        let text = VERSION_IN_TEXT.replace_all(&text, "$1<version>");
        ACCESS_VOLUME.replace_all(&text, "kube-api-access-<suffix>").into_owned()
    }
}

/// The fields of objects that errors quote, in the order of their names: servers may write them in any.
fn sorted_values(text: &str) -> String {
    const BEFORE: &str = "Invalid value: ";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(BEFORE) {
        let (before, value) = rest.split_at(start + BEFORE.len());
        out.push_str(before);
        rest = value;
        let mut stream = serde_json::Deserializer::from_str(value).into_iter::<Value>();
        let Some(Ok(parsed)) = stream.next() else { continue };
        rest = &value[stream.byte_offset()..];
        let inner = parsed.as_str().and_then(|quoted| serde_json::from_str::<Value>(quoted).ok());
        match inner.filter(|inner| inner.is_object() || inner.is_array()) {
            Some(inner) => out.push_str(&Value::from(sorted(inner).to_string()).to_string()),
            None if parsed.is_object() || parsed.is_array() => out.push_str(&sorted(parsed).to_string()),
            None => out.push_str(&value[..value.len() - rest.len()]),
        }
    }
    out.push_str(rest);
    out
}

/// All objects with their fields in the order of their names.
pub(crate) fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<String, Value> = fields.into_iter().map(|(key, field)| (key, sorted(field))).collect();
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

/// Servers order managers by the second of their last write, which two runs do not share.
fn sorted_managers(mut managers: Value) -> Value {
    if let Value::Array(entries) = &mut managers {
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        entries.sort_by_key(|entry| ["operation", "subresource", "manager", "apiVersion"].map(|key| text(entry, key)));
    }
    managers
}

/// Ages in a table change by the second.
fn hide_ages(table: &mut Map<String, Value>) {
    let Some(columns) = table.get("columnDefinitions").and_then(Value::as_array) else { return };
    let is_age = |column: &Value| matches!(column["name"].as_str(), Some("Age" | "Last Seen" | "First Seen"));
    let ages: Vec<usize> =
        columns.iter().enumerate().filter(|(_, column)| is_age(column)).map(|(index, _)| index).collect();
    let Some(rows) = table.get_mut("rows").and_then(Value::as_array_mut) else { return };
    for row in rows {
        for index in &ages {
            if let Some(cell) = row.get_mut("cells").and_then(|cells| cells.get_mut(index)) {
                *cell = Value::from("<age>");
            }
        }
    }
}

/// Columns are described in Kubernetes' own sentences.
fn drop_descriptions(table: &mut Map<String, Value>) {
    let columns = table.get_mut("columnDefinitions").and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten().filter_map(Value::as_object_mut) {
        column.remove("description");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tables read better with values")]
    fn check(records: Value, expected: Value) {
        let Value::Array(records) = records else { panic!("a list of records") };
        let literals = vec![("run-1".to_owned(), "<ns>".to_owned())];
        assert_eq!(Value::Array(Normaliser::new(literals).records(records)), expected);
    }

    #[test]
    fn hides_what_servers_choose() {
        let (a, b) = ("0f8e1e2a-0000-4000-8000-000000000001", "0f8e1e2a-0000-4000-8000-000000000002");
        check(
            json!([{"uid": a}, {"message": format!("uid {b}, not {a}")}]),
            json!([{"uid": "<uid-1>"}, {"message": "uid <uid-2>, not <uid-1>"}]),
        );
        check(
            json!([{"uid": a, "resourceVersion": "90"}, {"uid": a, "resourceVersion": "7"}, {"resourceVersion": "8"}]),
            json!([{"uid": "<uid-1>", "resourceVersion": "<version-2>"}, {"uid": "<uid-1>", "resourceVersion": "<version-1>"}, {"resourceVersion": "<version>"}]),
        );
        check(json!(["2026-01-02T03:04:05Z", "2001-01-02T03:04:05Z"]), json!(["<time>", "2001-01-02T03:04:05Z"]));
        check(
            json!([{"generateName": "x-", "name": "x-abcde"}, "configmaps \"x-abcde\" not found in run-1"]),
            json!([{"generateName": "x-", "name": "x-<generated-1>"}, "configmaps \"x-<generated-1>\" not found in <ns>"]),
        );
        check(json!(["{\"resourceVersion\":\"12\"}"]), json!(["{\"resourceVersion\":\"<version>\"}"]));
        check(
            json!([{"continue": "abc", "clusterIP": "10.98.0.7"}]),
            json!([{"continue": "<continue>", "clusterIP": "<cluster-address>"}]),
        );
        check(
            json!([{"kind": "Table", "columnDefinitions": [{"name": "Name", "description": "words"}, {"name": "Age"}], "rows": [{"cells": ["a", "3s"]}]}]),
            json!([{"kind": "Table", "columnDefinitions": [{"name": "Name"}, {"name": "Age"}], "rows": [{"cells": ["a", "<age>"]}]}]),
        );
    }

    #[test]
    fn sorts_fields_in_quoted_objects() {
        let check = |text: &str, expected: &str| assert_eq!(sorted_values(text), expected);
        check(
            r#"a: Invalid value: {"b":1,"a":[{"d":1,"c":2}]}: no"#,
            r#"a: Invalid value: {"a":[{"c":2,"d":1}],"b":1}: no"#,
        );
        check(r#"Invalid value: "{\"b\":1,\"a\":2}": no"#, r#"Invalid value: "{\"a\":2,\"b\":1}": no"#);
        check(r#"Invalid value: "{": no, Invalid value: 7: no"#, r#"Invalid value: "{": no, Invalid value: 7: no"#);
        check("Invalid value: map[a:b]: no", "Invalid value: map[a:b]: no");
    }

    #[test]
    fn collapses_repeated_causes() {
        check(
            json!([{"causes": [{"field": "a"}, {"field": "a"}, {"field": "b"}, {"field": "a"}]}]),
            json!([{"causes": [{"field": "a"}, {"field": "b"}, {"field": "a"}]}]),
        );
    }

    #[test]
    fn normalising_twice_changes_nothing() {
        let once = Normaliser::default()
            .records(vec![json!({"uid": "0f8e1e2a-0000-4000-8000-000000000001", "resourceVersion": "4"})]);
        assert_eq!(Normaliser::default().records(once.clone()), once);
    }
}
