//! Templates that call no others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::scope::{Known, Names};
use super::template::as_json;
use super::{Base, Validator, names};
use crate::spec::{Container, ContainerSet, Resource, Template, integer};

impl Validator<'_> {
    pub(super) fn leaf(&mut self, known: &Known, base: &Base, template: &Template) -> Result<(), String> {
        let name = &template.name;
        let names = Names { known, own: &Known::new(), ancestors: &BTreeSet::new() };
        self.resolve(&names, &as_json(template)?).map_err(|error| format!("templates.{name}: {error}"))?;
        let defaults = base.spec.template_defaults.as_ref().filter(|_| base.has_defaults);
        if let Some(container) = &template.container {
            check_mounts(template, container)?;
            let default = defaults.and_then(|defaults| defaults.container.as_ref());
            check_image(name, "container", container, default)?;
        }
        if let Some(set) = &template.container_set {
            check_set(set).map_err(|error| format!("templates.{name}.containerSet.{error}"))?;
            let (inputs, outputs) = (&template.inputs, &template.outputs);
            let staged =
                !inputs.artifacts.is_empty() || !outputs.parameters.is_empty() || !outputs.artifacts.is_empty();
            if staged && !set.containers.iter().any(|container| container.name == "main") {
                return Err(format!(
                    "templates.{name}.containerSet.containers must have a container named \"main\" for input or output"
                ));
            }
        }
        if let Some(resource) = &template.resource {
            check_resource(template, resource)?;
        }
        if let Some(script) = &template.script {
            let default = defaults.and_then(|defaults| defaults.script.as_ref());
            check_image(name, "script", script, default)?;
        }
        check_deadline(template)?;
        if template.parallelism.is_some() {
            return Err(format!("templates.{name}.parallelism is only valid for steps and dag templates"));
        }
        Ok(())
    }
}

fn check_mounts(template: &Template, container: &Container) -> Result<(), String> {
    let name = &template.name;
    let mut mounted: HashMap<&str, String> = HashMap::new();
    for (index, mount) in container.volume_mounts.iter().enumerate() {
        if let Some(before) = mounted.get(mount.mount_path.as_str()) {
            return Err(format!(
                "templates.{name}.container.volumeMounts[{index}].mountPath '{}' already mounted in {before}",
                mount.mount_path
            ));
        }
        mounted.insert(&mount.mount_path, format!("container.volumeMounts.{}", mount.name));
    }
    for (index, artifact) in template.inputs.artifacts.iter().enumerate() {
        if let Some(before) = mounted.get(artifact.path.as_str()) {
            return Err(format!(
                "templates.{name}.inputs.artifacts[{index}].path '{}' already mounted in {before}",
                artifact.path
            ));
        }
        mounted.insert(&artifact.path, format!("inputs.artifacts.{}", artifact.name));
    }
    Ok(())
}

fn check_image(name: &str, kind: &str, container: &Container, default: Option<&Container>) -> Result<(), String> {
    if container.image.is_empty() && default.is_none_or(|default| default.image.is_empty()) {
        return Err(format!("templates.{name}.{kind}.image may not be empty"));
    }
    Ok(())
}

fn check_set(set: &ContainerSet) -> Result<(), String> {
    if set.containers.is_empty() {
        return Err("containers must have at least one container".to_owned());
    }
    names::fields(set.containers.iter().map(|container| container.name.as_str()), names::field)
        .map_err(|error| format!("containers{error}"))?;
    let mut mounted: BTreeMap<&str, &str> = BTreeMap::new();
    for (index, mount) in set.volume_mounts.iter().enumerate() {
        if let Some(before) = mounted.insert(&mount.mount_path, &mount.name) {
            return Err(format!(
                "volumeMounts[{index}].mountPath '{}' already mounted in volumeMounts.{before}",
                mount.mount_path
            ));
        }
    }
    let by_name: BTreeMap<&str, &Container> = set.containers.iter().map(|c| (c.name.as_str(), c)).collect();
    for container in &set.containers {
        if let Some(missing) = container.dependencies.iter().find(|name| !by_name.contains_key(name.as_str())) {
            return Err(format!("containers.{} dependency '{missing}' not defined", container.name));
        }
    }
    // whoever waits for nobody that is left can start; whoever never can is in a cycle
    let mut left = by_name;
    loop {
        let ready: Vec<&str> = left
            .values()
            .filter(|container| !container.dependencies.iter().any(|name| left.contains_key(name.as_str())))
            .map(|container| container.name.as_str())
            .collect();
        if ready.is_empty() {
            break;
        }
        left.retain(|name, _| !ready.contains(name));
    }
    match left.keys().next() {
        Some(name) => Err(format!("containers dependency cycle detected: {name}->{name}")),
        None => Ok(()),
    }
}

fn check_resource(template: &Template, resource: &Resource) -> Result<(), String> {
    const ACTIONS: [&str; 6] = ["get", "create", "apply", "delete", "replace", "patch"];
    let name = &template.name;
    let action = resource.action.as_str();
    if !names::is_placeholder(action) && !ACTIONS.contains(&action) {
        return Err(format!(
            "templates.{name}.resource.action must be one of: get, create, apply, delete, replace, patch"
        ));
    }
    if matches!(action, "delete" | "get") {
        return Ok(());
    }
    if resource.manifest.is_empty() && resource.manifest_from.is_none() {
        return Err(format!(
            "either templates.{name}.resource.manifest or templates.{name}.resource.manifestFrom must be specified"
        ));
    }
    if !resource.manifest.is_empty() && resource.manifest_from.is_some() {
        return Err("shouldn't have both `manifest` and `manifestFrom` specified in `Manifest` for resource template"
            .to_owned());
    }
    if let Some(artifact) = resource.manifest_from.as_ref().and_then(|from| from.artifact.as_ref())
        && template.inputs.artifact(&artifact.name).is_none()
    {
        return Err(format!("artifact {} in `manifestFrom` refer to a non-exist artifact", artifact.name));
    }
    if !resource.manifest.is_empty() && !names::is_placeholder(&resource.manifest) {
        let parsed: Result<Value, _> = serde_saphyr::from_str(&without_expressions(&resource.manifest));
        if parsed.is_err() {
            return Err(format!("templates.{name}.resource.manifest must be a valid yaml"));
        }
    }
    Ok(())
}

/// A manifest with a word in the place of each expression: unquoted, they would not be YAML.
fn without_expressions(manifest: &str) -> String {
    let (mut out, mut rest) = (String::new(), manifest);
    while let Some(start) = rest.find("{{") {
        let inside = &rest[start + 2..];
        match inside.find("}}") {
            Some(length) if inside.trim_start().starts_with('=') => {
                out.push_str(&rest[..start]);
                out.push_str(names::PLACEHOLDER);
                out.push('0');
                rest = &inside[length + 2..];
            }
            _ => {
                out.push_str(&rest[..start + 2]);
                rest = inside;
            }
        }
    }
    out.push_str(rest);
    out
}

fn check_deadline(template: &Template) -> Result<(), String> {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    let Some(deadline) = &template.active_deadline_seconds else { return Ok(()) };
    let valid = match (integer(deadline), deadline) {
        (Some(number), _) => number >= 0,
        (None, IntOrString::String(text)) => {
            names::is_placeholder(text) || text.starts_with("{{") && text.ends_with("}}")
        }
        (None, IntOrString::Int(_)) => false,
    };
    if valid {
        return Ok(());
    }
    Err(format!("templates.{}.activeDeadlineSeconds must be a positive integer > 0 or an argo variable", template.name))
}
