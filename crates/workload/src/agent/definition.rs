//! The kind as a definition.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::kind::AgentWorkload;

/// `AgentWorkload` as a `CustomResourceDefinition`.
pub fn definition() -> Value {
    json!(AgentWorkload::crd())
}
