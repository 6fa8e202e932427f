//! What runs in a step's pod beside the user's program: `thane step init`, `wait` and `resource`.

pub mod init;
mod jsonpath;
mod report;
pub mod resource;
pub mod wait;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;

use super::artifacts::Stores;
use super::location;
use super::names::{CONFIG, INPUTS, MAIN_FILES, RUN, SCRIPT, SECRETS};

/// Where a container leaves its last words.
const LAST_WORD: &str = "/dev/termination-log";
/// What of them a kubelet reads.
const LAST_WORD_MAX: usize = 4096;

/// Why a step's own containers failed; the node's message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    fn at(path: &Path, error: &std::io::Error) -> Self {
        Self(format!("{}: {error}", path.display()))
    }

    /// Leaves it where the kubelet finds it.
    pub fn leave(&self) {
        let mut end = self.0.len().min(LAST_WORD_MAX);
        while !self.0.is_char_boundary(end) {
            end -= 1;
        }
        // On its own machine there may be no such file, and nobody who reads it.
        let _ = std::fs::write(LAST_WORD, &self.0[..end]);
    }
}

/// Where a step's files are in its pod.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Shared by all its containers.
    pub run: PathBuf,
    /// Input artifacts.
    pub inputs: PathBuf,
    /// The script.
    pub script: PathBuf,
    /// The main container's volumes.
    pub main: PathBuf,
    /// What was too large for a variable.
    pub config: PathBuf,
    /// Files on their way.
    pub temporary: PathBuf,
    /// Stores of artifacts.
    pub stores: Stores,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            run: RUN.into(),
            inputs: INPUTS.into(),
            script: SCRIPT.into(),
            main: MAIN_FILES.into(),
            config: CONFIG.into(),
            temporary: "/tmp".into(),
            stores: Stores { secrets: SECRETS.into(), directory: location::DIRECTORY.into() },
        }
    }
}

/// Which step this is, by what its pod tells its containers.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// The node's id, which is its task result's name.
    pub node_id: String,
    /// Its workflow.
    pub workflow: String,
    /// The workflow's UID.
    pub workflow_uid: String,
    /// Its namespace.
    pub namespace: String,
    /// The controller's instance id.
    pub instance: Option<String>,
    /// When it has to be over.
    pub deadline: Option<Timestamp>,
    /// Whether somebody reads its result.
    pub wants_result: bool,
    /// The template as text, or where it is.
    pub template: Option<String>,
}

impl Told {
    /// Reads what the pod tells.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let some = |name: &str| variable(name).filter(|value| !value.is_empty());
        Self {
            node_id: some("ARGO_NODE_ID").unwrap_or_default(),
            workflow: some("ARGO_WORKFLOW_NAME").unwrap_or_default(),
            workflow_uid: some("ARGO_WORKFLOW_UID").unwrap_or_default(),
            namespace: some("ARGO_NAMESPACE").unwrap_or_else(|| "default".to_owned()),
            instance: some("ARGO_INSTANCE_ID"),
            deadline: some("ARGO_DEADLINE").and_then(|text| text.parse().ok()),
            wants_result: some("ARGO_INCLUDE_SCRIPT_OUTPUT").as_deref() == Some("true"),
            template: some("ARGO_TEMPLATE"),
        }
    }

    /// The template, wherever it is.
    fn template(&self, layout: &Layout) -> Result<Value> {
        let text = match self.template.as_deref() {
            None => return Err(Failure("ARGO_TEMPLATE is not set".to_owned())),
            Some("offloaded") => {
                let path = layout.config.join("ARGO_TEMPLATE");
                std::fs::read_to_string(&path).map_err(|error| Failure::at(&path, &error))?
            }
            Some(text) => text.to_owned(),
        };
        serde_json::from_str(&text).map_err(|error| Failure(format!("failed to unmarshal template: {error}")))
    }
}
