//! The agent's file, as the design record has it, and its environment.

mod again;
mod follow;
#[cfg(test)]
mod tests;
mod units;
mod way;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use thane_runtime::config::units::Span;

use super::{Adjustable, Cadence, Limits, Options};
use crate::hub::TOPICS_MAX;

pub use again::load;
pub use follow::follow;
pub use units::{Compression, Cores, Memory, OneOrMany};
pub(super) use way::is_here;
pub use way::{far, files, hubs, only_here};

/// What an agent needs before it holds anything.
const BYTES_AT_REST: u64 = 16 * 1024 * 1024;
/// However little there is left, it holds so much.
const BYTES_MIN: u64 = 1024 * 1024;

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct File {
    /// Everything is under this name.
    pub agent: Config,
}

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What the agent calls itself.
    pub id: String,
    /// The node's name.
    pub node_name: String,
    /// Where the node is reached.
    pub address: String,
    /// The datacenter.
    pub datacenter: String,
    /// The hub, or several.
    pub server_address: OneOrMany,
    /// How the hub is called.
    pub tls: Tls,
    /// What is held.
    pub cache: Cache,
    /// How checks run.
    pub health_checks: HealthChecks,
    /// When the hub is told.
    pub sync: Sync,
    /// What the agent may use.
    pub resources: Resources,
    /// Keys that begin so are always held.
    pub watched_prefixes: Vec<String>,
    /// Not there yet.
    pub mesh: Mesh,
    /// What is said about the node.
    pub metadata: BTreeMap<String, String>,
}

/// How the hub is called.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the words of the design record")]
pub struct Tls {
    pub enabled: bool,
    pub ca_cert: Option<PathBuf>,
    pub client_cert: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
}

impl Default for Tls {
    fn default() -> Self {
        Self { enabled: true, ca_cert: None, client_cert: None, client_key: None }
    }
}

/// What is held.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the words of the design record")]
pub struct Cache {
    pub service_ttl: Span,
    pub kv_ttl: Span,
    pub health_ttl: Span,
    pub max_entries: usize,
    pub eviction_policy: String,
}

impl Default for Cache {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            service_ttl: Span(limits.service_ttl),
            kv_ttl: Span(limits.kv_ttl),
            health_ttl: Span(limits.health_ttl),
            max_entries: limits.entries,
            eviction_policy: "lru".to_owned(),
        }
    }
}

/// How checks run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the words of the design record")]
pub struct HealthChecks {
    pub enable_local_execution: bool,
    pub check_interval: Span,
    pub report_only_changes: bool,
    pub enable_script_checks: bool,
}

impl Default for HealthChecks {
    fn default() -> Self {
        Self {
            enable_local_execution: true,
            check_interval: Span(Duration::from_secs(10)),
            report_only_changes: true,
            enable_script_checks: false,
        }
    }
}

/// When the hub is told.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the words of the design record")]
pub struct Sync {
    pub interval: Span,
    pub full_sync_interval: Span,
    pub batch_size: usize,
    pub compression: Compression,
}

impl Default for Sync {
    fn default() -> Self {
        let cadence = Cadence::default();
        Self {
            interval: Span(cadence.retry),
            full_sync_interval: Span(cadence.full),
            batch_size: cadence.batch,
            compression: Compression::default(),
        }
    }
}

/// What the agent may use.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the words of the design record")]
pub struct Resources {
    pub memory_limit: Option<Memory>,
    pub cpu_limit: Option<Cores>,
}

/// Not there yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the words of the design record")]
pub struct Mesh {
    pub enabled: bool,
    pub proxy_type: String,
}

/// How the agent is deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// One on each node.
    #[default]
    Node,
    /// One in each pod.
    Sidecar,
}

/// What the environment says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// `KONSUL_AGENT_MODE`.
    pub mode: Mode,
    /// `NODE_NAME`.
    pub node_name: Option<String>,
    /// `POD_IP`.
    pub pod_ip: Option<String>,
    /// Where the node is reached, as whoever starts the agent says; before `POD_IP`, after the file.
    pub address: Option<String>,
}

impl Environment {
    /// Reads it; `variable` gives what a variable is set to.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mode = match set("KONSUL_AGENT_MODE").as_deref() {
            None | Some("node") => Mode::Node,
            Some("sidecar") => Mode::Sidecar,
            Some(other) => return Err(Error::Mode(other.to_owned())),
        };
        Ok(Self { mode, node_name: set("NODE_NAME"), pod_ip: set("POD_IP"), address: None })
    }
}

/// Why an agent cannot be run as it is told.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each says what it is")]
pub enum Error {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: larger than a configuration file may be", .0.display())]
    TooLarge(PathBuf),
    #[error("the agent's file: {0}")]
    Syntax(String),
    #[error("KONSUL_AGENT_MODE is {0:?}; it can be node or sidecar")]
    Mode(String),
    #[error("agent.mesh.enabled: a mesh is not offered; set it to false")]
    Mesh,
    #[error(
        "the hub at {0}: plain text is spoken only towards this machine; agent.tls.enabled is false, or no certificates \
         are given"
    )]
    Plaintext(String),
    #[error("certificate, key and authorities go together: {0} is not given")]
    Certificates(String),
    #[error("{0:?} is not a host and a port of a hub")]
    Address(String),
    #[error("agent.node_name: neither the file nor NODE_NAME says how the node is called")]
    NoName,
    #[error("{0}")]
    Value(String),
}

/// What an agent is to do, and what of its file has no effect.
pub struct Read {
    /// What it is to do.
    pub options: Options,
    /// The file itself, for what is not the agent's own business: certificates.
    pub tls: Tls,
    /// Whether anybody said where the node is reached.
    pub has_address: bool,
    /// What is worth a warning.
    pub warnings: Vec<String>,
}

impl Config {
    /// What a file's text says.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_saphyr::from_str::<File>(text).map(|file| file.agent).map_err(|error| Error::Syntax(error.to_string()))
    }

    /// What follows from it.
    pub fn read(self, environment: &Environment) -> Result<Read, Error> {
        if self.mesh.enabled {
            return Err(Error::Mesh);
        }
        way::check(&self.tls, &self.server_address.0)?;
        let mut warnings = Vec::new();
        let node_name = [Some(self.node_name.clone()), environment.node_name.clone()];
        let node_name = node_name.into_iter().flatten().find(|name| !name.is_empty());
        // Pods on one node are nodes of their own here.
        let node_name = match (environment.mode, node_name, &environment.pod_ip) {
            (Mode::Sidecar, Some(name), Some(ip)) if self.node_name.is_empty() => {
                format!("{name}-{}", ip.replace([':', '.'], "-"))
            }
            (_, Some(name), _) => name,
            (Mode::Sidecar, None, Some(ip)) => format!("pod-{}", ip.replace([':', '.'], "-")),
            (_, None, _) => return Err(Error::NoName),
        };
        let mut options = Options::new(node_name);
        if !self.id.is_empty() {
            options.id.clone_from(&self.id);
        }
        if !self.datacenter.is_empty() {
            options.datacenter.clone_from(&self.datacenter);
        }
        let own = Some(self.address.clone()).filter(|address| !address.is_empty());
        let address = own.or_else(|| environment.address.clone()).or_else(|| environment.pod_ip.clone());
        let has_address = address.is_some();
        options.address = address.unwrap_or(options.address);
        options.meta.clone_from(&self.metadata);
        options.is_script_allowed = self.health_checks.enable_script_checks;
        options.is_compressed = self.sync.compression.0;
        options.adjustable = self.adjustable(&mut warnings)?;
        Ok(Read { options, tls: self.tls, has_address, warnings })
    }

    fn adjustable(&self, warnings: &mut Vec<String>) -> Result<Adjustable, Error> {
        let limits = self.limits(warnings);
        if self.cache.eviction_policy != "lru" {
            warnings.push(format!(
                "agent.cache.eviction_policy: {:?} is not offered; lru is used",
                self.cache.eviction_policy
            ));
        }
        if self.resources.cpu_limit.is_some() {
            warnings.push("agent.resources.cpu_limit has no effect; limit the process from outside".to_owned());
        }
        if !self.health_checks.enable_local_execution {
            warnings.push("agent.health_checks.enable_local_execution: checks always run on the agent".to_owned());
        }
        if !(1..=100).contains(&self.sync.batch_size) {
            warnings.push("agent.sync.batch_size: a batch has 1 to 100 changes".to_owned());
        }
        for (name, span) in [
            ("sync.interval", self.sync.interval),
            ("sync.full_sync_interval", self.sync.full_sync_interval),
            ("health_checks.check_interval", self.health_checks.check_interval),
        ] {
            if span.0 < Duration::from_secs(1) {
                return Err(Error::Value(format!("agent.{name}: at least 1s")));
            }
        }
        let cadence = Cadence {
            batch: self.sync.batch_size.clamp(1, 100),
            retry: self.sync.interval.0,
            full: self.sync.full_sync_interval.0,
            ..Cadence::default()
        };
        Ok(Adjustable {
            hubs: self.server_address.0.clone(),
            watched_prefixes: self
                .watched_prefixes
                .iter()
                .map(|prefix| prefix.trim_start_matches('/').to_owned())
                .collect(),
            limits,
            cadence,
            reports_all: !self.health_checks.report_only_changes,
            check_interval: self.health_checks.check_interval.0,
        })
    }

    /// What is held: no more than a memory limit has room for, and than the hub pushes.
    fn limits(&self, warnings: &mut Vec<String>) -> Limits {
        let usual = Limits::default();
        let most = TOPICS_MAX;
        if self.cache.max_entries > most {
            warnings.push(format!("agent.cache.max_entries: a hub pushes at most {most} topics to one agent"));
        }
        let mut bytes = usual.bytes;
        if let Some(Memory(limit)) = self.resources.memory_limit {
            let room = limit.saturating_sub(BYTES_AT_REST);
            if room < BYTES_MIN {
                warnings.push("agent.resources.memory_limit: less than an agent needs by itself".to_owned());
            }
            bytes = usize::try_from(room.max(BYTES_MIN)).unwrap_or(usize::MAX);
        }
        Limits {
            entries: self.cache.max_entries.clamp(1, most),
            bytes,
            open_bytes: usual.open_bytes.min(bytes / 4),
            service_ttl: self.cache.service_ttl.0,
            kv_ttl: self.cache.kv_ttl.0,
            health_ttl: self.cache.health_ttl.0,
        }
    }
}
