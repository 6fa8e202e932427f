//! A Workflow as far as a workload looks at it, whoever runs it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::kind::AgentStatus;
use crate::status::packed;

/// Agents that a workload shows at most.
const AGENTS: usize = 100;

/// What is read of a Workflow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkflowView {
    /// Its uid.
    pub uid: String,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Whether somebody is deleting it.
    pub deleting: bool,
    /// Its phase; none before a controller has seen it.
    pub phase: Option<String>,
    /// What its controller says of it.
    pub message: Option<String>,
    /// Its nodes by id.
    pub nodes: BTreeMap<String, Node>,
    /// Why the nodes could not be read.
    pub hidden: Option<String>,
}

/// What is read of a node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Its id.
    pub id: String,
    /// Its name as people know it.
    pub display_name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// How far it is.
    pub phase: String,
    /// Why.
    pub message: Option<String>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// What it left.
    pub outputs: Option<Outputs>,
}

/// What a node left.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Outputs {
    /// By name.
    pub parameters: Vec<Named>,
    /// Files.
    pub artifacts: Vec<Map<String, Value>>,
}

/// A parameter.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Named {
    /// What it is called.
    pub name: String,
    /// What it is.
    pub value: Option<Value>,
}

impl Node {
    /// Whether it is a gate that waits.
    pub fn waits(&self) -> bool {
        self.kind == "Suspend" && self.phase == "Running"
    }

    /// One of its parameters, as text.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let found = self.outputs.as_ref()?.parameters.iter().find(|parameter| parameter.name == name)?;
        match found.value.as_ref()? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

impl WorkflowView {
    /// Reads a Workflow.
    pub fn read(workflow: &Value) -> Self {
        let text = |pointer: &str| workflow.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let status = &workflow["status"];
        let (nodes, hidden) = match nodes(status) {
            Ok(nodes) => (nodes, None),
            Err(why) => (BTreeMap::new(), Some(why)),
        };
        Self {
            uid: text("/metadata/uid").unwrap_or_default(),
            created: text("/metadata/creationTimestamp").and_then(|time| time.parse().ok()),
            deleting: workflow.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null()),
            phase: text("/status/phase").filter(|phase| !phase.is_empty()),
            message: text("/status/message"),
            nodes,
            hidden,
        }
    }

    /// Whether its controller is done with it.
    pub fn ended(&self) -> bool {
        matches!(self.phase.as_deref(), Some("Succeeded" | "Failed" | "Error"))
    }

    /// Gates that wait.
    pub fn gates(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(|node| node.waits())
    }

    /// What its steps found, and how sure they are: as sure as the least sure of them.
    pub fn findings(&self) -> (Vec<Value>, Option<f64>) {
        let mut insights = Vec::new();
        let mut confidence: Option<f64> = None;
        for node in self.nodes.values().filter(|node| node.phase == "Succeeded") {
            let sure = node.parameter("confidence").and_then(|text| text.trim().parse::<f64>().ok());
            let sure = sure.filter(|sure| sure.is_finite());
            if let Some(sure) = sure {
                confidence = Some(confidence.map_or(sure, |least| least.min(sure)));
            }
            let told = node
                .parameter("insights")
                .map(|text| serde_json::from_str::<Value>(&text).unwrap_or(Value::String(text)));
            if sure.is_some() || told.is_some() {
                let step = node.display_name.clone();
                insights.push(serde_json::json!({"step": step, "confidence": sure, "insights": told}));
            }
        }
        (insights, confidence)
    }

    /// Its agents: steps that ran or run, those that began last.
    pub fn agents(&self) -> Vec<AgentStatus> {
        let mut steps: Vec<&Node> = self.nodes.values().filter(|node| node.kind == "Pod").collect();
        steps.sort_by(|one, other| (one.started_at, &one.id).cmp(&(other.started_at, &other.id)));
        let last = steps.into_iter().rev().take(AGENTS).rev();
        last.map(|node| AgentStatus {
            name: node.display_name.clone(),
            phase: node.phase.clone(),
            message: node.message.clone().filter(|message| !message.is_empty()),
            started_at: node.started_at.map(Time),
            finished_at: node.finished_at.map(Time),
        })
        .collect()
    }

    /// Where its steps put what they left, by step and name.
    pub fn artifacts(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for node in self.nodes.values() {
            for artifact in node.outputs.iter().flat_map(|outputs| &outputs.artifacts) {
                let name = artifact.get("name").and_then(Value::as_str).unwrap_or_default();
                if let Some(place) = place(artifact) {
                    found.insert(format!("{}/{name}", node.display_name), place);
                }
            }
            if let Some(places) = node.parameter("artifacts")
                && let Ok(places) = serde_json::from_str::<BTreeMap<String, String>>(&places)
            {
                found.extend(places.into_iter().map(|(name, place)| (format!("{}/{name}", node.display_name), place)));
            }
        }
        found
    }
}

fn place(artifact: &Map<String, Value>) -> Option<String> {
    let s3 = artifact.get("s3")?;
    let key = s3.get("key").and_then(Value::as_str)?;
    let bucket = s3.get("bucket").and_then(Value::as_str);
    Some(bucket.map_or_else(|| key.to_owned(), |bucket| format!("s3://{bucket}/{key}")))
}

fn nodes(status: &Value) -> Result<BTreeMap<String, Node>, String> {
    let unreadable = |error: serde_json::Error| format!("status.nodes cannot be read: {error}");
    if status.get("offloadNodeStatusVersion").and_then(Value::as_str).is_some_and(|version| !version.is_empty()) {
        return Err("the Workflow's nodes are in a database of Argo's, where they cannot be read from here".to_owned());
    }
    if let Some(compressed) = status.get("compressedNodes").and_then(Value::as_str).filter(|nodes| !nodes.is_empty()) {
        let json = packed::unpack(compressed).map_err(|error| error.to_string())?;
        return serde_json::from_slice(&json).map_err(unreadable);
    }
    match status.get("nodes") {
        None | Some(Value::Null) => Ok(BTreeMap::new()),
        Some(nodes) => BTreeMap::deserialize(nodes).map_err(unreadable),
    }
}
