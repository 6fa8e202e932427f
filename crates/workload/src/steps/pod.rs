//! The pod of a step: `init` brings the wrapper and the inputs, `main` is the user's program inside the wrapper, `wait`
//! takes what it leaves.

mod containers;
mod patch;
mod reach;
mod volumes;

pub(crate) use volumes::overlapping;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Map, Value, json};

use super::names::{COMPLETED, INIT, INSTANCE, MAIN, NODE_ID, NODE_NAME, ON_EXIT, POD_GC, WAIT, WORKFLOW, pod_name};
use super::request::{Identity, PodRequest, Refusal, StepPod};

/// What an environment variable may hold; more goes into a `ConfigMap`.
const VARIABLE_MAX: usize = 128 * 1024;
/// Fields of a pod that template, boundary and workflow may set, in that order of weight.
pub(crate) const SCHEDULING: [&str; 3] = ["nodeSelector", "affinity", "tolerations"];

/// What kind of leaf a template is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Container,
    Script,
    Resource,
}

impl Kind {
    fn of(template: &Value) -> Result<Self, Refusal> {
        let kinds = [("container", Self::Container), ("script", Self::Script), ("resource", Self::Resource)];
        let found = kinds.into_iter().find(|(name, _)| template[*name].is_object());
        found.map(|(_, kind)| kind).ok_or_else(|| {
            let name = template["name"].as_str().unwrap_or_default();
            Refusal(format!("template {name:?} is no container, script or resource, so it has no pod"))
        })
    }
}

/// The pod of a step.
pub fn pod(request: &PodRequest<'_>) -> Result<StepPod, Refusal> {
    let kind = Kind::of(request.template)?;
    let template = located(request);
    supported(&template)?;
    let name = pod_name(&request.workflow.name, text(&template, "name"), request.node_name);
    let mut spec = base(request, &template);
    service_account(request, &template, &mut spec)?;
    containers::add(request, &template, kind, &mut spec)?;
    volumes::add(request, &template, kind, &mut spec)?;
    containers::add_others(&template, &mut spec);
    volumes::mirror(kind, &mut spec);
    let mut annotations = json!({NODE_NAME: request.node_name, NODE_ID: request.node_id,
        "kubectl.kubernetes.io/default-container": MAIN});
    let mut labels = json!({WORKFLOW: request.workflow.name, COMPLETED: "false"});
    metadata(request, &template, &mut labels, &mut annotations);
    if request.settings.api.is_some() {
        reach::open(request, &template, &mut spec, &mut annotations);
    }
    let meta = json!({"name": name, "namespace": request.workflow.namespace, "labels": labels,
        "annotations": annotations, "ownerReferences": [owner(request)]});
    let mut template = template;
    let known = known(request.workflow, &name);
    substitute(&mut spec, &known);
    substitute(&mut template, &known);
    let config = containers::environment(request, &template, kind, &name, &mut spec);
    for patch in [&request.spec["podSpecPatch"], &template["podSpecPatch"]] {
        if let Some(words) = patch.as_str().filter(|words| !words.is_empty()) {
            spec = patch::apply(spec, words)?;
        }
    }
    containers::wrap(request, kind, &mut spec)?;
    let pod: Pod = serde_json::from_value(json!({"metadata": meta, "spec": spec}))
        .map_err(|error| Refusal(format!("the template makes no pod: {error}")))?;
    Ok(StepPod { pod, config: config.map(|data| config_map(request, &name, data)) })
}

/// Refuses a step whose artifacts ask for more than is done with them.
fn supported(template: &Value) -> Result<(), Refusal> {
    let sides = || ["inputs", "outputs"].into_iter().flat_map(|side| list(&template[side]["artifacts"]));
    let named = sides().map(|one| (format!("artifact {:?}", text(one, "name")), one));
    let archive = &template["archiveLocation"];
    let is_used = archive["archiveLogs"] == true || sides().any(|one| !super::location::is_located(one));
    let archive = is_used.then(|| ("the place of its artifacts".to_owned(), archive));
    for (what, place) in named.chain(archive) {
        if let Some(field) = super::location::unsupported(place) {
            let why = format!(
                "{what} asks for {field}, which is not supported: give keys with accessKeySecret and secretKeySecret, and have the bucket encrypt what it gets"
            );
            return Err(Refusal(why));
        }
    }
    Ok(())
}

fn owner(request: &PodRequest<'_>) -> Value {
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": request.workflow.name,
        "uid": request.workflow.uid, "controller": true, "blockOwnerDeletion": true})
}

fn config_map(request: &PodRequest<'_>, name: &str, data: BTreeMap<String, String>) -> ConfigMap {
    let meta = json!({"name": name, "namespace": request.workflow.namespace,
        "labels": {WORKFLOW: request.workflow.name}, "ownerReferences": [owner(request)],
        "annotations": {NODE_NAME: request.node_name, NODE_ID: request.node_id}});
    let metadata = serde_json::from_value(meta).unwrap_or_default();
    ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }
}

/// The template as the executor of a step knows it: with a place for every artifact, and nothing left to substitute.
pub(crate) fn prepared(request: &PodRequest<'_>) -> Value {
    let mut template = located(request);
    let name = pod_name(&request.workflow.name, text(&template, "name"), request.node_name);
    substitute(&mut template, &known(request.workflow, &name));
    template
}

/// What is only known of a step once its pod has a name.
fn known<'a>(workflow: &'a Identity, pod: &'a str) -> [(&'static str, &'a str); 4] {
    [
        ("{{pod.name}}", pod),
        ("{{workflow.name}}", &workflow.name),
        ("{{workflow.namespace}}", &workflow.namespace),
        ("{{workflow.uid}}", &workflow.uid),
    ]
}

/// The template with a place for artifacts that name none.
fn located(request: &PodRequest<'_>) -> Value {
    let mut template = request.template.clone();
    if super::location::is_located(&template["archiveLocation"]) {
        return template;
    }
    let logs = request.repository.and_then(|repository| repository["archiveLogs"].as_bool()).unwrap_or_default()
        || request.spec["archiveLogs"].as_bool().unwrap_or_default();
    let logs = template["archiveLocation"]["archiveLogs"].as_bool().unwrap_or(logs);
    let of = |side: &str| template[side]["artifacts"].as_array().cloned().unwrap_or_default();
    let needed = logs || of("inputs").iter().chain(&of("outputs")).any(|one| !super::location::is_located(one));
    if !needed {
        return template;
    }
    let mut location = super::location::of_repository(request.repository, request.settings.artifacts.as_deref());
    if location.is_object() {
        location["archiveLogs"] = json!(logs);
        template["archiveLocation"] = location;
    }
    template
}

fn base(request: &PodRequest<'_>, template: &Value) -> Value {
    let spec = request.spec;
    let mut pod = json!({"restartPolicy": "Never", "volumes": [
        {"name": "var-run-argo", "emptyDir": {}}, {"name": "tmp-dir-argo", "emptyDir": {}}]});
    for volume in list(&template["volumes"]) {
        push(&mut pod, "volumes", volume.clone());
    }
    let mut set = |name: &str, value: &Value| {
        if !value.is_null() {
            pod[name] = value.clone();
        }
    };
    for name in ["imagePullSecrets", "hostNetwork", "dnsPolicy", "dnsConfig"] {
        set(name, &spec[name]);
    }
    if let Some(seconds) = request.active_seconds {
        set("activeDeadlineSeconds", &json!(seconds));
    }
    for name in SCHEDULING {
        let from = [Some(template), request.boundary, Some(spec)];
        let found = from.into_iter().flatten().map(|one| &one[name]).find(|value| !is_empty(value));
        set(name, found.unwrap_or(&Value::Null));
    }
    for (name, ours, theirs) in [
        ("schedulerName", "schedulerName", "schedulerName"),
        ("priorityClassName", "priorityClassName", "podPriorityClassName"),
        ("securityContext", "securityContext", "securityContext"),
    ] {
        let found = [&template[ours], &spec[theirs]].into_iter().find(|value| !is_empty(value));
        set(name, found.unwrap_or(&Value::Null));
    }
    let aliases: Vec<&Value> = list(&spec["hostAliases"]).iter().chain(list(&template["hostAliases"])).collect();
    if !aliases.is_empty() {
        set("hostAliases", &json!(aliases));
    }
    pod
}

fn service_account(request: &PodRequest<'_>, template: &Value, pod: &mut Value) -> Result<(), Refusal> {
    let spec = request.spec;
    let first = |name: &str| [&template[name], &spec[name]].into_iter().find(|value| !is_empty(value)).cloned();
    if let Some(name) = first("serviceAccountName") {
        pod["serviceAccountName"] = name;
    }
    let is_refused = first("automountServiceAccountToken") == Some(json!(false));
    if is_refused {
        pod["automountServiceAccountToken"] = json!(false);
    }
    let executor = executor_account(template).or_else(|| executor_account(spec));
    match executor {
        Some(name) => {
            let secret = format!("{name}.service-account-token");
            push(pod, "volumes", json!({"name": "exec-sa-token", "secret": {"secretName": secret}}));
        }
        None if is_refused => {
            let why = "executor.serviceAccountName must not be empty if automountServiceAccountToken is false";
            return Err(Refusal(why.to_owned()));
        }
        None => {}
    }
    Ok(())
}

/// The account that `init` and `wait` act as, where it is not the pod's.
fn executor_account(of: &Value) -> Option<&str> {
    of["executor"]["serviceAccountName"].as_str().filter(|name| !name.is_empty())
}

fn metadata(request: &PodRequest<'_>, template: &Value, labels: &mut Value, annotations: &mut Value) {
    if request.on_exit {
        labels[ON_EXIT] = json!("true");
    }
    if let Some(instance) = &request.workflow.instance {
        labels[INSTANCE] = json!(instance);
    }
    let collected = &request.spec["podGC"];
    if collected.is_object() {
        let strategy = collected["strategy"].as_str().filter(|one| !one.is_empty()).unwrap_or("OnPodNone");
        let delay = collected["deleteDelayDuration"].as_str().unwrap_or("5s");
        annotations[POD_GC] = json!(format!("{strategy}/{delay}"));
    }
    for from in [&request.spec["podMetadata"], &template["metadata"]] {
        for (name, into) in [("labels", &mut *labels), ("annotations", &mut *annotations)] {
            for (key, value) in from[name].as_object().into_iter().flatten() {
                into[key] = value.clone();
            }
        }
    }
}

/// Replaces what is only known here, in every text.
fn substitute(value: &mut Value, known: &[(&str, &str)]) {
    match value {
        Value::String(words) => {
            for (tag, with) in known {
                if words.contains(tag) {
                    *words = words.replace(tag, with);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| substitute(item, known)),
        Value::Object(fields) => fields.values_mut().for_each(|field| substitute(field, known)),
        _ => {}
    }
}

pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Appends to a list that may not be there yet.
pub(crate) fn push(object: &mut Value, name: &str, item: Value) {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    match &mut object[name] {
        Value::Array(items) => items.push(item),
        other => *other = Value::Array(vec![item]),
    }
}

/// The containers of a pod, by their list and name.
fn container<'a>(spec: &'a mut Value, group: &str, name: &str) -> Option<&'a mut Value> {
    spec[group].as_array_mut()?.iter_mut().find(|one| one["name"] == name)
}

/// The containers with `thane` in them.
fn ours(spec: &mut Value) -> Vec<&mut Value> {
    let Some(fields) = spec.as_object_mut() else { return Vec::new() };
    let all = fields.iter_mut().filter(|(name, _)| ["containers", "initContainers"].contains(&name.as_str()));
    let all = all.filter_map(|(_, value)| value.as_array_mut()).flatten();
    all.filter(|one| one["name"] == INIT || one["name"] == WAIT).collect()
}

#[cfg(test)]
mod tests;
