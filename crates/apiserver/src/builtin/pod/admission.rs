//! What Kubernetes' default admission plugins add to a pod.

use serde_json::{Value, json};

use super::super::access::{each_mut, fill, fill_text, items, map_mut, present, text};

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Lets a pod stay five minutes on a node that is not ready or not reachable.
pub(super) fn tolerations(pod: &mut Value) {
    for key in TAINTS {
        let tolerated = items(pod, "/spec/tolerations").iter().any(|toleration| {
            matches!(text(toleration, "/effect"), "NoExecute" | "") && {
                let own = text(toleration, "/key");
                own == key || own.is_empty()
            }
        });
        if tolerated {
            continue;
        }
        if let Some(spec) = map_mut(pod, "spec") {
            fill(spec, "tolerations", json!([]));
            if let Some(list) = spec.get_mut("tolerations").and_then(Value::as_array_mut) {
                list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
            }
        }
    }
}

/// Why a new pod may not have the priority it asks for, after `pods "x" is forbidden: `; asked before
/// [`crate::builtin::Strategy::prepare_create`].
pub(crate) fn priority_refusal(pod: &Value) -> Option<String> {
    let class = text(pod, "/spec/priorityClassName");
    if !matches!(class, "" | "system-cluster-critical" | "system-node-critical") {
        return Some(format!("no PriorityClass with name {class} was found"));
    }
    let computed = class_value(class);
    if let Some(given) = pod.pointer("/spec/priority").and_then(Value::as_i64).filter(|given| *given != computed) {
        return Some(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {computed} from the given PriorityClass name"
        ));
    }
    let policy = present(pod, "/spec/preemptionPolicy").and_then(Value::as_str);
    policy.filter(|policy| *policy != "PreemptLowerPriority").map(|policy| {
        format!(
            "the string value of PreemptionPolicy ({policy}) must not be provided in pod spec; priority admission \
             controller computed PreemptLowerPriority from the given PriorityClass name"
        )
    })
}

fn class_value(class: &str) -> i64 {
    match class {
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        _ => 0,
    }
}

/// The priority of a pod: of one of the two classes every cluster has, or zero.
pub(super) fn priority(pod: &mut Value) {
    let value = class_value(text(pod, "/spec/priorityClassName"));
    if let Some(spec) = map_mut(pod, "spec") {
        fill(spec, "priority", value);
        fill(spec, "preemptionPolicy", "PreemptLowerPriority");
    }
}

/// The name of the service account a pod runs as.
pub(crate) fn service_account_name(pod: &Value) -> &str {
    match text(pod, "/spec/serviceAccountName") {
        "" => "default",
        name => name,
    }
}

/// Whether a pod belongs to a node and not to the cluster, so that it gets no service account.
pub(crate) fn is_mirror(pod: &Value) -> bool {
    crate::metadata::annotation(pod, "kubernetes.io/config.mirror").is_some()
}

/// Runs a pod as a service account: its name, its pull secrets, and a mounted token unless either says no. `suffix` is
/// five random letters for the name of the volume.
pub(crate) fn service_account(pod: &mut Value, account: &Value, suffix: &str) {
    let name = service_account_name(pod).to_owned();
    let secrets = present(account, "/imagePullSecrets").cloned();
    let Some(spec) = map_mut(pod, "spec") else { return };
    fill_text(spec, "serviceAccountName", &name);
    spec.insert("serviceAccount".to_owned(), name.into());
    if spec.get("imagePullSecrets").and_then(Value::as_array).is_none_or(Vec::is_empty)
        && let Some(secrets) = secrets
    {
        spec.insert("imagePullSecrets".to_owned(), secrets);
    }
    let wanted = |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_bool);
    let mounts = wanted(pod, "/spec/automountServiceAccountToken")
        .or_else(|| wanted(account, "/automountServiceAccountToken"))
        .unwrap_or(true);
    if mounts {
        mount_token(pod, &format!("kube-api-access-{suffix}"));
    }
}

fn mount_token(pod: &mut Value, volume: &str) {
    let mut mounted = false;
    for list in ["/spec/initContainers", "/spec/containers"] {
        for container in each_mut(pod, list) {
            fill(container, "volumeMounts", json!([]));
            let Some(mounts) = container.get_mut("volumeMounts").and_then(Value::as_array_mut) else { continue };
            if mounts.iter().any(|mount| text(mount, "/mountPath") == TOKEN_PATH) {
                continue;
            }
            mounts.push(json!({"name": volume, "readOnly": true, "mountPath": TOKEN_PATH}));
            mounted = true;
        }
    }
    if !mounted {
        return;
    }
    let Some(spec) = map_mut(pod, "spec") else { return };
    fill(spec, "volumes", json!([]));
    if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
        volumes.push(token_volume(volume));
    }
}

fn token_volume(name: &str) -> Value {
    let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    json!({
        "name": name,
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
            ],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities() {
        for (spec, expected) in [
            (json!({}), None),
            (json!({"priorityClassName": "system-node-critical", "priority": 2_000_001_000}), None),
            (json!({"priorityClassName": "none"}), Some("no PriorityClass with name none was found")),
            (
                json!({"priority": 5}),
                Some(
                    "the integer value of priority (5) must not be provided in pod spec; priority admission controller \
                     computed 0 from the given PriorityClass name",
                ),
            ),
            (
                json!({"preemptionPolicy": "x"}),
                Some(
                    "the string value of PreemptionPolicy (x) must not be provided in pod spec; priority admission \
                     controller computed PreemptLowerPriority from the given PriorityClass name",
                ),
            ),
        ] {
            assert_eq!(priority_refusal(&json!({ "spec": spec })).as_deref(), expected, "{spec}");
        }
    }

    #[test]
    fn accounts_say_whether_their_token_is_mounted() {
        let mounted = |pod: Value, account: Value| {
            let mut pod = pod;
            service_account(&mut pod, &account, "abcde");
            assert_eq!(pod["spec"]["serviceAccountName"], "default");
            !items(&pod, "/spec/volumes").is_empty()
        };
        let pod = |spec: Value| {
            let mut pod = json!({"spec": {"containers": [{"name": "a"}]}});
            pod["spec"] = crate::patch::merge::apply(&pod["spec"], &spec, true).unwrap();
            pod
        };
        assert!(mounted(pod(json!({})), json!({})));
        assert!(!mounted(pod(json!({})), json!({"automountServiceAccountToken": false})));
        assert!(!mounted(pod(json!({"automountServiceAccountToken": false})), json!({})));
        let both = json!({"automountServiceAccountToken": false});
        assert!(mounted(pod(json!({"automountServiceAccountToken": true})), both));
        let own = json!({"containers": [{"name": "a", "volumeMounts": [{"name": "x", "mountPath": TOKEN_PATH}]}]});
        assert!(!mounted(pod(own), json!({})));
    }
}
