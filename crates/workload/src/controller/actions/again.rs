//! Trying again: in the same Workflow, or in a new one.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::store::text;
use crate::engine::{COMPLETED_LABEL, PHASE_LABEL};
use crate::status::packed::{PLAIN_MAX, packed};
use crate::status::{Moment, NodePhase, NodeStatus, NodeType, Nodes, Phase, WorkflowStatus};
use crate::steps::names::node_id;

/// Labels that a new Workflow does not take over.
const OWN: &str = "workflows.argoproj.io/";

/// Takes back what failed; which nodes have to run again: id, name and template.
pub(super) fn retried(
    name: &str,
    status: &mut WorkflowStatus,
    now: Timestamp,
) -> Result<Vec<(String, String, String)>, String> {
    if !matches!(status.phase, Phase::Failed | Phase::Error) {
        return Err(format!("workflow must be Failed/Error to retry, and {name} is {}", status.phase.word()));
    }
    let mut gone: BTreeSet<String> = BTreeSet::new();
    let mut queue: Vec<String> =
        status.nodes.iter().filter(|node| goes(status, node)).map(|node| node.id.clone()).collect();
    while let Some(id) = queue.pop() {
        if gone.insert(id.clone())
            && let Some(node) = status.nodes.get(&id)
        {
            queue.extend(node.children.iter().cloned());
        }
    }
    let mut removed = Vec::new();
    for id in &gone {
        if let Some(node) = status.nodes.remove(id)
            && node.kind == NodeType::Pod
        {
            removed.push((id.clone(), node.name.clone(), node.template().to_owned()));
        }
    }
    // What is around them runs again.
    for node in status.nodes.iter_mut() {
        node.children.retain(|child| !gone.contains(child));
        node.outbound_nodes.retain(|child| !gone.contains(child));
        if is_group(node) && node.phase.is_failure() {
            (node.phase, node.finished_at) = (NodePhase::Running, Moment::default());
            node.started_at = Moment::of(now);
            node.message.clear();
        }
    }
    // Deadlines count from now, as Argo's do: those that were missed are over.
    (status.phase, status.started_at, status.finished_at) = (Phase::Running, Moment::of(now), Moment::default());
    status.message.clear();
    status.conditions.retain(|one| one.kind != "Completed");
    Ok(removed)
}

fn is_group(node: &NodeStatus) -> bool {
    matches!(node.kind, NodeType::Steps | NodeType::StepGroup | NodeType::Dag | NodeType::TaskGroup | NodeType::Retry)
}

/// Whether a node runs again by itself: it failed, waits for what failed, or handles the end.
fn goes(status: &WorkflowStatus, node: &NodeStatus) -> bool {
    let failed = !is_group(node) && (node.phase.is_failure() || !node.is_fulfilled());
    failed || node.phase == NodePhase::Omitted || status.nodes.is_of_exit_handler(node)
}

/// The object of a Workflow that goes on.
pub(super) fn reopened(object: &mut Value) {
    if let Some(labels) = object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.insert(COMPLETED_LABEL.to_owned(), json!("false"));
        labels.insert(PHASE_LABEL.to_owned(), json!("Running"));
        labels.remove("workflows.argoproj.io/workflow-archiving-status");
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("shutdown");
    }
}

/// A new Workflow that does the same as one that was.
pub fn resubmitted(object: &Value) -> Value {
    let kept = |field: &str| {
        let all = object.pointer(&format!("/metadata/{field}")).and_then(Value::as_object);
        let mut kept = serde_json::Map::new();
        for (name, value) in all.into_iter().flatten() {
            if !name.starts_with(OWN) || name == crate::steps::names::INSTANCE {
                kept.insert(name.clone(), value.clone());
            }
        }
        kept
    };
    let name = text(object, "/metadata/name");
    let prefix = match text(object, "/metadata/generateName") {
        "" => format!("{name}-"),
        prefix => prefix.to_owned(),
    };
    let mut labels = kept("labels");
    labels.insert("workflows.argoproj.io/resubmitted-from-workflow".to_owned(), json!(name));
    let mut spec = object["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("shutdown");
        spec.remove("suspend");
    }
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {
            "generateName": prefix, "namespace": object["metadata"]["namespace"],
            "labels": labels, "annotations": kept("annotations"),
        },
        "spec": spec,
    })
}

/// A new Workflow in which what succeeded in one that failed is not run again; its name ends with the suffix.
pub fn memoized(object: &Value, suffix: &str, now: Timestamp) -> Result<Value, String> {
    let stored = super::super::store::Stored::read(object.clone());
    let mut status = stored.status?;
    if !matches!(status.phase, Phase::Failed | Phase::Error) {
        return Err("workflow must be Failed/Error to resubmit in memoized mode".to_owned());
    }
    let old = text(object, "/metadata/name");
    retried(old, &mut status, now)?;
    let mut new = resubmitted(object);
    let name = format!("{}{suffix}", text(&new, "/metadata/generateName"));
    let nodes = renamed(&status.nodes, old, &name);
    let status = WorkflowStatus {
        nodes,
        stored_templates: status.stored_templates,
        stored_spec: status.stored_spec,
        outputs: status.outputs,
        ..WorkflowStatus::default()
    };
    if let Some(metadata) = new["metadata"].as_object_mut() {
        metadata.remove("generateName");
        metadata.insert("name".to_owned(), json!(name));
    }
    let status = packed(&status, PLAIN_MAX).map_err(|error| error.to_string())?;
    new["status"] = serde_json::to_value(status).map_err(|error| error.to_string())?;
    Ok(new)
}

/// Nodes of one Workflow as another's; steps that succeeded are skipped, with what they left.
fn renamed(nodes: &Nodes, old: &str, new: &str) -> Nodes {
    let called = |name: &str| name.strip_prefix(old).map_or_else(|| name.to_owned(), |rest| format!("{new}{rest}"));
    let id = |id: &String| nodes.get(id).map_or_else(|| id.clone(), |node| node_id(new, &called(&node.name)));
    let mut all = Nodes::default();
    for node in nodes.iter() {
        let mut copy = node.clone();
        copy.name = called(&node.name);
        copy.id = id(&node.id);
        if node.name == old {
            copy.display_name.clone_from(&copy.name);
        }
        copy.boundary_id = if node.boundary_id.is_empty() { String::new() } else { id(&node.boundary_id) };
        copy.children = node.children.iter().map(id).collect();
        copy.outbound_nodes = node.outbound_nodes.iter().map(id).collect();
        if node.template_scope == format!("local/{old}") {
            copy.template_scope = format!("local/{new}");
        }
        if node.kind == NodeType::Pod {
            (copy.kind, copy.phase) = (NodeType::Skipped, NodePhase::Skipped);
            copy.message = format!("original pod: {}", node.id);
        }
        all.set(copy);
    }
    all
}
