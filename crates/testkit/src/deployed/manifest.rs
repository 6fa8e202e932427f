//! The few things that differ from the manifests as they are in `deploy/`.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::fleet::Mode;

/// The Secret that stands for a mounted service account.
const ACCOUNT: &str = "thane-hub-account";
/// Where a pod finds who it is.
const MOUNTED: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What a pod of another cluster would find mounted: a token, an authority, a namespace.
pub(super) fn account(namespace: &str, token: &str, ca: &str) -> String {
    let data = json!({
        "token": STANDARD.encode(token),
        "ca.crt": STANDARD.encode(ca),
        "namespace": STANDARD.encode(namespace),
    });
    let metadata = json!({"name": ACCOUNT, "namespace": namespace});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}).to_string()
}

/// The hub's service account without any rights, where its pod is.
pub(super) fn nobody(namespace: &str) -> String {
    let metadata = json!({"name": "thane-hub", "namespace": namespace});
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}).to_string()
}

/// A Deployment whose pods believe to be in the cluster of the API at `address`.
pub(super) fn elsewhere(file: &Path, address: &str) -> Result<String> {
    let mut deployment = read(file)?;
    let (host, port) = address.rsplit_once(':').context("an address has a port")?;
    let pod = &mut deployment["spec"]["template"]["spec"];
    pod["automountServiceAccountToken"] = json!(false);
    pod["volumes"] = json!([{"name": "account", "secret": {"secretName": ACCOUNT}}]);
    let container = &mut pod["containers"][0];
    container["volumeMounts"] = json!([{"name": "account", "mountPath": MOUNTED, "readOnly": true}]);
    let env = container["env"].as_array_mut().context("the container has variables")?;
    env.push(json!({"name": "KUBERNETES_SERVICE_HOST", "value": host}));
    env.push(json!({"name": "KUBERNETES_SERVICE_PORT", "value": port}));
    Ok(deployment.to_string())
}

/// The agent's settings with the hub's address and a mode.
pub(super) fn settings(file: &Path, hub: &str, mode: Mode) -> Result<String> {
    let mut settings = read(file)?;
    settings["data"]["THANE_AGENT_SERVER"] = json!(hub);
    settings["data"]["THANE_AGENT_MODE"] = json!(mode.flag());
    Ok(settings.to_string())
}

fn read(file: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    serde_saphyr::from_str(&text).map_err(|error| anyhow!("{}: {error}", file.display()))
}
