//! The nouns. Their JSON form here is how they are stored and travel; what Consul's clients see is made by `consul`.

mod access;
mod definition;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use access::{NodeIdentity, Policy, Resource, Rule, RuleSet, Token};
pub use definition::Definition;

/// A point in the registry's history. Grows with every change, never goes back, survives restarts and restores.
pub type Index = u64;

/// A thing with the indexes of its creation and last change.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(serialize = "T: Serialize", deserialize = "T: Deserialize<'de>"))]
pub struct Indexed<T> {
    /// When it came into being (since it was last absent).
    pub create_index: Index,
    /// When it last changed. Writing what is there already changes nothing.
    pub modify_index: Index,
    /// The thing.
    #[serde(with = "shared")]
    pub value: Arc<T>,
}

impl<T> Clone for Indexed<T> {
    fn clone(&self) -> Self {
        Self { create_index: self.create_index, modify_index: self.modify_index, value: Arc::clone(&self.value) }
    }
}

/// A machine or pod that services run on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its name, unique in the registry (compared without case).
    pub name: String,
    /// A UUID, or empty.
    pub id: String,
    /// Where it is reached.
    pub address: String,
    /// Which datacenter it is in.
    pub datacenter: String,
    /// Further addresses by label: lan, wan …
    pub tagged_addresses: BTreeMap<String, String>,
    /// What its owner says about it.
    pub meta: BTreeMap<String, String>,
    /// The agent (its certificate's name) whose node this is; nobody else may write it. `None`: made by catalog/register.
    pub owner: Option<String>,
}

/// One instance of a service on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Unique on its node.
    pub id: String,
    /// What clients ask for.
    pub name: String,
    /// Labels to choose by.
    pub tags: Vec<String>,
    /// Where it is reached; empty means the node's address.
    pub address: String,
    /// The port, 0 where it has none.
    pub port: u16,
    /// Further addresses by label.
    pub tagged_addresses: BTreeMap<String, ServiceAddress>,
    /// What its owner says about it.
    pub meta: BTreeMap<String, String>,
    /// For SRV records.
    pub weights: Weights,
    /// Whether the catalog may change its tags without the agent putting them back.
    pub enable_tag_override: bool,
}

/// An address and a port of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceAddress {
    /// The address.
    pub address: String,
    /// The port.
    pub port: u16,
}

/// How much of the load an instance takes, by how it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Weights {
    /// While it passes.
    pub passing: u32,
    /// While it warns.
    pub warning: u32,
}

impl Default for Weights {
    fn default() -> Self {
        Self { passing: 1, warning: 1 }
    }
}

/// How a check stands; ordered from well to unwell, so that the worst of several is their maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Well.
    Passing,
    /// Well enough to be used.
    Warning,
    /// Not to be used.
    Critical,
}

impl Status {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passing => "passing",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is known about the health of a node or of a service on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Unique on its node.
    pub id: String,
    /// For people.
    pub name: String,
    /// How it stands.
    pub status: Status,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// What the last run said, capped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// The service on the same node it is about; empty: the node itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service_id: String,
    /// That service's name, copied by the registry.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service_name: String,
    /// That service's tags, copied by the registry.
    #[serde(default)]
    pub service_tags: Vec<String>,
    /// http, tcp, ttl … or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// How it is run, for whoever asks; the agent that runs it keeps its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub definition: Definition,
}

/// How a check is run, as Consul's clients see it.
#[expect(clippy::struct_excessive_bools, reason = "Consul's clients set them one by one")]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckDefinition {
    /// The address asked over HTTP.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub http: String,
    /// Its method.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub method: String,
    /// Its headers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub header: BTreeMap<String, Vec<String>>,
    /// Its body.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Whether it stays at the address even if sent elsewhere.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_redirects: bool,
    /// Whether a certificate is believed unseen.
    #[serde(skip_serializing_if = "is_default")]
    pub tls_skip_verify: bool,
    /// The name expected in the certificate.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tls_server_name: String,
    /// The address dialled over TCP.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tcp: String,
    /// Whether TLS is spoken there.
    #[serde(skip_serializing_if = "is_default")]
    pub tcp_use_tls: bool,
    /// The address that a packet is sent to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub udp: String,
    /// The gRPC health service asked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub grpc: String,
    /// Whether over TLS.
    #[serde(skip_serializing_if = "is_default")]
    pub grpc_use_tls: bool,
    /// The address that HTTP/2 pings are sent to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub h2ping: String,
    /// Whether over TLS.
    #[serde(skip_serializing_if = "is_default")]
    pub h2ping_use_tls: bool,
    /// The program run and its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The node whose health is copied.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub alias_node: String,
    /// The service whose health is copied.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub alias_service: String,
    /// Time between runs.
    #[serde(skip_serializing_if = "Duration::is_zero")]
    pub interval: Duration,
    /// A run that takes longer failed.
    #[serde(skip_serializing_if = "Duration::is_zero")]
    pub timeout: Duration,
    /// Silence for so long is critical.
    #[serde(skip_serializing_if = "Duration::is_zero")]
    pub ttl: Duration,
    /// Critical for so long: the service is deregistered.
    #[serde(skip_serializing_if = "Duration::is_zero")]
    pub deregister_after: Duration,
    /// So many runs must pass in a row before it passes; 0 and 1 are the same.
    #[serde(skip_serializing_if = "is_default")]
    pub success_before_passing: u32,
    /// So many runs must fail in a row before it warns; 0: as many as before it is critical.
    #[serde(skip_serializing_if = "is_default")]
    pub failures_before_warning: u32,
    /// So many runs must fail in a row before it is critical.
    #[serde(skip_serializing_if = "is_default")]
    pub failures_before_critical: u32,
    /// Output is cut to so many bytes; 0: to what the agent allows.
    #[serde(skip_serializing_if = "is_default")]
    pub output_max_size: u32,
}

/// One key of the shared data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KvEntry {
    /// The key.
    pub key: String,
    /// The value.
    #[serde(with = "base64_bytes")]
    pub value: Bytes,
    /// A number of the client's own.
    pub flags: u64,
    /// How often it was locked.
    pub lock_index: u64,
    /// The session that holds it.
    pub session: Option<String>,
}

/// What happens to the keys a session holds when it ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Behavior {
    /// They are released.
    #[default]
    Release,
    /// They are deleted.
    Delete,
}

/// Something that can hold keys while it lives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    /// A UUID.
    pub id: String,
    /// For people.
    pub name: String,
    /// The node it belongs to.
    pub node: String,
    /// After it was invalidated, so long nobody gets its keys.
    pub lock_delay: Duration,
    /// What happens to its keys.
    pub behavior: Behavior,
    /// It ends unless renewed within; `None`: it does not expire.
    pub ttl: Option<Duration>,
    /// Checks of the node that end it when critical. `serfHealth` stands for the node's agent being there.
    pub node_checks: Vec<String>,
    /// Checks of services (their check ids) that end it when critical.
    pub service_checks: Vec<String>,
}

/// A user's event: fire and forget, the newest 256 are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserEvent {
    /// A UUID.
    pub id: String,
    /// What happened.
    pub name: String,
    /// What it carries.
    #[serde(with = "base64_bytes")]
    pub payload: Bytes,
    /// For which nodes, services, tags (regular expressions).
    pub node_filter: String,
    /// Services.
    pub service_filter: String,
    /// Tags.
    pub tag_filter: String,
    /// A number that grows with each event.
    pub ltime: u64,
}

/// What is as usual takes no room where it is stored and travels.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Something shared, as what it is.
pub(crate) mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<T>, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}

/// Bytes as base64 text.
pub(crate) mod base64_bytes {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(value: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Bytes::from).map_err(D::Error::custom)
    }
}
