//! What calls a template: steps, tasks and hooks.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Rest;
use super::parameter::Arguments;
use super::template::Template;

/// A step of a steps template, or a task of a DAG.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Step {
    /// Its name, unique in its template.
    pub name: String,
    /// The called template of the same workflow.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template: String,
    /// The called template of another object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<TemplateRef>,
    /// The called template, written in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<Box<Template>>,
    /// What it is called with.
    #[serde(skip_serializing_if = "Arguments::is_empty")]
    pub arguments: Arguments,
    /// Called once for each of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_items: Option<Vec<Value>>,
    /// A JSON list, once it is known, for which it is called.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub with_param: String,
    /// Called once for each number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_sequence: Option<Sequence>,
    /// The condition under which it is called at all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub when: String,
    /// Which ends do not end the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_on: Option<ContinueOn>,
    /// The template that runs afterwards; older form of the hook `exit`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub on_exit: String,
    /// What runs when a condition holds; `exit` at the end.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hooks: BTreeMap<String, Hook>,
    /// Of a DAG: the tasks before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    /// Of a DAG: the condition over the tasks before it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub depends: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

impl Step {
    /// Whether it is called for items.
    pub fn expands(&self) -> bool {
        self.with_items.as_ref().is_some_and(|items| !items.is_empty())
            || !self.with_param.is_empty()
            || self.with_sequence.is_some()
    }

    /// The hook that runs at its end, also from its older form.
    pub fn exit_hook(&self) -> Option<Hook> {
        match self.hooks.get("exit") {
            Some(hook) => Some(hook.clone()),
            None if self.on_exit.is_empty() => None,
            None => Some(Hook { template: self.on_exit.clone(), ..Hook::default() }),
        }
    }
}

/// A template of another object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateRef {
    /// The object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its template.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template: String,
    /// Whether the object is a `ClusterWorkflowTemplate`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cluster_scope: bool,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What runs when a condition holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hook {
    /// The called template of the same workflow.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template: String,
    /// What it is called with.
    #[serde(skip_serializing_if = "Arguments::is_empty")]
    pub arguments: Arguments,
    /// The called template of another object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<TemplateRef>,
    /// The condition.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expression: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A range of numbers: a count, or from start to end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sequence {
    /// How many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<IntOrString>,
    /// The first; 0 where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<IntOrString>,
    /// The last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<IntOrString>,
    /// How a number is printed, as C's printf would.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub format: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Which ends of a step do not end its caller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContinueOn {
    /// Error.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub error: bool,
    /// Failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}
