//! What may be wrong with probes and lifecycle hooks.

use serde_json::Value;

use super::super::access::{items, number, present, text};
use super::super::service::port_or_name;
use crate::field::{FieldError, Path};
use crate::names;

/// Checks one probe of a container.
pub(super) fn probe(probe: &Value, name: &str, path: &Path) -> Vec<FieldError> {
    const FIELDS: [&str; 5] =
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
    let mut errors = handler(probe, path);
    for field in FIELDS {
        let value = number(probe, &format!("/{field}"));
        if value < 0 {
            errors.push(FieldError::invalid(&path.child(field), value, "must be greater than or equal to 0"));
        }
    }
    let grace = probe.pointer("/terminationGracePeriodSeconds").and_then(Value::as_i64);
    let grace_path = path.child("terminationGracePeriodSeconds");
    if let Some(grace) = grace.filter(|grace| *grace <= 0) {
        errors.push(FieldError::invalid(&grace_path, grace, "must be greater than 0"));
    }
    let success = number(probe, "/successThreshold");
    match (name, grace) {
        ("readinessProbe", Some(grace)) => {
            errors.push(FieldError::invalid(&grace_path, grace, "must not be set for readinessProbes"));
        }
        ("livenessProbe" | "startupProbe", _) if success != 1 => {
            errors.push(FieldError::invalid(&path.child("successThreshold"), success, "must be 1"));
        }
        _ => {}
    }
    errors
}

/// Checks the hooks of a container.
pub(super) fn lifecycle(container: &Value, grace: i64, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for hook in ["postStart", "preStop"] {
        if let Some(own) = present(container, &format!("/lifecycle/{hook}")) {
            errors.extend(handler(own, &path.child(hook)));
            errors.extend(sleep(own, grace, &path.child(hook).child("sleep")));
        }
    }
    errors
}

/// A container must wake before it is killed.
fn sleep(hook: &Value, grace: i64, path: &Path) -> Option<FieldError> {
    let seconds = present(hook, "/sleep/seconds")?.as_i64()?;
    let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
    (seconds < 0 || seconds > grace).then(|| FieldError::invalid(path, seconds, why))
}

fn handler(handler: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut count = 0;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(own) = handler.get(kind).filter(|value| !value.is_null()) else { continue };
        let path = path.child(kind);
        count += 1;
        if count > 1 {
            errors.push(FieldError::forbidden(&path, "may not specify more than 1 handler type"));
            continue;
        }
        match kind {
            "exec" if items(own, "/command").is_empty() => {
                errors.push(FieldError::required(&path.child("command"), ""));
            }
            "httpGet" => errors.extend(http_get(own, &path)),
            "tcpSocket" | "grpc" => errors.extend(port_or_name(own.get("port"), &path.child("port"))),
            _ => {}
        }
    }
    if count == 0 {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
    errors
}

fn http_get(action: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = port_or_name(action.get("port"), &path.child("port"));
    let scheme = text(action, "/scheme");
    if !matches!(scheme, "HTTP" | "HTTPS") {
        errors.push(FieldError::not_supported(&path.child("scheme"), scheme, &["HTTP", "HTTPS"]));
    }
    for header in items(action, "/httpHeaders") {
        let name = text(header, "/name");
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            let why = names::pattern(
                "a valid HTTP header must consist of alphanumeric characters or '-'",
                "[-A-Za-z0-9]+",
                &["X-Header-Name"],
            );
            errors.push(FieldError::invalid(&path.child("httpHeaders"), name, why));
        }
    }
    errors
}
