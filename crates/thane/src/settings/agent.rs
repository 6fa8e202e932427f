//! The `agent` section.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thane_agent::connection;
use thane_runtime::config::units::{ByteSize, Span};
use thane_sync::mapping::Mode;

use super::discovery::AgentDiscovery;
use super::hub::{Placement, TlsVersion};
use super::link::LinkSettings;
use super::redis::{ARGO_CD, RedisServer};

/// `thane agent`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub(crate) struct AgentSettings {
    /// Who decides: `managed` for the hub, `autonomous` for the cluster.
    pub(crate) mode: String,
    /// The hub's host name or address, which its certificate must have. Services, health and keys may have several hubs,
    /// separated by commas and each with a port of its own if need be; the cluster's Applications have the first.
    pub(crate) server: String,
    /// The hub's port.
    pub(crate) server_port: u16,
    /// The namespace of its Argo CD and its Secrets; empty for the pod's or the context's.
    pub(crate) namespace: String,
    /// How it proves who it is: `mtls:any` or `userpass:FILE`.
    pub(crate) credentials: String,
    /// Certificates.
    pub(crate) tls: AgentTls,
    /// How the hub finds the agent of an Application; the same as the hub's.
    pub(crate) placement: Placement,
    /// Namespaces besides its own that Applications may be in.
    pub(crate) allowed_namespaces: Vec<String>,
    /// Labels that Applications must have.
    pub(crate) selector: String,
    /// Whether namespaces of Applications are made when they are missing.
    pub(crate) create_namespaces: bool,
    /// What to do with a copy whose source was made anew: `recreate` or `upsert`.
    pub(crate) source_mismatch: String,
    /// What to do with an Application that was there before the hub's: `always` adopt it, or `never`.
    pub(crate) adoption: String,
    /// What to do after a deleted copy was made again: `ignore`, `clear-status` or `resync`.
    pub(crate) on_recreate: String,
    /// Whether to compress what is sent.
    pub(crate) compression: bool,
    /// Whether to speak gRPC over `WebSocket`.
    pub(crate) websocket: bool,
    /// Time to connect and shake hands.
    pub(crate) connect_timeout: Span,
    /// Time for one call that is no stream.
    pub(crate) request_timeout: Span,
    /// How often a silent hub is asked for a sign of life; 0s for never.
    pub(crate) keepalive_interval: Span,
    /// A hub that does not answer for so long is gone.
    pub(crate) keepalive_timeout: Span,
    /// How often to send a sign of life as an event, for proxies that want to see traffic; 0s for never.
    pub(crate) heartbeat_interval: Span,
    /// The longest first wait after a failure; it doubles with each.
    pub(crate) backoff_first: Span,
    /// The longest wait after many failures.
    pub(crate) backoff_max: Span,
    /// Bytes of one message.
    pub(crate) message_bytes_max: ByteSize,
    /// The connection.
    pub(crate) link: LinkSettings,
    /// Whether the cluster's Applications are kept in step; an agent of a plain machine has none.
    pub(crate) fleet: bool,
    /// Services, health and keys.
    pub(crate) discovery: AgentDiscovery,
    /// The Redis of its Argo CD, which the hub asks about its applications.
    pub(crate) redis: RedisServer,
    /// Whether the hub may reach into the cluster: its API, logs, terminals and the places of `reach`.
    pub(crate) live: bool,
    /// Places beside the cluster's API that the hub may have bytes carried to: patterns of `HOST:PORT`.
    pub(crate) reach: Vec<String>,
    /// Writes to the API at once.
    pub(crate) writes_max: usize,
    /// How long one write may take.
    pub(crate) write_timeout: Span,
    /// Port of another listener for `/healthz`; 0 for none.
    pub(crate) health_port: u16,
    /// How long parts may take to stop.
    pub(crate) grace: Span,
}

impl Default for AgentSettings {
    fn default() -> Self {
        let connection = connection::Config::new("", 8443, Mode::Managed);
        Self {
            mode: connection.mode.to_string(),
            server: connection.host,
            server_port: connection.port,
            namespace: connection.namespace,
            credentials: "mtls:any".to_owned(),
            tls: AgentTls::default(),
            placement: Placement::Namespace,
            allowed_namespaces: Vec::new(),
            selector: String::new(),
            create_namespaces: false,
            source_mismatch: "recreate".to_owned(),
            adoption: "never".to_owned(),
            on_recreate: "ignore".to_owned(),
            compression: false,
            websocket: false,
            connect_timeout: Span(connection.connect_timeout),
            request_timeout: Span(connection.request_timeout),
            keepalive_interval: Span(connection.keepalive_interval.unwrap_or_default()),
            keepalive_timeout: Span(connection.keepalive_timeout),
            heartbeat_interval: Span(connection.heartbeat_interval.unwrap_or_default()),
            backoff_first: Span(connection.backoff_first),
            backoff_max: Span(connection.backoff_max),
            message_bytes_max: ByteSize(u64::try_from(connection.message_bytes_max).unwrap_or(u64::MAX)),
            link: LinkSettings::default(),
            fleet: true,
            discovery: AgentDiscovery::default(),
            redis: RedisServer { address: ARGO_CD.to_owned(), ..RedisServer::default() },
            live: true,
            reach: Vec::new(),
            writes_max: 64,
            write_timeout: Span(Duration::from_secs(30)),
            health_port: 0,
            grace: Span(Duration::from_secs(10)),
        }
    }
}

impl AgentSettings {
    /// The hub of the cluster's Applications.
    pub(crate) fn hub(&self) -> &str {
        self.server.split(',').next().unwrap_or_default().trim()
    }

    /// As argocd-agent has them where its defaults are others.
    pub(crate) fn upstream() -> Self {
        Self {
            mode: Mode::Autonomous.to_string(),
            server_port: 443,
            health_port: 8001,
            // Its principal cuts off whoever asks more often than every five minutes.
            keepalive_interval: Span(Duration::from_mins(6)),
            ..Self::default()
        }
    }
}

/// Certificates of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct AgentTls {
    /// Secret with the agent's certificate and key.
    pub(crate) secret: String,
    /// File with the certificate instead.
    pub(crate) cert: Option<PathBuf>,
    /// File with its key.
    pub(crate) key: Option<PathBuf>,
    /// Secret with the authorities that sign the hub's certificate.
    pub(crate) ca_secret: String,
    /// File with the authorities instead.
    pub(crate) ca: Option<PathBuf>,
    /// The oldest version spoken.
    pub(crate) min_version: TlsVersion,
}

impl Default for AgentTls {
    fn default() -> Self {
        Self {
            secret: "argocd-agent-client-tls".to_owned(),
            cert: None,
            key: None,
            ca_secret: "argocd-agent-ca".to_owned(),
            ca: None,
            min_version: TlsVersion::Tls13,
        }
    }
}
