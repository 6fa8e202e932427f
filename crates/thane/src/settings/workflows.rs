//! The `workflows` section.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thane_workload::steps::Settings;
use thane_workload::steps::request::ImageCommand;

/// What an administrator decides about all steps of Workflows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct WorkflowSettings {
    /// What images run when a template names no command: `entrypoint` and `cmd` by image.
    pub(crate) images: BTreeMap<String, ImageCommand>,
    /// Other images in place of those named.
    pub(crate) replace: BTreeMap<String, String>,
    /// Where artifacts without a location go, as Argo's `artifactRepository`; else a claim in each namespace of `thane up`.
    pub(crate) repository: Option<Value>,
    /// What steps may reach on this machine's runner besides their API and stores, as `host:port`.
    pub(crate) egress: Vec<String>,
}

impl WorkflowSettings {
    /// Steps with these settings.
    pub(crate) fn over(&self, settings: Settings) -> Settings {
        let (images, replace, egress) = (self.images.clone(), self.replace.clone(), self.egress.clone());
        Settings { images, replace, egress, ..settings }
    }
}
