//! A real Kubernetes API: etcd, kube-apiserver and, if asked for, the controller manager.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use http::{Request, StatusCode};
use http_body_util::Full;
use tempfile::TempDir;

use super::pki::ClusterPki;
use super::{Guarded, PeerHome, free_ports};
use crate::client::HttpsClient;
use crate::endpoint::Endpoint;

/// The longest a part may take to come up on a busy machine.
const START_LIMIT: Duration = Duration::from_mins(2);

/// The programs that must be built.
const PROGRAMS: [&str; 3] = ["etcd", "kube-apiserver", "kube-controller-manager"];

/// A running Kubernetes API; dropping it ends it and removes its files.
#[derive(Debug)]
pub struct KubeApiServer {
    endpoint: Endpoint,
    kubeconfig: PathBuf,
    ready_after: Duration,
    // Dropped in this order: nobody misses what it stands on.
    controllers: Option<Guarded>,
    server: Guarded,
    etcd: Guarded,
    folder: TempDir,
}

impl KubeApiServer {
    /// The programs this needs from `make peers`.
    pub fn programs() -> &'static [&'static str] {
        &PROGRAMS
    }

    /// Starts etcd and kube-apiserver, with `controllers` also the controller manager, and waits until they answer.
    pub async fn start(home: &PeerHome, controllers: bool) -> Result<Self> {
        Self::start_at(home, Ipv4Addr::LOCALHOST, controllers).await
    }

    /// The same at an address where pods of a [`super::Node`] reach it.
    pub async fn start_at(home: &PeerHome, host: Ipv4Addr, controllers: bool) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-peer-").tempdir()?;
        let root = folder.path();
        let pki = ClusterPki::create(root)?;
        let [port, etcd_port, etcd_peer_port] = free_ports()?;
        let endpoint =
            Endpoint { address: format!("{host}:{port}"), ca: pki.ca.clone(), client: Some(pki.admin.clone()) };
        let kubeconfig = root.join("kubeconfig");
        std::fs::write(&kubeconfig, kubeconfig_text(&endpoint.address, root))?;

        let started = Instant::now();
        let mut etcd = launch(home, "etcd", &etcd_arguments(root, etcd_port, etcd_peer_port), root)?;
        let mut server = launch(home, "kube-apiserver", &server_arguments(root, host, port, etcd_port), root)?;
        let client = HttpsClient::new(&endpoint)?;
        let mut parts = [&mut etcd, &mut server];
        wait_for(&client, "/readyz", &mut parts, root).await?;
        wait_for(&client, "/api/v1/namespaces/default", &mut parts, root).await?;
        let ready_after = started.elapsed();

        let mut controller = None;
        if controllers {
            let mut process = launch(home, "kube-controller-manager", &controller_arguments(root), root)?;
            let account = "/api/v1/namespaces/default/serviceaccounts/default";
            wait_for(&client, account, &mut [&mut process], root).await?;
            controller = Some(process);
        }
        Ok(Self { endpoint, kubeconfig, ready_after, controllers: controller, server, etcd, folder })
    }

    /// Address, authority and administrator's certificate.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Where its certificates are.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A kubeconfig for the administrator, valid as long as the server runs.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A client for the administrator.
    pub async fn client(&self) -> Result<kube::Client> {
        super::client(&self.kubeconfig).await
    }

    /// From the start of etcd to a ready API server; the controller manager is not counted.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// The process ids of etcd, kube-apiserver and the controller manager, for measurements.
    pub fn processes(&self) -> Vec<u32> {
        let controllers = self.controllers.iter().flat_map(Guarded::members);
        self.etcd.members().into_iter().chain(self.server.members()).chain(controllers).collect()
    }
}

fn launch(home: &PeerHome, name: &str, arguments: &[String], root: &Path) -> Result<Guarded> {
    Guarded::start(&home.program(name), arguments, &root.join(format!("{name}.log")), Some(root))
}

async fn wait_for(client: &HttpsClient, path: &str, parts: &mut [&mut Guarded], root: &Path) -> Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        let request = Request::get(path).header("host", client.address()).body(Full::default())?;
        if client.exchange(request).await.is_ok_and(|answer| answer.status == StatusCode::OK) {
            return Ok(());
        }
        let ended = parts.iter_mut().any(|part| !part.running());
        if ended || Instant::now() > deadline {
            let what = if ended { "a part ended early" } else { "nothing within two minutes" };
            bail!("waiting for {path}: {what}\n{}", last_words(root));
        }
        // Another program's readiness can only be asked for, not awaited.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The ends of all logs, since the folder is about to go.
fn last_words(root: &Path) -> String {
    let mut text = String::new();
    for name in PROGRAMS {
        let log = std::fs::read_to_string(root.join(format!("{name}.log"))).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = &lines[lines.len().saturating_sub(8)..];
        if !tail.is_empty() {
            text.extend(["--- ", name, "\n", &tail.join("\n"), "\n"]);
        }
    }
    text
}

fn arguments(pairs: &[(&str, String)]) -> Vec<String> {
    pairs.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

fn etcd_arguments(root: &Path, port: u16, peer_port: u16) -> Vec<String> {
    let client = format!("http://127.0.0.1:{port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    arguments(&[
        ("data-dir", root.join("etcd").display().to_string()),
        ("listen-client-urls", client.clone()),
        ("advertise-client-urls", client),
        ("listen-peer-urls", peer.clone()),
        ("initial-advertise-peer-urls", peer.clone()),
        ("initial-cluster", format!("default={peer}")),
    ])
}

fn server_arguments(root: &Path, host: Ipv4Addr, port: u16, etcd_port: u16) -> Vec<String> {
    let file = |name: &str| root.join(name).display().to_string();
    // Loopback cannot be the endpoint of the Service `kubernetes`.
    let endpoint = if host.is_loopback() { "none" } else { "lease" };
    arguments(&[
        ("etcd-servers", format!("http://127.0.0.1:{etcd_port}")),
        ("bind-address", host.to_string()),
        ("secure-port", port.to_string()),
        // Works on a machine that has loopback only.
        ("advertise-address", host.to_string()),
        ("endpoint-reconciler-type", endpoint.to_owned()),
        ("kubelet-preferred-address-types", "InternalIP".to_owned()),
        ("kubelet-certificate-authority", file("ca.crt")),
        ("kubelet-client-certificate", file("admin.crt")),
        ("kubelet-client-key", file("admin.key")),
        ("service-cluster-ip-range", "10.98.0.0/24".to_owned()),
        ("authorization-mode", "RBAC".to_owned()),
        ("allow-privileged", "true".to_owned()),
        ("tls-cert-file", file("server.crt")),
        ("tls-private-key-file", file("server.key")),
        ("client-ca-file", file("ca.crt")),
        ("service-account-key-file", file("sa.pub")),
        ("service-account-signing-key-file", file("sa.key")),
        ("service-account-issuer", "https://kubernetes.default.svc".to_owned()),
        ("cert-dir", file("generated")),
    ])
}

fn controller_arguments(root: &Path) -> Vec<String> {
    let file = |name: &str| root.join(name).display().to_string();
    arguments(&[
        ("kubeconfig", file("kubeconfig")),
        ("service-account-private-key-file", file("sa.key")),
        ("root-ca-file", file("ca.crt")),
        ("secure-port", "0".to_owned()),
        ("use-service-account-credentials", "true".to_owned()),
        ("leader-elect", "false".to_owned()),
    ])
}

fn kubeconfig_text(address: &str, root: &Path) -> String {
    let root = root.display();
    format!(
        "apiVersion: v1
kind: Config
current-context: peer
clusters: [{{name: peer, cluster: {{server: \"https://{address}\", certificate-authority: {root}/ca.crt}}}}]
users: [{{name: admin, user: {{client-certificate: {root}/admin.crt, client-key: {root}/admin.key}}}}]
contexts: [{{name: peer, context: {{cluster: peer, user: admin}}}}]
"
    )
}
