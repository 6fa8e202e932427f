//! What may be wrong with an event; all of it about the core/v1 form.

use serde_json::Value;

use super::super::access::{map, number, present, same, text};
use crate::field::{FieldError, Path};
use crate::{metadata, names};

pub(super) fn create(event: &Value, strict: bool) -> Vec<FieldError> {
    let mut errors = basic(event, strict);
    if !strict {
        return errors;
    }
    errors.extend(series(event));
    if text(event, "/eventTime").is_empty() {
        errors.push(FieldError::required(&Path::new("eventTime"), ""));
    }
    let kind = text(event, "/type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid(&Path::new("type"), "", format!("has invalid value: {kind}")));
    }
    let unset = |field: &str, set: bool| set.then(|| FieldError::invalid(&Path::new(field), "", "needs to be unset"));
    errors.extend(unset("firstTimestamp", !text(event, "/firstTimestamp").is_empty()));
    errors.extend(unset("lastTimestamp", !text(event, "/lastTimestamp").is_empty()));
    errors.extend(unset("count", number(event, "/count") != 0));
    let source = |field: &str| !text(event, &format!("/source/{field}")).is_empty();
    errors.extend(unset("source", source("component") || source("host")));
    errors
}

pub(super) fn update(event: &Value, old: &Value, strict: bool) -> Vec<FieldError> {
    const FIELDS: [&str; 14] = [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingController",
        "reportingInstance",
    ];
    let mut errors = basic(event, strict);
    if !strict {
        return errors;
    }
    if !same(event.get("series"), old.get("series")) {
        errors.extend(series(event));
    }
    for field in FIELDS {
        let key = if field == "reportingController" { "reportingComponent" } else { field };
        if !same(event.get(key), old.get(key)) {
            let shown = event.get(key).cloned().unwrap_or_default();
            errors.push(FieldError::invalid(&Path::new(field), shown, "field is immutable"));
        }
    }
    errors
}

fn series(event: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(series) = present(event, "/series").filter(|_| map(event, "/series").is_some()) {
        if number(series, "/count") < 2 {
            errors.push(FieldError::invalid(&Path::new("series.count"), "", "should be at least 2"));
        }
        if text(series, "/lastObservedTime").is_empty() {
            errors.push(FieldError::required(&Path::new("series.lastObservedTime"), ""));
        }
    }
    errors
}

fn basic(event: &Value, strict: bool) -> Vec<FieldError> {
    let namespace = metadata::namespace(event);
    let about = text(event, "/involvedObject/namespace");
    let timed = !text(event, "/eventTime").is_empty();
    let agrees = match (timed, about) {
        (false, "") => matches!(namespace, "" | "default"),
        (false, _) => namespace == about,
        (true, "") => matches!(namespace, "default" | "kube-system"),
        (true, _) => true,
    };
    let mut errors = Vec::new();
    if !agrees {
        let path = Path::new("involvedObject.namespace");
        errors.push(FieldError::invalid(&path, about, "does not match event.namespace"));
    }
    if timed {
        errors.extend(timed_errors(event, strict));
    }
    let path = Path::new("namespace");
    errors.extend(names::dns_subdomain(namespace).into_iter().map(|why| FieldError::invalid(&path, namespace, why)));
    errors
}

fn timed_errors(event: &Value, strict: bool) -> Vec<FieldError> {
    const LIMIT: usize = 128;
    const NOTE_LIMIT: usize = 1024;
    let controller = text(event, "/reportingComponent");
    let path = Path::new(if strict { "reportingController" } else { "reportingComponent" });
    let mut errors = Vec::new();
    if controller.is_empty() {
        errors.push(FieldError::required(&path, ""));
    }
    errors.extend(names::qualified_name(controller).into_iter().map(|why| FieldError::invalid(&path, controller, why)));
    let mut check = |field: &str, limit: usize, needed: bool| {
        let length = text(event, &format!("/{field}")).len();
        if length == 0 && needed {
            errors.push(FieldError::required(&Path::new(field), ""));
        }
        if length > limit {
            let why = format!("can have at most {limit} characters");
            errors.push(FieldError::invalid(&Path::new(field), "", why));
        }
    };
    check("reportingInstance", LIMIT, true);
    check("action", LIMIT, true);
    check("reason", LIMIT, true);
    check("message", NOTE_LIMIT, false);
    errors
}
