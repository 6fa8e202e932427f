//! A Workflow and its steps, as a tree.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;
use thane_workload::status::{Moment, NodePhase, NodeStatus, NodeType, WorkflowStatus};
use thane_workload::steps::names::pod_name;

/// Trees deeper than this are cut off.
const DEPTH_MAX: usize = 64;

/// Everything about a Workflow that fits a terminal.
pub(super) fn shown(object: &Value, status: &WorkflowStatus, now: Moment) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let mut lines = vec![
        ("Name:", name.to_owned()),
        ("Namespace:", object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned()),
        ("Status:", if status.phase.word().is_empty() { "Pending".to_owned() } else { status.phase.word().to_owned() }),
        ("Message:", status.message.clone()),
        ("Started:", status.started_at.text()),
        ("Finished:", status.finished_at.text()),
        ("Duration:", duration(status.started_at, status.finished_at, now)),
        ("Progress:", status.progress.clone()),
    ];
    lines.retain(|(_, value)| !value.is_empty());
    let mut text = crate::output::pairs(&lines);
    for parameter in status.outputs.iter().flat_map(|outputs| &outputs.parameters) {
        let value = parameter.value.as_ref().map(ToString::to_string).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "Output:     {} = {value}", parameter.name);
    }
    let tree = Tree { name, status, now };
    let rows = tree.rows();
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&crate::kubernetes::table::plain(&["STEP", "TEMPLATE", "PODNAME", "DURATION", "MESSAGE"], rows));
    }
    text
}

struct Tree<'t> {
    name: &'t str,
    status: &'t WorkflowStatus,
    now: Moment,
}

impl Tree<'_> {
    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let exit = format!("{}.onExit", self.name);
        for root in [self.name, &exit] {
            let found = self.status.nodes.iter().find(|node| node.name == *root);
            if let Some(node) = found {
                self.add(node, "", "", &mut rows, 0);
            }
        }
        rows
    }

    fn add(&self, node: &NodeStatus, here: &str, below: &str, rows: &mut Vec<Vec<String>>, depth: usize) {
        let pod =
            if node.kind == NodeType::Pod { pod_name(self.name, node.template(), &node.name) } else { String::new() };
        rows.push(vec![
            format!("{here}{} {}", sign(node), node.display_name),
            node.template().to_owned(),
            pod,
            duration(node.started_at, node.finished_at, self.now),
            node.message.lines().next().unwrap_or_default().to_owned(),
        ]);
        if depth >= DEPTH_MAX {
            return;
        }
        let members = self.members(node);
        for (index, member) in members.iter().enumerate() {
            let last = index + 1 == members.len();
            let (branch, trunk) = if last { ("└─", "  ") } else { ("├─", "│ ") };
            self.add(member, &format!("{below}{branch}"), &format!("{below}{trunk}"), rows, depth + 1);
        }
    }

    /// What is shown below a node: steps of a template, attempts, items, hooks.
    fn members(&self, node: &NodeStatus) -> Vec<&NodeStatus> {
        let nodes = &self.status.nodes;
        let own = |id: &String| nodes.get(id);
        let mut all: Vec<&NodeStatus> = match node.kind {
            NodeType::Retry | NodeType::TaskGroup => {
                node.children.iter().filter_map(own).filter(|child| is_below(child, node)).collect()
            }
            NodeType::Steps | NodeType::Dag => {
                let inner: BTreeSet<&str> = nodes
                    .iter()
                    .filter(|one| {
                        one.boundary_id == node.id && matches!(one.kind, NodeType::Retry | NodeType::TaskGroup)
                    })
                    .flat_map(|one| one.children.iter().filter_map(own).filter(|child| is_below(child, one)))
                    .map(|child| child.id.as_str())
                    .collect();
                let mine = |one: &&NodeStatus| {
                    one.boundary_id == node.id && one.kind != NodeType::StepGroup && !inner.contains(one.id.as_str())
                };
                nodes.iter().filter(mine).collect()
            }
            _ => Vec::new(),
        };
        all.sort_by_key(|one| (one.started_at, natural(&one.name)));
        all
    }
}

/// Whether a child belongs to a group rather than follows it.
fn is_below(child: &NodeStatus, group: &NodeStatus) -> bool {
    child.name.strip_prefix(&group.name).is_some_and(|rest| rest.starts_with('('))
}

/// Names with numbers in the order of the numbers.
fn natural(name: &str) -> (String, usize) {
    let index = thane_workload::status::names::loop_index(name);
    (name.split('(').next().unwrap_or(name).to_owned(), index.unwrap_or_default())
}

fn sign(node: &NodeStatus) -> char {
    match node.phase {
        NodePhase::Unknown | NodePhase::Pending => '◷',
        NodePhase::Running if node.kind == NodeType::Suspend => 'ǁ',
        NodePhase::Running => '●',
        NodePhase::Succeeded => '✔',
        NodePhase::Skipped | NodePhase::Omitted => '○',
        NodePhase::Failed => '✖',
        NodePhase::Error => '⚠',
    }
}

fn duration(start: Moment, end: Moment, now: Moment) -> String {
    if start.is_none() {
        return String::new();
    }
    let seconds = if end.is_none() { now.since(start) } else { end.since(start) };
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ => format!("{}h{}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_attempts_and_items_hang_where_they_belong() {
        let node = |name: &str, kind: &str, boundary: &str, children: &[&str], at: u32| {
            json!({"id": name, "name": name, "displayName": name.rsplit(['.', ']']).next(), "type": kind, "phase": "Succeeded",
                "templateName": "t", "boundaryID": boundary, "children": children,
                "startedAt": format!("2026-01-01T00:00:{at:02}Z"), "finishedAt": "2026-01-01T00:01:00Z"})
        };
        let nodes = [
            node("wf", "Steps", "", &["wf[0]"], 0),
            node("wf[0]", "StepGroup", "wf", &["wf[0].a"], 0),
            node("wf[0].a", "Retry", "wf", &["wf[0].a(0)", "wf[0].a(1)"], 1),
            node("wf[0].a(0)", "Pod", "wf", &[], 1),
            node("wf[0].a(1)", "Pod", "wf", &["wf[1]"], 2),
            node("wf[1]", "StepGroup", "wf", &["wf[1].b"], 3),
            node("wf[1].b", "Pod", "wf", &[], 4),
        ];
        let nodes: serde_json::Map<_, _> =
            nodes.into_iter().map(|node| (node["id"].as_str().expect("an id").to_owned(), node)).collect();
        let status: WorkflowStatus =
            serde_json::from_value(json!({"phase": "Succeeded", "nodes": nodes})).expect("a status");
        let tree = Tree { name: "wf", status: &status, now: Moment::default() };
        let steps: Vec<String> = tree.rows().into_iter().map(|row| row[0].clone()).collect();
        assert_eq!(steps, ["✔ wf", "├─✔ a", "│ ├─✔ a(0)", "│ └─✔ a(1)", "└─✔ b"]);
    }
}
