//! A gate is opened or closed the way Argo's own tools do it: its node is written.

use kube::Api;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use thane_runtime::SharedClock;

use crate::status::packed;

/// How often a write that met another is tried again.
const TRIES: usize = 10;

/// Opens or closes a gate that waits; one that no longer does is left alone.
pub(super) async fn set(
    workflows: &Api<DynamicObject>,
    workflow: &str,
    node: &str,
    allow: bool,
    message: &str,
    clock: &SharedClock,
) -> Result<(), kube::Error> {
    let mut last = None;
    for _ in 0..TRIES {
        let Some(mut found) = workflows.get_opt(workflow).await? else { return Ok(()) };
        let Some(status) = found.data.get_mut("status") else { return Ok(()) };
        if !edit(status, node, allow, message, &clock.now().to_string()) {
            return Ok(());
        }
        match workflows.replace(workflow, &PostParams::default(), &found).await {
            Err(kube::Error::Api(refused)) if refused.code == 409 => last = Some(kube::Error::Api(refused)),
            done => return done.map(drop),
        }
    }
    last.map_or(Ok(()), Err)
}

/// Edits a status; false if there was nothing to edit.
pub(super) fn edit(status: &mut Value, node: &str, allow: bool, message: &str, now: &str) -> bool {
    let packed = status.get("compressedNodes").and_then(Value::as_str).filter(|packed| !packed.is_empty());
    let Some(packed) = packed.map(str::to_owned) else {
        return status.get_mut("nodes").is_some_and(|nodes| edit_node(nodes, node, allow, message, now));
    };
    let Some(mut nodes) = unpack(&packed) else { return false };
    let edited = edit_node(&mut nodes, node, allow, message, now);
    if let (true, Some(packed)) = (edited, pack(&nodes)) {
        status["compressedNodes"] = Value::from(packed);
        return true;
    }
    false
}

fn edit_node(nodes: &mut Value, node: &str, allow: bool, message: &str, now: &str) -> bool {
    let Some(node) = nodes.get_mut(node) else { return false };
    if node["type"] != "Suspend" || node["phase"] != "Running" {
        return false;
    }
    node["phase"] = json!(if allow { "Succeeded" } else { "Failed" });
    node["finishedAt"] = json!(seconds(now));
    let before = node.get("message").and_then(Value::as_str).unwrap_or_default();
    node["message"] = json!(if before.is_empty() { message.to_owned() } else { format!("{before}; {message}") });
    let parameters = node.pointer_mut("/outputs/parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten() {
        if parameter.pointer("/valueFrom/supplied").is_none() {
            continue;
        }
        let default = parameter.pointer("/valueFrom/default").cloned();
        let decided = if allow { "approve" } else { "deny" };
        parameter["value"] =
            if parameter["name"] == "decision" { json!(decided) } else { default.unwrap_or_else(|| json!("")) };
        if let Some(parameter) = parameter.as_object_mut() {
            parameter.remove("valueFrom");
        }
    }
    true
}

/// A time without parts of a second, as Kubernetes writes it.
fn seconds(now: &str) -> String {
    now.split_once('.').map_or_else(|| now.to_owned(), |(seconds, _)| format!("{seconds}Z"))
}

fn unpack(packed: &str) -> Option<Value> {
    serde_json::from_slice(&packed::unpack(packed).ok()?).ok()
}

fn pack(nodes: &Value) -> Option<String> {
    packed::pack(nodes.to_string().as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Value {
        json!({"w-1": {"id": "w-1", "type": "Suspend", "phase": "Running", "outputs": {"parameters": [
            {"name": "decision", "valueFrom": {"supplied": {}, "default": "deny"}},
            {"name": "note", "valueFrom": {"supplied": {}, "default": "none"}},
            {"name": "fixed", "value": "x"},
        ]}}, "w-2": {"id": "w-2", "type": "Pod", "phase": "Running"}})
    }

    #[test]
    fn a_gate_that_waits_is_opened_or_closed_once() {
        for (allow, phase, decision) in [(true, "Succeeded", "approve"), (false, "Failed", "deny")] {
            for packed in [false, true] {
                let mut status =
                    if packed { json!({"compressedNodes": pack(&nodes())}) } else { json!({"nodes": nodes()}) };
                assert!(edit(&mut status, "w-1", allow, "because", "2026-01-02T03:04:05.678Z"));
                let after = if packed {
                    unpack(status["compressedNodes"].as_str().unwrap()).unwrap()
                } else {
                    status["nodes"].clone()
                };
                assert_eq!(after["w-1"]["phase"], phase);
                assert_eq!(after["w-1"]["message"], "because");
                assert_eq!(after["w-1"]["finishedAt"], "2026-01-02T03:04:05Z");
                let parameters = json!([
                    {"name": "decision", "value": decision}, {"name": "note", "value": "none"}, {"name": "fixed", "value": "x"},
                ]);
                assert_eq!(after["w-1"]["outputs"]["parameters"], parameters);
                assert!(!edit(&mut status, "w-1", !allow, "again", "2026-01-02T03:04:06Z"), "it no longer waits");
            }
        }
        let mut status = json!({"nodes": nodes()});
        assert!(!edit(&mut status, "w-2", true, "no gate", "2026-01-02T03:04:05Z"));
        assert!(!edit(&mut status, "w-9", true, "nobody", "2026-01-02T03:04:05Z"));
        assert_eq!(status, json!({"nodes": nodes()}));
    }
}
