//! Validation of `spec.conversion`.

use serde_json::Value;

use super::view::{strings, text};
use crate::field::{FieldError, Path};
use crate::names as rules;

const ACCEPTED: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn validate(spec: &Value, old: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let Some(conversion) = spec.get("conversion").filter(|value| !value.is_null()) else { return Vec::new() };
    let path = path.child("conversion");
    let webhook = conversion.get("webhook").filter(|value| !value.is_null());
    let client = webhook.and_then(|webhook| webhook.get("clientConfig")).filter(|value| !value.is_null());
    let versions = webhook.map(|webhook| strings(webhook, "conversionReviewVersions")).unwrap_or_default();
    let mut errors = Vec::new();
    match text(conversion, "strategy").unwrap_or_default() {
        "" => errors.push(FieldError::required(&path.child("strategy"), "")),
        "None" | "Webhook" => {}
        other => errors.push(FieldError::not_supported(&path.child("strategy"), other, &["None", "Webhook"])),
    }
    let at = path.child("webhookClientConfig");
    if text(conversion, "strategy") != Some("Webhook") {
        let detail = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.push(FieldError::forbidden(&at, detail));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(&path.child("conversionReviewVersions"), detail));
        }
        return errors;
    }
    match client {
        None => errors.push(FieldError::required(&at, "required when strategy is set to Webhook")),
        Some(client) => errors.extend(client_config(client, &at)),
    }
    let lenient = old.and_then(|old| old.pointer("/spec/conversion/webhook")).is_some_and(|webhook| {
        let before = strings(webhook, "conversionReviewVersions");
        !before.is_empty() && !before.iter().any(|version| ACCEPTED.contains(version))
    });
    errors.extend(review_versions(&versions, !lenient, &path.child("conversionReviewVersions")));
    // Nobody is asked to convert here, so that what needs it would be shown as it is stored. One that is there may go on.
    let was_there = old.and_then(|old| old.get("spec")).is_some_and(needs_webhook);
    if errors.is_empty() && needs_webhook(spec) && !was_there {
        errors.push(FieldError::not_supported(&path.child("strategy"), "Webhook", &["None"]));
    }
    errors
}

/// Whether objects of one version may have to be shown in another, by a webhook.
fn needs_webhook(spec: &Value) -> bool {
    let several = spec.get("versions").and_then(Value::as_array).is_some_and(|versions| versions.len() > 1);
    several && spec.pointer("/conversion/strategy").and_then(Value::as_str) == Some("Webhook")
}

fn client_config(client: &Value, path: &Path) -> Vec<FieldError> {
    let url = text(client, "url");
    let service = client.get("service").filter(|value| !value.is_null());
    match (url, service) {
        (Some(url), None) => webhook_url(url, &path.child("url")),
        (None, Some(service)) => webhook_service(service, &path.child("service")),
        _ => vec![FieldError::required(path, "exactly one of url or service is required")],
    }
}

fn webhook_url(url: &str, path: &Path) -> Vec<FieldError> {
    const FORM: &str = "; desired format: https://host[/path]";
    let mut errors = Vec::new();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        errors.push(FieldError::invalid(path, scheme, format!("'https' is the only allowed URL scheme{FORM}")));
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() || scheme.is_empty() {
        errors.push(FieldError::invalid(path, "", format!("host must be specified{FORM}")));
    }
    if let Some((user, _)) = host.rsplit_once('@') {
        errors.push(FieldError::invalid(path, user, "user information is not permitted in the URL"));
    }
    if let Some((_, fragment)) = rest.split_once('#') {
        errors.push(FieldError::invalid(path, fragment, "fragments are not permitted in the URL"));
    }
    let query = rest.split('#').next().and_then(|rest| rest.split_once('?'));
    if let Some((_, query)) = query.filter(|(_, query)| !query.is_empty()) {
        errors.push(FieldError::invalid(path, query, "query parameters are not permitted in the URL"));
    }
    errors
}

fn webhook_service(service: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if text(service, "name").unwrap_or_default().is_empty() {
        errors.push(FieldError::required(&path.child("name"), "service name is required"));
    }
    if text(service, "namespace").unwrap_or_default().is_empty() {
        errors.push(FieldError::required(&path.child("namespace"), "service namespace is required"));
    }
    if let Some(port) = service.get("port").and_then(Value::as_i64).filter(|port| !(1..=65535).contains(port)) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(&path.child("port"), port, detail));
    }
    if let Some(given) = text(service, "path") {
        if !given.starts_with('/') {
            errors.push(FieldError::invalid(&path.child("path"), given, "must start with a '/'"));
        } else if given != "/" {
            let steps = given[1..].strip_suffix('/').unwrap_or(&given[1..]).split('/');
            for (at, step) in steps.enumerate() {
                if step.is_empty() {
                    let detail = format!("segment[{at}] may not be empty");
                    errors.push(FieldError::invalid(&path.child("path"), given, detail));
                    continue;
                }
                for why in rules::dns_subdomain(step) {
                    let detail = format!("segment[{at}]: {why}");
                    errors.push(FieldError::invalid(&path.child("path"), given, detail));
                }
            }
        }
    }
    errors
}

fn review_versions(versions: &[&str], recognised: bool, path: &Path) -> Vec<FieldError> {
    if versions.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let mut errors = Vec::new();
    for (at, version) in versions.iter().enumerate() {
        if versions[..at].contains(version) {
            errors.push(FieldError::invalid(&path.index(at), *version, "duplicate version"));
            continue;
        }
        for why in rules::dns1035_label(version) {
            errors.push(FieldError::invalid(&path.index(at), *version, why));
        }
    }
    if recognised && !versions.iter().any(|version| ACCEPTED.contains(version)) {
        let shown = Value::from(versions.iter().map(|version| (*version).to_owned()).collect::<Vec<_>>());
        let detail = format!("must include at least one of {}", ACCEPTED.join(", "));
        errors.push(FieldError::invalid(path, shown, detail));
    }
    errors
}
