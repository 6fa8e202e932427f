//! What two Workflows must have in common, whoever ran them: everything but times, places, and names made of their own.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The status of a Workflow without what is only its own. Nodes are by name, and refer to each other by name.
pub(super) fn of(workflow: &Value) -> Value {
    let own = workflow["metadata"]["name"].as_str().unwrap_or_default();
    let status = &workflow["status"];
    let none = Map::new();
    let nodes = status["nodes"].as_object().unwrap_or(&none);
    let name = |id: &Value| nodes.get(id.as_str().unwrap_or_default()).map(|node| text(own, &node["name"]));
    let shaped: BTreeMap<String, Value> = nodes
        .values()
        .map(|node| {
            let mut children: Vec<_> = list(&node["children"]).iter().map(name).collect();
            children.sort();
            let shaped = json!({
                "displayName": text(own, &node["displayName"]),
                "type": node["type"],
                "phase": node["phase"],
                "message": text(own, &node["message"]),
                "templateName": node["templateName"],
                "templateRef": node["templateRef"],
                "nodeFlag": node["nodeFlag"],
                "daemoned": node["daemoned"],
                "boundary": name(&node["boundaryID"]),
                "children": children,
                "inputs": values(own, &node["inputs"]),
                "outputs": values(own, &node["outputs"]),
            });
            (text(own, &node["name"]), shaped)
        })
        .collect();
    json!({
        "phase": status["phase"],
        "message": text(own, &status["message"]),
        "outputs": values(own, &status["outputs"]),
        "nodes": shaped,
    })
}

/// Parameters by name, the result, the exit code, and which artifacts there are.
fn values(own: &str, from: &Value) -> Value {
    let named = |list_of: &Value, value: fn(&str, &Value) -> Value| -> BTreeMap<String, Value> {
        let items = list(list_of).iter();
        items.map(|item| (item["name"].as_str().unwrap_or_default().to_owned(), value(own, item))).collect()
    };
    json!({
        "parameters": named(&from["parameters"], |own, it| json!([text(own, &it["value"]), it["globalName"]])),
        "artifacts": named(&from["artifacts"], |_, it| it["path"].clone()),
        "result": text(own, &from["result"]),
        "exitCode": from["exitCode"],
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A text in which the Workflow's own name, and numbers made of it, are the same for all.
fn text(own: &str, value: &Value) -> String {
    let plain = match value {
        Value::Null => return String::new(),
        Value::String(text) => text.replace(own, "WORKFLOW"),
        other => other.to_string(),
    };
    let mut told = String::new();
    let mut rest = plain.as_str();
    while let Some((before, after)) = rest.split_once("WORKFLOW-") {
        told.extend([before, "WORKFLOW-"]);
        let number = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        told.push_str(if number > 4 { "N" } else { &after[..number] });
        rest = &after[number..];
    }
    told + rest
}

/// Where two of them differ.
pub(super) fn differences(one: &Value, other: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", one, other, &mut found);
    found
}

fn compare(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(left), Value::Object(right)) => {
            let mut keys: Vec<&String> = left.keys().chain(right.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                compare(&format!("{path}/{key}"), &one[key.as_str()], &other[key.as_str()], found);
            }
        }
        _ if one == other => {}
        _ => found.push(format!("{path}: argo {one}, ours {other}")),
    }
}
