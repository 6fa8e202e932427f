//! What is to be written, and why something is not.

use serde_json::Value;
use thiserror::Error;

use super::same::same;
use crate::object;

pub use crate::failure::Class;

/// What the caller is to write to its own API.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Nothing: all is as it should be.
    Nothing,
    /// Nothing, but the sender waits to hear that the object is gone.
    ConfirmGone,
    /// Make this object.
    Create(Value),
    /// Write this object over the one it was made from, whose uid and resource version it carries.
    Replace(Value),
    /// Write this object, then delete it: what it says decides how it is deleted.
    ReplaceThenDelete(Value, Propagation),
    /// Delete that one, in the background, then make this one; while the old one is still going away the new one is refused for a while.
    Recreate {
        /// The one to delete.
        delete: Precondition,
        /// The one to make.
        create: Value,
    },
    /// Delete it.
    Delete(Precondition, Propagation),
    /// Write nothing: the event cannot be followed.
    Refuse(Refusal),
}

/// Which object exactly is to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Precondition {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: another object of that name stays.
    pub uid: String,
}

impl Precondition {
    /// Exactly this object.
    pub fn of(existing: &Value) -> Self {
        Self {
            namespace: object::namespace(existing).to_owned(),
            name: object::name(existing).to_owned(),
            uid: object::uid(existing).to_owned(),
        }
    }
}

/// What happens to what an object owns when it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// It goes first.
    Foreground,
    /// It goes later.
    Background,
}

/// Why an event is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The object is not one that can be written.
    Invalid,
    /// Its namespace is not one this agent may use.
    NamespaceNotAllowed,
    /// The object belongs to another agent, or to nobody.
    NotYours,
    /// An object of that name was there before and is not to be taken over.
    NotAdopted,
    /// Another object of the hub has that name here.
    Taken,
    /// The event does not fit the agent's mode.
    WrongMode,
    /// The object the event is about is not there.
    Missing,
    /// The object there comes from another source.
    OtherSource,
    /// The object of that name is still being deleted.
    StillDeleting,
    /// The running operation is being ended.
    Terminating,
    /// Another operation is running.
    Busy,
    /// There is no operation to end.
    NoOperation,
    /// The agent's cluster is not known.
    NoCluster,
}

impl Reason {
    /// What helps against it.
    pub fn class(self) -> Class {
        match self {
            Self::StillDeleting | Self::Terminating | Self::Busy => Class::Temporary,
            Self::Missing | Self::OtherSource => Class::Recoverable,
            Self::Invalid
            | Self::NamespaceNotAllowed
            | Self::NotYours
            | Self::NotAdopted
            | Self::Taken
            | Self::WrongMode
            | Self::NoOperation
            | Self::NoCluster => Class::Permanent,
        }
    }

    /// Whether what comes later need not wait until it has passed.
    pub fn is_worth_overtaking(self) -> bool {
        matches!(self, Self::Terminating | Self::Busy)
    }

    /// Whether the same event may be followed later, without being sent again.
    pub fn is_worth_a_retry(self) -> bool {
        !matches!(self, Self::Missing | Self::OtherSource | Self::NoOperation | Self::WrongMode)
    }

    /// Its name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NamespaceNotAllowed => "namespace_not_allowed",
            Self::NotYours => "not_yours",
            Self::NotAdopted => "not_adopted",
            Self::Taken => "taken",
            Self::WrongMode => "wrong_mode",
            Self::Missing => "missing",
            Self::OtherSource => "other_source",
            Self::StillDeleting => "still_deleting",
            Self::Terminating => "terminating",
            Self::Busy => "busy",
            Self::NoOperation => "no_operation",
            Self::NoCluster => "no_cluster",
        }
    }
}

/// Why an event is not followed, for a person and for whoever decides what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// Why, for a person.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// What helps.
    pub fn class(&self) -> Class {
        self.reason.class()
    }
}

impl From<Refusal> for Plan {
    fn from(refusal: Refusal) -> Self {
        Self::Refuse(refusal)
    }
}

/// Replaces what is there, if that changes anything.
pub(super) fn replace(existing: &Value, wanted: Value) -> Plan {
    if same(existing, &wanted) { Plan::Nothing } else { Plan::Replace(wanted) }
}

pub(super) fn refuse(reason: Reason, message: impl Into<String>) -> Plan {
    Plan::Refuse(Refusal::new(reason, message))
}
