//! A real Consul: one server in development mode, which is an agent too.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use http::Request;
use tempfile::TempDir;

use super::{Guarded, PeerHome, free_ports};
use crate::client::HttpsClient;

/// How long it may take to become leader of itself.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running Consul; it ends when dropped.
pub struct Consul {
    address: String,
    _program: Guarded,
    _folder: TempDir,
}

impl Consul {
    /// The programs it needs.
    pub fn programs() -> &'static [&'static str] {
        &["consul"]
    }

    /// Starts it on free loopback ports with the node's name, and waits until it has a leader and its own node.
    pub async fn start(home: &PeerHome, node: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let [http, server, serf] = free_ports()?;
        let log = folder.path().join("consul.log");
        let mut arguments = vec!["agent".to_owned(), "-dev".to_owned(), "-node".to_owned(), node.to_owned()];
        let ports = [
            ("http", http.to_string()),
            ("server", server.to_string()),
            ("serf-lan", serf.to_string()),
            ("serf-wan", "-1".to_owned()),
            ("dns", "-1".to_owned()),
            ("grpc", "-1".to_owned()),
            ("grpc-tls", "-1".to_owned()),
        ];
        for (name, port) in ports {
            arguments.extend([format!("-{name}-port"), port]);
        }
        let program = Guarded::start(&home.program("consul"), &arguments, &log, Some(folder.path()))?;
        let mut consul = Self { address: format!("127.0.0.1:{http}"), _program: program, _folder: folder };
        consul.wait(node).await.with_context(|| std::fs::read_to_string(&log).unwrap_or_default())?;
        Ok(consul)
    }

    async fn wait(&mut self, node: &str) -> Result<()> {
        let client = HttpsClient::plain(&self.address);
        let deadline = Instant::now() + START_LIMIT;
        while Instant::now() < deadline {
            let request = Request::get(format!("/v1/health/node/{node}")).header("host", &self.address);
            if let Ok(answer) = client.exchange(request.body(http_body_util::Full::default())?).await
                && String::from_utf8_lossy(&answer.body).contains("serfHealth")
            {
                return Ok(());
            }
            // Nothing tells that a program is ready but asking it.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("consul was not ready within {START_LIMIT:?}")
    }

    /// `host:port` of its HTTP API.
    pub fn address(&self) -> &str {
        &self.address
    }
}
