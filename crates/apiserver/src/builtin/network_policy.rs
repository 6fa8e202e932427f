//! `NetworkPolicy`, and checks of label selectors.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{each_mut, fill_text, items, map, map_mut, present, same, text, texts};
use super::columns::{AGE, NAME, age, column, name};
use super::service::net;
use super::tidy::tidy;
use super::{Column, Strategy};
use crate::field::{FieldError, Path};
use crate::metadata::validate_labels;
use crate::names;
use crate::selector::{Labels, values_error};

pub(super) struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn default(&self, object: &mut Value) {
        tidy(object);
        let egress = !items(object, "/spec/egress").is_empty();
        for direction in ["ingress", "egress"] {
            let pointer = format!("/spec/{direction}");
            let rules = object.pointer_mut(&pointer).and_then(Value::as_array_mut);
            for rule in rules.into_iter().flatten() {
                each_mut(rule, "/ports").for_each(|port| fill_text(port, "protocol", "TCP"));
            }
        }
        if let Some(spec) = map_mut(object, "spec") {
            super::access::fill(spec, "podSelector", json!({}));
            if spec.get("policyTypes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
                let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
                spec.insert("policyTypes".to_owned(), types);
            }
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let at = Path::new("spec");
        let mut errors = selector_errors(object.pointer("/spec/podSelector"), &at.child("podSelector"));
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            for (index, rule) in items(object, &format!("/spec/{direction}")).iter().enumerate() {
                let path = at.child(direction).index(index);
                for (index, port) in items(rule, "/ports").iter().enumerate() {
                    errors.extend(port_errors(port, &path.child("ports").index(index)));
                }
                for (index, peer) in items(rule, &format!("/{peers}")).iter().enumerate() {
                    errors.extend(peer_errors(peer, &path.child(peers).index(index)));
                }
            }
        }
        let types = texts(object, "/spec/policyTypes");
        let path = at.child("policyTypes");
        if types.len() > 2 {
            errors.push(FieldError::invalid(&path, types, "may not specify more than two policyTypes"));
            return errors;
        }
        for (index, kind) in types.into_iter().enumerate().filter(|(_, kind)| !matches!(*kind, "Ingress" | "Egress")) {
            errors.push(FieldError::not_supported(&path.index(index), kind, &["Ingress", "Egress"]));
        }
        errors
    }

    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        names::subdomain_name(name, prefix)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn raises_generation(&self, object: &Value, old: &Value) -> bool {
        !same(object.get("spec"), old.get("spec"))
    }

    fn columns(&self) -> &'static [Column] {
        const { &[NAME, column("Pod-Selector", "Which pods the policy is about."), AGE] }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let selector = match Labels::from_object(object.pointer("/spec/podSelector")) {
            Ok(selector) if selector.requirements().is_empty() => "<none>".to_owned(),
            Ok(selector) => selector.to_string(),
            Err(_) => "<error>".to_owned(),
        };
        vec![name(object), selector.into(), age(object, now)]
    }
}

fn port_errors(port: &Value, path: &Path) -> Vec<FieldError> {
    const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
    let mut errors = Vec::new();
    let protocol = text(port, "/protocol");
    if present(port, "/protocol").is_some() && !PROTOCOLS.contains(&protocol) {
        errors.push(FieldError::not_supported(&path.child("protocol"), protocol, &PROTOCOLS));
    }
    let end = port.pointer("/endPort").and_then(Value::as_i64);
    let end_path = path.child("endPort");
    match present(port, "/port") {
        Some(Value::Number(number)) => {
            let number = number.as_i64().unwrap_or_default();
            let why = names::port_number(number);
            errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("port"), number, why)));
            if let Some(end) = end {
                if end < number {
                    errors.push(FieldError::invalid(&end_path, number, "must be greater than or equal to `port`"));
                }
                let why = names::port_number(end);
                errors.extend(why.into_iter().map(|why| FieldError::invalid(&end_path, end, why)));
            }
        }
        Some(other) => {
            if let Some(end) = end {
                let why = "may not be specified when `port` is non-numeric";
                errors.push(FieldError::invalid(&end_path, end, why));
            }
            let text = other.as_str().unwrap_or_default();
            let why = names::port_name(text);
            errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("port"), text, why)));
        }
        None => {
            if let Some(end) = end {
                let why = "may not be specified when `port` is not specified";
                errors.push(FieldError::invalid(&end_path, end, why));
            }
        }
    }
    errors
}

fn peer_errors(peer: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut peers = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = peer.get(field).filter(|selector| !selector.is_null()) {
            peers += 1;
            errors.extend(selector_errors(Some(selector), &path.child(field)));
        }
    }
    let block = present(peer, "/ipBlock");
    if let Some(block) = block {
        peers += 1;
        errors.extend(block_errors(block, &path.child("ipBlock")));
    }
    if peers == 0 {
        errors.push(FieldError::required(path, "must specify a peer"));
    } else if peers > 1 && block.is_some() {
        errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
    }
    errors
}

fn block_errors(block: &Value, path: &Path) -> Vec<FieldError> {
    let range = text(block, "/cidr");
    if range.is_empty() {
        return vec![FieldError::required(&path.child("cidr"), "")];
    }
    let mut errors = net::range_errors(range, &path.child("cidr"));
    let Some(outer) = net::parse_range(range) else { return errors };
    for (index, except) in texts(block, "/except").into_iter().enumerate() {
        let path = path.child("except").index(index);
        errors.extend(net::range_errors(except, &path));
        let Some(inner) = net::parse_range(except) else { continue };
        if !outer.contains(&inner.network()) || outer.prefix_len() >= inner.prefix_len() {
            errors.push(FieldError::invalid(&path, except, "must be a strict subset of `cidr`"));
        }
    }
    errors
}

/// What is wrong with a `LabelSelector` object; nothing is wrong with an absent one.
pub(super) fn selector_errors(selector: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let Some(selector) = selector else { return Vec::new() };
    let mut errors = validate_labels(map(selector, "/matchLabels"), &path.child("matchLabels"));
    for (index, expression) in items(selector, "/matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(index);
        let values = texts(expression, "/values");
        let operator = text(expression, "/operator");
        errors.extend(values_error(operator, !values.is_empty(), &path));
        if !matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist") {
            let why = "not a valid selector operator";
            errors.push(FieldError::invalid(&path.child("operator"), operator, why));
        }
        let key = text(expression, "/key");
        let why = names::qualified_name(key);
        errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("key"), key, why)));
        for (index, value) in values.into_iter().enumerate() {
            let path = path.child("values").index(index);
            errors.extend(names::label_value(value).into_iter().map(|why| FieldError::invalid(&path, value, why)));
        }
    }
    errors
}
