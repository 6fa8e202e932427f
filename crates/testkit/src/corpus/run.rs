//! Examples, several at a time, each to its end.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Client, Discovery};
use serde_json::{Value, json};

use super::{documents, make, workflows};

/// So often somebody may write to a Workflow that is being resumed.
const ATTEMPTS: usize = 20;

/// What a run is held to.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long one example may take.
    pub each: Duration,
    /// How many run at once.
    pub at_once: usize,
}

/// How an example ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its file.
    pub name: String,
    /// The Workflow's phase, at the latest when its time was up.
    pub phase: String,
    /// The Workflow's message and those of nodes that failed.
    pub message: String,
    /// How long it took.
    pub took: Duration,
}

/// As a label's value, which is what a Workflow's name becomes; the end of a path tells more than its start.
const LONGEST_NAME: usize = 63;

/// Runs examples by their files.
pub async fn run(
    client: &Client,
    namespace: &str,
    folder: &Path,
    names: &[String],
    limits: Limits,
) -> Result<Vec<Ended>> {
    let discovery = Discovery::new(client.clone()).run().await?;
    let one = |name: &String| {
        let (name, discovery) = (name.clone(), &discovery);
        async move {
            let started = Instant::now();
            let path = name.trim_end_matches(".yaml").replace('/', "-").to_lowercase();
            let called = path[path.len().saturating_sub(LONGEST_NAME)..].trim_start_matches('-');
            let ended = example(client, discovery, namespace, (&folder.join(&name), called), limits.each).await;
            let (phase, message) = ended.unwrap_or_else(|error| ("Refused".to_owned(), format!("{error:#}")));
            Ended { name, phase, message, took: started.elapsed() }
        }
    };
    let mut ended: Vec<Ended> = futures::stream::iter(names).map(one).buffer_unordered(limits.at_once).collect().await;
    ended.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(ended)
}

async fn example(
    client: &Client,
    discovery: &Discovery,
    namespace: &str,
    (file, called): (&Path, &str),
    limit: Duration,
) -> Result<(String, String)> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let (own, others): (Vec<Value>, Vec<Value>) =
        documents(&text)?.into_iter().partition(|document| document["kind"] == "Workflow");
    for other in &others {
        make(client, discovery, namespace, other).await?;
    }
    let api = workflows(client, namespace);
    let mut last = (String::new(), String::new());
    ensure!(!own.is_empty(), "the file has no Workflow");
    for mut workflow in own {
        // Several have the same name, and run at once.
        workflow["metadata"]["name"] = json!(called);
        if let Some(metadata) = workflow["metadata"].as_object_mut() {
            metadata.remove("generateName");
        }
        let made = api.create(&PostParams::default(), &serde_json::from_value(workflow)?).await?;
        let name = made.metadata.name.unwrap_or_default();
        let found = tokio::time::timeout(limit, end(&api, &name)).await;
        last = match found {
            Ok(ended) => ended?,
            Err(_) => told(&serde_json::to_value(api.get(&name).await?)?),
        };
        // Nothing of it is in the way of the others.
        let _ = api.delete(&name, &DeleteParams::background()).await;
    }
    Ok(last)
}

/// Waits for the end, and resumes what waits for somebody.
async fn end(api: &Api<DynamicObject>, name: &str) -> Result<(String, String)> {
    loop {
        let is_due = |object: Option<&DynamicObject>| {
            object.is_none_or(|object| is_over(&object.data) || !waiting(&object.data).is_empty())
        };
        let found = await_condition(api.clone(), name, is_due).await?;
        let object = serde_json::to_value(found.context("it is gone")?)?;
        if is_over(&object) {
            return Ok(told(&object));
        }
        resume(api, name).await?;
    }
}

fn is_over(object: &Value) -> bool {
    matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Error"))
}

/// Nodes that wait for somebody, not for a time.
fn waiting(object: &Value) -> Vec<String> {
    let nodes = object["status"]["nodes"].as_object().into_iter().flatten();
    let timed = |node: &Value| {
        let templates = object["spec"]["templates"].as_array().into_iter().flatten();
        let mut own = templates.filter(|template| template["name"] == node["templateName"]);
        own.any(|template| template["suspend"]["duration"].is_string())
    };
    let waits = |node: &Value| node["type"] == "Suspend" && node["phase"] == "Running" && !timed(node);
    nodes.filter(|(_, node)| waits(node)).map(|(id, _)| id.clone()).collect()
}

/// Does what `argo resume` does, and supplies what has no default.
async fn resume(api: &Api<DynamicObject>, name: &str) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let mut object = serde_json::to_value(api.get(name).await?)?;
        for id in waiting(&object) {
            let node = &mut object["status"]["nodes"][&id];
            node["phase"] = json!("Succeeded");
            node["finishedAt"] = node["startedAt"].clone();
            let supplied = node.pointer_mut("/outputs/parameters").and_then(Value::as_array_mut);
            for parameter in supplied.into_iter().flatten() {
                let default = parameter.pointer("/valueFrom/default").cloned();
                if let Some(fields) = parameter.as_object_mut() {
                    fields.insert("value".to_owned(), default.unwrap_or_else(|| json!("supplied")));
                    fields.remove("valueFrom");
                }
            }
        }
        match api.replace(name, &PostParams::default(), &serde_json::from_value(object)?).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            written => return Ok(written.map(drop)?),
        }
    }
    anyhow::bail!("it changes too often to be resumed")
}

/// Phase and messages.
fn told(object: &Value) -> (String, String) {
    let status = &object["status"];
    let mut words: Vec<String> = status["message"].as_str().map(str::to_owned).into_iter().collect();
    for node in status["nodes"].as_object().into_iter().flatten().map(|(_, node)| node) {
        let is_leaf = ["Pod", "Skipped", "Container"].iter().any(|kind| node["type"] == *kind);
        if is_leaf && ["Failed", "Error", "Pending"].iter().any(|phase| node["phase"] == *phase) {
            let text = |name: &str| node[name].as_str().unwrap_or_default();
            words.push(format!("{} {}: {}", text("displayName"), text("phase"), text("message")));
        }
    }
    let phase = status["phase"].as_str().filter(|phase| !phase.is_empty()).unwrap_or("none");
    (phase.to_owned(), words.join("; ").replace(['\t', '\n'], " "))
}
