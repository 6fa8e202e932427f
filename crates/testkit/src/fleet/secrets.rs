//! The secrets of a pair, made as argocd-agent's own documentation says, by its own tool.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::peer::PeerHome;

/// Authority, certificates, token key and the registration of an agent.
pub(super) async fn make(home: &PeerHome, folder: &Path, kubeconfig: &Path, agent: &str) -> Result<()> {
    let tool = Tool { home, folder, kubeconfig };
    let register = ["agent", "create", agent, "--resource-proxy-server", "127.0.0.1:9090"];
    let issue_agent = ["pki", "issue", "agent", agent];
    tool.run(&INIT).await?;
    tokio::try_join!(tool.make_hub(), tool.run(&register), tool.run(&issue_agent))?;
    Ok(())
}

/// The same, and a certificate for the hub's proxy.
pub(super) async fn make_live(home: &PeerHome, folder: &Path, kubeconfig: &Path, agent: &str) -> Result<()> {
    make(home, folder, kubeconfig, agent).await?;
    Tool { home, folder, kubeconfig }.run(&["pki", "issue", "resource-proxy", "--ip", "127.0.0.1"]).await
}

/// Authority, certificate and token key of a hub.
pub(super) async fn make_hub(home: &PeerHome, folder: &Path, kubeconfig: &Path) -> Result<()> {
    let tool = Tool { home, folder, kubeconfig };
    tool.run(&INIT).await?;
    tool.make_hub().await
}

/// Everything else is signed by the authority; keys take seconds each.
const INIT: [&str; 2] = ["pki", "init"];

struct Tool<'a> {
    home: &'a PeerHome,
    folder: &'a Path,
    kubeconfig: &'a Path,
}

impl Tool<'_> {
    async fn make_hub(&self) -> Result<()> {
        let issue = ["pki", "issue", "principal", "--ip", "127.0.0.1", "--dns", "localhost"];
        tokio::try_join!(self.run(&issue), self.run(&["jwt", "create-key"]))?;
        Ok(())
    }

    async fn run(&self, arguments: &[&str]) -> Result<()> {
        let output = Command::new(self.home.program("argocd-agentctl"))
            .args(["--principal-context", "hub", "--agent-context", "spoke"])
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig)
            .env("HOME", self.folder)
            .kill_on_drop(true)
            .output()
            .await
            .context("starting argocd-agentctl")?;
        let told = || [output.stdout.as_slice(), output.stderr.as_slice()].map(String::from_utf8_lossy).concat();
        ensure!(output.status.success(), "argocd-agentctl {}: {}", arguments.join(" "), told());
        Ok(())
    }
}
