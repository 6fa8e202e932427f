//! How an agent is registered: the cluster secret that Argo CD and the hub both read.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use thane_runtime::pki::Identity;
use thane_sync::object::{AGENT_NAME, SECRET_TYPE};

/// What a cluster secret says.
#[derive(Debug, Clone)]
pub struct Registration<'a> {
    /// The agent's name.
    pub agent: &'a str,
    /// The hub's namespace.
    pub namespace: &'a str,
    /// Host and port of the resource proxy.
    pub proxy: &'a str,
    /// Whom Argo CD believes there.
    pub ca_pem: &'a str,
    /// Who Argo CD is there.
    pub identity: &'a Identity,
}

/// The name of an agent's cluster secret.
pub fn secret_name(agent: &str) -> String {
    format!("cluster-{agent}")
}

impl Registration<'_> {
    /// The Secret.
    pub fn secret(&self) -> Value {
        let encode = |text: &str| BASE64_STANDARD.encode(text);
        let config = json!({
            "tlsClientConfig": {
                "insecure": false,
                "caData": encode(self.ca_pem),
                "certData": encode(&self.identity.cert_pem),
                "keyData": encode(&self.identity.key_pem),
            },
        });
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": secret_name(self.agent),
                "namespace": self.namespace,
                "labels": {AGENT_NAME: self.agent, SECRET_TYPE: "cluster"},
                "annotations": {"managed-by": "argocd-agent", "argocd.argoproj.io/skip-reconcile": "true"},
            },
            "type": "Opaque",
            "data": {
                "name": encode(self.agent),
                "server": encode(&format!("https://{}?agentName={}", self.proxy, self.agent)),
                "config": encode(&config.to_string()),
            },
        })
    }
}
