//! Live access to the cluster of a deployed agent.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use super::Deployed;
use super::style::deploy;

/// Where people and Argo CD reach agents' clusters.
const SERVICE: &str = "argocd-agent-resource-proxy";

impl Deployed<'_> {
    /// Gives the hub a certificate for live access and the agent its rights, as `deploy/live` says; where it is
    /// reached.
    pub async fn open_live(&self) -> Result<String> {
        let address = self.spoke.run(&["get", "service", SERVICE, "-o", "jsonpath={.spec.clusterIP}"]).await?;
        self.thane_run(&["pki", "issue", "resource-proxy", "--san", &address]).await?;
        self.spoke.apply(&deploy("live", &["10-agent"])).await?;
        self.spoke.run(&["rollout", "restart", &format!("deployment/{}", self.hub_files.name)]).await?;
        self.rolled_out(self.hub_files.name).await?;
        Ok(format!("{address}:9090"))
    }

    /// A service account of the hub that may use the agent, and its kubeconfig for the cluster of the agent, once that is connected.
    pub async fn kubeconfig_of_ann(&self, agent: &str, proxy: &str) -> Result<PathBuf> {
        let connected = "--for=jsonpath={.status.connected}=true";
        self.hub.run(&["wait", &format!("agents.thane.dev/{agent}"), connected, super::ROLLOUT]).await?;
        self.hub.run(&["create", "serviceaccount", "ann"]).await?;
        let (named, on) = (format!("--resource-name={agent}"), "--resource=agents.thane.dev");
        self.hub.run(&["create", "clusterrole", "use-agent", "--verb=proxy", on, &named]).await?;
        let whom = format!("--serviceaccount={}:ann", super::NAMESPACE);
        self.hub.run(&["create", "clusterrolebinding", "use-agent", "--clusterrole=use-agent", &whom]).await?;
        let token = self.hub.run(&["create", "token", "ann", "--duration=1h"]).await?;
        // The administrator makes it, who may read the agent's Secret, and puts another's credentials in.
        let given = format!("--resource-proxy-server={proxy}");
        let told = self.thane_run(&["agents", "kubeconfig", agent, &given]).await?;
        let mut kubeconfig: Value = serde_saphyr::from_str(&told).map_err(|error| anyhow!("a kubeconfig: {error}"))?;
        kubeconfig["users"][0]["user"] = json!({"token": token.trim()});
        let file = self.folder.path().join("ann");
        std::fs::write(&file, kubeconfig.to_string())?;
        Ok(file)
    }
}
