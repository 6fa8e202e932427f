//! Leaves out what Go leaves out when it writes JSON: nulls, and empty values of optional fields. The lists below are
//! facts about the Go types of Kubernetes 1.34.

use serde_json::Value;

/// Deeper than any built-in kind goes.
const DEPTH_MAX: usize = 64;
/// Lists that are written even when empty.
const KEPT_LISTS: [&str; 4] = ["verbs", "nodeSelectorTerms", "containers", "sources"];
/// Maps with keys of the user's choosing, as opposed to structures, which mean something even when empty.
const MAPS: [&str; 16] = [
    "labels",
    "annotations",
    "matchLabels",
    "nodeSelector",
    "limits",
    "requests",
    "data",
    "binaryData",
    "stringData",
    "capacity",
    "allocatable",
    "allocatedResources",
    "allocatedResourceStatuses",
    "overhead",
    "volumeAttributes",
    "options",
];
/// Those of them that hold quantities.
const AMOUNTS: [&str; 6] = ["limits", "requests", "capacity", "allocatable", "allocatedResources", "overhead"];
/// Texts, numbers and switches that are left out wherever they are empty, zero or off.
const SCALARS: [&str; 75] = [
    "action",
    "audience",
    "chapAuthDiscovery",
    "chapAuthSession",
    "clusterIP",
    "component",
    "containerID",
    "deprecatedCount",
    "directory",
    "dnsPolicy",
    "externalID",
    "externalName",
    "externalTrafficPolicy",
    "failureThreshold",
    "generateName",
    "generation",
    "group",
    "healthCheckNodePort",
    "host",
    "hostIP",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "hostname",
    "imagePullPolicy",
    "initialDelaySeconds",
    "keyring",
    "level",
    "loadBalancerIP",
    "medium",
    "message",
    "nodeName",
    "nodePort",
    "nominatedNodeName",
    "note",
    "observedGeneration",
    "partition",
    "periodSeconds",
    "phase",
    "podCIDR",
    "podIP",
    "pool",
    "prefix",
    "priorityClassName",
    "providerID",
    "publishNotReadyAddresses",
    "pullPolicy",
    "qosClass",
    "reason",
    "reference",
    "request",
    "resize",
    "revision",
    "role",
    "schedulerName",
    "scheme",
    "selfLink",
    "serviceAccount",
    "serviceAccountName",
    "sessionAffinity",
    "signal",
    "sslEnabled",
    "stdin",
    "stdinOnce",
    "storageMode",
    "subPath",
    "subPathExpr",
    "subdomain",
    "successThreshold",
    "targetContainerName",
    "tenant",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
];
/// More switches and numbers of that sort.
const FURTHER_SCALARS: [&str; 3] = ["unschedulable", "workingDir", "resourceVersion"];

/// Tidies an object of a built-in kind.
pub(super) fn tidy(object: &mut Value) {
    walk("", object, DEPTH_MAX);
}

fn walk(parent: &str, value: &mut Value, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| walk(parent, value, depth)),
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                if MAPS.contains(&key.as_str()) || key == "selector" && !is_structure(value) {
                    fill_nulls(value, if AMOUNTS.contains(&key.as_str()) { "0" } else { "" });
                } else if key != "managedFields" {
                    walk(key, value, depth);
                }
            }
            map.retain(|key, value| !is_left_out(parent, key, value));
        }
        _ => {}
    }
}

/// A null among texts is an empty text, and among amounts nothing.
fn fill_nulls(map: &mut Value, zero: &str) {
    for value in map.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut).filter(|value| value.is_null()) {
        *value = zero.into();
    }
}

/// Whether a selector is an object with parts and not a map of labels.
fn is_structure(selector: &Value) -> bool {
    selector.get("matchLabels").is_some() || selector.get("matchExpressions").is_some()
}

fn is_left_out(parent: &str, key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty() && !KEPT_LISTS.contains(&key),
        Value::Object(map) => map.is_empty() && MAPS.contains(&key),
        Value::String(text) => text.is_empty() && is_optional(parent, key),
        Value::Number(number) => number.as_i64() == Some(0) && is_optional(parent, key),
        Value::Bool(on) => !on && is_optional(parent, key),
    }
}

/// Whether an empty value of a field is left out. Where types share a name, its parent tells which one it is.
fn is_optional(parent: &str, key: &str) -> bool {
    if SCALARS.contains(&key) || FURTHER_SCALARS.contains(&key) {
        return true;
    }
    match key {
        "value" => matches!(parent, "env" | "taints" | "tolerations"),
        "key" | "operator" | "effect" => parent == "tolerations",
        "name" => {
            matches!(parent, "ports" | "imagePullSecrets" | "secrets" | "involvedObject" | "regarding" | "related")
        }
        "readOnly" => !matches!(parent, "azureDisk" | "csi"),
        "apiGroup" => parent == "subjects",
        "namespace" => matches!(parent, "subjects" | "metadata" | "involvedObject" | "regarding" | "related"),
        "uid" | "apiVersion" | "kind" | "fieldPath" => matches!(parent, "involvedObject" | "regarding" | "related"),
        "image" => matches!(parent, "containers" | "initContainers" | "ephemeralContainers"),
        "containerName" => parent == "resourceFieldRef",
        "volumeName" => parent == "spec",
        "secretName" => parent == "secret",
        "count" => matches!(parent, "" | "series"),
        "type" => parent.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_go_leaves_out() {
        let mut object = json!({
            "metadata": {"labels": {}, "finalizers": [], "managedFields": [{"fieldsV1": {"f:data": {}, "x": null}}]},
            "data": {"host": "", "prefix": null},
            "spec": {
                "a": null,
                "ports": [],
                "emptyDir": {},
                "nested": [{"limits": {}, "verbs": [], "requests": {"cpu": null}}],
                "hostNetwork": false,
                "automountServiceAccountToken": false,
                "env": [{"name": "", "value": ""}],
                "httpHeaders": [{"name": "", "value": ""}],
            },
        });
        tidy(&mut object);
        let expected = json!({
            "metadata": {"managedFields": [{"fieldsV1": {"f:data": {}, "x": null}}]},
            "data": {"host": "", "prefix": ""},
            "spec": {
                "emptyDir": {},
                "nested": [{"verbs": [], "requests": {"cpu": "0"}}],
                "automountServiceAccountToken": false,
                "env": [{"name": ""}],
                "httpHeaders": [{"name": "", "value": ""}],
            },
        });
        assert_eq!(object, expected);
    }
}
