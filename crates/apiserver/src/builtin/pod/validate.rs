//! What may be wrong with a pod, its containers and volumes aside.

use serde_json::Value;

use super::super::access::{items, map, present, text, texts};
use super::super::service::net;
use super::{containers, placement, security, volumes};
use crate::field::{FieldError, Path};
use crate::metadata::validate_labels;
use crate::names;

pub(super) fn pod(object: &Value) -> Vec<FieldError> {
    let spec = Path::new("spec");
    let (known, mut errors) = volumes::volumes(object, &spec.child("volumes"));
    errors.extend(containers::containers(object, &known, &spec));
    errors.extend(policies(object, &spec));
    errors.extend(validate_labels(map(object, "/spec/nodeSelector"), &spec.child("nodeSelector")));
    errors.extend(security::pod(object, &spec.child("securityContext")));
    errors.extend(placement::affinity(object, &spec.child("affinity")));
    errors.extend(placement::dns(object, &spec.child("dnsConfig")));
    errors.extend(gate_errors(object, &spec));
    errors.extend(placement::spread(object, &spec.child("topologySpreadConstraints")));
    errors.extend(named(object, "serviceAccountName", names::dns_subdomain));
    errors.extend(named(object, "nodeName", names::dns_subdomain));
    if let Some(seconds) = object.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64)
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let why = names::between(1, i64::from(i32::MAX));
        errors.push(FieldError::invalid(&spec.child("activeDeadlineSeconds"), seconds, why));
    }
    errors.extend(named(object, "hostname", names::dns_label));
    errors.extend(named(object, "subdomain", names::dns_label));
    errors.extend(tolerations(object, &spec.child("tolerations")));
    errors.extend(aliases(object, &spec.child("hostAliases")));
    errors.extend(named(object, "priorityClassName", names::dns_subdomain));
    errors.extend(named(object, "runtimeClassName", names::dns_subdomain));
    if let Some(policy) = present(object, "/spec/preemptionPolicy").and_then(Value::as_str)
        && !matches!(policy, "PreemptLowerPriority" | "Never")
    {
        let known = ["PreemptLowerPriority", "Never"];
        errors.push(FieldError::not_supported(&spec.child("preemptionPolicy"), policy, &known));
    }
    let name = text(object, "/spec/os/name");
    if present(object, "/spec/os").is_some() && !matches!(name, "linux" | "windows") {
        let path = spec.child("os");
        errors.push(match name {
            "" => FieldError::required(&path.child("name"), ""),
            _ => FieldError::not_supported(&path, name, &["linux", "windows"]),
        });
    }
    errors
}

/// What a new pod may not have yet.
pub(super) fn only_on_create(object: &Value) -> Vec<FieldError> {
    let spec = Path::new("spec");
    let mut errors = Vec::new();
    if !items(object, "/spec/ephemeralContainers").is_empty() {
        errors.push(FieldError::forbidden(&spec.child("ephemeralContainers"), "cannot be set on create"));
    }
    if !text(object, "/spec/nodeName").is_empty() && !items(object, "/spec/schedulingGates").is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden(&spec.child("nodeName"), why));
    }
    errors
}

fn named(object: &Value, field: &str, rule: fn(&str) -> Vec<String>) -> Vec<FieldError> {
    let path = Path::new("spec").child(field);
    match text(object, &format!("/spec/{field}")) {
        "" => Vec::new(),
        name => rule(name).into_iter().map(|why| FieldError::invalid(&path, name, why)).collect(),
    }
}

fn policies(object: &Value, spec: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, known) in [
        ("restartPolicy", &["Always", "OnFailure", "Never"][..]),
        ("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
    ] {
        let value = text(object, &format!("/spec/{field}"));
        if value.is_empty() {
            errors.push(FieldError::required(&spec.child(field), ""));
        } else if !known.contains(&value) {
            errors.push(FieldError::not_supported(&spec.child(field), value, known));
        }
    }
    errors
}

fn gate_errors(object: &Value, spec: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (list, field) in [("readinessGates", "conditionType"), ("schedulingGates", "name")] {
        let mut seen = std::collections::BTreeSet::new();
        for (at, gate) in items(object, &format!("/spec/{list}")).iter().enumerate() {
            let own = text(gate, &format!("/{field}"));
            let mut path = spec.child(list).index(at);
            if list == "readinessGates" {
                path = path.child(field);
            }
            errors.extend(names::qualified_name(own).into_iter().map(|why| FieldError::invalid(&path, own, why)));
            if !seen.insert(own) && list == "schedulingGates" {
                errors.push(FieldError::duplicate(&path, own));
            }
        }
    }
    errors
}

pub(super) fn tolerations(object: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, toleration) in items(object, "/spec/tolerations").iter().enumerate() {
        let path = path.index(at);
        let (key, operator) = (text(toleration, "/key"), text(toleration, "/operator"));
        let (value, effect) = (text(toleration, "/value"), text(toleration, "/effect"));
        if !key.is_empty() {
            let why = names::qualified_name(key);
            errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("key"), key, why)));
        } else if operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(&path.child("operator"), operator, why));
        }
        if present(toleration, "/tolerationSeconds").is_some() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(&path.child("effect"), effect, why));
        }
        match operator {
            "Equal" | "" => {
                let why = names::label_value(value);
                if !why.is_empty() {
                    errors.push(FieldError::invalid(&path.child("operator"), value, why.join(";")));
                }
            }
            "Exists" if value.is_empty() => {}
            "Exists" => {
                let why = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(&path.child("operator"), value, why));
            }
            _ => errors.push(FieldError::not_supported(&path.child("operator"), operator, &["Equal", "Exists"])),
        }
        if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            errors.push(FieldError::not_supported(&path.child("effect"), effect, &known));
        }
    }
    errors
}

fn aliases(object: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, alias) in items(object, "/spec/hostAliases").iter().enumerate() {
        let path = path.index(at);
        errors.extend(net::address_errors(text(alias, "/ip"), &path.child("ip")));
        for (at, host) in texts(alias, "/hostnames").into_iter().enumerate() {
            let path = path.child("hostnames").index(at);
            errors.extend(names::dns_subdomain(host).into_iter().map(|why| FieldError::invalid(&path, host, why)));
        }
    }
    errors
}
