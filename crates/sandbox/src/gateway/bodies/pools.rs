//! Pools, and the sessions of experiments.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NewFile, null_as_default};
use crate::kinds::{ImageLocality, Tools};

/// A pool that is wanted.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatePool {
    /// What it is called.
    pub name: String,
    /// The image of its sandboxes.
    pub image: String,
    /// How many are to wait idle; 2 unless said.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// The most there may be, idle and claimed together.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub max_replicas: Option<i32>,
    /// Where it is; `default` unless said.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Programs that agents find in each.
    #[serde(default)]
    pub tools: Option<Tools>,
    /// What each may use.
    #[serde(default)]
    pub resources: Option<ResourceRequirements>,
    /// Where steps start; `/workspace` unless said.
    #[serde(default)]
    pub workspace_dir: Option<String>,
    /// Which nodes are preferred.
    #[serde(default)]
    pub image_locality: Option<ImageLocality>,
}

/// A pool that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolCreated {
    /// What it is called.
    pub name: String,
    /// Always `created`.
    pub status: String,
}

/// What is to be changed about a pool.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchPool {
    /// How many are to wait idle.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Where it is; `default` unless said.
    #[serde(default)]
    pub namespace: Option<String>,
    /// What each may use, from now on.
    #[serde(default)]
    pub resources: Option<ResourceRequirements>,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolInfo {
    /// What it is called.
    pub name: String,
    /// Where it is.
    pub namespace: String,
    /// How many are to wait idle.
    pub replicas: i32,
    /// How many do.
    pub ready_replicas: i32,
    /// How many are claimed.
    pub allocated_replicas: i32,
    /// What else it says.
    pub conditions: Vec<PoolCondition>,
}

/// Something a pool says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolCondition {
    /// About what.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it is so.
    pub status: String,
    /// Why, in a word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}

/// A session whose pool is made for it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateManagedSession {
    /// The image of its sandbox.
    pub image: String,
    /// The experiment it belongs to.
    pub experiment_id: String,
    /// Where it is; `default` unless said.
    #[serde(default)]
    pub namespace: Option<String>,
    /// What it may use.
    #[serde(default)]
    pub resources: Option<ResourceRequirements>,
    /// Programs that agents find in it.
    #[serde(default)]
    pub tools: Option<Tools>,
    /// Where steps start; `/workspace` unless said.
    #[serde(default)]
    pub workspace_dir: Option<String>,
    /// The most sandboxes the experiment may have with that image.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub max_replicas: Option<i32>,
    /// Without a command or a stream for so long it goes; 0: never.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub idle_timeout_seconds: Option<i32>,
    /// After so long it goes; 0: never.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub max_lifetime_seconds: Option<i32>,
    /// The environment of every step.
    #[serde(default, deserialize_with = "null_as_default")]
    pub env: BTreeMap<String, String>,
    /// Files that are there before the first step.
    #[serde(default, deserialize_with = "null_as_default")]
    pub files: Vec<NewFile>,
    /// How long to wait for it.
    #[serde(default)]
    pub wait_seconds: Option<u32>,
}

/// What went of an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentDeleted {
    /// How many sessions.
    pub deleted: usize,
    /// What did not go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
