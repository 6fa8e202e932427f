//! What may be wrong with a service.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::access::{items, map, number, present, same, text, texts};
use super::{externally_accessible, needs_health_port, net};
use crate::field::{FieldError, Path};
use crate::metadata::validate_labels;
use crate::names;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

pub(super) fn service(object: &Value) -> Vec<FieldError> {
    let spec = Path::new("spec");
    let kind = text(object, "/spec/type");
    let mut errors = Vec::new();
    if items(object, "/spec/ports").is_empty() && !headless(object) && kind != "ExternalName" {
        errors.push(FieldError::required(&spec.child("ports"), ""));
    }
    errors.extend(type_rules(object, &spec));
    errors.extend(port_list(object, &spec.child("ports")));
    errors.extend(validate_labels(map(object, "/spec/selector"), &spec.child("selector")));
    errors.extend(affinity(object, &spec));
    errors.extend(addresses(object));
    for (at, address) in texts(object, "/spec/externalIPs").into_iter().enumerate() {
        let path = spec.child("externalIPs").index(at);
        errors.extend(net::address_errors(address, &path));
        errors.extend(net::endpoint_errors(address, &path));
    }
    if !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(&spec.child("type"), kind, &TYPES));
    }
    errors.extend(port_conflicts(object, &spec.child("ports")));
    errors.extend(load_balancer(object, &spec));
    errors.extend(traffic(object, &spec));
    errors
}

/// What a change may not do.
pub(super) fn changes(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let named = |object: &Value| text(object, "/spec/type") == "ExternalName";
    if !named(object) && !named(old) {
        let both_headless = headless(object) && headless(old);
        if !both_headless {
            errors.extend(list_change(object, old, "clusterIPs", "primary clusterIP can not be unset"));
        }
        if !headless(object) && !headless(old) {
            errors.extend(list_change(object, old, "ipFamilies", "primary ipFamily can not be unset"));
        }
    }
    let balanced = |object: &Value| text(object, "/spec/type") == "LoadBalancer";
    let class = |object: &Value| object.pointer("/spec/loadBalancerClass").cloned().unwrap_or_default();
    if balanced(object) && balanced(old) && class(object) != class(old) {
        let path = Path::new("spec.loadBalancerClass");
        errors.push(FieldError::invalid(&path, class(object), "may not change once set"));
    }
    if needs_health_port(object)
        && needs_health_port(old)
        && number(object, "/spec/healthCheckNodePort") != number(old, "/spec/healthCheckNodePort")
    {
        errors.push(FieldError::forbidden(&Path::new("spec.healthCheckNodePort"), "field is immutable"));
    }
    errors
}

fn list_change(object: &Value, old: &Value, field: &str, unset: &str) -> Vec<FieldError> {
    let pointer = format!("/spec/{field}");
    let path = Path::new("spec").child(field);
    let (new, before) = (items(object, &pointer), items(old, &pointer));
    let changed = |at: usize| FieldError::invalid(&path.index(at), new.to_vec(), "may not change once set");
    let primary = new.first().zip(before.first()).is_some_and(|(new, before)| new != before);
    if new.len() == before.len() {
        let differing = new.iter().zip(before).enumerate().filter(|(_, (new, before))| new != before);
        return differing.map(|(at, _)| changed(if field == "ipFamilies" { 0 } else { at })).collect();
    }
    let mut errors = Vec::new();
    if new.is_empty() {
        errors.push(FieldError::invalid(&path.index(0), json!(null), unset));
    }
    if primary {
        errors.push(changed(0));
    }
    if before.len() > new.len() && new.len() == 1 && text(object, "/spec/ipFamilyPolicy") != "SingleStack" {
        let which = if field == "clusterIPs" { "clusterIP" } else { "ipFamily" };
        let policy = object.pointer("/spec/ipFamilyPolicy").cloned().unwrap_or_default();
        let why = format!("must be set to 'SingleStack' when releasing the secondary {which}");
        errors.push(FieldError::invalid(&Path::new("spec.ipFamilyPolicy"), policy, why));
    }
    errors
}

/// What is wrong with the status a load balancer reports.
pub(super) fn load_balancer_status(object: &Value) -> Vec<FieldError> {
    let path = Path::new("status.loadBalancer.ingress");
    let ingress = items(object, "/status/loadBalancer/ingress");
    if text(object, "/spec/type") != "LoadBalancer" && !ingress.is_empty() {
        return vec![FieldError::forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'")];
    }
    let mut errors = Vec::new();
    for (at, one) in ingress.iter().enumerate() {
        let path = path.index(at);
        let (address, mode) = (text(one, "/ip"), present(one, "/ipMode").and_then(Value::as_str));
        if !address.is_empty() {
            errors.extend(net::address_errors(address, &path.child("ip")));
        }
        match mode {
            None if !address.is_empty() => {
                errors.push(FieldError::required(&path.child("ipMode"), "must be specified when `ip` is set"));
            }
            Some(_) if address.is_empty() => {
                let why = "may not be specified when `ip` is not set";
                errors.push(FieldError::forbidden(&path.child("ipMode"), why));
            }
            Some(mode) if !matches!(mode, "Proxy" | "VIP") => {
                errors.push(FieldError::not_supported(&path.child("ipMode"), mode, &["Proxy", "VIP"]));
            }
            _ => {}
        }
        let host = text(one, "/hostname");
        if !host.is_empty() {
            let path = path.child("hostname");
            errors.extend(names::dns_subdomain(host).into_iter().map(|why| FieldError::invalid(&path, host, why)));
            if net::parse_address(host).is_some() {
                errors.push(FieldError::invalid(&path, host, "must be a DNS name, not an IP address"));
            }
        }
    }
    errors
}

fn headless(object: &Value) -> bool {
    texts(object, "/spec/clusterIPs") == ["None"]
}

fn type_rules(object: &Value, spec: &Path) -> Vec<FieldError> {
    let kind = text(object, "/spec/type");
    match kind {
        "LoadBalancer" | "NodePort" if headless(object) => {
            let why = format!("may not be set to 'None' for {kind} services");
            vec![FieldError::invalid(&spec.child("clusterIPs").index(0), "None", why)]
        }
        "ExternalName" => {
            let mut errors = Vec::new();
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if !same(object.pointer(&format!("/spec/{field}")), None) {
                    let why = "may not be set for ExternalName services";
                    errors.push(FieldError::forbidden(&spec.child(field), why));
                }
            }
            let path = spec.child("externalName");
            match text(object, "/spec/externalName").strip_suffix('.').unwrap_or(text(object, "/spec/externalName")) {
                "" => errors.push(FieldError::required(&path, "")),
                host => errors
                    .extend(names::dns_subdomain(host).into_iter().map(|why| FieldError::invalid(&path, host, why))),
            }
            errors
        }
        _ => Vec::new(),
    }
}

fn port_list(object: &Value, path: &Path) -> Vec<FieldError> {
    let ports = items(object, "/spec/ports");
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let path = path.index(at);
        match text(port, "/name") {
            "" if ports.len() > 1 => errors.push(FieldError::required(&path.child("name"), "")),
            "" => {}
            name => {
                let path = path.child("name");
                errors.extend(names::dns_label(name).into_iter().map(|why| FieldError::invalid(&path, name, why)));
                if !seen.insert(name) {
                    errors.push(FieldError::duplicate(&path, name));
                }
            }
        }
        let own = number(port, "/port");
        let why = names::port_number(own);
        errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("port"), own, why)));
        let protocol = text(port, "/protocol");
        if protocol.is_empty() {
            errors.push(FieldError::required(&path.child("protocol"), ""));
        } else if !PROTOCOLS.contains(&protocol) {
            errors.push(FieldError::not_supported(&path.child("protocol"), protocol, &PROTOCOLS));
        }
        errors.extend(port_or_name(port.get("targetPort"), &path.child("targetPort")));
        if let Some(protocol) = present(port, "/appProtocol").and_then(Value::as_str) {
            let why = names::qualified_name(protocol);
            errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("appProtocol"), protocol, why)));
        }
    }
    errors
}

/// What is wrong with a port given by number or by name.
pub(in crate::builtin) fn port_or_name(port: Option<&Value>, path: &Path) -> Vec<FieldError> {
    match port {
        Some(Value::String(name)) => {
            names::port_name(name).into_iter().map(|why| FieldError::invalid(path, name.as_str(), why)).collect()
        }
        other => {
            let number = other.and_then(Value::as_i64).unwrap_or_default();
            names::port_number(number).into_iter().map(|why| FieldError::invalid(path, number, why)).collect()
        }
    }
}

fn affinity(object: &Value, spec: &Path) -> Vec<FieldError> {
    let path = spec.child("sessionAffinityConfig");
    match text(object, "/spec/sessionAffinity") {
        "None" if present(object, "/spec/sessionAffinityConfig").is_some() => {
            vec![FieldError::forbidden(&path, "must not be set when session affinity is None")]
        }
        "None" => Vec::new(),
        "ClientIP" => {
            let seconds = number(object, "/spec/sessionAffinityConfig/clientIP/timeoutSeconds");
            if (1..=86400).contains(&seconds) {
                return Vec::new();
            }
            let why = "must be greater than 0 and less than 86400";
            vec![FieldError::invalid(&path.child("clientIP").child("timeoutSeconds"), seconds, why)]
        }
        "" => vec![FieldError::required(&spec.child("sessionAffinity"), "")],
        other => vec![FieldError::not_supported(&spec.child("sessionAffinity"), other, &["ClientIP", "None"])],
    }
}

/// What is wrong with the cluster addresses and their families.
pub(super) fn addresses(object: &Value) -> Vec<FieldError> {
    let spec = &Path::new("spec");
    if text(object, "/spec/type") == "ExternalName" {
        return Vec::new();
    }
    let path = spec.child("clusterIPs");
    let (single, all) = (text(object, "/spec/clusterIP"), texts(object, "/spec/clusterIPs"));
    let mut errors = Vec::new();
    match (single, all.first()) {
        ("", Some(_)) => {
            errors.push(FieldError::invalid(&path, all.clone(), "must be empty when `clusterIP` is not specified"));
        }
        ("", None) => {}
        (_, None) => errors.push(FieldError::required(&path, "")),
        (single, Some(first)) if single != *first => {
            errors.push(FieldError::invalid(&path, all.clone(), "first value must match `clusterIP`"));
        }
        _ => {}
    }
    errors.extend(families(object, spec));
    let mut broken = false;
    for (at, address) in all.iter().enumerate() {
        if at == 0 && *address == "None" {
            if all.len() > 1 {
                broken = true;
                errors.push(FieldError::invalid(&path, all.clone(), "'None' must be the first and only value"));
            }
            continue;
        }
        let wrong = net::address_errors(address, &path.index(at));
        broken |= !wrong.is_empty();
        errors.extend(wrong);
    }
    if all.len() > 2 {
        errors.push(FieldError::invalid(&path, all.clone(), "may only hold up to 2 values"));
    }
    if broken {
        return errors;
    }
    let six = |address: &str| address.contains(':');
    if all.len() > 1 && all.iter().map(|address| six(address)).collect::<BTreeSet<_>>().len() < all.len() {
        let why = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(&path, all.clone(), why));
    }
    if !headless(object) {
        for (at, (address, family)) in all.iter().zip(texts(object, "/spec/ipFamilies")).enumerate() {
            if matches!(family, "IPv4" | "IPv6") && (family == "IPv6") != six(address) {
                let why = format!("expected an {family} value as indicated by `ipFamilies[{at}]`");
                errors.push(FieldError::invalid(&path.index(at), *address, why));
            }
        }
    }
    errors
}

fn families(object: &Value, spec: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, family) in texts(object, "/spec/ipFamilies").into_iter().enumerate() {
        let path = spec.child("ipFamilies").index(at);
        if !matches!(family, "IPv4" | "IPv6") {
            errors.push(FieldError::not_supported(&path, family, &["IPv4", "IPv6"]));
        }
        if !seen.insert(family) {
            errors.push(FieldError::duplicate(&path, family));
        }
    }
    if let Some(policy) = present(object, "/spec/ipFamilyPolicy").and_then(Value::as_str)
        && !POLICIES.contains(&policy)
    {
        errors.push(FieldError::not_supported(&spec.child("ipFamilyPolicy"), policy, &POLICIES));
    }
    errors
}

fn port_conflicts(object: &Value, path: &Path) -> Vec<FieldError> {
    let ports = items(object, "/spec/ports");
    let mut errors = Vec::new();
    let node = |port: &Value| number(port, "/nodePort");
    if text(object, "/spec/type") == "ClusterIP" {
        for (at, _) in ports.iter().enumerate().filter(|(_, port)| node(port) != 0) {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(&path.index(at).child("nodePort"), why));
        }
    }
    let mut seen = BTreeSet::new();
    for (at, port) in ports.iter().enumerate().filter(|(_, port)| node(port) != 0) {
        if !seen.insert((text(port, "/protocol"), node(port))) {
            errors.push(FieldError::duplicate(&path.index(at).child("nodePort"), node(port)));
        }
    }
    let mut seen = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let (protocol, own) = (text(port, "/protocol"), number(port, "/port"));
        if !seen.insert((protocol, own)) {
            let shown = json!({"port": own, "protocol": protocol, "targetPort": 0});
            errors.push(FieldError::duplicate(&path.index(at), shown));
        }
    }
    errors
}

fn load_balancer(object: &Value, spec: &Path) -> Vec<FieldError> {
    const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
    let balanced = text(object, "/spec/type") == "LoadBalancer";
    let mut errors = Vec::new();
    let ranges = texts(object, "/spec/loadBalancerSourceRanges");
    let path = spec.child("LoadBalancerSourceRanges");
    if !ranges.is_empty() && !balanced {
        errors.push(FieldError::forbidden(&path, ONLY));
    }
    for (at, range) in ranges.into_iter().enumerate() {
        errors.extend(net::range_errors(range.trim(), &path.index(at)));
    }
    if present(object, "/spec/allocateLoadBalancerNodePorts").is_some() && !balanced {
        errors.push(FieldError::forbidden(&spec.child("allocateLoadBalancerNodePorts"), ONLY));
    }
    if let Some(class) = present(object, "/spec/loadBalancerClass").and_then(Value::as_str) {
        let path = spec.child("loadBalancerClass");
        if balanced {
            let why = names::qualified_name(class);
            errors.extend(why.into_iter().map(|why| FieldError::invalid(&path, class, why)));
        } else {
            errors.push(FieldError::forbidden(&path, ONLY));
        }
    }
    errors
}

fn traffic(object: &Value, spec: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = spec.child("externalTrafficPolicy");
    let policy = text(object, "/spec/externalTrafficPolicy");
    match (externally_accessible(object), policy) {
        (false, "") | (true, "Cluster" | "Local") => {}
        (false, _) => {
            let why = "may only be set for externally-accessible services";
            errors.push(FieldError::invalid(&path, policy, why));
        }
        (true, "") => errors.push(FieldError::required(&path, "")),
        (true, _) => errors.push(FieldError::not_supported(&path, policy, &["Cluster", "Local"])),
    }
    let port = number(object, "/spec/healthCheckNodePort");
    if port == 0 && needs_health_port(object) {
        errors.push(FieldError::required(&spec.child("healthCheckNodePort"), ""));
    }
    if port != 0 && !needs_health_port(object) {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(FieldError::invalid(&spec.child("healthCheckNodePort"), port, why));
    }
    let path = spec.child("internalTrafficPolicy");
    if let Some(policy) = present(object, "/spec/internalTrafficPolicy").and_then(Value::as_str)
        && !matches!(policy, "Cluster" | "Local")
    {
        errors.push(FieldError::not_supported(&path, policy, &["Cluster", "Local"]));
    }
    if let Some(distribution) = present(object, "/spec/trafficDistribution").and_then(Value::as_str)
        && !DISTRIBUTIONS.contains(&distribution)
    {
        errors.push(FieldError::not_supported(&spec.child("trafficDistribution"), distribution, &DISTRIBUTIONS));
    }
    errors
}
