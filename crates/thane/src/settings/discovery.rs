//! Discovery on hub and agents.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thane_runtime::config::units::Span;

/// The hub's registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct HubDiscovery {
    /// Folder for the registry, on a volume that outlives the hub; without one there is no registry.
    pub(crate) data: Option<PathBuf>,
    /// Where the API listens for clients that have no agent yet; nowhere unless given.
    pub(crate) address: Option<SocketAddr>,
    /// The datacenter's name.
    pub(crate) datacenter: String,
    /// An agent that is silent for so long is not there, and its instances are critical.
    pub(crate) lease: Span,
    /// An agent that is not there for so long is forgotten.
    pub(crate) reap_after: Span,
    /// Requests each second that one client of that API may make; 0 is no limit.
    pub(crate) rate_limit: u32,
}

impl Default for HubDiscovery {
    fn default() -> Self {
        Self {
            data: None,
            address: None,
            datacenter: "dc1".to_owned(),
            lease: Span(Duration::from_secs(30)),
            reap_after: Span(Duration::from_hours(72)),
            rate_limit: 10_000,
        }
    }
}

/// The part of the registry an agent holds, and what is registered with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct AgentDiscovery {
    /// Folder for what is registered here; without one there is no discovery.
    pub(crate) data: Option<PathBuf>,
    /// File with the node's own settings, as the design record has them.
    pub(crate) file: Option<PathBuf>,
    /// The node's name, where the file does not say; empty for `NODE_NAME` or the certificate's.
    pub(crate) node_name: String,
    /// Where the API listens.
    pub(crate) address: SocketAddr,
    /// Where Consul's API listens besides; nowhere unless given.
    pub(crate) consul_address: Option<SocketAddr>,
    /// Where names are resolved.
    pub(crate) dns_address: SocketAddr,
    /// Whether everybody may do everything until the hub has said for the first time which tokens there are.
    pub(crate) open_until_told: bool,
    /// Requests each second that one client may make; 0 is no limit.
    pub(crate) rate_limit: u32,
}

impl Default for AgentDiscovery {
    fn default() -> Self {
        Self {
            data: None,
            file: None,
            node_name: String::new(),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8502)),
            consul_address: None,
            dns_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8600)),
            open_until_told: false,
            rate_limit: 100_000,
        }
    }
}
