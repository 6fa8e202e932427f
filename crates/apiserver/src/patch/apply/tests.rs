//! Replays of what kube-apiserver answered.

mod kinds;
mod rules;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Target, apply, reset_fields, track_update};
use crate::patch::testing::schema;
use crate::patch::typed::item::same;
use crate::schema::Schema;

const API_VERSION: &str = "patchprobe.example.com/v1";

fn custom_schema() -> Arc<Schema> {
    schema(&serde_json::from_str(include_str!("tests/custom-schema.json")).unwrap())
}

/// Times differ between runs, and so does the order that they decide.
fn normal(mut object: Value) -> Value {
    if let Some(fields) = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut) {
        for entry in fields.iter_mut() {
            if entry.get("time").is_some() {
                entry["time"] = "T".into();
            }
        }
        fields.sort_by_key(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            (text("manager"), text("operation"), text("subresource"))
        });
    }
    object
}

/// What the registry of custom resources does around field management: each write changes its own part only.
fn settle(mut object: Value, live: Option<&Value>, subresource: &str) -> Value {
    let part = |object: &Value, name: &str| object.get(name).cloned();
    if subresource == "status" {
        let mut out = live.cloned().unwrap();
        let status = part(&object, "status");
        let fields = part(&object["metadata"], "managedFields");
        set(&mut out, "status", status);
        set(&mut out["metadata"], "managedFields", fields);
        return out;
    }
    set(&mut object, "status", live.and_then(|live| part(live, "status")));
    object
}

fn set(object: &mut Value, name: &str, value: Option<Value>) {
    let fields = object.as_object_mut().unwrap();
    match value {
        Some(value) => fields.insert(name.to_owned(), value),
        None => fields.remove(name),
    };
}

#[test]
fn custom_resources_change_hands_as_in_kubernetes() {
    let schema = custom_schema();
    let now: Timestamp = "2026-11-15T16:00:00Z".parse().unwrap();
    for (at, line) in include_str!("tests/custom.jsonl").lines().enumerate() {
        let mut live: Option<Value> = None;
        let steps: Vec<Value> = serde_json::from_str(line).unwrap();
        for (step, case) in steps.iter().enumerate() {
            let op = case["op"].as_str().unwrap();
            let subresource = if op.ends_with("-status") { "status" } else { "" };
            let reset = reset_fields(API_VERSION, "Thing", true, subresource);
            let target = Target {
                schema: &schema,
                api_version: API_VERSION,
                kind: "Thing",
                builtin: false,
                subresource,
                reset: &reset,
                other_versions: &[],
            };
            let manager = case["manager"].as_str().unwrap();
            let outcome = if op.starts_with("apply") {
                apply(&target, live.as_ref(), &case["body"], manager, case["force"] == true, now)
            } else {
                let mut new = case["body"].clone();
                track_update(&target, live.as_ref(), &mut new, manager, now);
                Ok(new)
            };
            let what = format!("line {at} step {step}: {case}\nlive: {}", json!(live));
            match outcome {
                Ok(object) => {
                    assert!(case.get("object").is_some(), "{what}\nmade: {object}");
                    let object = normal(settle(object, live.as_ref(), subresource));
                    assert!(same(&object, &case["object"]), "{what}\n ours: {object}\nwants: {}", case["object"]);
                    live = Some(object);
                }
                Err(failure) => {
                    assert_eq!(json!(failure.message), case["message"], "{what}");
                    let causes = failure.to_status().pointer("/details/causes").cloned().unwrap_or_default();
                    let sorted = |causes: &Value| {
                        let mut list = causes.as_array().cloned().unwrap_or_default();
                        list.sort_by_key(ToString::to_string);
                        list
                    };
                    assert_eq!(sorted(&causes), sorted(&case["causes"]), "{what}");
                }
            }
        }
    }
}
