//! Workflows as they are written: Argo's kinds as types that keep what they do not know.
//!
//! Empty text means absent, as in Argo; what Argo tells apart by a pointer is an `Option`.

mod artifact;
mod body;
pub mod depends;
mod items;
mod parameter;
mod parse;
mod scalar;
mod task;
mod template;
mod workflow;

pub use artifact::{
    ArchiveStrategy, Artifact, ArtifactLocation, GitArtifact, Header, HttpArtifact, RawArtifact, S3Artifact,
    TarStrategy,
};
pub use body::{Backoff, Container, ContainerSet, Dag, ManifestFrom, Resource, RetryStrategy, Suspend};
pub use items::{ItemError, display as display_item, items, name as item_name, variables as item_variables};
pub use parameter::{Arguments, Inputs, Outputs, Parameter, ValueFrom};
pub use parse::{ParseError, from_value};
pub use scalar::{AnyString, duration, integer};
pub use task::{ContinueOn, Hook, Sequence, Step, TemplateRef};
pub use template::{Template, TemplateType};
pub use workflow::{
    ArtifactRepositoryRef, CronWorkflow, CronWorkflowSpec, LabelValueFrom, Metadata, PodGc, TtlStrategy, VolumeClaimGc,
    Workflow, WorkflowMetadata, WorkflowSpec, WorkflowTemplate, WorkflowTemplateRef,
};

/// What a type of this module does not know.
pub type Rest = serde_json::Map<String, serde_json::Value>;
