//! A session through the gateway.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use thane_testkit::deployed::Sandboxes;

/// Where busybox's commands are put, since its image has but the one file.
const COMMANDS: &str = "/tmp/commands";

/// A session.
pub(super) struct Session<'a> {
    site: &'a Sandboxes,
    id: String,
}

impl<'a> Session<'a> {
    /// Claims a sandbox, with what else is said of it.
    pub(super) async fn begin(site: &'a Sandboxes, pool: &str, more: &Value) -> Result<Self> {
        let mut body = more.clone();
        body["poolRef"] = json!(pool);
        let made = site.asked("POST", "/v1/sessions", &body).await?;
        let id = made["id"].as_str().context("a session has an id")?.to_owned();
        Ok(Self { site, id })
    }

    /// One that is there already.
    pub(super) fn of(site: &'a Sandboxes, id: &str) -> Self {
        Self { site, id: id.to_owned() }
    }

    fn path(&self, what: &str) -> String {
        format!("/v1/sessions/{}/{what}", self.id)
    }

    pub(super) async fn info(&self) -> Result<Value> {
        self.site.asked("GET", &format!("/v1/sessions/{}", self.id), &Value::Null).await
    }

    /// Asks for something that must succeed.
    pub(super) async fn ask(&self, method: &str, what: &str, body: &Value) -> Result<Value> {
        self.site.asked(method, &self.path(what), body).await
    }

    /// Runs a script; the answer, whatever it is.
    pub(super) async fn try_step(&self, script: &str) -> Result<(StatusCode, Value)> {
        self.site.ask("POST", &self.path("execute"), &json!({"steps": [step(script)]})).await
    }

    /// What the gateway says of the session, without touching it.
    pub(super) async fn try_info(&self) -> Result<(StatusCode, Value)> {
        self.site.ask("GET", &format!("/v1/sessions/{}", self.id), &Value::Null).await
    }

    /// Runs a script; its result.
    pub(super) async fn step(&self, script: &str) -> Result<Value> {
        self.step_with(script, &json!({})).await
    }

    /// The same with more said of the step.
    pub(super) async fn step_with(&self, script: &str, more: &Value) -> Result<Value> {
        let mut step = step(script);
        for (name, value) in more.as_object().into_iter().flatten() {
            step[name] = value.clone();
        }
        let mut answer = self.ask("POST", "execute", &json!({"steps": [step]})).await?;
        Ok(answer["results"][0].take())
    }

    /// Runs a script that must succeed; what it prints.
    pub(super) async fn said(&self, script: &str) -> Result<String> {
        let result = self.step(script).await?;
        ensure!(result["output"]["exit_code"] == 0 && result["error"].is_null(), "{script}: {result}");
        Ok(result["output"]["stdout"].as_str().unwrap_or_default().to_owned())
    }

    pub(super) async fn upload(&self, path: &str, content: &[u8]) -> Result<()> {
        let content = Bytes::copy_from_slice(content);
        let answer = self.site.send("POST", &self.path("upload-file"), &[("x-arl-path", path)], content).await?;
        ensure!(answer.status == StatusCode::OK, "{} {:?}", answer.status, answer.body);
        Ok(())
    }

    pub(super) async fn download(&self, path: &str) -> Result<Bytes> {
        let (body, headers) = (json!({"path": path}).to_string(), [("content-type", "application/json")]);
        let answer = self.site.send("POST", &self.path("download-file"), &headers, body.into()).await?;
        ensure!(answer.status == StatusCode::OK, "{} {:?}", answer.status, answer.body);
        Ok(answer.body)
    }

    pub(super) async fn end(self) -> Result<()> {
        self.site.asked("DELETE", &format!("/v1/sessions/{}", self.id), &Value::Null).await.map(|_| ())
    }
}

/// A script as a step. The commands it may use are there when it begins.
fn step(script: &str) -> Value {
    let install = format!("test -e {COMMANDS} || /busybox mkdir -p {COMMANDS} && /busybox --install -s {COMMANDS}");
    let whole = format!("PATH={COMMANDS}; {install} 2>/dev/null\n{script}");
    json!({"command": ["/busybox", "sh", "-c", whole]})
}
