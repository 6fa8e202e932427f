//! What may be wrong with volumes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::access::{items, present, text};
use super::super::claim::spec_errors;
use super::containers::{field_reference, resource_reference};
use crate::field::{FieldError, Path};
use crate::names;
use crate::quantity::Quantity;

/// Every kind of volume, in the order Kubernetes looks at them.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];
const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const FIELD_PATHS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// The names of all volumes that are right, and what is wrong with the others.
pub(super) fn volumes<'a>(pod: &'a Value, path: &Path) -> (BTreeSet<&'a str>, Vec<FieldError>) {
    let mut known = BTreeSet::new();
    let mut all = Vec::new();
    for (at, volume) in items(pod, "/spec/volumes").iter().enumerate() {
        let path = path.index(at);
        let name = text(volume, "/name");
        let mut errors = source(volume, &path);
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        } else {
            let why = names::dns_label(name);
            errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("name"), name, why)));
        }
        if known.contains(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        if errors.is_empty() {
            known.insert(name);
        }
        all.extend(errors);
    }
    (known, all)
}

fn source(volume: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut count = 0;
    for kind in SOURCES {
        let Some(own) = volume.get(kind).filter(|value| !value.is_null()) else { continue };
        count += 1;
        let path = path.child(kind);
        if count > 1 {
            errors.push(FieldError::forbidden(&path, "may not specify more than 1 volume type"));
            continue;
        }
        errors.extend(one_source(kind, own, &path));
    }
    if count == 0 {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
    errors
}

fn one_source(kind: &str, source: &Value, path: &Path) -> Vec<FieldError> {
    let needed = |field: &str| {
        let missing = text(source, &format!("/{field}")).is_empty();
        missing.then(|| FieldError::required(&path.child(field), "")).into_iter().collect::<Vec<_>>()
    };
    match kind {
        "emptyDir" => {
            let limit = source.get("sizeLimit").and_then(|limit| Quantity::from_value(limit).ok());
            let why = "SizeLimit field must be a valid resource quantity";
            let wrong = limit.is_some_and(|limit| limit.is_negative());
            wrong.then(|| FieldError::forbidden(&path.child("sizeLimit"), why)).into_iter().collect()
        }
        "hostPath" => host_path(source, path),
        "secret" => [needed("secretName"), mode(source, "defaultMode", path), key_paths(source, path)].concat(),
        "configMap" => [needed("name"), mode(source, "defaultMode", path), key_paths(source, path)].concat(),
        "persistentVolumeClaim" => needed("claimName"),
        "nfs" => {
            let own = text(source, "/path");
            let wrong = (!own.starts_with('/'))
                .then(|| FieldError::invalid(&path.child("path"), own, "must be an absolute path"));
            [needed("server"), needed("path"), wrong.into_iter().collect()].concat()
        }
        "csi" => {
            let driver = text(source, "/driver");
            let why = names::dns_subdomain(&driver.to_lowercase());
            let wrong = why.into_iter().map(|why| FieldError::invalid(&path.child("driver"), driver, why)).collect();
            [needed("driver"), wrong].concat()
        }
        "downwardAPI" => [mode(source, "defaultMode", path), downward(source, path)].concat(),
        "projected" => [mode(source, "defaultMode", path), projected(source, path)].concat(),
        "ephemeral" => match present(source, "/volumeClaimTemplate/spec") {
            Some(spec) => spec_errors(spec, &path.child("volumeClaimTemplate").child("spec")),
            None => vec![FieldError::required(&path.child("volumeClaimTemplate"), "")],
        },
        _ => Vec::new(),
    }
}

fn host_path(source: &Value, path: &Path) -> Vec<FieldError> {
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let own = text(source, "/path");
    if own.is_empty() {
        return vec![FieldError::required(&path.child("path"), "")];
    }
    let mut errors = backsteps(own, &path.child("path"));
    let kind = text(source, "/type");
    if !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(&path.child("type"), kind, &TYPES));
    }
    errors
}

fn backsteps(inner: &str, path: &Path) -> Vec<FieldError> {
    let back = inner.split('/').any(|part| part == "..");
    back.then(|| FieldError::invalid(path, inner, "must not contain '..'")).into_iter().collect()
}

fn mode(source: &Value, field: &str, path: &Path) -> Vec<FieldError> {
    let mode = source.get(field).and_then(Value::as_i64).filter(|mode| !(0..=0o777).contains(mode));
    mode.map(|mode| FieldError::invalid(&path.child(field), mode, MODE)).into_iter().collect()
}

fn key_paths(source: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, item) in items(source, "/items").iter().enumerate() {
        let path = path.child("items").index(at);
        for field in ["key", "path"] {
            if text(item, &format!("/{field}")).is_empty() {
                errors.push(FieldError::required(&path.child(field), ""));
            }
        }
        errors.extend(local_path(text(item, "/path"), &path.child("path")));
        errors.extend(mode(item, "mode", &path));
    }
    errors
}

fn local_path(inner: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if inner.starts_with('/') {
        errors.push(FieldError::invalid(path, inner, "must be a relative path"));
    }
    errors.extend(backsteps(inner, path));
    if inner.starts_with("..") && !inner.starts_with("../") {
        errors.push(FieldError::invalid(path, inner, "must not start with '..'"));
    }
    errors
}

fn downward(source: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for item in items(source, "/items") {
        let own = text(item, "/path");
        if own.is_empty() {
            errors.push(FieldError::required(&path.child("path"), ""));
        }
        errors.extend(local_path(own, &path.child("path")));
        match (present(item, "/fieldRef"), present(item, "/resourceFieldRef")) {
            (Some(_), Some(_)) => {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(FieldError::invalid(path, "resource", why));
            }
            (Some(reference), None) => {
                errors.extend(field_reference(reference, &FIELD_PATHS, &path.child("fieldRef")));
            }
            (None, Some(reference)) => {
                errors.extend(resource_reference(reference, true, &path.child("resourceFieldRef")));
            }
            (None, None) => {
                errors.push(FieldError::required(path, "one of fieldRef and resourceFieldRef is required"));
            }
        }
        errors.extend(mode(item, "mode", path));
    }
    errors
}

fn projected(source: &Value, volume: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, one) in items(source, "/sources").iter().enumerate() {
        let path = volume.child("sources").index(at);
        let mut count = 0;
        for kind in ["secret", "downwardAPI", "configMap", "serviceAccountToken", "clusterTrustBundle"] {
            let Some(own) = one.get(kind).filter(|value| !value.is_null()) else { continue };
            count += 1;
            let path = path.child(kind);
            if count > 1 {
                errors.push(FieldError::forbidden(&path, "may not specify more than 1 volume type"));
                continue;
            }
            match kind {
                "secret" | "configMap" => {
                    if text(own, "/name").is_empty() {
                        errors.push(FieldError::required(&path.child("name"), ""));
                    }
                    errors.extend(key_paths(own, &path));
                }
                "downwardAPI" => errors.extend(downward(own, &path)),
                "serviceAccountToken" => errors.extend(token(own, &path, volume)),
                _ => {}
            }
        }
    }
    errors
}

fn token(source: &Value, path: &Path, volume: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let seconds = source.get("expirationSeconds").and_then(Value::as_i64).unwrap_or(3600);
    if seconds < 600 {
        let why = "may not specify a duration less than 10 minutes";
        errors.push(FieldError::invalid(&path.child("expirationSeconds"), seconds, why));
    }
    if seconds > 1 << 32 {
        let why = "may not specify a duration larger than 2^32 seconds";
        errors.push(FieldError::invalid(&path.child("expirationSeconds"), seconds, why));
    }
    match text(source, "/path") {
        "" => errors.push(FieldError::required(&volume.child("path"), "")),
        own => errors.extend(local_path(own, &volume.child("path"))),
    }
    errors
}

/// What is wrong with a reference to a key of a `ConfigMap` or Secret.
pub(super) fn key_reference(reference: &Value, path: &Path) -> Vec<FieldError> {
    let (name, key) = (text(reference, "/name"), text(reference, "/key"));
    let why = names::dns_subdomain(name);
    let mut errors: Vec<_> = why.into_iter().map(|why| FieldError::invalid(&path.child("name"), name, why)).collect();
    if key.is_empty() {
        errors.push(FieldError::required(&path.child("key"), ""));
    } else {
        let why = names::config_key(key);
        errors.extend(why.into_iter().map(|why| FieldError::invalid(&path.child("key"), key, why)));
    }
    errors
}
