//! The volumes of a step's pod and who sees them where.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::location;
use super::super::names::{INIT, INPUTS, MAIN, MAIN_FILES, SECRETS, STAGING, WAIT};
use super::super::request::{PodRequest, Refusal};
use super::{Kind, container, list, ours, push, text};

/// Adds what the template's containers refer to, credentials, artifacts and the script.
pub(super) fn add(request: &PodRequest<'_>, template: &Value, kind: Kind, spec: &mut Value) -> Result<(), Refusal> {
    references(request, template, spec)?;
    secrets(template, spec);
    if let Some(claim) = request.settings.artifacts.as_ref().filter(|_| uses_directory(template)) {
        push(spec, "volumes", json!({"name": "thane-artifacts", "persistentVolumeClaim": {"claimName": claim}}));
        for one in ours(spec) {
            push(one, "volumeMounts", json!({"name": "thane-artifacts", "mountPath": location::DIRECTORY}));
        }
    }
    inputs(template, kind, spec)?;
    if kind == Kind::Script {
        push(spec, "volumes", json!({"name": "argo-staging", "emptyDir": {}}));
        for (group, name) in [("initContainers", INIT), ("containers", MAIN)] {
            if let Some(one) = container(spec, group, name) {
                push(one, "volumeMounts", json!({"name": "argo-staging", "mountPath": STAGING}));
            }
        }
    }
    Ok(())
}

/// The mounts of the user's own container.
pub(crate) fn own_mounts(template: &Value) -> &[Value] {
    let of = |name: &str| list(&template[name]["volumeMounts"]);
    if template["container"].is_object() { of("container") } else { of("script") }
}

/// The mount of the user's container that a path is on.
pub(crate) fn overlapping<'a>(template: &'a Value, path: &str) -> Option<&'a Value> {
    let mut mounts: Vec<&Value> = own_mounts(template).iter().collect();
    mounts.sort_by_key(|mount| std::cmp::Reverse(text(mount, "mountPath").len()));
    mounts.into_iter().find(|mount| {
        let at = text(mount, "mountPath").trim_end_matches('/');
        path == at || path.strip_prefix(at).is_some_and(|rest| rest.starts_with('/'))
    })
}

fn references(request: &PodRequest<'_>, template: &Value, spec: &mut Value) -> Result<(), Refusal> {
    let others = ["initContainers", "sidecars"].into_iter().flat_map(|name| list(&template[name]));
    let mounts = others.flat_map(|one| list(&one["volumeMounts"]));
    for mount in own_mounts(template).iter().chain(mounts) {
        let name = text(mount, "name");
        if list(&spec["volumes"]).iter().any(|volume| volume["name"] == name) {
            continue;
        }
        let mut known = list(&request.spec["volumes"]).iter().chain(request.claims);
        let found = known.find(|volume| volume["name"] == name);
        let found = found.ok_or_else(|| Refusal(format!("volume '{name}' not found in workflow spec")))?;
        push(spec, "volumes", found.clone());
    }
    Ok(())
}

/// Every secret that a location refers to, for `init` and `wait` only.
fn secrets(template: &Value, spec: &mut Value) {
    let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let artifacts = ["outputs", "inputs"].into_iter().flat_map(|side| list(&template[side]["artifacts"]));
    for place in std::iter::once(&template["archiveLocation"]).chain(artifacts) {
        for (name, key) in location::secrets(place) {
            keys.entry(name).or_default().insert(key);
        }
    }
    for (name, keys) in keys {
        let items: Vec<Value> = keys.iter().map(|key| json!({"key": key, "path": key})).collect();
        let volume = format!("argo-secret-{name}");
        push(spec, "volumes", json!({"name": volume, "secret": {"secretName": name, "items": items}}));
        for one in ours(spec) {
            let at = format!("{SECRETS}/{name}");
            push(one, "volumeMounts", json!({"name": volume, "mountPath": at, "readOnly": true}));
        }
    }
}

fn uses_directory(template: &Value) -> bool {
    let artifacts = ["outputs", "inputs"].into_iter().flat_map(|side| list(&template[side]["artifacts"]));
    std::iter::once(&template["archiveLocation"]).chain(artifacts).any(location::is_directory)
}

fn inputs(template: &Value, kind: Kind, spec: &mut Value) -> Result<(), Refusal> {
    let artifacts = list(&template["inputs"]["artifacts"]);
    if artifacts.is_empty() {
        return Ok(());
    }
    push(spec, "volumes", json!({"name": "input-artifacts", "emptyDir": {}}));
    if let Some(init) = container(spec, "initContainers", INIT) {
        push(init, "volumeMounts", json!({"name": "input-artifacts", "mountPath": INPUTS}));
        for mount in own_mounts(template) {
            push(init, "volumeMounts", seen(mount, false));
        }
    }
    for artifact in artifacts {
        let (name, path) = (text(artifact, "name"), text(artifact, "path"));
        if path.is_empty() && kind != Kind::Resource {
            return Err(Refusal(format!("error in inputs.artifacts.{name}: artifact path must not be empty")));
        }
        let is_left_out = !location::has_key(artifact) && artifact["optional"] == true;
        if path.is_empty() || is_left_out || overlapping(template, path).is_some() {
            continue;
        }
        if let Some(main) = container(spec, "containers", MAIN) {
            push(main, "volumeMounts", json!({"name": "input-artifacts", "mountPath": path, "subPath": name}));
        }
    }
    Ok(())
}

/// A mount of `main` as the others see it.
fn seen(mount: &Value, writable: bool) -> Value {
    let mut mount = mount.clone();
    let path = format!("{MAIN_FILES}/{}", text(&mount, "mountPath").trim_start_matches('/'));
    mount["mountPath"] = json!(path);
    if writable {
        // What lies below may be another volume, whose directory has to be made.
        mount["readOnly"] = json!(false);
    }
    mount
}

/// Shows `wait` the volumes of `main`.
pub(super) fn mirror(kind: Kind, spec: &mut Value) {
    if kind == Kind::Resource {
        return;
    }
    let mounts: Vec<Value> =
        container(spec, "containers", MAIN).map(|main| list(&main["volumeMounts"]).to_vec()).unwrap_or_default();
    if let Some(wait) = container(spec, "containers", WAIT) {
        for mount in &mounts {
            push(wait, "volumeMounts", seen(mount, true));
        }
    }
}
