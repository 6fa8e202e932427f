//! What goes into a template and comes out of it.

use k8s_openapi::api::core::v1::ConfigMapKeySelector;
use serde::{Deserialize, Serialize};

use super::Rest;
use super::artifact::Artifact;
use super::scalar::AnyString;

/// What goes into a template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Inputs {
    /// Parameters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// Artifacts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What a call passes: the same as what goes in.
pub type Arguments = Inputs;

impl Inputs {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty() && self.artifacts.is_empty() && self.rest.is_empty()
    }

    /// The parameter of that name.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// The artifact of that name.
    pub fn artifact(&self, name: &str) -> Option<&Artifact> {
        self.artifacts.iter().find(|artifact| artifact.name == name)
    }
}

/// What comes out of a template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Outputs {
    /// Parameters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// Artifacts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// What a program printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// How a program ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

impl Outputs {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty()
            && self.artifacts.is_empty()
            && self.result.is_none()
            && self.exit_code.is_none()
            && self.rest.is_empty()
    }
}

/// A named text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its value where nobody gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<AnyString>,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<AnyString>,
    /// Where its value comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ValueFrom>,
    /// The workflow's output that it becomes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub global_name: String,
    /// What it may be.
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<AnyString>>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<AnyString>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where a parameter's value comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ValueFrom {
    /// A file in the container.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// A path in the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub json_path: String,
    /// A filter over the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub jq_filter: String,
    /// An expression over an event.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub event: String,
    /// Another parameter.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parameter: String,
    /// Whoever resumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supplied: Option<Rest>,
    /// A key of a `ConfigMap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<ConfigMapKeySelector>,
    /// The value where that yields none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<AnyString>,
    /// An expression.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expression: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}
