//! The secrets of a pair, made as argocd-agent's own documentation says, by its own tool.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::peer::PeerHome;

/// Authority, certificates, token key and the registration of an agent.
pub(super) async fn make(home: &PeerHome, folder: &Path, kubeconfig: &Path, agent: &str) -> Result<()> {
    let tool = Tool { home, folder, kubeconfig };
    // Everything else is signed by the authority; keys take seconds each.
    tool.run(&["pki", "init"]).await?;
    let issue_hub = ["pki", "issue", "principal", "--ip", "127.0.0.1", "--dns", "localhost"];
    let register = ["agent", "create", agent, "--resource-proxy-server", "127.0.0.1:9090"];
    let issue_agent = ["pki", "issue", "agent", agent];
    tokio::try_join!(
        tool.run(&issue_hub),
        tool.run(&["jwt", "create-key"]),
        tool.run(&register),
        tool.run(&issue_agent),
    )?;
    Ok(())
}

struct Tool<'a> {
    home: &'a PeerHome,
    folder: &'a Path,
    kubeconfig: &'a Path,
}

impl Tool<'_> {
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
