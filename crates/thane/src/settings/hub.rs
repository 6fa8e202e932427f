//! The `hub` section.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thane_hub::proxy::Rule;
use thane_hub::transport;
use thane_runtime::config::units::{ByteSize, Span};

use super::discovery::HubDiscovery;
use super::link::LinkSettings;
use super::redis::{ARGO_CD, HubRedis};

/// How the hub finds the agent of an Application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Placement {
    /// By its namespace, which has the agent's name.
    #[default]
    Namespace,
    /// By the name of its destination.
    Destination,
}

impl From<Placement> for thane_sync::mapping::Placement {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::Namespace => Self::Namespace,
            Placement::Destination => Self::Destination,
        }
    }
}

/// What is asked of agents' certificates, besides a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Certificates {
    /// A trusted one in the agent's name.
    #[default]
    Matching,
    /// A trusted one.
    Trusted,
    /// None: the token suffices.
    Unneeded,
}

/// The oldest TLS version spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum TlsVersion {
    /// TLS 1.3 alone.
    #[default]
    #[serde(rename = "tls1.3")]
    Tls13,
    /// TLS 1.2 as well.
    #[serde(rename = "tls1.2")]
    Tls12,
}

impl From<TlsVersion> for thane_runtime::tls::Versions {
    fn from(version: TlsVersion) -> Self {
        match version {
            TlsVersion::Tls13 => Self::Tls13,
            TlsVersion::Tls12 => Self::Tls12AndTls13,
        }
    }
}

/// `thane hub`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct HubSettings {
    /// The namespace of its Argo CD and its Secrets; empty for the pod's or the context's.
    pub(crate) namespace: String,
    /// Address that agents call; empty for all.
    pub(crate) listen_host: String,
    /// Port that agents call.
    pub(crate) listen_port: u16,
    /// Port of another listener for `/healthz`; 0 for none.
    pub(crate) health_port: u16,
    /// Namespaces whose Applications are kept in step: globs, or expressions between slashes.
    pub(crate) allowed_namespaces: Vec<String>,
    /// How the agent of an Application is found.
    pub(crate) placement: Placement,
    /// Labels that Applications must have.
    pub(crate) selector: String,
    /// Whether the namespace of an autonomous agent is made when it is missing.
    pub(crate) create_namespaces: bool,
    /// Only namespaces that match this expression are made; empty for all.
    pub(crate) create_namespaces_pattern: String,
    /// Labels of namespaces it makes, as `name=value`.
    pub(crate) namespace_labels: Vec<String>,
    /// How agents prove who they are: `mtls:subject:REGEX`, `mtls:uri:REGEX` or `userpass:FILE`.
    pub(crate) auth: String,
    /// What is asked of certificates, besides a token.
    pub(crate) certificates: Certificates,
    /// Certificates.
    pub(crate) tls: HubTls,
    /// The key that signs tokens.
    pub(crate) jwt: JwtSettings,
    /// Live access to agents' clusters.
    pub(crate) proxy: ProxySettings,
    /// Each connection.
    pub(crate) link: LinkSettings,
    /// Services, health and keys.
    pub(crate) discovery: HubDiscovery,
    /// Its Redis.
    pub(crate) redis: HubRedis,
    /// Writes to the API at once, for all agents together.
    pub(crate) writes_max: usize,
    /// How long one write may take.
    pub(crate) write_timeout: Span,
    /// Connections at once.
    pub(crate) connections_max: usize,
    /// Bytes of one message.
    pub(crate) message_bytes_max: ByteSize,
    /// How long a TLS handshake may take.
    pub(crate) handshake_timeout: Span,
    /// How often a silent agent is asked for a sign of life.
    pub(crate) keepalive_interval: Span,
    /// An agent that does not answer for so long is gone.
    pub(crate) keepalive_timeout: Span,
    /// Whether gRPC over `WebSocket` is answered.
    pub(crate) websocket: bool,
    /// How long parts may take to stop.
    pub(crate) grace: Span,
}

impl Default for HubSettings {
    fn default() -> Self {
        let transport = transport::Config::default();
        Self {
            namespace: "argocd".to_owned(),
            listen_host: String::new(),
            listen_port: 8443,
            health_port: 0,
            allowed_namespaces: vec!["*".to_owned()],
            placement: Placement::Namespace,
            selector: String::new(),
            create_namespaces: false,
            create_namespaces_pattern: String::new(),
            namespace_labels: Vec::new(),
            auth: "mtls:subject:CN=([^,]+)".to_owned(),
            certificates: Certificates::Matching,
            tls: HubTls::default(),
            jwt: JwtSettings::default(),
            proxy: ProxySettings::default(),
            link: LinkSettings::default(),
            discovery: HubDiscovery::default(),
            redis: HubRedis::default(),
            writes_max: 64,
            write_timeout: Span(Duration::from_secs(30)),
            connections_max: transport.connections_max,
            message_bytes_max: ByteSize(u64::try_from(transport.message_bytes_max).unwrap_or(u64::MAX)),
            handshake_timeout: Span(transport.handshake_timeout),
            keepalive_interval: Span(transport.keepalive_interval),
            keepalive_timeout: Span(transport.keepalive_timeout),
            websocket: true,
            grace: Span(Duration::from_secs(10)),
        }
    }
}

impl HubSettings {
    /// As argocd-agent has them where its defaults are others.
    pub(crate) fn upstream() -> Self {
        let mut redis = HubRedis::default();
        ARGO_CD.clone_into(&mut redis.server.address);
        Self { namespace: String::new(), health_port: 8003, allowed_namespaces: Vec::new(), redis, ..Self::default() }
    }
}

/// Certificates of the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct HubTls {
    /// Secret with the hub's certificate and key.
    pub(crate) secret: String,
    /// File with the certificate instead.
    pub(crate) cert: Option<PathBuf>,
    /// File with its key.
    pub(crate) key: Option<PathBuf>,
    /// Secret with the authorities that sign agents' certificates.
    pub(crate) ca_secret: String,
    /// File with the authorities instead.
    pub(crate) ca: Option<PathBuf>,
    /// The oldest version spoken.
    pub(crate) min_version: TlsVersion,
}

impl Default for HubTls {
    fn default() -> Self {
        Self {
            secret: "argocd-agent-principal-tls".to_owned(),
            cert: None,
            key: None,
            ca_secret: "argocd-agent-ca".to_owned(),
            ca: None,
            min_version: TlsVersion::Tls13,
        }
    }
}

/// Live access to agents' clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ProxySettings {
    /// Whether there is any.
    pub(crate) enabled: bool,
    /// Address that clients call; empty for all.
    pub(crate) listen_host: String,
    /// Port that clients call.
    pub(crate) listen_port: u16,
    /// Secret with the proxy's certificate and key.
    pub(crate) secret: String,
    /// File with the certificate instead.
    pub(crate) cert: Option<PathBuf>,
    /// File with its key.
    pub(crate) key: Option<PathBuf>,
    /// Secret with the authorities that sign Argo CD's certificates.
    pub(crate) ca_secret: String,
    /// File with the authorities instead.
    pub(crate) ca: Option<PathBuf>,
    /// What may pass, for whom and to which agents; none for what Argo CD manages. What no rule permits is refused.
    pub(crate) rules: Vec<Rule>,
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self {
            enabled: true,
            listen_host: String::new(),
            listen_port: 9090,
            secret: "argocd-agent-resource-proxy-tls".to_owned(),
            cert: None,
            key: None,
            ca_secret: "argocd-agent-ca".to_owned(),
            ca: None,
            rules: Vec::new(),
        }
    }
}

/// The key that signs tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct JwtSettings {
    /// Secret with the key.
    pub(crate) secret: String,
    /// File with the key instead.
    pub(crate) key: Option<PathBuf>,
    /// Make a key that is good until the process ends: agents have to prove who they are again after a restart.
    pub(crate) temporary: bool,
}

impl Default for JwtSettings {
    fn default() -> Self {
        Self { secret: "argocd-agent-jwt".to_owned(), key: None, temporary: false }
    }
}
