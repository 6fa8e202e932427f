//! What may be wrong with containers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::access::{items, number, present, text};
use super::probes::{lifecycle, probe};
use super::volumes::key_reference;
use super::{resources, security};
use crate::field::{FieldError, Path};
use crate::names;

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const FIELD_PATHS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Checks the containers, then the init containers. `volumes` are the names of volumes that may be mounted.
pub(super) fn containers(pod: &Value, volumes: &BTreeSet<&str>, spec: &Path) -> Vec<FieldError> {
    let path = spec.child("containers");
    let list = items(pod, "/spec/containers");
    if list.is_empty() {
        let mut errors = vec![FieldError::required(&path, "")];
        errors.extend(init_containers(pod, volumes, &spec.child("initContainers")));
        return errors;
    }
    let grace = number(pod, "/spec/terminationGracePeriodSeconds");
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, container) in list.iter().enumerate() {
        let path = path.index(at);
        errors.extend(common(container, volumes, &path));
        if !seen.insert(text(container, "/name")) {
            errors.push(FieldError::duplicate(&path.child("name"), text(container, "/name")));
        }
        errors.extend(handlers(container, grace, &path));
    }
    errors.extend(host_ports(list, &path));
    errors.extend(init_containers(pod, volumes, &spec.child("initContainers")));
    for (name, list) in [("containers", list), ("initContainers", items(pod, "/spec/initContainers"))] {
        for (at, container) in list.iter().enumerate() {
            let image = text(container, "/image");
            if image.trim().len() != image.len() {
                let path = spec.child(name).index(at).child("image");
                errors.push(FieldError::invalid(&path, image, "must not have leading or trailing whitespace"));
            }
        }
    }
    errors
}

fn init_containers(pod: &Value, volumes: &BTreeSet<&str>, at: &Path) -> Vec<FieldError> {
    let grace = number(pod, "/spec/terminationGracePeriodSeconds");
    let mut seen = items(pod, "/spec/containers").iter().map(|c| text(c, "/name")).collect::<BTreeSet<_>>();
    let mut errors = Vec::new();
    for (index, container) in items(pod, "/spec/initContainers").iter().enumerate() {
        let path = at.index(index);
        errors.extend(common(container, volumes, &path));
        let policy = text(container, "/restartPolicy");
        let name = text(container, "/name");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        errors.extend(host_ports(std::slice::from_ref(container), at));
        if policy == "Always" {
            errors.extend(handlers(container, grace, &path));
            continue;
        }
        for field in ["lifecycle"].into_iter().chain(PROBES) {
            if container.get(field).is_some_and(|value| !value.is_null()) {
                let why = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(&path.child(field), why));
            }
        }
    }
    errors
}

fn handlers(container: &Value, grace: i64, path: &Path) -> Vec<FieldError> {
    let mut errors = lifecycle(container, grace, &path.child("lifecycle"));
    for name in PROBES {
        if let Some(own) = container.get(name).filter(|value| !value.is_null()) {
            errors.extend(probe(own, name, &path.child(name)));
        }
    }
    errors
}

fn common(container: &Value, volumes: &BTreeSet<&str>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match text(container, "/name") {
        "" => errors.push(FieldError::required(&path.child("name"), "")),
        name => {
            let why = names::dns_label(name);
            errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("name"), name, why)));
        }
    }
    if text(container, "/image").is_empty() {
        errors.push(FieldError::required(&path.child("image"), ""));
    }
    let policy = text(container, "/terminationMessagePolicy");
    if !matches!(policy, "File" | "FallbackToLogsOnError") {
        let known = ["File", "FallbackToLogsOnError"];
        errors.push(FieldError::not_supported(&path.child("terminationMessagePolicy"), policy, &known));
    }
    errors.extend(ports(container, &path.child("ports")));
    errors.extend(variables(container, &path.child("env")));
    errors.extend(variable_sources(container, &path.child("envFrom")));
    errors.extend(mounts(container, volumes, &path.child("volumeMounts")));
    let policy = text(container, "/imagePullPolicy");
    if !matches!(policy, "Always" | "IfNotPresent" | "Never") {
        let known = ["Always", "IfNotPresent", "Never"];
        errors.push(FieldError::not_supported(&path.child("imagePullPolicy"), policy, &known));
    }
    errors.extend(resources::errors(container, &path.child("resources")));
    errors.extend(security::container(container, &path.child("securityContext")));
    errors
}

fn ports(container: &Value, path: &Path) -> Vec<FieldError> {
    const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, port) in items(container, "/ports").iter().enumerate() {
        let path = path.index(at);
        let name = text(port, "/name");
        if !name.is_empty() {
            let why = names::port_name(name);
            if why.is_empty() && !seen.insert(name) {
                errors.push(FieldError::duplicate(&path.child("name"), name));
            }
            errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("name"), name, why)));
        }
        let own = number(port, "/containerPort");
        if own == 0 {
            errors.push(FieldError::required(&path.child("containerPort"), ""));
        } else {
            let why = names::port_number(own);
            errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("containerPort"), own, why)));
        }
        let host = number(port, "/hostPort");
        if host != 0 {
            let why = names::port_number(host);
            errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("hostPort"), host, why)));
        }
        let protocol = text(port, "/protocol");
        if !PROTOCOLS.contains(&protocol) {
            errors.push(FieldError::not_supported(&path.child("protocol"), protocol, &PROTOCOLS));
        }
    }
    errors
}

fn host_ports(containers: &[Value], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, container) in containers.iter().enumerate() {
        for (index, port) in items(container, "/ports").iter().enumerate() {
            let host = number(port, "/hostPort");
            let key = format!("{}/{}/{host}", text(port, "/protocol"), text(port, "/hostIP"));
            if host != 0 && !seen.insert(key.clone()) {
                let path = path.index(at).child("ports").index(index).child("hostPort");
                errors.push(FieldError::duplicate(&path, key));
            }
        }
    }
    errors
}

fn variables(container: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, variable) in items(container, "/env").iter().enumerate() {
        let path = path.index(at);
        match text(variable, "/name") {
            "" => errors.push(FieldError::required(&path.child("name"), "")),
            name => {
                let why = names::env_name(name);
                errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("name"), name, why)));
            }
        }
        if let Some(source) = present(variable, "/valueFrom") {
            let given = !text(variable, "/value").is_empty();
            errors.extend(variable_source(source, given, &path.child("valueFrom")));
        }
    }
    errors
}

fn variable_source(source: &Value, given: bool, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut count = 0;
    for kind in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let Some(reference) = source.get(kind).filter(|value| !value.is_null()) else { continue };
        count += 1;
        let path = path.child(kind);
        match kind {
            "fieldRef" => errors.extend(field_reference(reference, &FIELD_PATHS, &path)),
            "configMapKeyRef" | "secretKeyRef" => errors.extend(key_reference(reference, &path)),
            "resourceFieldRef" => errors.extend(resource_reference(reference, false, &path)),
            _ => {}
        }
    }
    let why = if count == 0 {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
    } else if given {
        "may not be specified when `value` is not empty"
    } else if count > 1 {
        "may not have more than one field specified at a time"
    } else {
        return errors;
    };
    errors.push(FieldError::invalid(path, "", why));
    errors
}

/// What is wrong with a reference to what a container asks for; a volume has to say which container.
pub(super) fn resource_reference(reference: &Value, volume: bool, path: &Path) -> Vec<FieldError> {
    const KNOWN: [&str; 6] = [
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    let resource = text(reference, "/resource");
    let huge = ["limits.hugepages-", "requests.hugepages-"].iter().any(|prefix| resource.starts_with(prefix));
    if volume && text(reference, "/containerName").is_empty() {
        vec![FieldError::required(&path.child("containerName"), "")]
    } else if resource.is_empty() {
        vec![FieldError::required(&path.child("resource"), "")]
    } else if !KNOWN.contains(&resource) && !huge {
        vec![FieldError::not_supported(&path.child("resource"), resource, &KNOWN)]
    } else {
        Vec::new()
    }
}

/// What is wrong with a reference to a field of the pod itself.
pub(super) fn field_reference(reference: &Value, known: &[&str], path: &Path) -> Vec<FieldError> {
    let field = text(reference, "/fieldPath");
    let at = path.child("fieldPath");
    if field.is_empty() {
        return vec![FieldError::required(&at, "")];
    }
    if let Some((map, key)) = field.strip_suffix("']").and_then(|field| field.split_once("['")) {
        return match map {
            "metadata.labels" | "metadata.annotations" => {
                let key = if map == "metadata.labels" { key.to_owned() } else { key.to_lowercase() };
                let why = names::qualified_name(&key);
                why.into_iter().map(|why| FieldError::invalid(path, key.as_str(), why)).collect()
            }
            _ => vec![FieldError::invalid(
                &at,
                field,
                format!("error converting fieldPath: field label not supported: {field}"),
            )],
        };
    }
    if known.contains(&field) {
        return Vec::new();
    }
    if FIELD_PATHS.contains(&field) || matches!(field, "metadata.labels" | "metadata.annotations") {
        return vec![FieldError::not_supported(&at, field, known)];
    }
    vec![FieldError::invalid(&at, field, format!("error converting fieldPath: field label not supported: {field}"))]
}

fn variable_sources(container: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, source) in items(container, "/envFrom").iter().enumerate() {
        let own = path.index(at);
        let prefix = text(source, "/prefix");
        if !prefix.is_empty() {
            let why = names::env_name(prefix);
            errors.extend(why.into_iter().map(|why| FieldError::invalid(&own.child("prefix"), prefix, why)));
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            if let Some(reference) = source.get(kind).filter(|value| !value.is_null()) {
                count += 1;
                let path = own.child(kind).child("name");
                match text(reference, "/name") {
                    "" => errors.push(FieldError::required(&path, "")),
                    name => errors.extend(
                        names::dns_subdomain(name).into_iter().map(|why| FieldError::invalid(&path, name, why)),
                    ),
                }
            }
        }
        let why = match count {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(path, "", why));
    }
    errors
}

fn mounts(container: &Value, volumes: &BTreeSet<&str>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, mount) in items(container, "/volumeMounts").iter().enumerate() {
        let own = path.index(at);
        let (name, point) = (text(mount, "/name"), text(mount, "/mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(&own.child("name"), ""));
        }
        if !volumes.contains(name) {
            errors.push(FieldError::not_found(&own.child("name"), name));
        }
        if point.is_empty() {
            errors.push(FieldError::required(&own.child("mountPath"), ""));
        }
        if !seen.insert(point) {
            errors.push(FieldError::invalid(&own.child("mountPath"), point, "must be unique"));
        }
        for field in ["subPath", "subPathExpr"] {
            let inner = text(mount, &format!("/{field}"));
            if inner.starts_with('/') {
                errors.push(FieldError::invalid(&path.child(field), inner, "must be a relative path"));
            }
            if inner.split('/').any(|part| part == "..") {
                errors.push(FieldError::invalid(&path.child(field), inner, "must not contain '..'"));
            }
        }
    }
    errors
}
