//! Redis on hub and agents.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thane_runtime::config::units::Span;

/// Where Argo CD's own installation has it.
pub(crate) const ARGO_CD: &str = "argocd-redis:6379";
const TIMEOUT: Span = Span(Duration::from_secs(30));

/// A Redis, and how it proves who it is. The password is in `REDIS_PASSWORD`, or in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct RedisServer {
    /// Host and port; empty for none.
    pub(crate) address: String,
    /// The user; empty for the default one.
    pub(crate) username: String,
    /// Folder with the password in `auth`, and the user in `auth_username` if there is one.
    pub(crate) credentials: Option<PathBuf>,
    /// Whether it speaks TLS.
    pub(crate) tls: bool,
    /// Whether its certificate is believed unseen.
    pub(crate) unverified: bool,
    /// Secret with the authorities of its certificate.
    pub(crate) ca_secret: String,
    /// File with the authorities instead.
    pub(crate) ca: Option<PathBuf>,
    /// Time to connect, and for each answer.
    pub(crate) timeout: Span,
}

impl Default for RedisServer {
    fn default() -> Self {
        Self {
            address: String::new(),
            username: String::new(),
            credentials: None,
            tls: false,
            unverified: false,
            ca_secret: "argocd-redis-tls".to_owned(),
            ca: None,
            timeout: TIMEOUT,
        }
    }
}

/// The hub's Redis, and the proxy before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct HubRedis {
    /// The hub's Redis; without one there is no proxy, and Argo CD is not shown which agents are connected.
    pub(crate) server: RedisServer,
    /// Whether Argo CD's questions about agents' applications are taken.
    pub(crate) proxy: bool,
    /// Where the proxy listens.
    pub(crate) listen: SocketAddr,
    /// Secret with the proxy's certificate and key, if the hub's Redis speaks TLS.
    pub(crate) secret: String,
    /// File with the certificate instead.
    pub(crate) cert: Option<PathBuf>,
    /// File with its key.
    pub(crate) key: Option<PathBuf>,
    /// How Argo CD compresses what it keeps: gzip or none.
    pub(crate) compression: String,
    /// How long an agent may take to answer.
    pub(crate) answer_timeout: Span,
    /// Connections to the proxy at once.
    pub(crate) connections_max: usize,
}

impl Default for HubRedis {
    fn default() -> Self {
        Self {
            server: RedisServer::default(),
            proxy: true,
            listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 6379)),
            secret: "argocd-redis-proxy-tls".to_owned(),
            cert: None,
            key: None,
            compression: "gzip".to_owned(),
            answer_timeout: Span(Duration::from_mins(1)),
            connections_max: 1_024,
        }
    }
}
