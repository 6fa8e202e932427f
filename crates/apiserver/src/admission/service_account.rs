//! A pod runs as a service account, whose token it finds in a volume.

use serde_json::{Value, json};

use crate::failure::{Failure, Result};
use crate::metadata;
use crate::verbs::Call;

const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_SECONDS: u64 = 3607;

/// Gives the pod its service account, pull secrets and token volume.
pub(super) async fn admit(call: &Call<'_>, pod: &mut Value) -> Result<()> {
    if metadata::annotations(pod).is_some_and(|all| all.contains_key("kubernetes.io/config.mirror")) {
        return Ok(());
    }
    if pod["spec"]["serviceAccountName"].as_str().unwrap_or_default().is_empty() {
        pod["spec"]["serviceAccountName"] = "default".into();
    }
    let name = pod["spec"]["serviceAccountName"].as_str().unwrap_or_default().to_owned();
    pod["spec"]["serviceAccount"] = name.as_str().into();
    let namespace = call.namespace();
    let accounts = call.server.catalog.builtin("", "serviceaccounts");
    let Some(stored) = call.objects().get(&accounts, namespace, &name).await? else {
        let why = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        return Err(Failure::forbidden("", "pods", metadata::name(pod), &why));
    };
    let account = stored.value(&accounts)?;
    if mounts_token(pod, &account) {
        mount_token(pod, &random_suffix());
    }
    let own = pod["spec"]["imagePullSecrets"].as_array().is_some_and(|list| !list.is_empty());
    if let Some(secrets) = account.get("imagePullSecrets").filter(|_| !own) {
        pod["spec"]["imagePullSecrets"] = secrets.clone();
    }
    Ok(())
}

/// The pod decides, then its account; the default is yes.
fn mounts_token(pod: &Value, account: &Value) -> bool {
    pod["spec"]["automountServiceAccountToken"]
        .as_bool()
        .or_else(|| account["automountServiceAccountToken"].as_bool())
        .unwrap_or(true)
}

fn random_suffix() -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let bytes = uuid::Uuid::new_v4().into_bytes();
    bytes[..5].iter().map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
}

fn mount_token(pod: &mut Value, suffix: &str) {
    let volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let existing = volumes
        .iter()
        .filter_map(|volume| volume["name"].as_str())
        .find(|name| name.starts_with("kube-api-access-"))
        .map(str::to_owned);
    let name = existing.clone().unwrap_or_else(|| format!("kube-api-access-{suffix}"));
    let mut used = false;
    for field in ["initContainers", "containers"] {
        for container in pod["spec"][field].as_array_mut().into_iter().flatten() {
            let mounted = container["volumeMounts"]
                .as_array()
                .is_some_and(|mounts| mounts.iter().any(|mount| mount["mountPath"] == MOUNT));
            if mounted {
                continue;
            }
            used = true;
            if !container["volumeMounts"].is_array() {
                container["volumeMounts"] = json!([]);
            }
            if let Some(mounts) = container["volumeMounts"].as_array_mut() {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT}));
            }
        }
    }
    if used && existing.is_none() {
        let mut volumes = volumes;
        volumes.push(token_volume(&name));
        pod["spec"]["volumes"] = volumes.into();
    }
    if pod["spec"]["initContainers"].is_null()
        && let Some(spec) = pod["spec"].as_object_mut()
    {
        spec.remove("initContainers");
    }
}

fn token_volume(name: &str) -> Value {
    json!({
        "name": name,
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
                ]}},
            ],
        },
    })
}
