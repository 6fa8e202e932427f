//! The containers of a step's pod.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::names::{CONFIG, EXECUTOR, INIT, MAIN, RUN, SCRIPT, WAIT};
use super::super::request::{PodRequest, Refusal};
use super::{Kind, VARIABLE_MAX, container, executor_account, list, patch, push, text};

/// Where the token of another account is seen.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The key of a template in a `ConfigMap`, and the variable otherwise.
const TEMPLATE: &str = "ARGO_TEMPLATE";
/// Arguments that are too large for a command line.
const ARGUMENTS: &str = "ARGO_CONTAINER_ARGS_FILE";

/// Adds `init`, `wait` and `main`.
pub(super) fn add(request: &PodRequest<'_>, template: &Value, kind: Kind, spec: &mut Value) -> Result<(), Refusal> {
    let has_inputs = !list(&template["inputs"]["artifacts"]).is_empty();
    if kind != Kind::Resource || has_inputs {
        push(spec, "initContainers", ours(request, template, INIT, &["thane", "step", "init"]));
    }
    if kind != Kind::Resource {
        push(spec, "containers", ours(request, template, WAIT, &["thane", "step", "wait"]));
    }
    let main = match kind {
        Kind::Container => user(request, &template["container"])?,
        Kind::Script => {
            let mut script = user(request, &template["script"])?;
            if let Some(fields) = script.as_object_mut() {
                fields.remove("source");
            }
            push(&mut script, "args", json!(SCRIPT));
            script
        }
        Kind::Resource => {
            let mut one = ours(request, template, MAIN, &["thane", "step", "resource"]);
            if one["securityContext"].is_null() {
                one["securityContext"] = json!({"runAsNonRoot": true, "runAsUser": 8737,
                    "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL"]}});
            }
            one
        }
    };
    push(spec, "containers", main);
    Ok(())
}

/// The user's container, on top of what every main container starts from.
fn user(request: &PodRequest<'_>, given: &Value) -> Result<Value, Refusal> {
    let mut main = match &request.settings.main_container {
        Some(defaults) => patch::merge(defaults.clone(), given, "")?,
        None => given.clone(),
    };
    main["name"] = json!(MAIN);
    Ok(main)
}

/// A container with `thane` in it.
fn ours(request: &PodRequest<'_>, template: &Value, name: &str, command: &[&str]) -> Value {
    let settings = request.settings;
    let mut one = settings.executor.clone().filter(Value::is_object).unwrap_or_else(|| json!({}));
    one["name"] = json!(name);
    one["image"] = json!(settings.image);
    one["command"] = json!(command);
    if let Some(policy) = &settings.image_pull_policy {
        one["imagePullPolicy"] = json!(policy);
    }
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}});
    push(&mut one, "env", field("ARGO_POD_NAME", "metadata.name"));
    push(&mut one, "env", field("ARGO_POD_UID", "metadata.uid"));
    push(&mut one, "env", field("ARGO_NAMESPACE", "metadata.namespace"));
    push(&mut one, "env", json!({"name": "ARGO_WORKFLOW_NAME", "value": request.workflow.name}));
    push(&mut one, "env", json!({"name": "ARGO_WORKFLOW_UID", "value": request.workflow.uid}));
    if let Some(instance) = &request.workflow.instance {
        push(&mut one, "env", json!({"name": "ARGO_INSTANCE_ID", "value": instance}));
    }
    if executor_account(template).or_else(|| executor_account(request.spec)).is_some() {
        let mount = json!({"name": "exec-sa-token", "mountPath": TOKEN, "readOnly": true});
        push(&mut one, "volumeMounts", mount);
    }
    one
}

/// Adds the user's init containers and sidecars.
pub(super) fn add_others(template: &Value, spec: &mut Value) {
    let mounts: Vec<Value> =
        container(spec, "containers", MAIN).map(|main| list(&main["volumeMounts"]).to_vec()).unwrap_or_default();
    for (from, into) in [("initContainers", "initContainers"), ("sidecars", "containers")] {
        for given in list(&template[from]) {
            let mut one = given.clone();
            let mirrors = one.as_object_mut().and_then(|fields| fields.remove("mirrorVolumeMounts"));
            if mirrors == Some(json!(true)) {
                for mount in &mounts {
                    let is_there = |known: &Value| known["mountPath"] == mount["mountPath"];
                    if !list(&one["volumeMounts"]).iter().any(is_there) {
                        push(&mut one, "volumeMounts", mount.clone());
                    }
                }
            }
            push(spec, into, one);
        }
    }
}

/// Tells containers what they are part of; what is too large for that is returned.
pub(super) fn environment(
    request: &PodRequest<'_>,
    template: &Value,
    kind: Kind,
    name: &str,
    spec: &mut Value,
) -> Option<BTreeMap<String, String>> {
    let words = told(template).to_string();
    let mut data = BTreeMap::new();
    let deadline = request.deadline.as_ref().map(ToString::to_string).unwrap_or_default();
    let large =
        |one: &Value| one["name"] != WAIT && one["args"].is_array() && one["args"].to_string().len() > VARIABLE_MAX;
    for group in ["initContainers", "containers"] {
        for one in spec[group].as_array_mut().into_iter().flatten() {
            let is_told = one["name"] == INIT || (kind == Kind::Resource && one["name"] == MAIN);
            let own = one["name"].clone();
            push(one, "env", json!({"name": "ARGO_CONTAINER_NAME", "value": own}));
            if is_told && words.len() > VARIABLE_MAX {
                push(one, "env", json!({"name": TEMPLATE, "value": "offloaded"}));
                push(one, "volumeMounts", json!({"name": "argo-env-config", "mountPath": CONFIG}));
                data.insert(TEMPLATE.to_owned(), words.clone());
            } else if is_told {
                push(one, "env", json!({"name": TEMPLATE, "value": words}));
            }
            push(one, "env", json!({"name": "ARGO_NODE_ID", "value": request.node_id}));
            push(one, "env", json!({"name": "ARGO_INCLUDE_SCRIPT_OUTPUT", "value": request.wants_result.to_string()}));
            push(one, "env", json!({"name": "ARGO_DEADLINE", "value": deadline}));
            if !data.contains_key(ARGUMENTS) && large(one) {
                let arguments = one["args"].take();
                data.insert(ARGUMENTS.to_owned(), arguments.to_string());
                push(one, "env", json!({"name": ARGUMENTS, "value": format!("{CONFIG}/{ARGUMENTS}")}));
                push(one, "volumeMounts", json!({"name": "argo-env-config", "mountPath": CONFIG}));
            }
        }
    }
    if data.is_empty() {
        return None;
    }
    push(spec, "volumes", json!({"name": "argo-env-config", "configMap": {"name": name}}));
    Some(data)
}

/// What the executor needs of a template.
fn told(template: &Value) -> Value {
    let mut told = template.clone();
    if let Some(inputs) = told["inputs"].as_object_mut() {
        inputs.remove("parameters");
    }
    told
}

/// Puts the wrapper around every container of the user, last, so that patches see their own commands.
pub(super) fn wrap(request: &PodRequest<'_>, kind: Kind, spec: &mut Value) -> Result<(), Refusal> {
    let grace = spec["terminationGracePeriodSeconds"].as_i64();
    for group in ["initContainers", "containers"] {
        for (index, one) in spec[group].as_array_mut().into_iter().flatten().enumerate() {
            let name = text(one, "name").to_owned();
            let is_ours = [INIT, WAIT].contains(&name.as_str()) || (kind == Kind::Resource && name == MAIN);
            if is_ours {
                let index = if group == "containers" { index.to_string() } else { format!("init-{index}") };
                push(one, "volumeMounts", json!({"name": "tmp-dir-argo", "mountPath": "/tmp", "subPath": index}));
            } else {
                if group == "containers" {
                    command(request, one)?;
                }
                if let Some(other) = request.settings.replace.get(text(one, "image")) {
                    one["image"] = json!(other);
                }
            }
            push(one, "volumeMounts", json!({"name": "var-run-argo", "mountPath": RUN}));
            if let Some(seconds) = grace.filter(|_| group == "containers") {
                let value = seconds.to_string();
                push(one, "env", json!({"name": "ARGO_TERMINATION_GRACE_PERIOD_SECONDS", "value": value}));
            }
        }
    }
    Ok(())
}

fn command(request: &PodRequest<'_>, one: &mut Value) -> Result<(), Refusal> {
    let image = text(one, "image").to_owned();
    let mut words = list(&one["command"]).to_vec();
    if words.is_empty() {
        let known = request.settings.images.get(&image).ok_or_else(|| {
            Refusal(format!(
                "failed to look-up entrypoint/cmd for image {image:?}, you must either explicitly specify the command, \
                 or list the image's command in the index: \
                 https://argo-workflows.readthedocs.io/en/latest/workflow-executors/#emissary-emissary"
            ))
        })?;
        words = known.entrypoint.iter().map(|word| json!(word)).collect();
        if one["args"].is_null() {
            one["args"] = json!(known.cmd);
        }
    }
    let wrapper = [json!(format!("{RUN}/{EXECUTOR}")), json!("step"), json!("--")];
    one["command"] = wrapper.into_iter().chain(words).collect();
    Ok(())
}
