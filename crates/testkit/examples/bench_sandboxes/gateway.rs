//! A client of the gateway.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use thane_testkit::client::HttpsClient;

/// The longest a pool may take to fill.
const PATIENCE: Duration = Duration::from_mins(2);

/// The gateway.
pub(crate) struct Gateway {
    client: HttpsClient,
}

impl Gateway {
    pub(crate) fn new(address: String) -> Self {
        Self { client: HttpsClient::plain(address) }
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(path).header("host", self.client.address());
        let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(text)))?;
        let answer = self.client.exchange(request).await?;
        let said = String::from_utf8_lossy(&answer.body);
        ensure!(answer.status.is_success(), "{method} {path}: {} {said}", answer.status);
        Ok(serde_json::from_str(&said).unwrap_or_default())
    }

    pub(crate) async fn full(&self, pool: &str, count: usize) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.ask("GET", &format!("/v1/pools/{pool}"), &Value::Null).await?;
            if found["readyReplicas"] == count && found["allocatedReplicas"] == 0 {
                break;
            }
            ensure!(Instant::now() < deadline, "the pool does not fill");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    pub(crate) async fn begin(&self, pool: &str, more: &Value) -> Result<String> {
        let mut body = more.clone();
        body["poolRef"] = json!(pool);
        let made = self.ask("POST", "/v1/sessions", &body).await?;
        Ok(made["id"].as_str().context("a session has an id")?.to_owned())
    }

    pub(crate) async fn end(&self, session: &str) -> Result<()> {
        self.ask("DELETE", &format!("/v1/sessions/{session}"), &Value::Null).await.map(|_| ())
    }

    /// How long a command took, from request to answer.
    pub(crate) async fn step(&self, session: &str, command: &str) -> Result<Duration> {
        let began = Instant::now();
        self.said(session, command).await?;
        Ok(began.elapsed())
    }

    /// What a command says; one word is run as it is, more by a shell.
    pub(crate) async fn said(&self, session: &str, command: &str) -> Result<String> {
        let command = if command.contains(' ') { json!(["sh", "-c", command]) } else { json!([command]) };
        let body = json!({"steps": [{"command": command}]});
        let answer = self.ask("POST", &format!("/v1/sessions/{session}/execute"), &body).await?;
        let result = &answer["results"][0];
        ensure!(result["error"].is_null() && result["output"]["exit_code"] == 0, "{answer}");
        Ok(result["output"]["stdout"].as_str().unwrap_or_default().to_owned())
    }
}
