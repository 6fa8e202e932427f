//! Sandboxes as users deploy them: operator and gateway in pods, from the manifests of `deploy/sandbox`.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::ROLLOUT;
use super::command::Tool;
use crate::client::{Answer, HttpsClient};
use crate::endpoint::kubeconfig;
use crate::peer::{Node, PeerHome};

/// Where all of it is.
const NAMESPACE: &str = "thane-sandboxes";
/// The one client's key.
const KEY: &str = "open sesame";

/// Operator and gateway that run, and a way to call the gateway.
pub struct Sandboxes {
    kubectl: Tool,
    gateway: HttpsClient,
    _folder: TempDir,
}

impl Sandboxes {
    /// Applies everything that is in `deploy/sandbox`, gives the gateway a key and waits until all of it is ready.
    pub async fn deploy(home: &PeerHome, node: &Node) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-sandboxes-").tempdir()?;
        let file = folder.path().join("kubeconfig");
        std::fs::write(&file, kubeconfig(&[("node", node.api().endpoint())], NAMESPACE)?)?;
        let always = vec![format!("--kubeconfig={}", file.display()), "--context=node".to_owned()];
        let kubectl = Tool { program: home.program("kubectl"), always };
        let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/sandbox");
        kubectl.apply(&[manifests]).await?;
        kubectl.apply_text(&keys().to_string()).await?;
        let query = ["get", "service", "thane-gateway", "-o", "jsonpath={.spec.clusterIP}:{.spec.ports[0].port}"];
        let address = kubectl.run(&query).await?;
        let made = Self { kubectl, gateway: HttpsClient::plain(address), _folder: folder };
        match made.rolled_out().await {
            Ok(()) => Ok(made),
            Err(error) => Err(error.context(made.last_words().await)),
        }
    }

    async fn rolled_out(&self) -> Result<()> {
        for name in ["deployment/thane-operator", "deployment/thane-gateway"] {
            self.kubectl.run(&["rollout", "status", name, ROLLOUT]).await?;
        }
        Ok(())
    }

    /// Replaces the pods of operator and gateway, as a new version would.
    pub async fn restart(&self) -> Result<()> {
        self.kubectl.run(&["rollout", "restart", "deployment/thane-operator", "deployment/thane-gateway"]).await?;
        self.rolled_out().await
    }

    /// Runs kubectl in the namespace of sandboxes; what it prints.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl.run(arguments).await
    }

    /// Applies an object.
    pub async fn apply(&self, object: &Value) -> Result<()> {
        self.kubectl.apply_text(&object.to_string()).await
    }

    /// An object, or a list of them.
    pub async fn read(&self, arguments: &[&str]) -> Result<Value> {
        let said = self.kubectl.run(&[&["get", "--output=json"], arguments].concat()).await?;
        serde_json::from_str(&said).context("kubectl prints JSON")
    }

    /// Sends the gateway a request with these headers.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Bytes) -> Result<Answer> {
        let mut request = Request::builder().method(method).uri(path).header("host", self.gateway.address());
        request = request.header("authorization", format!("Bearer {KEY}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.gateway.exchange(request.body(Full::new(body))?).await
    }

    /// Sends the gateway a request in JSON; the status and the body of the answer.
    pub async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<(StatusCode, Value)> {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.send(method, path, &[("content-type", "application/json")], text.into()).await?;
        Ok((answer.status, serde_json::from_slice(&answer.body).unwrap_or_default()))
    }

    /// The same, where anything but success is a failure.
    pub async fn asked(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let (status, answer) = self.ask(method, path, body).await?;
        ensure!(status.is_success(), "{method} {path}: {status} {answer}");
        Ok(answer)
    }

    /// Fails if operator or gateway had reason to complain.
    pub async fn quiet(&self) -> Result<()> {
        for name in ["thane-operator", "thane-gateway"] {
            let chosen = format!("--selector=app.kubernetes.io/name={name}");
            let log = self.kubectl.run(&["logs", "--tail=-1", &chosen]).await?;
            let loud: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
            ensure!(loud.is_empty(), "{name} complains: {}", loud.join("\n"));
        }
        Ok(())
    }

    /// Logs of operator and gateway, and how everything is.
    pub async fn last_words(&self) -> String {
        let mut text = String::new();
        for arguments in [
            ["get", "pods,warmpools,sandboxes", "--output=wide"].as_slice(),
            &["get", "events", "--sort-by=.lastTimestamp"],
            &["logs", "--selector=app.kubernetes.io/name=thane-operator", "--tail=40", "--prefix"],
            &["logs", "--selector=app.kubernetes.io/name=thane-gateway", "--tail=40", "--prefix"],
            &["logs", "--selector=arl.infra.io/pool", "--all-containers", "--tail=10", "--prefix", "--ignore-errors"],
        ] {
            let said = self.kubectl.run(arguments).await.unwrap_or_else(|error| format!("{error:#}"));
            text.extend(["--- kubectl ", &arguments.join(" "), "\n", &said, "\n"]);
        }
        text
    }

    /// Takes all of it away.
    pub async fn remove(self) -> Result<()> {
        let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/sandbox");
        // Nobody is left to be asked about what is deleted.
        let webhook = manifests.join("50-webhook.yaml").display().to_string();
        self.kubectl.run(&["delete", "--ignore-not-found", "-f", &webhook]).await?;
        self.kubectl.run(&["delete", "warmpools,sandboxes", "--all"]).await?;
        self.kubectl.run(&["delete", "--ignore-not-found", "-f", &manifests.display().to_string()]).await?;
        Ok(())
    }
}

/// The Secret with the one client's key.
fn keys() -> Value {
    let digest = Sha256::digest(KEY).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let list = json!({"keys": [{"name": "test", "sha256": digest, "role": "admin"}]});
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "thane-gateway-keys"},
        "data": {"keys.json": STANDARD.encode(list.to_string())},
    })
}
