//! Service.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::access::{each_mut, fill, fill_text, flag, items, map, map_mut, number, present, remove, restore};
use super::access::{same, text, texts};
use super::columns::{AGE, NAME, age, column, labels, name, wide};
use super::tidy::tidy;
use super::{Column, Strategy};
use crate::field::FieldError;
use crate::names;

pub(crate) mod allocate;
pub(crate) mod assign;
pub(super) mod net;
mod validate;

pub(super) use validate::port_or_name;

pub(super) struct Service;

impl Strategy for Service {
    fn default(&self, object: &mut Value) {
        tidy(object);
        if map(object, "/spec/selector").is_some_and(Map::is_empty) {
            remove(object, "/spec", "selector");
        }
        let Some(spec) = map_mut(object, "spec") else { return };
        fill_text(spec, "sessionAffinity", "None");
        fill_text(spec, "type", "ClusterIP");
        match spec.get("sessionAffinity").and_then(Value::as_str) {
            Some("None") => {
                spec.remove("sessionAffinityConfig");
            }
            Some("ClientIP") => {
                let set =
                    spec.get("sessionAffinityConfig").and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
                if set.is_none_or(Value::is_null) {
                    spec.insert("sessionAffinityConfig".to_owned(), json!({"clientIP": {"timeoutSeconds": 10800}}));
                }
            }
            _ => {}
        }
        for port in each_mut(object, "/spec/ports") {
            fill_text(port, "protocol", "TCP");
            if port.get("targetPort").is_none_or(|target| target.is_null() || target == 0 || target == "") {
                let own = port.get("port").cloned().unwrap_or_default();
                port.insert("targetPort".to_owned(), own);
            }
        }
        let (outside, kind) = (externally_accessible(object), text(object, "/spec/type").to_owned());
        let Some(spec) = map_mut(object, "spec") else { return };
        if outside {
            fill_text(spec, "externalTrafficPolicy", "Cluster");
        }
        if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
            fill(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            fill(spec, "allocateLoadBalancerNodePorts", true);
            for ingress in each_mut(object, "/status/loadBalancer/ingress") {
                if ingress.get("ip").is_some_and(|ip| ip != "") {
                    fill(ingress, "ipMode", "VIP");
                }
            }
        }
        if let Some(status) = map_mut(object, "status") {
            fill(status, "loadBalancer", json!({}));
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"loadBalancer": {}});
        align_addresses(object, None);
        fill_families(object, None);
        drop_unused_policy(object);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        restore(object, old, "status");
        keep_allocated(object, old);
        align_addresses(object, Some(old));
        drop_for_type(object, old);
        fill_families(object, Some(old));
        drop_unused_policy(object);
    }

    fn prepare_status_update(&self, object: &mut Value, old: &Value) {
        restore(object, old, "spec");
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        validate::service(object)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        // Kubernetes looks at the addresses first, and no further if they are wrong.
        let wrong = validate::addresses(object);
        if !wrong.is_empty() {
            return wrong;
        }
        let mut errors = validate::changes(object, old);
        errors.extend(validate::service(object));
        errors
    }

    fn validate_status_update(&self, object: &Value, _old: &Value) -> Vec<FieldError> {
        validate::load_balancer_status(object)
    }

    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        names::dns1035_name(name, prefix)
    }

    fn columns(&self) -> &'static [Column] {
        const {
            &[
                NAME,
                column("Type", "How the service is exposed."),
                column("Cluster-IP", "Its address inside the cluster."),
                column("External-IP", "Its addresses outside the cluster."),
                column("Port(s)", "Its ports."),
                AGE,
                wide("Selector", "Labels of the pods behind it."),
            ]
        }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let address = texts(object, "/spec/clusterIPs").first().copied().unwrap_or("<none>");
        vec![
            name(object),
            text(object, "/spec/type").into(),
            address.into(),
            external_addresses(object).into(),
            ports(object).into(),
            age(object, now),
            labels(object, "/spec/selector").into(),
        ]
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        let read = |pointer: &str| text(object, pointer).to_owned();
        vec![("spec.clusterIP", read("/spec/clusterIP")), ("spec.type", read("/spec/type"))]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["spec.clusterIP", "spec.type"]
    }
}

fn externally_accessible(object: &Value) -> bool {
    match text(object, "/spec/type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !items(object, "/spec/externalIPs").is_empty(),
        _ => false,
    }
}

fn needs_health_port(object: &Value) -> bool {
    text(object, "/spec/type") == "LoadBalancer" && text(object, "/spec/externalTrafficPolicy") == "Local"
}

/// Whether a service has cluster addresses (also the address `None`).
pub(crate) fn needs_address(object: &Value) -> bool {
    matches!(text(object, "/spec/type"), "ClusterIP" | "NodePort" | "LoadBalancer")
}

/// Whether a service gets a node port for each of its ports.
pub(crate) fn needs_node_ports(object: &Value) -> bool {
    match text(object, "/spec/type") {
        "NodePort" => true,
        "LoadBalancer" => {
            present(object, "/spec/allocateLoadBalancerNodePorts").is_none()
                || flag(object, "/spec/allocateLoadBalancerNodePorts")
        }
        _ => false,
    }
}

/// Keeps `clusterIP` and the first of `clusterIPs` equal where a client changed only one of them.
fn align_addresses(object: &mut Value, old: Option<&Value>) {
    let single = text(object, "/spec/clusterIP").to_owned();
    let first = texts(object, "/spec/clusterIPs").first().map(|ip| (*ip).to_owned());
    let Some(spec) = map_mut(object, "spec") else { return };
    match (single.as_str(), first, old) {
        ("", None, _) => {}
        (_, None, _) => {
            spec.insert("clusterIPs".to_owned(), json!([single]));
        }
        (_, Some(first), Some(old)) if single != first => {
            let before = text(old, "/spec/clusterIP");
            if single.is_empty() && before == first {
                spec.remove("clusterIPs");
            } else if before == first {
                spec.insert("clusterIPs".to_owned(), json!([single]));
            }
        }
        _ => {}
    }
}

/// Names the address families of a new service on a cluster that only has IPv4 addresses.
fn fill_families(object: &mut Value, old: Option<&Value>) {
    if !needs_address(object) {
        return;
    }
    let headless = text(object, "/spec/clusterIP") == "None";
    let foreign = text(object, "/spec/clusterIP").contains(':');
    let selects = map(object, "/spec/selector").is_some_and(|selector| !selector.is_empty());
    let before = old.filter(|old| needs_address(old));
    let read = |field: &str| before.and_then(|old| present(old, &format!("/spec/{field}"))).cloned();
    let (policy, families) = (read("ipFamilyPolicy"), read("ipFamilies"));
    let Some(spec) = map_mut(object, "spec") else { return };
    let free = headless && !selects;
    fill(
        spec,
        "ipFamilyPolicy",
        policy.unwrap_or_else(|| if free { "RequireDualStack" } else { "SingleStack" }.into()),
    );
    let dual = spec.get("ipFamilyPolicy").is_some_and(|policy| policy != "SingleStack");
    if free
        && dual
        && let Some(families) = spec.get_mut("ipFamilies").and_then(Value::as_array_mut)
        && families.len() == 1
    {
        let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
        families.push(other.into());
    }
    // A foreign address is refused when addresses are given out, by its own family.
    if foreign {
        return;
    }
    if spec.get("ipFamilies").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        let fresh = if free && dual { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
        spec.insert("ipFamilies".to_owned(), families.unwrap_or(fresh));
    }
}

/// Takes over addresses and ports a client left out, since they cannot change anyway.
fn keep_allocated(object: &mut Value, old: &Value) {
    if needs_address(object) && needs_address(old) {
        for field in ["clusterIP", "clusterIPs"] {
            let before = present(old, &format!("/spec/{field}")).cloned();
            if let (Some(before), Some(spec)) = (before, map_mut(object, "spec"))
                && spec.get(field).is_none_or(|value| value.is_null() || value == "" || value == &json!([]))
            {
                spec.insert(field.to_owned(), before);
            }
        }
    }
    if needs_node_ports(object) && needs_node_ports(old) {
        let before = items(old, "/spec/ports");
        let used = items(object, "/spec/ports").iter().map(|port| number(port, "/nodePort")).collect::<Vec<_>>();
        for port in each_mut(object, "/spec/ports") {
            let name = port.get("name").and_then(Value::as_str).unwrap_or_default();
            let same_name = before.iter().find(|old| text(old, "/name") == name);
            if let Some(kept) = same_name.map(|old| number(old, "/nodePort")).filter(|kept| !used.contains(kept)) {
                super::access::fill_number(port, "nodePort", kept);
            }
        }
    }
    if needs_health_port(object) && needs_health_port(old) {
        let kept = number(old, "/spec/healthCheckNodePort");
        if let Some(spec) = map_mut(object, "spec") {
            super::access::fill_number(spec, "healthCheckNodePort", kept);
        }
    }
}

/// Drops what the new type does not have and the client did not touch.
fn drop_for_type(object: &mut Value, old: &Value) {
    let unchanged = |object: &Value, field: &str| {
        same(object.pointer(&format!("/spec/{field}")), old.pointer(&format!("/spec/{field}")))
    };
    if needs_address(old) && !needs_address(object) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if unchanged(object, field) {
                remove(object, "/spec", field);
            }
        }
    }
    if needs_node_ports(old) && !needs_node_ports(object) {
        let before = items(old, "/spec/ports").iter().map(|port| number(port, "/nodePort")).collect::<Vec<_>>();
        for port in each_mut(object, "/spec/ports") {
            if port.get("nodePort").and_then(Value::as_i64).is_some_and(|port| before.contains(&port)) {
                port.remove("nodePort");
            }
        }
    }
    if needs_health_port(old) && !needs_health_port(object) && unchanged(object, "healthCheckNodePort") {
        remove(object, "/spec", "healthCheckNodePort");
    }
    if text(object, "/spec/type") != "LoadBalancer" {
        if text(old, "/spec/type") == "LoadBalancer" {
            for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
                if unchanged(object, field) {
                    remove(object, "/spec", field);
                }
            }
        }
        object["status"] = json!({"loadBalancer": {}});
    }
    if externally_accessible(old) && !externally_accessible(object) && unchanged(object, "externalTrafficPolicy") {
        remove(object, "/spec", "externalTrafficPolicy");
    }
}

/// A service that is only another name has no traffic to route.
fn drop_unused_policy(object: &mut Value) {
    if text(object, "/spec/type") == "ExternalName" {
        remove(object, "/spec", "internalTrafficPolicy");
    }
}

fn external_addresses(object: &Value) -> String {
    let given = texts(object, "/spec/externalIPs");
    match text(object, "/spec/type") {
        "ClusterIP" | "NodePort" if given.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => given.join(","),
        "LoadBalancer" => {
            let ingress = items(object, "/status/loadBalancer/ingress").iter();
            let mut all = ingress
                .map(|ingress| match text(ingress, "/ip") {
                    "" => text(ingress, "/hostname"),
                    ip => ip,
                })
                .filter(|address| !address.is_empty())
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>();
            all.extend(given);
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => text(object, "/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(object: &Value) -> String {
    let ports = items(object, "/spec/ports");
    if ports.is_empty() {
        return "<none>".to_owned();
    }
    let one = |port: &Value| {
        let (own, protocol) = (number(port, "/port"), text(port, "/protocol"));
        match number(port, "/nodePort") {
            0 => format!("{own}/{protocol}"),
            node => format!("{own}:{node}/{protocol}"),
        }
    };
    ports.iter().map(one).collect::<Vec<_>>().join(",")
}
