//! Discovery as users deploy it: the hub's registry, an agent on the node, an agent in a pod.

use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::style::deploy;
use super::{Deployed, ROLLOUT, manifest};

/// The namespace of the agents of nodes.
const AGENTS: &str = "thane-discovery";
/// The namespace, and the name, of what has an agent in its pod.
const SIDECAR: &str = "web";

impl Deployed<'_> {
    /// Gives the hub a registry, on a volume that its pods come and go on.
    pub async fn deploy_registry(&self) -> Result<()> {
        let folder = self.folder.path().join("registry");
        std::fs::create_dir_all(&folder)?;
        // A storage class would do the same.
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777))?;
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "thane-registry"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                "hostPath": {"path": folder.display().to_string()},
            },
        });
        self.spoke.apply_text(&volume.to_string()).await?;
        self.spoke.apply(&deploy("discovery", &["10-hub"])).await?;
        let patch = deploy("discovery", &["hub-patch"]).remove(0);
        let target = format!("deployment/{}", self.hub_files.name);
        self.spoke.run(&["patch", &target, "--patch-file", &patch.display().to_string()]).await?;
        self.rolled_out(self.hub_files.name).await
    }

    /// Deploys an agent on each node, of which there is one.
    pub async fn deploy_node_agent(&self, name: &str) -> Result<()> {
        self.spoke.apply(&deploy("discovery", &["20-settings"])).await?;
        let patch = json!({"data": {"THANE_AGENT_SERVER": self.address}}).to_string();
        let target = ["patch", "configmap/thane-discovery", "--namespace", AGENTS, "--type=merge", "--patch", &patch];
        self.spoke.run(&target).await?;
        self.issue(name, AGENTS).await?;
        let folder = self.folder.path().join("certificates");
        std::fs::create_dir_all(&folder)?;
        for (secret, key, file) in [
            ("argocd-agent-client-tls", "tls.crt", "agent.crt"),
            ("argocd-agent-client-tls", "tls.key", "agent.key"),
            ("argocd-agent-ca", "ca.crt", "ca.crt"),
        ] {
            let found: Value = serde_json::from_str(
                &self.spoke.run(&["get", "secret", secret, "--namespace", AGENTS, "--output=json"]).await?,
            )?;
            let text = found["data"][key].as_str().with_context(|| format!("{secret} has no {key}"))?;
            std::fs::write(folder.join(file), STANDARD.decode(text)?)?;
        }
        let mut set = manifest::read(&deploy("discovery", &["30-agents"])[0])?;
        set["spec"]["template"]["spec"]["volumes"][0]["hostPath"]["path"] = json!(folder.display().to_string());
        self.spoke.apply_text(&set.to_string()).await?;
        self.agent_rolled_out().await
    }

    /// Deploys a pod with an agent of its own; its names are resolved where every program looks for that.
    pub async fn deploy_sidecar(&self) -> Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SIDECAR}});
        self.spoke.apply_text(&namespace.to_string()).await?;
        self.issue("web", SIDECAR).await?;
        let mut deployment = manifest::read(&deploy("discovery", &["sidecar"])[0])?;
        let pod = &mut deployment["spec"]["template"]["spec"];
        pod["securityContext"]["sysctls"] = json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]);
        let variables = pod["containers"][1]["env"].as_array_mut().context("the agent has an environment")?;
        variables.retain(|variable| variable["name"] != "THANE_AGENT_SERVER");
        variables.push(json!({"name": "THANE_AGENT_SERVER", "value": self.address}));
        variables.push(json!({"name": "THANE_AGENT_DISCOVERY_DNS_ADDRESS", "value": "127.0.0.1:53"}));
        self.spoke.apply_text(&deployment.to_string()).await?;
        let target = format!("deployment/{SIDECAR}");
        self.spoke.run(&["rollout", "status", &target, "--namespace", SIDECAR, ROLLOUT]).await?;
        Ok(())
    }

    /// Runs a command beside the agent in the pod; what it prints.
    pub async fn beside(&self, command: &[&str]) -> Result<String> {
        let target = format!("deployment/{SIDECAR}");
        let always = ["exec", "--namespace", SIDECAR, &target, "--container", "web", "--", "/busybox"];
        self.spoke.run(&[&always, command].concat()).await
    }

    /// Replaces the hub's pod.
    pub async fn restart_hub(&self) -> Result<()> {
        self.spoke.run(&["rollout", "restart", &format!("deployment/{}", self.hub_files.name)]).await?;
        self.rolled_out(self.hub_files.name).await
    }

    /// Replaces the pod of the node's agent.
    pub async fn restart_node_agent(&self) -> Result<()> {
        self.spoke.run(&["rollout", "restart", "daemonset/thane-discovery", "--namespace", AGENTS]).await?;
        self.agent_rolled_out().await
    }

    /// What the agents of discovery have said.
    pub async fn discovery_words(&self) -> String {
        let mut text = String::new();
        for arguments in [
            ["logs", "--namespace", AGENTS, "daemonset/thane-discovery", "--tail=40"],
            ["logs", "--namespace", SIDECAR, "deployment/web", "--container=thane"],
            ["get", "events", "--all-namespaces", "--sort-by=.lastTimestamp", "--output=wide"],
        ] {
            let said = self.spoke.run(&arguments).await.unwrap_or_else(|error| format!("{error:#}"));
            text.extend(["--- kubectl ", &arguments.join(" "), "\n", &said, "\n"]);
        }
        text
    }

    /// Takes all of it away but the hub's part.
    pub async fn remove_discovery(&self) -> Result<()> {
        let targets = [format!("namespace/{AGENTS}"), format!("namespace/{SIDECAR}")];
        self.spoke.run(&["delete", "--wait=false", &targets[0], &targets[1]]).await?;
        Ok(())
    }

    async fn agent_rolled_out(&self) -> Result<()> {
        let target = "daemonset/thane-discovery";
        self.spoke.run(&["rollout", "status", target, "--namespace", AGENTS, ROLLOUT]).await?;
        Ok(())
    }

    async fn issue(&self, name: &str, namespace: &str) -> Result<()> {
        let place = format!("--agent-namespace={namespace}");
        self.thane_run(&["pki", "issue", "agent", name, "--agent-context=spoke", &place]).await?;
        Ok(())
    }
}
