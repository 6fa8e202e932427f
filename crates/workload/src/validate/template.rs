//! One template, wherever it is called from.

use std::sync::Arc;

use serde_json::Value;

use super::scope::Known;
use super::{Base, Called, Validator, names, outputs};
use crate::spec::{Artifact, ArtifactLocation, Parameter, Step, Template, TemplateType};
use crate::template::{self, Scope, Unresolved, tags};

/// When a template is tried again.
const POLICIES: [&str; 5] = ["", "Always", "OnError", "OnFailure", "OnTransientError"];

impl Validator<'_> {
    /// Checks what a step, a task or a workflow calls, and yields it where it is known by now.
    pub(super) fn holder(&mut self, step: &Step, base: &Base, with: &Called<'_>) -> Result<Option<Template>, String> {
        let mut base = base.clone();
        let template = if let Some(reference) = &step.template_ref {
            if !step.template.is_empty() {
                return Err("template name cannot be specified with templateRef.".to_owned());
            }
            if reference.name.is_empty() {
                return Err("resource name is required".to_owned());
            }
            if reference.template.is_empty() {
                return Err("template name is required".to_owned());
            }
            if [&reference.name, &reference.template].iter().any(|text| tags(text).any(|tag| !tag.starts_with('='))) {
                return Ok(None);
            }
            if let Some(inline) = &step.inline {
                (**inline).clone()
            } else {
                let object = self.templates.find(&reference.name, reference.cluster_scope)?;
                let kind = if reference.cluster_scope { "cluster" } else { "namespaced" };
                base = Base {
                    scope: format!("{kind}/{}", reference.name),
                    spec: Arc::new(object.spec.clone()),
                    has_defaults: !reference.cluster_scope,
                };
                match object.spec.template(&reference.template) {
                    Some(template) => template.clone(),
                    None if reference.template.contains("placeholder") => return Ok(None),
                    None => {
                        return Err(format!("template reference {}.{} not found", reference.name, reference.template));
                    }
                }
            }
        } else if !step.template.is_empty() {
            let named = base.spec.template(&step.template);
            let named = named.ok_or_else(|| format!("template name '{}' undefined", step.template))?;
            step.inline.as_deref().unwrap_or(named).clone()
        } else if let Some(inline) = &step.inline {
            (**inline).clone()
        } else {
            return Err("failed to get a template".to_owned());
        };
        if template.kind().is_none() {
            return Err(format!("template '{}' type is unknown", template.name));
        }
        if let Some(strategy) = &template.retry_strategy
            && !POLICIES.contains(&strategy.retry_policy.as_str())
        {
            return Err(format!("{} is not a valid RetryPolicy", strategy.retry_policy));
        }
        self.template(&template, &base, with)?;
        Ok(Some(template))
    }

    fn template(&mut self, template: &Template, base: &Base, with: &Called<'_>) -> Result<(), String> {
        let name = &template.name;
        if template.types().len() > 1 {
            return Err(format!(
                "templates.{name} multiple template types specified. choose one of: container, containerSet, steps, script, resource, dag, suspend, template, template ref"
            ));
        }
        let mut known = inputs(template)?;
        if template.init_containers.iter().any(|container| container.name.is_empty()) {
            return Err("initContainers must all have container name".to_owned());
        }
        let mut locals = Scope::new();
        let mut add = |variable: &str| {
            known.insert(variable.to_owned());
            locals.insert(variable, self.placeholder());
        };
        if template.is_pod() {
            add("pod.name");
        }
        if template.retry_strategy.is_some() {
            for variable in
                ["retries", "lastRetry.exitCode", "lastRetry.status", "lastRetry.duration", "lastRetry.message"]
            {
                add(variable);
            }
        }
        let replaced = self.supplied(template, with, locals).map_err(|error| format!("templates.{name} {error}"))?;
        if !replaced.timeout.is_empty() {
            if !replaced.is_leaf() {
                let kind = replaced.kind().map_or("Unknown", TemplateType::name);
                return Err(format!("{kind} template doesn't support timeout field"));
            }
            if replaced.timeout.parse::<i64>().is_ok() {
                return Err(format!("{name} has invalid duration format in timeout"));
            }
        }
        if !self.seen.insert(format!("{}{name}", base.scope)) {
            return Ok(());
        }
        known.extend(self.globals.keys().cloned());
        match replaced.kind() {
            Some(TemplateType::Steps) => self.steps(&mut known, base, &replaced)?,
            Some(TemplateType::Dag) => self.dag(&mut known, base, &replaced)?,
            _ => self.leaf(&known, base, &replaced)?,
        }
        self.outputs(&known, &replaced)?;
        if let Some(location) = &replaced.archive_location {
            location_of(&format!("templates.{name}.archiveLocation"), location)?;
        }
        outputs::metrics(&replaced)
    }

    /// The template with its inputs in place, as far as they are known.
    fn supplied(&mut self, template: &Template, with: &Called<'_>, mut locals: Scope) -> Result<Template, String> {
        let mut supplied = template.clone();
        for input in &mut supplied.inputs.parameters {
            if input.value.is_none() {
                input.value.clone_from(&input.default);
            }
            let given = match with {
                Called::Anything => {
                    let value = Some(self.placeholder().into());
                    Some(Parameter { value, ..Parameter::default() })
                }
                Called::With(arguments) => arguments.parameter(&input.name).cloned(),
            };
            if let Some(given) = given {
                input.value_from = if given.value.is_some() { None } else { given.value_from };
                input.value = given.value;
            }
            let later = input.value_from.as_ref().is_some_and(|from| from.config_map_key_ref.is_some());
            if input.value.is_none() && !later {
                return Err(format!("inputs.parameters.{} was not supplied", input.name));
            }
        }
        for input in &mut supplied.inputs.artifacts {
            let given = match with {
                Called::Anything => Some(Artifact { name: input.name.clone(), ..Artifact::default() }),
                Called::With(arguments) => arguments.artifact(&input.name).cloned(),
            };
            let own = input.location.is_complete() || input.location.key().is_some();
            match given {
                None if !input.optional && !own => {
                    return Err(format!("inputs.artifacts.{} was not supplied", input.name));
                }
                None => {}
                Some(mut given) => {
                    given.path.clone_from(&input.path);
                    (given.mode, given.recurse_mode) = (input.mode, input.recurse_mode);
                    *input = given;
                }
            }
        }
        for (name, value) in &self.globals {
            locals.insert(name.as_str(), value.as_str());
        }
        let supplied = replaced(&supplied, &locals)?;
        add_own(&supplied, &mut locals);
        replaced(&supplied, &locals)
    }
}

fn replaced(template: &Template, scope: &Scope) -> Result<Template, String> {
    template::replace_json(template, scope, Unresolved::Keep).map_err(|error| error.to_string())
}

/// A template's own inputs and paths.
fn add_own(template: &Template, scope: &mut Scope) {
    for input in &template.inputs.parameters {
        if let Some(value) = &input.value {
            scope.insert(format!("inputs.parameters.{}", input.name), value.as_str());
        }
    }
    let all = serde_json::to_string(&template.inputs.parameters).unwrap_or_default();
    scope.insert("inputs.parameters", all);
    for (kind, artifacts) in [("inputs", &template.inputs.artifacts), ("outputs", &template.outputs.artifacts)] {
        for artifact in artifacts.iter().filter(|artifact| !artifact.path.is_empty()) {
            scope.insert(format!("{kind}.artifacts.{}.path", artifact.name), artifact.path.as_str());
        }
    }
    for output in &template.outputs.parameters {
        if let Some(from) = output.value_from.as_ref().filter(|from| !from.path.is_empty()) {
            scope.insert(format!("outputs.parameters.{}.path", output.name), from.path.as_str());
        }
    }
}

/// Checks what goes in, and yields the variables that come of it.
fn inputs(template: &Template) -> Result<Known, String> {
    let name = &template.name;
    let inputs = &template.inputs;
    names::fields(inputs.parameters.iter().map(|parameter| parameter.name.as_str()), names::parameter)
        .map_err(|error| format!("templates.{name}.inputs.parameters{error}"))?;
    names::fields(inputs.artifacts.iter().map(|artifact| artifact.name.as_str()), names::parameter)
        .map_err(|error| format!("templates.{name}.inputs.artifacts{error}"))?;
    let mut known: Known = inputs.parameters.iter().map(|input| format!("inputs.parameters.{}", input.name)).collect();
    if !inputs.parameters.is_empty() {
        known.insert("inputs.parameters".to_owned());
    }
    for artifact in &inputs.artifacts {
        let at = format!("inputs.artifacts.{}", artifact.name);
        if template.is_leaf() {
            path(artifact).map_err(|error| format!("error in templates.{name}.{at}: {error}"))?;
            known.insert(format!("{at}.path"));
        } else if !artifact.path.is_empty() {
            return Err(format!("templates.{name}.{at}.path only valid in container/script templates"));
        }
        if !artifact.from.is_empty() {
            return Err(format!("templates.{name}.{at}.from not valid in inputs"));
        }
        location_of(&format!("templates.{name}.{at}"), &artifact.location)?;
        known.insert(at);
    }
    Ok(known)
}

/// Whether an artifact's path is there and stays where it says.
pub(super) fn path(artifact: &Artifact) -> Result<(), String> {
    let path = &artifact.path;
    if path.is_empty() {
        return Err(format!("Artifact '{}' did not specify a path", artifact.name));
    }
    let safe = match path.find("/../") {
        Some(at) => &path[..at],
        None if path.ends_with("/..") => &path[..path.len() - 3],
        None => "",
    };
    let below = cleaned(path);
    if !safe.is_empty() && below.strip_prefix(safe).and_then(|rest| rest.strip_prefix('/')).is_none_or(str::is_empty) {
        return Err(format!(
            "Artifact '{}' attempted to use a path containing '..'. Directory traversal is not permitted",
            artifact.name
        ));
    }
    Ok(())
}

/// A path without `.`, `..` and doubled slashes.
fn cleaned(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if path.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    format!("{}{}", if path.starts_with('/') { "/" } else { "" }, parts.join("/"))
}

/// Whether a location has what it needs.
pub(super) fn location_of(at: &str, location: &ArtifactLocation) -> Result<(), String> {
    if location.git.as_ref().is_some_and(|git| git.repo.is_empty()) {
        return Err(format!("{at}.git.repo is required"));
    }
    let Some(hdfs) = &location.hdfs else { return Ok(()) };
    let text = |field: &str| hdfs[field].as_str().unwrap_or_default();
    let there = |field: &str| !hdfs[field].is_null();
    if hdfs["addresses"].as_array().is_none_or(Vec::is_empty) {
        return Err(format!("{at}.hdfs.addresses is required"));
    }
    if text("path").is_empty() {
        return Err(format!("{at}.hdfs.path is required"));
    }
    if !text("path").starts_with('/') {
        return Err(format!("{at}.hdfs.path must be a absolute file path"));
    }
    if text("hdfsUser").is_empty() && !there("krbCCacheSecret") && !there("krbKeytabSecret") {
        return Err(format!(
            "either {at}.hdfs.hdfsUser, {at}.hdfs.krbCCacheSecret or {at}.hdfs.krbKeytabSecret is required"
        ));
    }
    let service = !text("krbServicePrincipalName").is_empty() && there("krbConfigConfigMap");
    let user = !text("krbUsername").is_empty() && !text("krbRealm").is_empty();
    if there("krbKeytabSecret") && !(service && user) || there("krbCCacheSecret") && !service {
        return Err(format!("{at}.hdfs.krbServicePrincipalName and {at}.hdfs.krbConfigConfigMap are required"));
    }
    Ok(())
}

/// A value as JSON, for its variables to be found.
pub(super) fn as_json<T: serde::Serialize>(value: &T) -> Result<Value, String> {
    serde_json::to_value(value).map_err(|error| error.to_string())
}
