//! The API server: one request from its bytes to its answer.

mod documents;
mod paths;
mod pipeline;
mod resources;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::Request;
use http_body::Body as HttpBody;
use prometheus_client::registry::Registry;
use thane_kv::Store;
use thane_runtime::admission::Reviewer;
use thane_runtime::pods::PodAccess;
use thane_runtime::readiness::Readiness;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::admission::Addresses;
use crate::audit::AuditLog;
use crate::authn::{Authenticator, ClientCertificate};
use crate::authz::{Rules, User};
use crate::catalog::Catalog;
use crate::controllers;
use crate::encryption::Encryption;
use crate::failure::Result;
use crate::inflight::{InFlight, Limits};
use crate::metrics::RequestMetrics;
use crate::objects::Objects;
use crate::response::Answer;
use documents::Documents;

/// What can be chosen.
#[derive(Debug, Clone)]
pub struct Options {
    /// The largest request body. Kubernetes' own bound.
    pub body_bytes_max: usize,
    /// The largest stored object. Argo's Workflow definition alone is more than 1 MB.
    pub object_bytes_max: usize,
    /// Requests and watches at once.
    pub limits: Limits,
    /// Where Services get their addresses from.
    pub service_range: ipnet::Ipv4Net,
    /// How long an Event is kept.
    pub event_ttl: std::time::Duration,
    /// Where clients find this server, for discovery.
    pub address: String,
    /// The certificate authority pods trust this server by, until [`ApiServer::set_authority`].
    pub ca_pem: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            body_bytes_max: 3 * 1024 * 1024,
            object_bytes_max: 2 * 1024 * 1024,
            limits: Limits::default(),
            service_range: ipnet::Ipv4Net::new_assert([10, 96, 0, 0].into(), 16),
            event_ttl: std::time::Duration::from_hours(1),
            address: String::new(),
            ca_pem: String::new(),
        }
    }
}

/// Who a request comes from, attached by whoever accepted it. No header can set it.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A TLS connection, with the client certificate whose chain was verified.
    Connection {
        /// The client's certificate.
        certificate: Option<Arc<ClientCertificate>>,
        /// The client's address.
        peer: std::net::SocketAddr,
    },
    /// This process, as somebody.
    Process(Arc<User>),
}

/// The server's parts; requests and controllers share them.
pub(crate) struct Inner {
    /// Objects.
    pub objects: Objects,
    /// Types.
    pub catalog: Catalog,
    /// Time.
    pub clock: SharedClock,
    /// RBAC.
    pub rules: Rules,
    /// Who is who.
    pub authenticator: Authenticator,
    /// Bounds.
    pub inflight: InFlight,
    /// The audit log, if one is kept.
    pub audit: Option<AuditLog>,
    /// Choices.
    pub options: Options,
    /// The certificate authority pods trust this server by, as it is now.
    pub authority: watch::Sender<String>,
    /// Addresses of Services.
    pub addresses: Addresses,
    /// `OpenAPI` documents.
    pub documents: Documents,
    /// Open watches end when this is cancelled.
    pub stopping: CancellationToken,
    /// What `/readyz` answers.
    pub readiness: Readiness,
    /// Counts of requests.
    pub(crate) metrics: RequestMetrics,
    /// Whoever knows more about custom resources.
    pub(crate) reviewers: OnceLock<Vec<Arc<dyn Reviewer>>>,
    /// Writes that were begun: each is done, even when its client leaves.
    pub(crate) writes: Tasks,
    /// Whoever runs the pods, once they do.
    pub(crate) pods: OnceLock<PodDoor>,
}

/// The way into pods.
pub(crate) struct PodDoor {
    /// Whoever runs them.
    pub(crate) access: Arc<dyn PodAccess>,
    /// Where open commands and ports are served.
    pub(crate) tasks: Tasks,
}

/// What a server is made of.
pub struct Parts {
    /// Where objects are kept.
    pub store: Arc<dyn Store>,
    /// Time.
    pub clock: SharedClock,
    /// Who is who.
    pub authenticator: Authenticator,
    /// Secrets at rest.
    pub encryption: Encryption,
    /// The audit log.
    pub audit: Option<AuditLog>,
    /// What must hold before `/readyz` says so, besides what the server itself needs.
    pub readiness: Readiness,
    /// Choices.
    pub options: Options,
}

/// A Kubernetes API server. Clones are the same server.
#[derive(Clone)]
pub struct ApiServer {
    inner: Arc<Inner>,
}

impl ApiServer {
    /// A server whose controllers do not run; `tasks` are where writes are done.
    pub(crate) fn new(parts: Parts, tasks: Tasks) -> Self {
        let Parts { store, clock, authenticator, encryption, audit, readiness, options } = parts;
        let inner = Inner {
            objects: Objects::new(store, Arc::new(encryption), options.object_bytes_max, options.event_ttl),
            catalog: Catalog::default(),
            clock,
            rules: Rules::default(),
            authenticator,
            inflight: InFlight::new(options.limits),
            audit,
            authority: watch::Sender::new(options.ca_pem.clone()),
            options,
            addresses: Addresses::default(),
            documents: Documents::default(),
            stopping: CancellationToken::new(),
            readiness,
            metrics: RequestMetrics::default(),
            reviewers: OnceLock::new(),
            writes: tasks,
            pods: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// A server that is live: what every cluster has exists, and controllers keep the state consistent.
    pub async fn start(parts: Parts, tasks: &Tasks) -> Result<Self> {
        let server = Self::new(parts, tasks.child("writes"));
        controllers::start(&server, tasks).await?;
        Ok(server)
    }

    /// The shared parts.
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Tells the server of a new certificate authority; what names the old one is brought up to date.
    pub fn set_authority(&self, ca_pem: &str) {
        self.inner.authority.send_if_modified(|known| {
            let changed = known != ca_pem;
            ca_pem.clone_into(known);
            changed
        });
    }

    /// Has objects of custom resources looked at before they are stored. The first ones stay.
    pub fn review_by(&self, reviewers: Vec<Arc<dyn Reviewer>>) {
        let _ = self.inner.reviewers.set(reviewers);
    }

    /// Leads requests for logs, commands and ports of pods to whoever runs them. The first one stays.
    pub fn open_pods(&self, access: Arc<dyn PodAccess>, tasks: Tasks) {
        let _ = self.inner.pods.set(PodDoor { access, tasks });
    }

    /// Makes the server's counts visible.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("api");
        self.inner.metrics.register(registry);
        self.inner.inflight.register(registry);
        if let Some(audit) = &self.inner.audit {
            audit.register(registry);
        }
    }

    /// Answers a request. Never fails: what goes wrong is an answer too.
    pub async fn handle<B>(&self, request: Request<B>) -> Answer
    where
        B: HttpBody<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        pipeline::handle(&self.inner, request).await
    }
}
