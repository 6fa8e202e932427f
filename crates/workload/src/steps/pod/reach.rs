//! What a step on the embedded runner can reach: its API with a token, and the stores its artifacts are in.

use serde_json::{Value, json};

use super::super::location;
use super::super::names::EGRESS;
use super::super::request::PodRequest;
use super::{list, push};

const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME: &str = "kube-api-access";
/// A little more than an hour, as kubelets ask for.
const TOKEN_SECONDS: u32 = 3607;

/// Does what kubelet and admission do on a cluster, and opens the ways out.
pub(super) fn open(request: &PodRequest<'_>, template: &Value, spec: &mut Value, annotations: &mut Value) {
    let Some(api) = &request.settings.api else { return };
    if spec["automountServiceAccountToken"] != false {
        let sources = json!([
            {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ]);
        push(spec, "volumes", json!({"name": VOLUME, "projected": {"sources": sources}}));
    }
    let is_mounted = spec["automountServiceAccountToken"] != false;
    for group in ["initContainers", "containers"] {
        for one in spec[group].as_array_mut().into_iter().flatten() {
            push(one, "env", json!({"name": "KUBERNETES_SERVICE_HOST", "value": api.host}));
            push(one, "env", json!({"name": "KUBERNETES_SERVICE_PORT", "value": api.port.to_string()}));
            let has_own = list(&one["volumeMounts"]).iter().any(|mount| mount["mountPath"] == TOKEN);
            if is_mounted && !has_own {
                push(one, "volumeMounts", json!({"name": VOLUME, "mountPath": TOKEN, "readOnly": true}));
            }
        }
    }
    let given = annotations[EGRESS].as_str().unwrap_or_default();
    let mut all: Vec<String> = given.split(',').map(|one| one.trim().to_owned()).collect();
    all.push(format!("{}:{}", api.host, api.port));
    all.extend(request.settings.egress.iter().cloned());
    let artifacts = ["outputs", "inputs"].into_iter().flat_map(|side| list(&template[side]["artifacts"]));
    for place in std::iter::once(&template["archiveLocation"]).chain(artifacts) {
        all.extend(location::address(place));
    }
    let mut targets: Vec<String> = Vec::new();
    for one in all {
        if !one.is_empty() && !targets.contains(&one) {
            targets.push(one);
        }
    }
    annotations[EGRESS] = json!(targets.join(","));
}
