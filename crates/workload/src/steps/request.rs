//! What a step's pod is made from.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The Workflow a step belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID, which owns what a step makes.
    pub uid: String,
    /// The controller's instance id, where it has one.
    pub instance: Option<String>,
}

/// All that decides what a step's pod is. Objects are Argo's, as JSON, with nothing left to substitute but `pod.name`.
#[derive(Debug, Clone)]
pub struct PodRequest<'a> {
    /// Whose step it is.
    pub workflow: &'a Identity,
    /// The node's id.
    pub node_id: &'a str,
    /// The node's name.
    pub node_name: &'a str,
    /// The template.
    pub template: &'a Value,
    /// The steps or dag template around it, whose scheduling fields count where its own are missing.
    pub boundary: Option<&'a Value>,
    /// The Workflow's spec, whose pod fields count after those.
    pub spec: &'a Value,
    /// Volumes made of `volumeClaimTemplates`: `status.persistentVolumeClaims`.
    pub claims: &'a [Value],
    /// Where artifacts without a location go: an artifact repository, such as `{"s3": {…, "keyFormat": …}}`.
    pub repository: Option<&'a Value>,
    /// Seconds the pod may be active: the shorter of what is left of the workflow's and the template's own.
    pub active_seconds: Option<i64>,
    /// When the step has to be over, for the executor.
    pub deadline: Option<Timestamp>,
    /// Whether somebody reads `outputs.result`.
    pub wants_result: bool,
    /// Whether it is part of an exit handler.
    pub on_exit: bool,
    /// The controller's settings.
    pub settings: &'a Settings,
}

/// What a controller's administrator decides about all steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// The image with `thane` in it, for the containers beside `main`.
    pub image: String,
    /// When it is pulled.
    pub image_pull_policy: Option<String>,
    /// What images run when a template names no command.
    pub images: BTreeMap<String, ImageCommand>,
    /// Other images in place of those named, for machines without a registry.
    pub replace: BTreeMap<String, String>,
    /// Fields of every `init` and `wait` container: resources, security context, env.
    pub executor: Option<Value>,
    /// Fields that every `main` container starts from.
    pub main_container: Option<Value>,
    /// The API where pods are not told by their node, as on the embedded runner: its address and whether a token has to be asked for.
    pub api: Option<ApiAddress>,
    /// What steps may reach on the embedded runner besides their API, as `host:port`.
    pub egress: Vec<String>,
    /// The directory of artifacts on the embedded runner, mounted into `init` and `wait`.
    pub artifacts: Option<String>,
}

/// What an image runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageCommand {
    /// Its entry point.
    pub entrypoint: Vec<String>,
    /// Its arguments.
    pub cmd: Vec<String>,
}

/// Where an embedded API listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiAddress {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// What has to be created for a step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepPod {
    /// The pod.
    pub pod: Pod,
    /// What is too large to be in it, created before it.
    pub config: Option<ConfigMap>,
}

/// Why there is no pod for such a step; the node ends in Error with these words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);
