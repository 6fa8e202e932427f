use super::*;
use crate::builtin::kinds;

/// Tables kube-apiserver 1.34 gave: when, the printer columns of a custom resource, and its rows.
const TABLES: &str = include_str!("tests/kubernetes-1.34.jsonl");

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

#[test]
fn custom_cells() {
    let columns = [
        json!({"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"}),
        json!({"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}),
        json!({"name": "Since", "type": "date", "jsonPath": ".status.since", "priority": 1, "description": "d"}),
        json!({"name": "Bad", "type": "date", "jsonPath": ".spec.text"}),
        json!({"name": "On", "type": "boolean", "jsonPath": ".spec.on"}),
        json!({"name": "Share", "type": "number", "jsonPath": ".spec.share"}),
        json!({"name": "Whole", "type": "integer", "jsonPath": ".spec.share"}),
        json!({"name": "Map", "type": "string", "jsonPath": ".spec.map"}),
        json!({"name": "Wrong", "type": "integer", "jsonPath": ".spec.text"}),
        json!({"name": "Missing", "type": "string", "jsonPath": ".spec.none"}),
        json!({"name": "Null", "type": "string", "jsonPath": ".spec.null"}),
    ];
    let object = json!({
        "metadata": {"name": "a"},
        "spec": {"replicas": 3, "on": true, "share": 1.5, "map": {"a": [1]}, "text": "t", "null": null},
        "status": {"since": "2026-01-01T00:00:00Z", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let printer = Printer::new(&columns).unwrap();
    let expected = json!(["a", 3, "True", "60m", "<invalid>", true, 1.5, 1, "{\"a\":[1]}", null, null, "<no value>"]);
    assert_eq!(Value::Array(printer.cells(&object, now())), expected);
    assert_eq!(printer.definitions()[3]["description"], "d");
    assert_eq!(
        printer.definitions()[1]["description"],
        "Custom resource definition column (in JSONPath format): .spec.replicas"
    );
}

#[test]
fn custom_resources_show_their_age_by_default() {
    let printer = Printer::new(&[]).unwrap();
    let object = json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:59:00Z"}});
    assert_eq!(printer.cells(&object, now()), [json!("a"), json!("60s")]);
    assert_eq!(Printer::new(&[json!({"jsonPath": ".a["})]).unwrap_err(), "unrecognized column definition \".a[\"");
}

#[test]
fn tables() {
    let kind = kinds().iter().find(|kind| kind.kind == "Secret").unwrap();
    let object = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "type": "Opaque",
        "data": {"x": "AAAA"},
    });
    let make = |include, headers| {
        table(Rows::Builtin(kind.strategy), [&object], &single_metadata(&object), include, headers, now())
    };
    let full = make(Include::Metadata, true);
    assert_eq!(full["metadata"], json!({"resourceVersion": "7"}));
    assert_eq!(full["columnDefinitions"][0]["format"], "name");
    assert_eq!(full["rows"][0]["cells"], json!(["a", "Opaque", 1, "60m"]));
    assert_eq!(full["rows"][0]["object"], partial(&object));
    assert_eq!(full["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(make(Include::None, true)["rows"][0]["object"], Value::Null);
    assert_eq!(make(Include::Object, false)["rows"][0]["object"], object);
    assert_eq!(make(Include::Object, false)["columnDefinitions"], Value::Null);
    assert_eq!((Include::parse("Object"), Include::parse("x")), (Some(Include::Object), None));
    let list = partial_list([&object], &json!({"resourceVersion": "9"}));
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
}

#[test]
fn rows_equal_those_of_kubernetes() {
    let mut failures = Vec::new();
    for line in TABLES.lines() {
        let table = serde_json::from_str::<Value>(line).unwrap();
        let now = table["now"].as_str().unwrap().parse::<Timestamp>().unwrap();
        let printer = table["columns"].as_array().map(|columns| Printer::new(columns).unwrap());
        for row in table["rows"].as_array().unwrap() {
            let object = &row["object"];
            let rows = match &printer {
                Some(printer) => Rows::Custom(printer),
                None => Rows::Builtin(strategy_of(object)),
            };
            let mut definitions = rows.definitions();
            for definition in &mut definitions {
                definition.as_object_mut().unwrap().remove("description");
            }
            let expected = table["definitions"].as_array().unwrap();
            if definitions != *expected {
                failures.push(format!("found    {definitions:?}\nexpected {expected:?}"));
            }
            // The answer's date is cut to seconds, so an age may be one more.
            let later = now.saturating_add(jiff::SignedDuration::from_secs(1)).unwrap();
            let found = [now, later].map(|now| rows.row(object, Include::None, now));
            let fits = |(at, cell): (usize, &Value)| found.iter().any(|row| row["cells"][at] == *cell);
            let cells = row["cells"].as_array().unwrap();
            if !cells.iter().enumerate().all(fits) || found[0]["cells"].as_array().unwrap().len() != cells.len() {
                failures.push(format!("{object}\n  found    {}\n  expected {}", found[0]["cells"], row["cells"]));
            }
            if found[0].get("conditions").unwrap_or(&Value::Null) != &row["conditions"] {
                failures.push(format!("conditions of {object}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

fn strategy_of(object: &Value) -> &'static dyn Strategy {
    let version = object["apiVersion"].as_str().unwrap();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    kinds().iter().find(|kind| kind.group == group && object["kind"] == kind.kind).unwrap().strategy
}
