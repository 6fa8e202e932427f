//! `thane agents kubeconfig`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};
use thane_api::code;

use super::cluster;
use crate::failure::Failure;
use crate::fleet::objects::Objects;
use crate::kubernetes::connection::HubConnection;
use crate::output::print;

/// Print a kubeconfig that leads to an agent's cluster through the hub
///
/// It has the credentials of the kubeconfig in use, and the hub decides by them: verb `proxy` on `agents.thane.dev`.
#[derive(Debug, Args)]
pub(crate) struct Kubeconfig {
    /// The agent's name
    name: String,
    #[command(flatten)]
    hub: HubConnection,
    /// Where the proxy is, as HOST:PORT; else as the agent's cluster Secret says
    #[arg(long, value_name = "ADDRESS")]
    resource_proxy_server: Option<String>,
}

impl Kubeconfig {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let session = self.hub.open().await?;
        let (secret, found) = cluster(&Objects::new(&session), &self.name).await?;
        let proxy = match &self.resource_proxy_server {
            Some(proxy) => format!("https://{proxy}"),
            None => found.server.split('?').next().unwrap_or_default().trim_end_matches('/').to_owned(),
        };
        let authority = authority(&secret)
            .ok_or_else(|| Failure::new(code::SECRET_UNUSABLE, "the agent's cluster Secret has no authority"))?;
        let user = self.hub.credentials()?;
        let tree = tree(&self.name, &format!("{proxy}/agents/{}", self.name), &authority, &user);
        // Encoded certificates must stay on their lines.
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        let text = serde_saphyr::to_string_with_options(&tree, options)
            .map_err(|error| Failure::new(code::BUG, format!("write the kubeconfig: {error}")))?;
        print(text.trim_end())
    }
}

/// Who signs the proxy's certificate, as the cluster Secret has it, encoded.
fn authority(secret: &Value) -> Option<String> {
    let config = STANDARD.decode(secret["data"]["config"].as_str()?).ok()?;
    let config: Value = serde_json::from_slice(&config).ok()?;
    config["tlsClientConfig"]["caData"].as_str().map(str::to_owned)
}

fn tree(agent: &str, server: &str, authority: &str, user: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": agent,
        "clusters": [{"name": agent, "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": agent, "user": user}],
        "contexts": [{"name": agent, "context": {"cluster": agent, "user": agent}}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_leads_to_one_cluster_with_the_credentials_in_use() {
        let config = STANDARD.encode(json!({"tlsClientConfig": {"caData": "Q0E="}}).to_string());
        let authority = authority(&json!({"data": {"config": config}})).unwrap();
        let tree = tree("blue", "https://proxy:9090/agents/blue", &authority, &json!({"token": "t"}));
        assert_eq!(tree["current-context"], "blue");
        assert_eq!(tree["clusters"][0]["cluster"]["certificate-authority-data"], "Q0E=");
        assert_eq!(tree["clusters"][0]["cluster"]["server"], "https://proxy:9090/agents/blue");
        assert_eq!(tree["users"][0]["user"]["token"], "t");
        assert!(super::authority(&json!({"data": {"config": "e30="}})).is_none());
    }
}
