//! Services on a node and in a pod find each other through the hub's registry, which is replaced meanwhile.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use thane_testkit::client::HttpsClient;

use crate::{Stage, plain};

/// The node's agent, seen from the machine.
const NODE_AGENT: &str = "10.99.0.2:8502";
/// The longest anything may take to come true.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) async fn run(stage: &Stage<'_>) -> Result<()> {
    let fleet = &stage.fleet;
    let outcome = async {
        plain("the hub's registry", fleet.deploy_registry()).await?;
        plain("an agent on the node", fleet.deploy_node_agent("node")).await?;
        plain("an agent in a pod", fleet.deploy_sidecar()).await?;
        plain("a service of the node is found in the pod", found(stage)).await?;
        plain("a new pod of the hub", fleet.restart_hub()).await?;
        plain("all is there again", again(stage)).await?;
        anyhow::Ok(())
    };
    match outcome.await {
        Ok(()) => fleet.remove_discovery().await,
        Err(error) => Err(error.context(fleet.discovery_words().await).context(fleet.last_words().await)),
    }
}

/// What the node registers is seen in the pod, over HTTP and DNS; what the pod registers, on the node.
async fn found(stage: &Stage<'_>) -> Result<()> {
    register("database", 5432).await?;
    in_pod(stage, "database", 5432).await?;
    let resolved = stage.fleet.beside(&["nslookup", "database.service.consul", "127.0.0.1"]).await?;
    ensure!(resolved.contains("10.99.0.2"), "{resolved}");
    let body = json!({"name": "web", "port": 8080}).to_string();
    let url = "http://127.0.0.1:8502/agent/service/register";
    stage.fleet.beside(&["wget", "-q", "-O", "-", "--post-data", &body, url]).await?;
    until("web on the node", async || {
        let instances = ask("GET", "/v1/health/service/web?passing", "").await?;
        Ok(instances[0]["Service"]["Port"] == 8080)
    })
    .await
}

/// After the hub came back, everything is as it was, and what is new arrives.
async fn again(stage: &Stage<'_>) -> Result<()> {
    in_pod(stage, "database", 5432).await?;
    stage.fleet.restart_node_agent().await?;
    register("cache", 6379).await?;
    in_pod(stage, "cache", 6379).await?;
    in_pod(stage, "database", 5432).await
}

async fn register(name: &str, port: u16) -> Result<()> {
    let body = json!({"name": name, "port": port}).to_string();
    until(&format!("{name} registered"), async || {
        ask("PUT", "/v1/agent/service/register", &body).await?;
        Ok(true)
    })
    .await
}

/// Waits until the agent in the pod shows a service as the hub has it.
async fn in_pod(stage: &Stage<'_>, name: &str, port: u16) -> Result<()> {
    let url = format!("http://127.0.0.1:8502/v1/health/service/{name}?passing");
    until(&format!("{name} in the pod"), async || {
        let text = stage.fleet.beside(&["wget", "-q", "-O", "-", &url]).await?;
        let instances: Value = serde_json::from_str(&text)?;
        Ok(instances[0]["Service"]["Port"] == port && instances[0]["Node"]["Address"] == "10.99.0.2")
    })
    .await
}

async fn ask(method: &str, path: &str, body: &str) -> Result<Value> {
    let request = Request::builder().method(method).uri(path).header("host", NODE_AGENT);
    let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes())))?;
    let answer = HttpsClient::plain(NODE_AGENT).exchange(request).await?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    ensure!(answer.status == StatusCode::OK, "{path}: {} {text}", answer.status);
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// Asks until it is so; what has just started may not answer yet.
async fn until(what: &str, is_so: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let last = is_so().await;
        if matches!(last, Ok(true)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(last.err().unwrap_or_else(|| anyhow!("not so"))).with_context(|| what.to_owned());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
