//! The `gateway` section.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thane_runtime::config::units::{ByteSize, Span};
use thane_sandbox::gateway::Limits;

/// `thane gateway`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct GatewaySettings {
    /// Where clients arrive.
    pub(crate) address: SocketAddr,
    /// The namespace of its Secrets; empty for the pod's or the context's.
    pub(crate) namespace: String,
    /// The namespace of sessions and pools that name none.
    pub(crate) default_namespace: String,
    /// How it proves to sidecars who it is.
    pub(crate) tls: GatewayTls,
    /// File with the keys of clients, in JSON; else the Secret.
    pub(crate) keys: Option<PathBuf>,
    /// The Secret with the keys of clients, under `keys.json`.
    pub(crate) keys_secret: String,
    /// Whether no keys are asked for; only on loopback.
    pub(crate) anonymous: bool,
    /// Our own image, for pods of a cluster that are made when a pool is empty; empty where nodes of ours run them.
    pub(crate) image: String,
    /// The Secret with the sidecars' certificates, in each namespace that has pools.
    pub(crate) sidecar_secret: String,
    /// Connections of clients at once.
    pub(crate) connections_max: usize,
    /// The largest file that is uploaded.
    pub(crate) upload_bytes_max: ByteSize,
    /// Sidecars it is connected to at once.
    pub(crate) sidecars_max: usize,
    /// The longest anybody waits for a sandbox.
    pub(crate) wait_max: Span,
    /// Port of another listener for `/healthz`; 0 for none.
    pub(crate) health_port: u16,
    /// How long parts may take to stop.
    pub(crate) grace: Span,
}

/// Certificates of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct GatewayTls {
    /// Certificate file; else the Secret.
    pub(crate) cert: Option<PathBuf>,
    /// Key file.
    pub(crate) key: Option<PathBuf>,
    /// File with the authority of sandboxes; else the Secret.
    pub(crate) ca: Option<PathBuf>,
    /// The Secret with its certificate and key.
    pub(crate) secret: String,
    /// The Secret with the authority of sandboxes.
    pub(crate) ca_secret: String,
}

impl Default for GatewayTls {
    fn default() -> Self {
        let secret = "thane-sandbox-client".to_owned();
        Self { cert: None, key: None, ca: None, secret, ca_secret: "thane-sandbox-ca".to_owned() }
    }
}

impl Default for GatewaySettings {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            namespace: String::new(),
            default_namespace: "default".to_owned(),
            tls: GatewayTls::default(),
            keys: None,
            keys_secret: "thane-gateway-keys".to_owned(),
            anonymous: false,
            image: String::new(),
            sidecar_secret: "thane-sidecar".to_owned(),
            connections_max: limits.connections_max,
            upload_bytes_max: ByteSize(limits.upload_bytes_max),
            sidecars_max: limits.sidecars_max,
            wait_max: Span(limits.wait_max),
            health_port: 0,
            grace: Span(Duration::from_secs(10)),
        }
    }
}

impl GatewaySettings {
    /// Bounds as the gateway takes them.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            connections_max: self.connections_max.max(1),
            upload_bytes_max: self.upload_bytes_max.0,
            sidecars_max: self.sidecars_max.max(1),
            wait_max: self.wait_max.0,
            ..Limits::default()
        }
    }
}
