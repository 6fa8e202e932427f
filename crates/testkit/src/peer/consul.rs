//! A real Consul: one server in development mode, which is an agent too.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tempfile::TempDir;

use super::{Guarded, PeerHome, free_ports};
use crate::client::{Answer, HttpsClient};

/// How long it may take to become leader of itself.
const START_LIMIT: Duration = Duration::from_mins(1);

/// A running Consul; it ends when dropped.
pub struct Consul {
    address: String,
    program: Guarded,
    folder: TempDir,
}

impl Consul {
    /// The programs it needs.
    pub fn programs() -> &'static [&'static str] {
        &["consul"]
    }

    /// Starts it on free loopback ports with the node's name, and waits until it has a leader and its own node.
    pub async fn start(home: &PeerHome, node: &str) -> Result<Self> {
        let consul = Self::launch(home, node, &[])?;
        consul.until("GET /v1/health/node/", node, "", "serfHealth").await?;
        Ok(consul)
    }

    /// The same for a thousand clients at once, of which its defaults allow two hundred.
    pub async fn start_roomy(home: &PeerHome, node: &str) -> Result<Self> {
        let room = "limits { http_max_conns_per_client = 5000 }";
        let consul = Self::launch(home, node, &["-hcl".to_owned(), room.to_owned()])?;
        consul.until("GET /v1/health/node/", node, "", "serfHealth").await?;
        Ok(consul)
    }

    /// The same with access control: what no token allows is denied, but to this one.
    pub async fn start_closed(home: &PeerHome, node: &str, root: &str) -> Result<Self> {
        let control =
            format!("acl {{ enabled = true default_policy = \"deny\" tokens {{ initial_management = \"{root}\" }} }}");
        let consul = Self::launch(home, node, &["-hcl".to_owned(), control])?;
        consul.until("GET /v1/health/node/", node, root, "serfHealth").await?;
        Ok(consul)
    }

    fn launch(home: &PeerHome, node: &str, more: &[String]) -> Result<Self> {
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
        arguments.extend_from_slice(more);
        let program = Guarded::start(&home.program("consul"), &arguments, &log, Some(folder.path()))?;
        Ok(Self { address: format!("127.0.0.1:{http}"), program, folder })
    }

    async fn until(&self, request: &str, name: &str, token: &str, expected: &str) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while Instant::now() < deadline {
            if let Ok(answer) = self.ask(&format!("{request}{name}"), token, String::new()).await
                && String::from_utf8_lossy(&answer.body).contains(expected)
            {
                return Ok(());
            }
            // Nothing tells that a program is ready but asking it.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let log = std::fs::read_to_string(self.folder.path().join("consul.log")).unwrap_or_default();
        bail!("consul was not ready within {START_LIMIT:?}: {log}")
    }

    /// The program's process ids.
    pub fn processes(&self) -> Vec<u32> {
        self.program.members()
    }

    /// Sends `METHOD /path` as the bearer of a token.
    pub async fn ask(&self, line: &str, token: &str, body: String) -> Result<Answer> {
        let (method, path) = line.split_once(' ').context("a request is `METHOD /path`")?;
        let request = Request::builder().method(method).uri(path).header("host", &self.address);
        let request = request.header("x-consul-token", token).body(Full::new(Bytes::from(body)))?;
        HttpsClient::plain(&self.address).exchange(request).await
    }

    /// `host:port` of its HTTP API.
    pub fn address(&self) -> &str {
        &self.address
    }
}
