//! What an agent is told when it starts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::followed::Limits;
use super::pending::Cadence;

/// What an agent is told when it starts.
#[derive(Clone)]
pub struct Options {
    /// What it calls itself; who it is says its certificate.
    pub id: String,
    /// The node's name.
    pub node_name: String,
    /// Where the node is reached.
    pub address: String,
    /// The datacenter.
    pub datacenter: String,
    /// What is said about the node.
    pub meta: std::collections::BTreeMap<String, String>,
    /// Whether checks may run programs.
    pub is_script_allowed: bool,
    /// Whether the hub may compress what it pushes.
    pub is_compressed: bool,
    /// Whether everybody may do everything until the hub has said which tokens there are.
    pub is_open_until_told: bool,
    /// What may change while it runs.
    pub adjustable: Adjustable,
    /// Where that is read again; `None`: it stays.
    pub again: Option<Reread>,
}

/// Reads what may change again.
pub type Reread = Arc<dyn Fn() -> Result<Reloaded, String> + Send + Sync>;

/// What was read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// What takes effect at once.
    pub adjustable: Adjustable,
    /// Names of settings that are others now and take effect in a new process only.
    pub needs_restart: Vec<&'static str>,
}

/// What may change while an agent runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adjustable {
    /// Hubs, in the order they are tried: `host:port`.
    pub hubs: Vec<String>,
    /// Keys that begin so are always held.
    pub watched_prefixes: BTreeSet<String>,
    /// What is kept for how long.
    pub limits: Limits,
    /// When the hub is told.
    pub cadence: Cadence,
    /// Whether every result of a check is reported, not only changes.
    pub reports_all: bool,
    /// How often a check runs that does not say.
    pub check_interval: Duration,
}

impl Default for Adjustable {
    fn default() -> Self {
        Self {
            hubs: Vec::new(),
            watched_prefixes: BTreeSet::new(),
            limits: Limits::default(),
            cadence: Cadence::default(),
            reports_all: false,
            check_interval: Duration::from_secs(10),
        }
    }
}

impl Options {
    /// An agent on a node, without hubs.
    pub fn new(node_name: impl Into<String>) -> Self {
        let node_name = node_name.into();
        Self {
            id: node_name.clone(),
            node_name,
            address: "127.0.0.1".to_owned(),
            datacenter: "dc1".to_owned(),
            meta: std::collections::BTreeMap::new(),
            is_script_allowed: false,
            is_compressed: true,
            is_open_until_told: false,
            adjustable: Adjustable::default(),
            again: None,
        }
    }
}
