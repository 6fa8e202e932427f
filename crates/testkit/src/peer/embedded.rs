//! Our own API server, in this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;
use thane_apiserver::authz::User;
use thane_apiserver::embedded::{Config, Embedded};
use thane_runtime::net::Tcp;
use thane_runtime::tasks::Supervisor;
use thane_runtime::{SystemClock, Tasks};

use crate::endpoint::{ClientIdentity, Endpoint};

/// How long its tasks may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// An embedded API server on a free port, its files in a folder of its own.
pub struct EmbeddedApi {
    server: Embedded,
    endpoint: Endpoint,
    kubeconfig: PathBuf,
    tasks: Tasks,
    supervisor: Supervisor,
    _folder: TempDir,
}

impl EmbeddedApi {
    /// Starts one that is set up as [`super::KubeApiServer`] is: the same addresses for Services, anonymous requests let in.
    pub async fn start() -> Result<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST).await
    }

    /// The same at an address where pods of a [`super::Node`] reach it.
    pub async fn start_at(host: Ipv4Addr) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-embedded-").tempdir()?;
        let mut config = Config::new(folder.path().join("api"), SocketAddr::from((host, 0)));
        config.names = vec![host.to_string()];
        config.anonymous = true;
        config.options.service_range = "10.98.0.0/24".parse().context("a constant range")?;
        let (tasks, supervisor) = Tasks::root("testkit");
        let server = Embedded::start(config, SystemClock::shared(), &Tcp::shared(), &tasks).await?;
        let credentials = server.credentials.borrow().clone();
        let client = ClientIdentity { certificate: credentials.admin.cert_pem, key: credentials.admin.key_pem };
        let endpoint = Endpoint { address: server.address.to_string(), ca: credentials.ca_pem, client: Some(client) };
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, endpoint.kubeconfig("default")?)?;
        Ok(Self { server, endpoint, kubeconfig, tasks, supervisor, _folder: folder })
    }

    /// Address, authority and administrator's certificate.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// A kubeconfig for the administrator, valid as long as the server runs.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A client for the administrator, over TLS.
    pub async fn client(&self) -> Result<kube::Client> {
        super::client(&self.kubeconfig).await
    }

    /// The administrator's client in this process, without the wire.
    pub fn in_process(&self, namespace: &str) -> kube::Client {
        let groups = ["system:masters", "system:authenticated"].map(str::to_owned).into();
        let user = User { name: "admin".to_owned(), groups, ..User::default() };
        self.server.server.client(user, namespace)
    }

    /// The server itself, for who runs its pods.
    pub fn server(&self) -> &thane_apiserver::ApiServer {
        &self.server.server
    }

    /// Forgets history up to and including a version, as time would.
    pub async fn compact(&self, version: u64) -> Result<()> {
        self.server.compact(version).await?;
        Ok(())
    }

    /// Stops it; fails if one of its tasks had failed or did not end in time.
    pub async fn stop(mut self) -> Result<()> {
        let late = self.tasks.shutdown(STOP_LIMIT).await;
        anyhow::ensure!(late.is_empty(), "tasks that did not end in time: {late:?}");
        self.server.close().await?;
        drop(self.tasks);
        drop(self.server);
        // Whatever failed has been queued by now; clones of the server may live on in clients.
        match tokio::time::timeout(Duration::ZERO, self.supervisor.failed()).await {
            Ok(Some(failure)) => Err(failure.into()),
            Ok(None) | Err(_) => Ok(()),
        }
    }
}
