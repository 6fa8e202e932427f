//! Workflows as they are written: Argo's kinds as types that keep what they do not know.
//!
//! Empty text means absent, as in Argo; what Argo tells apart by a pointer is an `Option`.

mod artifact;
pub mod depends;
mod items;
mod parse;
mod scalar;
mod task;
mod template;
mod workflow;

pub use artifact::{
    ArchiveStrategy, Artifact, ArtifactLocation, GitArtifact, Header, HttpArtifact, RawArtifact, S3Artifact,
    TarStrategy,
};
pub use items::{ItemError, display as display_item, items, name as item_name, variables as item_variables};
pub use parse::{ParseError, from_value};
pub use scalar::{AnyString, duration, integer};
pub use task::{ContinueOn, Hook, Sequence, Step, TemplateRef};
pub use template::{
    Arguments, Backoff, Container, ContainerSet, Dag, Inputs, ManifestFrom, Outputs, Parameter, Resource,
    RetryStrategy, Suspend, Template, TemplateType, ValueFrom,
};
pub use workflow::{
    ArtifactRepositoryRef, CronWorkflow, CronWorkflowSpec, LabelValueFrom, Metadata, PodGc, TtlStrategy, VolumeClaimGc,
    Workflow, WorkflowMetadata, WorkflowSpec, WorkflowTemplate, WorkflowTemplateRef,
};

/// What a type of this module does not know.
pub type Rest = serde_json::Map<String, serde_json::Value>;
