//! What pods of a pool find beside them: tools, certificates, and a policy that nothing else reaches them.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::certificates::Certificates;
use crate::kinds::{Tools, WarmPool};
use crate::names;
use crate::pods::{self, Shape};

/// The policy of a namespace with pools.
const POLICY: &str = "thane-sandboxes";

/// Sandboxes reach nobody, and only gateway and operator reach their sidecars.
fn policy(home: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": POLICY},
        "spec": {
            "podSelector": {"matchExpressions": [{"key": names::POOL, "operator": "Exists"}]},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{
                "from": [{
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": home}},
                    "podSelector": {"matchExpressions": [{
                        "key": "app.kubernetes.io/name", "operator": "In", "values": ["thane-gateway", "thane-operator"],
                    }]},
                }],
                "ports": [{"port": names::SIDECAR_PORT}],
            }],
            "egress": [],
        },
    })
}

/// Whoever writes it.
pub(super) struct Equipment {
    pub(super) client: Client,
    pub(super) certificates: Option<Arc<Certificates>>,
    pub(super) shape: Shape,
    pub(super) now: Timestamp,
}

impl Equipment {
    /// Writes what pods of a pool need, or says why not.
    pub(super) async fn write(&self, pool: &WarmPool) -> Result<(), String> {
        if let (Shape::Kubernetes(cluster), Some(certificates)) = (&self.shape, &self.certificates) {
            let kept = certificates.keep_sidecars(&self.client, pods::namespace(pool), &cluster.secret, self.now).await;
            kept.map_err(|error| format!("certificates: {error}"))?;
            // Its own namespace has one from whoever installed it.
            if pods::namespace(pool) != certificates.namespace() {
                let policy = self.policy(pods::namespace(pool), certificates.namespace()).await;
                policy.map_err(|error| format!("network policy: {error}"))?;
            }
        }
        match &pool.spec.tools {
            Some(tools) => self.tools(pool, tools).await.map_err(|error| format!("tools: {error}")),
            None => Ok(()),
        }
    }

    async fn policy(&self, namespace: &str, home: &str) -> Result<(), kube::Error> {
        let api: Api<NetworkPolicy> = Api::namespaced(self.client.clone(), namespace);
        let by = PatchParams::apply("thane-pools").force();
        api.patch(POLICY, &by, &Patch::Apply(&policy(home))).await.map(|_| ())
    }

    async fn tools(&self, pool: &WarmPool, tools: &Tools) -> Result<(), kube::Error> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), pods::namespace(pool));
        let mut others = Vec::new();
        for other in &tools.config_maps {
            others.extend(api.get_opt(&other.name).await?);
        }
        let map = pods::tools::config_map(pool, tools, &others);
        let (name, by) = (pods::tools::config_map_name(pool), PatchParams::apply("thane-pools").force());
        api.patch(&name, &by, &Patch::Apply(&map)).await.map(|_| ())
    }
}
