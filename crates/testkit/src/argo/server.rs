//! Argo CD's API server on a hub, and its own command for people.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Output;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use tempfile::TempDir;
use tokio::process::Command;

use super::{LAST_LINES, NAMESPACE, Place, START_LIMIT, Stores, answers, flags, start};
use crate::endpoint::Endpoint;
use crate::peer::{Guarded, PeerHome, client, free_ports, tail};

/// Where it keeps the password of its first user.
const FIRST_PASSWORD: &str = "argocd-initial-admin-secret";

/// A running API server; dropping it ends it.
pub struct Server {
    home: PeerHome,
    _process: Guarded,
    folder: TempDir,
}

impl Server {
    /// Starts it on the hub's API, which has Argo CD's kinds and settings, and logs its first user in.
    pub async fn start(home: &PeerHome, hub: &Endpoint, redis: &str, stores: &Stores) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-argo-server-").tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, hub.kubeconfig(NAMESPACE)?)?;
        let [port, metrics] = free_ports()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let arguments = [
            ("--address", address.ip().to_string()),
            ("--port", port.to_string()),
            ("--metrics-address", "127.0.0.1".to_owned()),
            ("--metrics-port", metrics.to_string()),
            ("--namespace", NAMESPACE.to_owned()),
            ("--application-namespaces", "*".to_owned()),
            ("--redis", redis.to_owned()),
            ("--repo-server", stores.repository.to_string()),
        ];
        let mut arguments = flags(&arguments);
        arguments.extend(["--insecure", "--repo-server-plaintext"].map(str::to_owned));
        let place = Place { folder: folder.path(), kubeconfig: Some(&kubeconfig), password: stores.password };
        let mut process = start(home, "argocd-server", &place, &arguments)?;
        answers(&mut process, address, &folder.path().join("argocd-server.log")).await?;
        let password = first_password(&client(&kubeconfig).await?).await?;
        let made = Self { home: home.clone(), _process: process, folder };
        let address = address.to_string();
        made.says(&["login", &address, "--plaintext", "--username", "admin", "--password", &password]).await?;
        Ok(made)
    }

    /// The command of its users, as the user that is logged in.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.home.program("argocd"));
        command.arg("--config").arg(self.folder.path().join("config")).args(arguments);
        command.env("HOME", self.folder.path()).kill_on_drop(true);
        command
    }

    /// What that command says; an error if it fails.
    pub async fn says(&self, arguments: &[&str]) -> Result<String> {
        let asked = tokio::time::timeout(START_LIMIT, self.command(arguments).output()).await;
        let Output { status, stdout, stderr } = asked.context("argocd does not end")??;
        let told = || [stdout.as_slice(), stderr.as_slice()].map(String::from_utf8_lossy).concat();
        ensure!(status.success(), "argocd {}: {}\n{}", arguments.join(" "), told(), self.last_words());
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    }

    /// The end of its log.
    pub fn last_words(&self) -> String {
        tail(&self.folder.path().join("argocd-server.log"), LAST_LINES)
    }
}

async fn first_password(hub: &kube::Client) -> Result<String> {
    let secrets: Api<Secret> = Api::namespaced(hub.clone(), NAMESPACE);
    let deadline = Instant::now() + START_LIMIT;
    loop {
        if let Some(secret) = secrets.get_opt(FIRST_PASSWORD).await? {
            let data = secret.data.unwrap_or_default();
            let password = data.get("password").context("the first user has a password")?;
            return Ok(String::from_utf8(password.0.clone())?);
        }
        ensure!(Instant::now() < deadline, "Argo CD's API server makes no user");
        // Another program's work can only be asked for, not awaited.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
