//! What an absent field of a pod means.

use serde_json::{Map, Value, json};

use super::super::access::{align, each_mut, fill, fill_number, fill_text, flag, items, map_mut, text};
use super::super::tidy::tidy;
use super::resources::{canonicalise_lists, canonicalise_map};
use crate::quantity::Quantity;

const CONTAINER_LISTS: [&str; 3] = ["/spec/containers", "/spec/initContainers", "/spec/ephemeralContainers"];

pub(super) fn pod(object: &mut Value) {
    tidy(object);
    let host_network = flag(object, "/spec/hostNetwork");
    for list in CONTAINER_LISTS {
        let full = list != "/spec/ephemeralContainers";
        for item in object.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            container(item, full, host_network);
        }
    }
    for volume in object.pointer_mut("/spec/volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        self::volume(volume);
    }
    canonicalise_map(object.pointer_mut("/spec/overhead"));
    canonicalise_lists(object.pointer_mut("/spec/resources"));
    spec(object);
    status(object);
}

fn spec(object: &mut Value) {
    let Some(spec) = map_mut(object, "spec") else { return };
    fill(spec, "enableServiceLinks", true);
    fill_text(spec, "dnsPolicy", "ClusterFirst");
    fill_text(spec, "restartPolicy", "Always");
    fill(spec, "securityContext", json!({}));
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill_text(spec, "schedulerName", "default-scheduler");
    // Two names of one field: the old one follows the new one.
    let own = |spec: &Map<String, Value>, field: &str| {
        spec.get(field).and_then(Value::as_str).filter(|name| !name.is_empty()).map(str::to_owned)
    };
    if let Some(name) = own(spec, "serviceAccountName").or_else(|| own(spec, "serviceAccount")) {
        spec.insert("serviceAccountName".to_owned(), name.as_str().into());
        spec.insert("serviceAccount".to_owned(), name.into());
    }
    for constraint in each_mut(object, "/spec/topologySpreadConstraints") {
        constraint.retain(|_, value| !value.is_null());
    }
}

fn status(object: &mut Value) {
    let Some(status) = map_mut(object, "status") else { return };
    align(status, "podIP", "podIPs", |ip| json!({ "ip": ip }), "/ip");
    for condition in each_mut(object, "/status/conditions") {
        fill(condition, "lastProbeTime", Value::Null);
        fill(condition, "lastTransitionTime", Value::Null);
    }
    for list in ["/status/containerStatuses", "/status/initContainerStatuses", "/status/ephemeralContainerStatuses"] {
        for item in object.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            container_status(item);
            canonicalise_map(item.get_mut("allocatedResources"));
            canonicalise_lists(item.get_mut("resources"));
        }
    }
}

/// What the status of a container always shows.
fn container_status(status: &mut Value) {
    for (pointer, times) in [
        ("/state/running", &["startedAt"][..]),
        ("/state/terminated", &["startedAt", "finishedAt"]),
        ("/lastState/running", &["startedAt"]),
        ("/lastState/terminated", &["startedAt", "finishedAt"]),
    ] {
        if let Some(state) = status.pointer_mut(pointer).and_then(Value::as_object_mut) {
            for time in times {
                fill(state, time, Value::Null);
            }
            if pointer.ends_with("terminated") {
                fill(state, "exitCode", 0);
            }
        }
    }
    let Some(status) = status.as_object_mut() else { return };
    for field in ["state", "lastState"] {
        fill(status, field, json!({}));
    }
    for field in ["image", "imageID"] {
        fill(status, field, "");
    }
    fill(status, "ready", false);
    fill(status, "restartCount", 0);
}

fn container(item: &mut Value, full: bool, host_network: bool) {
    let policy = pull_policy(text(item, "/image"));
    let Some(map) = item.as_object_mut() else { return };
    fill_text(map, "imagePullPolicy", policy);
    fill_text(map, "terminationMessagePath", "/dev/termination-log");
    fill_text(map, "terminationMessagePolicy", "File");
    fill(map, "resources", json!({}));
    if full {
        requests_from_limits(item);
    }
    canonicalise_lists(item.get_mut("resources"));
    for port in each_mut(item, "/ports") {
        fill_text(port, "protocol", "TCP");
        if host_network && full {
            let own = port.get("containerPort").and_then(Value::as_i64).unwrap_or_default();
            fill_number(port, "hostPort", own);
        }
    }
    for variable in item.pointer_mut("/env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(reference) = variable.pointer_mut("/valueFrom/fieldRef").and_then(Value::as_object_mut) {
            fill_text(reference, "apiVersion", "v1");
        }
        if let Some(reference) = variable.pointer_mut("/valueFrom/fileKeyRef").and_then(Value::as_object_mut) {
            fill(reference, "optional", false);
        }
        canonicalise_divisor(variable.pointer_mut("/valueFrom/resourceFieldRef"));
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = item.get_mut(name) {
            self::probe(probe);
        }
    }
    for hook in ["/lifecycle/postStart", "/lifecycle/preStop"] {
        if let Some(hook) = item.pointer_mut(hook) {
            http_get(hook);
        }
    }
}

/// A divisor that is not given reads as zero.
fn canonicalise_divisor(reference: Option<&mut Value>) {
    if let Some(reference) = reference.and_then(Value::as_object_mut) {
        fill(reference, "divisor", "0");
        if let Some(divisor) = reference.get_mut("divisor")
            && let Ok(quantity) = Quantity::from_value(divisor)
        {
            *divisor = quantity.to_string().into();
        }
    }
}

fn requests_from_limits(item: &mut Value) {
    let Some(limits) = item.pointer("/resources/limits").and_then(Value::as_object).cloned() else { return };
    let Some(requests) = item.get_mut("resources").and_then(|resources| map_mut(resources, "requests")) else { return };
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}

/// `Always` for the tag `latest`, also where it is only implied.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        None if !digest && is_reference(image) => "Always",
        _ => "IfNotPresent",
    }
}

/// Whether an image can be read at all; one that cannot has no tag, not even an implied one.
fn is_reference(image: &str) -> bool {
    let path = match image.split_once('/') {
        Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => rest,
        _ => image,
    };
    !path.is_empty()
        && path.split('/').all(|part| {
            let part = part.split([':', '@']).next().unwrap_or_default();
            part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
                && part.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
                && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
        })
}

fn probe(probe: &mut Value) {
    http_get(probe);
    if let Some(grpc) = probe.get_mut("grpc").and_then(Value::as_object_mut) {
        fill(grpc, "service", "");
    }
    let Some(probe) = probe.as_object_mut() else { return };
    fill_number(probe, "timeoutSeconds", 1);
    fill_number(probe, "periodSeconds", 10);
    fill_number(probe, "successThreshold", 1);
    fill_number(probe, "failureThreshold", 3);
}

fn http_get(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet").and_then(Value::as_object_mut) {
        fill_text(get, "path", "/");
        fill_text(get, "scheme", "HTTP");
    }
}

fn volume(volume: &mut Value) {
    let Some(map) = volume.as_object_mut() else { return };
    map.retain(|key, value| key == "name" || !value.is_null());
    if map.keys().all(|key| key == "name") {
        map.insert("emptyDir".to_owned(), json!({}));
    }
    for (source, fields) in [
        ("iscsi", &[("iscsiInterface", "default")][..]),
        ("rbd", &[("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")]),
        ("scaleIO", &[("storageMode", "ThinProvisioned"), ("fsType", "xfs")]),
        ("azureDisk", &[("cachingMode", "ReadWrite"), ("fsType", "ext4"), ("kind", "Shared")]),
    ] {
        if let Some(source) = map.get_mut(source).and_then(Value::as_object_mut) {
            for (field, value) in fields {
                fill_text(source, field, value);
            }
        }
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = map.get_mut(source).and_then(Value::as_object_mut) {
            fill(source, "defaultMode", 420);
        }
    }
    if let Some(disk) = map.get_mut("azureDisk").and_then(Value::as_object_mut) {
        fill(disk, "readOnly", false);
    }
    if let Some(path) = map.get_mut("hostPath").and_then(Value::as_object_mut) {
        fill(path, "type", "");
    }
    if let Some(limit) = volume.pointer_mut("/emptyDir/sizeLimit")
        && let Ok(quantity) = Quantity::from_value(limit)
    {
        *limit = quantity.to_string().into();
    }
    if let Some(image) = volume.get_mut("image").and_then(Value::as_object_mut) {
        let policy = pull_policy(image.get("reference").and_then(Value::as_str).unwrap_or_default());
        fill_text(image, "pullPolicy", policy);
    }
    nested_sources(volume);
}

fn nested_sources(volume: &mut Value) {
    downward(volume.get_mut("downwardAPI"));
    for source in volume.pointer_mut("/projected/sources").and_then(Value::as_array_mut).into_iter().flatten() {
        downward(source.get_mut("downwardAPI"));
        if let Some(token) = source.get_mut("serviceAccountToken").and_then(Value::as_object_mut) {
            fill(token, "expirationSeconds", 3600);
        }
    }
    if let Some(template) = volume.pointer_mut("/ephemeral/volumeClaimTemplate") {
        map_mut(template, "metadata");
        if let Some(spec) = map_mut(template, "spec") {
            fill(spec, "volumeMode", "Filesystem");
            fill(spec, "resources", json!({}));
        }
        canonicalise_lists(template.pointer_mut("/spec/resources"));
    }
}

fn downward(source: Option<&mut Value>) {
    let Some(source) = source else { return };
    if items(source, "/items").is_empty() {
        return;
    }
    for item in source.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(reference) = item.get_mut("fieldRef").and_then(Value::as_object_mut) {
            fill_text(reference, "apiVersion", "v1");
        }
        canonicalise_divisor(item.get_mut("resourceFieldRef"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_policies() {
        for (image, expected) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.2", "IfNotPresent"),
            ("localhost:5000/a/b", "Always"),
            ("localhost:5000/a/b:3", "IfNotPresent"),
            ("a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "IfNotPresent"),
            ("UPPER", "IfNotPresent"),
            ("", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), expected, "{image}");
        }
    }
}
