//! Validation of a definition's `spec`.

use serde_json::{Map, Value};

use super::view::{Part, View, flag, strings, text};
use super::{conversion, openapi, rendered};
use crate::field::{FieldError, Path};
use crate::names as rules;

mod parts;

use parts::{columns, scale, selectable};

const APPROVED: &str = "api-approved.kubernetes.io";

pub(super) fn validate(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let view = View::new(crd);
    let path = Path::new("spec");
    let mut errors = group_and_scope(view.spec, &path);
    if view.top(Part::Schema).and_then(|schema| schema.get("openAPIV3Schema")).is_none() {
        for (at, version) in view.versions.iter().enumerate() {
            if version.pointer("/schema/openAPIV3Schema").is_none() {
                let path = View::own_path(at, Part::Schema).child("openAPIV3Schema");
                errors.push(FieldError::required(&path, ""));
            }
        }
    }
    let old_view = old.map(View::new);
    for at in 0..view.versions.len() {
        errors.extend(version(&view, at, old_view.as_ref()));
    }
    errors.extend(version_list(&view, &path));
    errors.extend(required_names(view.spec.get("names").unwrap_or(&Value::Null), &path.child("names")));
    errors.extend(shared(&view, old_view.as_ref()));
    errors.extend(conversion::validate(view.spec, old, &path));
    errors
}

fn group_and_scope(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let group = text(spec, "group").unwrap_or_default();
    let wrong = rules::dns_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required(&path.child("group"), ""));
    } else if !wrong.is_empty() {
        errors.push(FieldError::invalid(&path.child("group"), group, wrong.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(&path.child("group"), group, "should be a domain with at least one dot"));
    }
    match text(spec, "scope").unwrap_or_default() {
        "" => errors.push(FieldError::required(&path.child("scope"), "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported(&path.child("scope"), other, &["Cluster", "Namespaced"])),
    }
    errors
}

fn version(view: &View<'_>, at: usize, old: Option<&View<'_>>) -> Vec<FieldError> {
    let version = view.versions[at];
    let path = Path::new("spec").child("versions").index(at);
    let mut errors = Vec::new();
    let name = text(version, "name").unwrap_or_default();
    let wrong = rules::dns1035_label(name);
    if !wrong.is_empty() {
        errors.push(FieldError::invalid(&path.child("name"), name, wrong.join(",")));
    }
    if let Some(warning) = text(version, "deprecationWarning") {
        for why in deprecation(flag(version, "deprecated"), warning) {
            errors.push(FieldError::invalid(&path.child("deprecationWarning"), warning, why));
        }
    }
    if let Some(schema) = view.own(at, Part::Schema) {
        let before = old.and_then(|old| old.versions.iter().find(|v| text(v, "name") == Some(name)));
        let before = before.and_then(|version| version.pointer("/schema/openAPIV3Schema"));
        errors.extend(openapi::validate(schema, view.has_status(at), before, &path.child("schema")));
    }
    if let Some(subresources) = view.own(at, Part::Subresources) {
        errors.extend(scale(subresources, &path.child("subresources")));
    }
    if let Some(columns) = view.own(at, Part::Columns) {
        errors.extend(self::columns(columns, &path.child("additionalPrinterColumns")));
    }
    if let Some(fields) = view.own(at, Part::Selectable) {
        let schema = version.pointer("/schema/openAPIV3Schema");
        errors.extend(selectable(fields, schema, &path.child("selectableFields")));
    }
    errors
}

fn deprecation(deprecated: bool, warning: &str) -> Vec<String> {
    if !deprecated {
        return vec!["can only be set for deprecated versions".to_owned()];
    }
    let mut errors = Vec::new();
    if warning.len() > 256 {
        errors.push("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        errors.push("must not be an empty string".to_owned());
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control() || (c.is_whitespace() && *c != ' ')) {
        errors
            .push(format!("must only contain printable UTF-8 characters; non-printable character found at index {at}"));
    }
    errors
}

fn version_list(view: &View<'_>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let own = |at: usize| -> Map<String, Value> {
        let parts = [
            ("schema", Part::Schema),
            ("subresources", Part::Subresources),
            ("additionalPrinterColumns", Part::Columns),
            ("selectableFields", Part::Selectable),
        ];
        parts.iter().filter_map(|(name, part)| Some(((*name).to_owned(), view.own(at, *part)?.clone()))).collect()
    };
    let mut invalid = |why: &str| {
        let shown = rendered::versions(&view.versions, own);
        errors.push(FieldError::invalid_as(&path.child("versions"), shown, why));
    };
    let names = view.versions.iter().map(|version| text(version, "name").unwrap_or_default()).collect::<Vec<_>>();
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    if unique.len() != names.len() {
        invalid("must contain unique version names");
    }
    if view.versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        invalid("must have exactly one version marked as storage version");
    }
    if let Some(first) = names.first().filter(|first| !first.is_empty()) {
        let wrong = rules::dns1035_label(first);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(&path.child("version"), *first, wrong.join(",")));
        }
    }
    errors
}

/// What all versions share is checked once, under the names it has at the top.
fn shared(view: &View<'_>, old: Option<&View<'_>>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let any_status = (0..view.versions.len()).any(|at| view.has_status(at));
    let schema = view.top(Part::Schema);
    if let Some(schema) = schema {
        let before = old.and_then(|old| old.top(Part::Schema)).and_then(|schema| schema.get("openAPIV3Schema"));
        errors.extend(openapi::validate(schema, any_status, before, &View::top_path(Part::Schema)));
    }
    if let Some(subresources) = view.top(Part::Subresources) {
        errors.extend(scale(subresources, &View::top_path(Part::Subresources)));
    }
    if let Some(columns) = view.top(Part::Columns) {
        errors.extend(self::columns(columns, &View::top_path(Part::Columns)));
    }
    if let Some(fields) = view.top(Part::Selectable) {
        let path = View::top_path(Part::Selectable);
        match schema.and_then(|schema| schema.get("openAPIV3Schema")) {
            Some(schema) => errors.extend(selectable(fields, Some(schema), &path)),
            None => errors.push(FieldError::invalid(&path, "", "may only be set when validations.schema is included")),
        }
    }
    errors
}

fn required_names(value: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["plural", "singular", "kind", "listKind"] {
        if text(value, key).unwrap_or_default().is_empty() {
            errors.push(FieldError::required(&path.child(key), ""));
        }
    }
    errors.extend(names(value, path));
    errors
}

/// What is wrong with the names of a resource, where they are given.
pub(super) fn names(value: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["plural", "singular"] {
        let name = text(value, key).unwrap_or_default();
        let wrong = rules::dns1035_label(name);
        if !name.is_empty() && !wrong.is_empty() {
            errors.push(FieldError::invalid(&path.child(key), name, wrong.join(",")));
        }
    }
    for key in ["kind", "listKind"] {
        let name = text(value, key).unwrap_or_default();
        let wrong = rules::dns1035_label(&name.to_lowercase());
        if !name.is_empty() && !wrong.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
            errors.push(FieldError::invalid(&path.child(key), name, detail));
        }
    }
    let mut list = |key: &str| {
        for (at, name) in strings(value, key).into_iter().enumerate() {
            let wrong = rules::dns1035_label(name);
            if !wrong.is_empty() {
                errors.push(FieldError::invalid(&path.child(key).index(at), name, wrong.join(",")));
            }
        }
    };
    list("shortNames");
    let same = Some(text(value, "kind").unwrap_or_default()).filter(|kind| !kind.is_empty());
    if same.is_some() && same == text(value, "listKind") {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&path.child("listKind"), same.unwrap_or_default(), detail));
    }
    for (at, name) in strings(value, "categories").into_iter().enumerate() {
        let wrong = rules::dns1035_label(name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(&path.child("categories").index(at), name, wrong.join(",")));
        }
    }
    errors
}

/// What is fixed once a definition is established, and what always is.
pub(super) fn immutable(crd: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut same = |pointer: &str, path: &Path| {
        let now = crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if now != old.pointer(pointer).and_then(Value::as_str).unwrap_or_default() {
            errors.push(FieldError::invalid(path, now, "field is immutable"));
        }
    };
    let spec = Path::new("spec");
    if super::names::is_true(old, "Established") {
        same("/spec/scope", &spec.child("scope"));
        same("/spec/names/kind", &spec.child("names").child("kind"));
    }
    same("/spec/group", &spec.child("group"));
    same("/spec/names/plural", &spec.child("names").child("plural"));
    errors
}

/// Every version ever stored stays listed, and the present one is among them.
pub(super) fn stored_versions(crd: &Value) -> Vec<FieldError> {
    let path = Path::new("status").child("storedVersions");
    let status = crd.get("status").unwrap_or(&Value::Null);
    let stored = strings(status, "storedVersions");
    if stored.is_empty() {
        return vec![FieldError::invalid(&path, Value::Null, "must have at least one stored version")];
    }
    let mut errors = Vec::new();
    let mut left = stored.clone();
    for version in View::new(crd).versions {
        let name = text(version, "name").unwrap_or_default();
        if flag(version, "storage") && !left.contains(&name) {
            let shown = Value::from(stored.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
            errors.push(FieldError::invalid(&path, shown, format!("must have the storage version {name}")));
        }
        left.retain(|other| *other != name);
    }
    for name in left {
        let at = stored.iter().position(|other| *other == name).unwrap_or_default();
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {name} and removes {name} from \
             status.storedVersions"
        );
        errors.push(FieldError::invalid(&path.index(at), name, detail));
    }
    errors
}

/// Groups of the Kubernetes community need an approval annotation.
pub(super) fn approval(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let group = crd.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
    let within = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    if !within("k8s.io") && !within("kubernetes.io") {
        return Vec::new();
    }
    let state = |crd: &Value| {
        let value = crd.get("metadata").and_then(|meta| meta.get("annotations")).and_then(|all| text(all, APPROVED));
        match value.unwrap_or_default() {
            "" => 0,
            text if text.starts_with("unapproved") => 1,
            text if text.contains("://") && crate::schema::formats::matches("uri", text) => 2,
            _ => 3,
        }
    };
    let now = state(crd);
    if old.is_some_and(|old| state(old) == now) {
        return Vec::new();
    }
    let path = Path::new("metadata").child("annotations").key(APPROVED);
    let link = "see https://github.com/kubernetes/enhancements/pull/1111";
    match now {
        0 => {
            let why = format!("protected groups must have approval annotation \"{APPROVED}\", {link}");
            vec![FieldError::required(&path, why)]
        }
        3 => {
            let value = crd.pointer("/metadata/annotations").and_then(|all| text(all, APPROVED)).unwrap_or_default();
            let why = format!(
                "protected groups must have approval annotation \"{APPROVED}\" with either a URL or a reason starting \
                 with \"unapproved\", {link}"
            );
            vec![FieldError::invalid(&path, value, why)]
        }
        _ => Vec::new(),
    }
}

pub(super) fn preserve_unknown_fields(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let is_on = |crd: &Value| crd.get("spec").is_some_and(|spec| flag(spec, "preserveUnknownFields"));
    if !is_on(crd) || old.is_some_and(is_on) {
        return Vec::new();
    }
    let detail =
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    vec![FieldError::invalid(&Path::new("spec").child("preserveUnknownFields"), true, detail)]
}
