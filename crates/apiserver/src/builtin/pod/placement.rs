//! What may be wrong with where a pod may run and how it finds names.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::access::{items, number, present, text, texts};
use super::super::network_policy::selector_errors;
use super::super::service::net;
use crate::field::{FieldError, Path};
use crate::names;

/// Checks `dnsConfig` against `dnsPolicy`.
pub(super) fn dns(pod: &Value, path: &Path) -> Vec<FieldError> {
    let config = present(pod, "/spec/dnsConfig");
    let servers = texts(pod, "/spec/dnsConfig/nameservers");
    if text(pod, "/spec/dnsPolicy") == "None" {
        if config.is_none() {
            return vec![FieldError::required(path, "must provide `dnsConfig` when `dnsPolicy` is None")];
        }
        if servers.is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return vec![FieldError::required(&path.child("nameservers"), why)];
        }
    }
    let mut errors = Vec::new();
    if servers.len() > 3 {
        let why = "must not have more than 3 nameservers";
        errors.push(FieldError::invalid(&path.child("nameservers"), servers.clone(), why));
    }
    for (at, server) in servers.into_iter().enumerate() {
        errors.extend(net::address_errors(server, &path.child("nameservers").index(at)));
    }
    let searches = texts(pod, "/spec/dnsConfig/searches");
    if searches.len() > 32 {
        let why = "must not have more than 32 search paths";
        errors.push(FieldError::invalid(&path.child("searches"), searches.clone(), why));
    }
    for (at, search) in searches.into_iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        let path = path.child("searches").index(at);
        errors.extend(names::dns_search(search).into_iter().map(|why| FieldError::invalid(&path, search, why)));
    }
    for (at, option) in items(pod, "/spec/dnsConfig/options").iter().enumerate() {
        if text(option, "/name").is_empty() {
            errors.push(FieldError::required(&path.child("options").index(at), "must not be empty"));
        }
    }
    errors
}

/// Checks `topologySpreadConstraints`.
pub(super) fn spread(pod: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let constraints = items(pod, "/spec/topologySpreadConstraints");
    let pair = |constraint: &Value| {
        format!("{{{}, {}}}", text(constraint, "/topologyKey"), text(constraint, "/whenUnsatisfiable"))
    };
    let mut seen = BTreeSet::new();
    for (at, constraint) in constraints.iter().enumerate() {
        let path = path.index(at);
        let skew = number(constraint, "/maxSkew");
        if skew <= 0 {
            errors.push(FieldError::invalid(&path.child("maxSkew"), skew, "must be greater than zero"));
        }
        match text(constraint, "/topologyKey") {
            "" => errors.push(FieldError::required(&path.child("topologyKey"), "can not be empty")),
            key => {
                let why = names::qualified_name(key);
                errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("topologyKey"), key, why)));
            }
        }
        let when = text(constraint, "/whenUnsatisfiable");
        if !matches!(when, "DoNotSchedule" | "ScheduleAnyway") {
            let known = ["DoNotSchedule", "ScheduleAnyway"];
            errors.push(FieldError::not_supported(&path.child("whenUnsatisfiable"), when, &known));
        }
        let repeated = constraints.iter().skip(at + 1).any(|other| pair(other) == pair(constraint));
        if repeated && seen.insert(pair(constraint)) {
            let path = path.child("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(&path, pair(constraint)));
        }
        errors.extend(selector_errors(present(constraint, "/labelSelector"), &path.child("labelSelector")));
    }
    errors
}

/// Checks that a required node affinity asks for something.
pub(super) fn affinity(pod: &Value, path: &Path) -> Vec<FieldError> {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    match present(pod, &format!("/spec/affinity/nodeAffinity/{required}")) {
        Some(selector) if items(selector, "/nodeSelectorTerms").is_empty() => {
            let path = path.child("nodeAffinity").child(required).child("nodeSelectorTerms");
            vec![FieldError::required(&path, "must have at least one node selector term")]
        }
        _ => Vec::new(),
    }
}
