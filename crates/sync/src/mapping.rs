//! Which object goes where, how it is rewritten on the way, and what to write when it arrives.
//!
//! Everything here is a pure and total function over JSON objects: an object that makes no sense is refused, and fields
//! nobody here knows survive. Nothing is written: a [`Plan`] says what the caller is to write.

mod application;
mod autonomous;
mod copy;
mod identity;
mod keys;
mod managed;
mod operation;
mod pattern;
mod plan;
mod project;
mod revert;
mod route;
mod same;
mod status;
mod wire;

use std::str::FromStr;

pub use thane_api::event::Mode;

pub use application::managed_application;
pub use autonomous::{
    autonomous_application, mirror_application, mirror_delete, mirror_project, mirrored_application, mirrored_project,
};
pub use copy::{shared_destination, shared_metadata};
pub use keys::{agent_key, hub_key, is_dns_label, is_dns_subdomain, key_of, reported_key, unprefixed_project};
pub use managed::{managed_delete, managed_project, managed_repository};
pub use operation::{
    Pending, is_running, is_terminated, is_terminating, is_to_end, managed_operation, managed_terminate,
    pending_operation, shows_run, stamp_operation, unstamp_operation,
};
pub use pattern::Pattern;
pub use plan::{Class, Plan, Precondition, Propagation, Reason, Refusal};
pub use project::{project_for_agent, project_goes_to};
pub use revert::{revert_deletion, revert_mirror, revert_mirror_deletion, revert_tampering};
pub use route::{Route, is_distributed_project, is_distributed_repository, repository_project, route};
pub use same::same;
pub use status::{deletion_on_hub, error_on_hub, release, status_on_hub};
pub use wire::{
    application_for_agent, application_for_hub, deletion, deletion_of, is_news_for_agent, is_news_for_hub,
    operation_for_agent, project_for_hub, repository_for_agent, terminate_for_agent,
};

/// A word that is not one of those a setting can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {word:?}")]
pub struct UnknownWord {
    /// Which setting.
    pub what: &'static str,
    /// The word.
    pub word: String,
}

/// How the hub finds the agent of an Application; both sides have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Placement {
    /// By its namespace, which has the agent's name.
    #[default]
    Namespace,
    /// By the name of its destination.
    Destination,
}

/// What to do with a copy whose source was made anew under the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mismatch {
    /// Delete it and make a new one.
    #[default]
    Recreate,
    /// Let it have the new source.
    Upsert,
}

impl FromStr for Mismatch {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        match word {
            "recreate" => Ok(Self::Recreate),
            "upsert" => Ok(Self::Upsert),
            _ => Err(UnknownWord { what: "mismatch policy", word: word.to_owned() }),
        }
    }
}

/// What to do with an Application that was on the agent before the hub had one of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Adoption {
    /// It becomes the copy.
    Always,
    /// It stays as it is, and the hub is told.
    #[default]
    Never,
}

impl FromStr for Adoption {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        match word {
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => Err(UnknownWord { what: "adoption policy", word: word.to_owned() }),
        }
    }
}

/// What to do after a copy that someone deleted has been made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnRecreate {
    /// Nothing more.
    #[default]
    Ignore,
    /// Forget its last operation, so that automatic sync starts.
    ClearStatus,
    /// Start a sync.
    Resync,
}

impl FromStr for OnRecreate {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        match word {
            "ignore" => Ok(Self::Ignore),
            "clear-status" => Ok(Self::ClearStatus),
            "resync" => Ok(Self::Resync),
            _ => Err(UnknownWord { what: "recreate action", word: word.to_owned() }),
        }
    }
}

/// What the hub knows about itself. A label selector is not here: it belongs on the hub's watch.
#[derive(Debug, Clone)]
pub struct HubSide {
    /// The namespace of its Argo CD.
    pub namespace: String,
    /// How it finds the agent of an Application.
    pub placement: Placement,
    /// Namespaces whose Applications are kept in step; by destination the hub's own is always one of them.
    pub allowed_namespaces: Vec<Pattern>,
}

/// What the hub knows about one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// Who decides.
    pub mode: Mode,
    /// The namespace of its Argo CD, as it says.
    pub namespace: String,
    /// The name of the cluster in its cluster secret.
    pub cluster: String,
}

/// What an agent knows about itself and its hub.
#[derive(Debug, Clone)]
pub struct AgentSide {
    /// Its name.
    pub name: String,
    /// Who decides.
    pub mode: Mode,
    /// The namespace of its Argo CD.
    pub namespace: String,
    /// The namespace of the hub's Argo CD.
    pub hub_namespace: String,
    /// How the hub finds the agent of an Application.
    pub placement: Placement,
    /// Namespaces besides its own that Applications may be in.
    pub allowed_namespaces: Vec<Pattern>,
    /// What to do with a copy of a recreated source, unless the object says.
    pub mismatch: Mismatch,
    /// What to do with an Application that was there before, unless the object says.
    pub adoption: Adoption,
    /// What to do after a deleted copy has been made again.
    pub on_recreate: OnRecreate,
}

#[cfg(test)]
mod tests;
