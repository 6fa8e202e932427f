//! Events between hub and agent: what they are about, what they say, who they belong to.
//!
//! The wire form is a `CloudEvent` (`wire::cloudevents`); this is what the rest of Thane handles.

mod codec;
mod names;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;

pub use codec::Codec;
pub use wire::{DecodeError, Fault};

/// Who decides what an agent's cluster should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// The hub does; the agent applies it.
    Managed,
    /// The agent's cluster does; the hub mirrors it.
    Autonomous,
}

/// A mode that is neither of the two.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither managed nor autonomous")]
pub struct UnknownMode(String);

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Managed => "managed",
            Self::Autonomous => "autonomous",
        })
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        match text {
            "managed" => Ok(Self::Managed),
            "autonomous" => Ok(Self::Autonomous),
            other => Err(UnknownMode(other.chars().take(64).collect())),
        }
    }
}

/// What an event is about; on the wire its `dataschema`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// An Argo CD Application.
    Application,
    /// An Argo CD `AppProject`.
    AppProject,
    /// An Argo CD `ApplicationSet`; known, never sent.
    ApplicationSet,
    /// A Secret with a repository or its credentials.
    Repository,
    /// The `ConfigMap` with GPG keys.
    GpgKey,
    /// A request to the agent's Kubernetes API, or its answer.
    Resource,
    /// Comparison of what both sides have.
    ResourceResync,
    /// A request to the agent's Redis, or its answer.
    Redis,
    /// Figures about the agent's cluster.
    ClusterCacheInfo,
    /// A request for a container's log.
    ContainerLog,
    /// A request for a shell in a container.
    Terminal,
    /// A sign of life.
    Heartbeat,
    /// An acknowledgement.
    Processed,
    /// Anything we do not know.
    Other(String),
}

/// What an event says; on the wire its `type`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// The object is new.
    Create,
    /// The object is to be like this.
    SpecUpdate,
    /// The object is seen like this.
    StatusUpdate,
    /// The object is gone.
    Delete,
    /// An operation is to start.
    SetOperation,
    /// The running operation is to end.
    TerminateOperation,
    /// The object could not be taken over.
    Error,
    /// The event has been processed.
    Processed,
    /// The answer to a request for a resource.
    Response,
    /// A request for a resource or a log, named by its HTTP verb.
    Verb(String),
    /// A request for a shell.
    TerminalRequest,
    /// A request for Redis.
    RedisRequest,
    /// An answer from Redis.
    RedisResponse,
    /// What do you have? With a checksum over what the sender has.
    RequestSyncedResourceList,
    /// One thing that the sender has.
    ResponseSyncedResource,
    /// Send this object if it differs from this checksum.
    RequestUpdate,
    /// Ask me for everything.
    RequestResourceResync,
    /// Figures about the cluster.
    ClusterCacheInfoUpdate,
    /// A sign of life.
    Ping,
    /// The answer to it.
    Pong,
    /// Ours: one digest over everything, from the side that speaks first.
    Digest,
    /// Ours: the digests of single objects, when the one over everything differs.
    DigestItems,
    /// Ours: what an agent cannot do as things are, for its hub to know.
    Troubles,
    /// Anything we do not know.
    Other(String),
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub target: Target,
    /// What it says.
    pub kind: Type,
    /// Whose order it keeps: `<name>_<uid>` for objects.
    pub resource_id: String,
    /// Which one it is; opaque to whoever receives it.
    pub event_id: String,
    /// `<namespace>/<name>` of the object, where it is about one.
    pub subject: Option<String>,
    /// JSON, or nothing.
    pub data: Bytes,
    /// Further attributes by their lower-case names: `sentat`, `principaluid`, `traceparent` and whatever else came.
    pub extensions: BTreeMap<String, String>,
}

/// Attribute with the time an event was first sent, RFC 3339 with nanoseconds.
pub const SENT_AT: &str = "sentat";
/// Attribute with the hub's persistent id.
pub const PRINCIPAL_UID: &str = "principaluid";
/// Ours: attribute with the id a hub has given to an operation; upstream's gives none.
pub const OPERATION: &str = "operationid";
/// Attribute with the W3C trace context.
pub const TRACE_PARENT: &str = "traceparent";

/// Header in which both sides say what they can do beyond the protocol, separated by commas.
pub const CAPABILITIES: &str = "thane-capabilities";
/// Capability: digests instead of lists to find out what differs.
pub const DIGEST: &str = "digest";
/// Capability: a sign of life is answered.
pub const PONG: &str = "pong";
/// How an agent says which namespaces its Applications have; the hub's has to be the same.
pub const BY_NAMESPACE: &str = "by-namespace";
/// The other way: by destination.
pub const BY_DESTINATION: &str = "by-destination";
/// Capability: requests to the cluster's API pass through the agent's connection.
pub const TUNNEL: &str = "tunnel";

impl Event {
    /// A request of live access; its id is both the resource's and the event's.
    #[must_use]
    pub fn request(target: Target, kind: Type, id: &str, data: Bytes) -> Self {
        Self::passing(target, kind, id.to_owned(), id.to_owned(), data)
    }

    /// An answer of live access, with an id of its own, to the request of that id.
    #[must_use]
    pub fn answer(target: Target, kind: Type, id: String, request: &str, data: Bytes) -> Self {
        Self::passing(target, kind, id, request.to_owned(), data)
    }

    fn passing(target: Target, kind: Type, resource_id: String, event_id: String, data: Bytes) -> Self {
        Self { target, kind, resource_id, event_id, subject: None, data, extensions: BTreeMap::new() }
    }

    /// The acknowledgement of this event: the same identity and attributes, no data.
    #[must_use]
    pub fn acknowledgement(&self) -> Self {
        Self {
            target: Target::Processed,
            kind: Type::Processed,
            resource_id: self.resource_id.clone(),
            event_id: self.event_id.clone(),
            subject: None,
            data: Bytes::new(),
            extensions: self.extensions.clone(),
        }
    }

    /// Whether whoever receives it says so: acknowledgements and signs of life are sent once and forgotten.
    pub fn wants_acknowledgement(&self) -> bool {
        !matches!(self.target, Target::Processed | Target::Heartbeat)
    }
}
