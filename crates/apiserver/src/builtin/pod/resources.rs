//! Amounts of CPU, memory and the like that containers ask for.

use serde_json::{Map, Value};

use super::super::access::{items, map};
use crate::field::{FieldError, Path};
use crate::names;
use crate::quantity::Quantity;

/// Writes the amounts of a map as Kubernetes does, rounded up to thousandths.
pub(in crate::builtin) fn canonicalise_map(amounts: Option<&mut Value>) {
    for amount in amounts.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        if let Ok(quantity) = Quantity::from_value(amount) {
            *amount = quantity.rounded_to_milli().to_string().into();
        }
    }
}

/// Writes the amounts of `limits` and `requests` as Kubernetes does.
pub(in crate::builtin) fn canonicalise_lists(resources: Option<&mut Value>) {
    let Some(resources) = resources else { return };
    for field in ["limits", "requests"] {
        canonicalise_map(resources.get_mut(field));
    }
}

/// The quality of service of a pod: what happens to it when its node runs short.
pub(super) fn quality(pod: &Value) -> &'static str {
    let containers = items(pod, "/spec/containers").iter().chain(items(pod, "/spec/initContainers"));
    let (mut any, mut guaranteed) = (false, true);
    for container in containers {
        let amount = |list: &str, name: &str| {
            let value = map(container, &format!("/resources/{list}"))?.get(name)?;
            Quantity::from_value(value).ok().filter(|quantity| !quantity.is_zero())
        };
        for name in ["cpu", "memory"] {
            let (limit, request) = (amount("limits", name), amount("requests", name));
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// What is wrong with the resources of a container.
pub(super) fn errors(container: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let limits = map(container, "/resources/limits");
    let (mut huge, mut ordinary) = (false, false);
    for list in ["limits", "requests"] {
        let at = path.child(list);
        for (name, value) in map(container, &format!("/resources/{list}")).into_iter().flatten() {
            let own = at.key(name);
            huge |= name.starts_with("hugepages-");
            ordinary |= matches!(name.as_str(), "cpu" | "memory");
            errors.extend(name_errors(name, &own));
            let Ok(amount) = Quantity::from_value(value) else { continue };
            if amount.is_negative() {
                let why = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(&own, amount.to_string(), why));
            }
            if is_counted(name) && !amount.is_whole() {
                errors.push(FieldError::invalid(&own, amount.to_string(), "must be an integer"));
            }
            if list == "requests" {
                errors.extend(against_limit(name, &amount, limits, path));
            }
        }
    }
    if huge && !ordinary {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
    errors
}

fn against_limit(
    name: &str,
    amount: &Quantity,
    limits: Option<&Map<String, Value>>,
    path: &Path,
) -> Option<FieldError> {
    let requests = path.child("requests");
    let overcommits = !name.contains('/') && !name.starts_with("hugepages-");
    match limits.and_then(|limits| limits.get(name)).and_then(|value| Quantity::from_value(value).ok()) {
        Some(limit) if *amount != limit && !overcommits => Some(FieldError::invalid(
            &requests,
            amount.to_string(),
            format!("must be equal to {name} limit of {limit}"),
        )),
        Some(limit) if *amount > limit => Some(FieldError::invalid(
            &requests,
            amount.to_string(),
            format!("must be less than or equal to {name} limit of {limit}"),
        )),
        None if !overcommits => {
            Some(FieldError::required(&path.child("limits"), "Limit must be set for non overcommitable resources"))
        }
        _ => None,
    }
}

fn is_counted(name: &str) -> bool {
    name.contains('/') && !name.starts_with("kubernetes.io/")
}

fn name_errors(name: &str, path: &Path) -> Vec<FieldError> {
    let mut errors: Vec<_> =
        names::qualified_name(name).into_iter().map(|why| FieldError::invalid(path, name, why)).collect();
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !name.contains('/') && !standard {
        if errors.is_empty() {
            errors.push(FieldError::invalid(path, name, "must be a standard resource type or fully qualified"));
        }
        errors.push(FieldError::invalid(path, name, "must be a standard resource for containers"));
    }
    errors
}
