//! The few things that differ from the manifests as they are.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::argo::{CONTROLLER_IMAGE, REDIS_PASSWORD, Stores};
use crate::fleet::Mode;

/// The Secret that stands for a mounted service account.
const ACCOUNT: &str = "hub-account";
/// Where a pod finds who it is.
const MOUNTED: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What a pod of another cluster would find mounted: a token, an authority, a namespace.
pub(super) fn account(namespace: &str, token: &str, ca: &str) -> String {
    let data = json!({
        "token": STANDARD.encode(token),
        "ca.crt": STANDARD.encode(ca),
        "namespace": STANDARD.encode(namespace),
    });
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": ACCOUNT}, "data": data}).to_string()
}

/// A service account without any rights.
pub(super) fn nobody(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}).to_string()
}

/// Redis' password where pods look for it; those of argocd-agent do not start without it.
pub(super) fn redis_password() -> String {
    let data = json!({"auth": STANDARD.encode(REDIS_PASSWORD)});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "argocd-redis"}, "data": data}).to_string()
}

/// Argo CD's controller from an image that no registry has.
pub(super) fn controller(file: &Path) -> Result<Value> {
    let mut set = switched(file, CONTROLLER_IMAGE)?;
    let container = &mut set["spec"]["template"]["spec"]["containers"][0];
    // Its own image has another entry point, which takes the program as an argument.
    container["command"] = container["args"].take();
    Ok(set)
}

/// Where Argo CD's controller finds its stores.
pub(super) fn stores(stores: &Stores) -> String {
    let data = json!({
        "repo.server": stores.repository().to_string(),
        "redis.server": stores.redis().to_string(),
        "controller.repo.server.plaintext": "true",
    });
    json!({"data": data}).to_string()
}

/// A Deployment that runs our image, which no registry has.
pub(super) fn switched(file: &Path, image: &str) -> Result<Value> {
    let mut deployment = read(file)?;
    let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
    container["image"] = json!(image);
    container["imagePullPolicy"] = json!("IfNotPresent");
    Ok(deployment)
}

/// Has the pods of a Deployment believe that they are in the cluster of the API at `address`.
pub(super) fn elsewhere(deployment: &mut Value, address: &str) -> Result<()> {
    let (host, port) = address.rsplit_once(':').context("an address has a port")?;
    let pod = &mut deployment["spec"]["template"]["spec"];
    pod["automountServiceAccountToken"] = json!(false);
    push(&mut pod["volumes"], json!({"name": "account", "secret": {"secretName": ACCOUNT}}));
    let container = &mut pod["containers"][0];
    push(&mut container["volumeMounts"], json!({"name": "account", "mountPath": MOUNTED, "readOnly": true}));
    push(&mut container["env"], json!({"name": "KUBERNETES_SERVICE_HOST", "value": host}));
    push(&mut container["env"], json!({"name": "KUBERNETES_SERVICE_PORT", "value": port}));
    Ok(())
}

/// Our agent's settings with the hub's address and a mode.
pub(super) fn settings(file: &Path, hub: &str, mode: Mode) -> Result<String> {
    let mut settings = read(file)?;
    settings["data"]["THANE_AGENT_SERVER"] = json!(hub);
    settings["data"]["THANE_AGENT_MODE"] = json!(mode.flag());
    Ok(settings.to_string())
}

/// Both roles of argocd-agent read one `ConfigMap` where they are in one namespace. Those who use it change as much.
pub(super) fn upstream_settings(hub_file: &Path, agent_file: &Path, hub: &str, mode: Mode) -> Result<String> {
    let (mut settings, agent) = (read(hub_file)?, read(agent_file)?);
    let data = settings["data"].as_object_mut().context("settings have data")?;
    data.extend(agent["data"].as_object().context("settings have data")?.clone());
    for (key, value) in [
        ("principal.listen.host", ""),
        ("principal.allowed-namespaces", "*"),
        ("principal.tls.client-cert.require", "true"),
        ("principal.tls.client-cert.match-subject", "true"),
        ("agent.creds", "mtls:any"),
        ("agent.server.address", hub),
        ("agent.mode", mode.flag()),
    ] {
        data.insert(key.to_owned(), json!(value));
    }
    Ok(settings.to_string())
}

/// Adds to a list that may not be there yet.
fn push(list: &mut Value, entry: Value) {
    match list {
        Value::Array(entries) => entries.push(entry),
        other => *other = json!([entry]),
    }
}

pub(super) fn read(file: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    serde_saphyr::from_str(&text).map_err(|error| anyhow!("{}: {error}", file.display()))
}
