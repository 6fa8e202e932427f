//! What pods of a pool find beside them: tools, and certificates.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};

use crate::certificates::Certificates;
use crate::kinds::{Tools, WarmPool};
use crate::pods::{self, Shape};

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
        }
        match &pool.spec.tools {
            Some(tools) => self.tools(pool, tools).await.map_err(|error| format!("tools: {error}")),
            None => Ok(()),
        }
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
