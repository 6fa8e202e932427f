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
    /// Connections that one address may have there; 0 is no limit. This machine may always have some thousands.
    pub(crate) client_connections: usize,
    /// The datacenter's name.
    pub(crate) datacenter: String,
    /// The hub in the catalog: the node of what such clients register.
    pub(crate) node_name: String,
    /// Where that node is reached; empty for `POD_IP`, where the API listens, or where the way out begins.
    pub(crate) node_address: String,
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
            client_connections: 200,
            datacenter: "dc1".to_owned(),
            node_name: "thane-hub".to_owned(),
            node_address: String::new(),
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
    /// Where the node is reached, where the file does not say; empty for `POD_IP`, or where the route to the hub begins.
    pub(crate) node_address: String,
    /// Where the API listens.
    pub(crate) address: SocketAddr,
    /// Connections that one address may have there; 0 is no limit. This machine may always have some thousands.
    pub(crate) client_connections: usize,
    /// Where Consul's API listens besides; nowhere unless given.
    pub(crate) consul_address: Option<SocketAddr>,
    /// Where names are resolved.
    pub(crate) dns_address: SocketAddr,
    /// How names are answered.
    pub(crate) dns: DnsSettings,
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
            node_address: String::new(),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8502)),
            client_connections: 200,
            consul_address: None,
            dns_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8600)),
            dns: DnsSettings::default(),
            open_until_told: false,
            rate_limit: 100_000,
        }
    }
}

/// How an agent answers names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct DnsSettings {
    /// The zones answered for; the first is used in names that are made.
    pub(crate) zones: Vec<String>,
    /// How long services may be cached.
    pub(crate) service_ttl: Span,
    /// How long nodes may be cached.
    pub(crate) node_ttl: Span,
    /// Whether instances that warn are left out.
    pub(crate) only_passing: bool,
    /// Answers over UDP to those who do not speak EDNS.
    pub(crate) udp_answers_max: usize,
    /// Whether an answer that only this bound cut says by its TC bit that there is more.
    pub(crate) truncate: bool,
}

impl Default for DnsSettings {
    fn default() -> Self {
        let names = thane_discovery::dns::Settings::default();
        Self {
            zones: names.zones,
            service_ttl: Span(Duration::from_secs(names.service_ttl.into())),
            node_ttl: Span(Duration::from_secs(names.node_ttl.into())),
            only_passing: names.only_passing,
            udp_answers_max: names.udp_answers_max,
            truncate: names.truncate,
        }
    }
}
