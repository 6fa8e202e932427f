//! Policies where they are kept: `ConfigMaps` with a label.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::Module;
use crate::agent::kind::PolicySet;

/// The label of a `ConfigMap` with policies.
pub(crate) const LABEL: &str = "thane.dev/policy";

/// The modules of a set: those of the platform's namespace, and where it has none those of the workload's own.
pub(crate) async fn find(
    client: &Client,
    platform: &str,
    own: &str,
    set: PolicySet,
) -> Result<Vec<Module>, kube::Error> {
    for namespace in [platform, own] {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let list = maps.list(&ListParams::default().labels(&format!("{LABEL}={}", set.label()))).await?;
        let modules: Vec<Module> = list.iter().flat_map(modules).collect();
        if !modules.is_empty() {
            return Ok(modules);
        }
    }
    Ok(Vec::new())
}

/// The modules in one of them.
pub fn modules(map: &ConfigMap) -> Vec<Module> {
    let place = format!("{}/{}", map.namespace().unwrap_or_default(), map.name_any());
    let rego = map
        .data
        .iter()
        .flatten()
        .filter(|(key, _)| std::path::Path::new(key).extension().is_some_and(|extension| extension == "rego"));
    rego.map(|(key, source)| Module { path: format!("{place}/{key}"), source: source.clone() }).collect()
}
