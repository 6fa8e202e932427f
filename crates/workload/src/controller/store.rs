//! What the watches have told, and what this controller wrote since.

mod within;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, PodSpec};
use parking_lot::Mutex;
use serde_json::Value;

use super::queue::Key;
use crate::engine::Refused;
use crate::spec::{Workflow, WorkflowSpec};
use crate::status::WorkflowStatus;
use crate::status::packed::{self, unpacked};
use crate::steps::TaskResult;
use crate::steps::names::{NODE_ID, WORKFLOW};
pub(super) use within::{Elsewhere, Within};

/// A Workflow as it is stored.
pub(super) struct Stored {
    /// The whole object, without its status.
    pub(super) object: Value,
    /// Its spec, or why it cannot be read.
    pub(super) workflow: Result<Workflow, String>,
    /// Its status, with all nodes, or why it cannot be read.
    pub(super) status: Result<WorkflowStatus, String>,
    pub(super) version: String,
}

impl Stored {
    pub(super) fn read(mut object: Value) -> Self {
        let version = text(&object, "/metadata/resourceVersion").to_owned();
        let status = object.as_object_mut().and_then(|fields| fields.remove("status")).unwrap_or_default();
        let status = if status.is_null() { Ok(WorkflowStatus::default()) } else { serde_json::from_value(status) };
        let status = status.map_err(|error| error.to_string());
        let status = status.and_then(|status| unpacked(status).map_err(|error: packed::Error| error.to_string()));
        if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let workflow = crate::spec::from_value(object.clone()).map_err(|error| error.to_string());
        Self { object, workflow, status, version }
    }

    pub(super) fn uid(&self) -> &str {
        text(&self.object, "/metadata/uid")
    }

    pub(super) fn key(&self) -> Key {
        (text(&self.object, "/metadata/namespace").to_owned(), text(&self.object, "/metadata/name").to_owned())
    }
}

/// What is known of one Workflow beyond what is stored.
#[derive(Default, Clone)]
pub(super) struct Memory {
    /// The version it was derived from; of no use for another one.
    pub(super) based_on: String,
    pub(super) status: WorkflowStatus,
    pub(super) refused: BTreeMap<String, Refused>,
    /// When a status was last written, on the monotonic clock.
    pub(super) written_at: Option<Duration>,
    /// Whether its claims were given back after its end.
    pub(super) is_unclaimed: bool,
}

#[derive(Default)]
pub(super) struct Record {
    pub(super) stored: Option<Arc<Stored>>,
    pub(super) memory: Memory,
    pub(super) pods: BTreeMap<String, Arc<Pod>>,
    pub(super) results: BTreeMap<String, Arc<TaskResult>>,
    /// Results of which a list of all that has begun has not told yet.
    doubted: BTreeSet<String>,
    /// Pods that were deleted; as many as the Workflow had.
    gone: BTreeSet<String>,
}

/// Everything.
#[derive(Default)]
pub(super) struct Store {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    records: BTreeMap<Key, Record>,
    templates: BTreeMap<Key, Versioned<WorkflowSpec>>,
    settings: BTreeMap<Key, Versioned<BTreeMap<String, String>>>,
    listed: BTreeSet<&'static str>,
}

/// Something, and the version it is of.
struct Versioned<T> {
    version: String,
    what: Arc<T>,
}

/// What a look at a Workflow is based on.
pub(super) struct View {
    pub(super) stored: Arc<Stored>,
    pub(super) memory: Memory,
    pub(super) pods: BTreeMap<String, Arc<Pod>>,
    pub(super) results: BTreeMap<String, Arc<TaskResult>>,
}

impl Store {
    /// Says that a kind is known as a whole; whether all are now.
    pub(super) fn listed(&self, kind: &'static str, all: usize) -> bool {
        let mut inner = self.inner.lock();
        inner.listed.insert(kind) && inner.listed.len() == all
    }

    pub(super) fn is_listed(&self, all: usize) -> bool {
        self.inner.lock().listed.len() >= all
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.inner.lock().records.keys().cloned().collect()
    }

    /// A Workflow as the API has it, unless something newer is known.
    pub(super) fn put(&self, stored: Stored) -> Key {
        let key = stored.key();
        let mut inner = self.inner.lock();
        let record = inner.records.entry(key.clone()).or_default();
        if !record.stored.as_ref().is_some_and(|known| is_newer(&known.version, &stored.version)) {
            if record.stored.as_ref().is_some_and(|known| known.uid() != stored.uid()) {
                record.memory = Memory::default();
            }
            record.stored = Some(Arc::new(stored));
        }
        key
    }

    /// Forgets a Workflow; whether it was the last of its namespace.
    pub(super) fn remove(&self, key: &Key) -> bool {
        let mut inner = self.inner.lock();
        if let Some(record) = inner.records.get_mut(key) {
            record.stored = None;
            record.memory = Memory::default();
            if record.pods.is_empty() && record.results.is_empty() {
                inner.records.remove(key);
            }
        }
        let of_namespace = inner.records.range((key.0.clone(), String::new())..);
        !of_namespace.take_while(|(other, _)| other.0 == key.0).any(|(_, record)| record.stored.is_some())
    }

    pub(super) fn put_pod(&self, pod: Pod) -> Option<Key> {
        let (key, node) = (owner(&pod.metadata)?, pod.metadata.annotations.as_ref()?.get(NODE_ID)?.clone());
        let pod = Arc::new(trimmed(pod));
        self.inner.lock().records.entry(key.clone()).or_default().pods.insert(node, pod);
        Some(key)
    }

    /// A pod that was just made, unless the watch knows it already.
    pub(super) fn put_new_pod(&self, pod: Pod) {
        let Some(key) = owner(&pod.metadata) else { return };
        let Some(node) = pod.metadata.annotations.as_ref().and_then(|all| all.get(NODE_ID)).cloned() else { return };
        let mut inner = self.inner.lock();
        let record = inner.records.entry(key).or_default();
        let known = record.pods.get(&node).is_some_and(|known| known.metadata.uid == pod.metadata.uid);
        if !known && !record.gone.contains(pod.metadata.uid.as_deref().unwrap_or_default()) {
            record.pods.insert(node, Arc::new(trimmed(pod)));
        }
    }

    /// All pods and results of a Workflow, as a list told.
    pub(super) fn put_all(&self, key: &Key, pods: Vec<Pod>, results: Vec<TaskResult>) {
        let node = |pod: &Pod| pod.metadata.annotations.as_ref().and_then(|all| all.get(NODE_ID)).cloned();
        if let Some(record) = self.inner.lock().records.get_mut(key) {
            let uid = record.stored.as_ref().map(|stored| stored.uid().to_owned()).unwrap_or_default();
            let pods = pods
                .into_iter()
                .filter(|pod| has_pod(&uid, pod))
                .filter_map(|pod| Some((node(&pod)?, Arc::new(trimmed(pod)))));
            record.pods = pods.collect();
            let results = results.into_iter().filter(|result| has_result(&uid, result));
            let results = results.map(|result| (result.node_id().to_owned(), Arc::new(result)));
            record.results = results.collect();
        }
    }

    /// Forgets pods that a list of all does not name; whose they were.
    pub(super) fn retain_pods(&self, all: &[Pod]) -> Vec<Key> {
        let uids: BTreeSet<&str> = all.iter().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
        let mut changed = Vec::new();
        for (key, record) in &mut self.inner.lock().records {
            let before = record.pods.len();
            record.pods.retain(|_, pod| uids.contains(pod.metadata.uid.as_deref().unwrap_or_default()));
            if record.pods.len() != before {
                changed.push(key.clone());
            }
        }
        changed
    }

    pub(super) fn remove_pod(&self, pod: &Pod) -> Option<Key> {
        let (key, node) = (owner(&pod.metadata)?, pod.metadata.annotations.as_ref()?.get(NODE_ID)?);
        let mut inner = self.inner.lock();
        let record = inner.records.get_mut(&key)?;
        // Another pod of the same name may have taken its place.
        if record.pods.get(node).is_some_and(|known| known.metadata.uid == pod.metadata.uid) {
            record.pods.remove(node);
        }
        record.gone.extend(pod.metadata.uid.clone());
        if record.stored.is_none() && record.pods.is_empty() && record.results.is_empty() {
            inner.records.remove(&key);
        }
        Some(key)
    }

    pub(super) fn put_result(&self, result: TaskResult) -> Option<Key> {
        let key = result_owner(&result)?;
        let node = result.node_id().to_owned();
        let mut inner = self.inner.lock();
        let record = inner.records.entry(key.clone()).or_default();
        record.doubted.remove(&node);
        record.results.insert(node, Arc::new(result));
        drop(inner);
        Some(key)
    }

    /// Whether there is a Workflow of that name and uid.
    pub(super) fn has(&self, key: &Key, uid: &str) -> bool {
        let inner = self.inner.lock();
        inner.records.get(key).and_then(|record| record.stored.as_ref()).is_some_and(|stored| stored.uid() == uid)
    }

    /// Whether a step's end is recorded.
    pub(super) fn has_result(&self, key: &Key, node: &str) -> bool {
        let inner = self.inner.lock();
        let Some(record) = inner.records.get(key) else { return false };
        let Some((stored, result)) = record.stored.as_ref().zip(record.results.get(node)) else { return false };
        result.is_complete() && has_result(stored.uid(), result)
    }

    pub(super) fn remove_result(&self, result: &TaskResult) {
        let Some(key) = result_owner(result) else { return };
        let mut inner = self.inner.lock();
        let Some(record) = inner.records.get_mut(&key) else { return };
        let uid = |result: &TaskResult| result.metadata["uid"].as_str().map(str::to_owned);
        // Another result of the same name may have taken its place.
        if record.results.get(result.node_id()).is_some_and(|known| uid(known) == uid(result)) {
            record.results.remove(result.node_id());
        }
        if record.stored.is_none() && record.pods.is_empty() && record.results.is_empty() {
            inner.records.remove(&key);
        }
    }

    /// A list of all results begins: those known now are gone unless it names them.
    pub(super) fn doubt_results(&self) {
        for record in self.inner.lock().records.values_mut() {
            record.doubted = record.results.keys().cloned().collect();
        }
    }

    /// Forgets results that the list of all did not name. What came while it was made is in no doubt.
    pub(super) fn retain_results(&self) {
        self.inner.lock().records.retain(|_, record| {
            for node in std::mem::take(&mut record.doubted) {
                record.results.remove(&node);
            }
            record.stored.is_some() || !record.pods.is_empty() || !record.results.is_empty()
        });
    }

    /// A template, or that there is none; the namespace of cluster templates is empty.
    pub(super) fn put_template(&self, key: Key, version: &str, spec: Option<WorkflowSpec>) {
        put(&mut self.inner.lock().templates, key, version, spec);
    }

    /// Forgets templates that a list of all does not name, of the cluster or of its namespaces.
    pub(super) fn retain_templates(&self, of_cluster: bool, all: &BTreeSet<Key>) {
        self.inner.lock().templates.retain(|key, _| key.0.is_empty() != of_cluster || all.contains(key));
    }

    /// Forgets settings that a list of all does not name.
    pub(super) fn retain_settings(&self, all: &BTreeSet<Key>) {
        self.inner.lock().settings.retain(|key, _| all.contains(key));
    }

    pub(super) fn put_settings(&self, map: &ConfigMap, is_there: bool) {
        let key = (map.metadata.namespace.clone().unwrap_or_default(), map.metadata.name.clone().unwrap_or_default());
        let version = map.metadata.resource_version.as_deref().unwrap_or_default();
        let data = is_there.then(|| map.data.clone().unwrap_or_default());
        put(&mut self.inner.lock().settings, key, version, data);
    }

    pub(super) fn view(&self, key: &Key) -> Option<View> {
        let inner = self.inner.lock();
        let record = inner.records.get(key)?;
        let stored = Arc::clone(record.stored.as_ref()?);
        // What is left of an earlier one of that name is not its own.
        let uid = stored.uid();
        let mut pods = record.pods.clone();
        pods.retain(|_, pod| has_pod(uid, pod));
        let mut results = record.results.clone();
        results.retain(|_, result| has_result(uid, result));
        let memory = record.memory.clone();
        Some(View { stored, memory, pods, results })
    }

    /// Its claims were given back.
    pub(super) fn unclaimed(&self, key: &Key) {
        if let Some(record) = self.inner.lock().records.get_mut(key) {
            record.memory.is_unclaimed = true;
        }
    }

    /// Keeps what a look came to.
    pub(super) fn remember(&self, key: &Key, memory: Memory) {
        if let Some(record) = self.inner.lock().records.get_mut(key) {
            record.memory = memory;
        }
    }
}

/// Takes something over, or that it is gone, unless a newer version is known.
fn put<T>(known: &mut BTreeMap<Key, Versioned<T>>, key: Key, version: &str, what: Option<T>) {
    if known.get(&key).is_some_and(|known| is_newer(&known.version, version)) {
        return;
    }
    match what {
        Some(what) => known.insert(key, Versioned { version: version.to_owned(), what: Arc::new(what) }),
        None => known.remove(&key),
    };
}

/// Whether the first version is newer than the second.
fn is_newer(first: &str, second: &str) -> bool {
    match (first.parse::<u64>(), second.parse::<u64>()) {
        (Ok(first), Ok(second)) => first > second,
        _ => false,
    }
}

fn owner(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Option<Key> {
    Some((metadata.namespace.clone()?, metadata.labels.as_ref()?.get(WORKFLOW)?.clone()))
}

fn result_owner(result: &TaskResult) -> Option<Key> {
    let name = result.metadata["labels"][WORKFLOW].as_str()?;
    Some((result.metadata["namespace"].as_str()?.to_owned(), name.to_owned()))
}

/// Whether a pod belongs to the Workflow with that uid, and not to an earlier one of its name.
fn has_pod(uid: &str, pod: &Pod) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    is_owned(uid, owners.map(|owner| (owner.kind.as_str(), owner.uid.as_str())))
}

fn has_result(uid: &str, result: &TaskResult) -> bool {
    let owners = result.metadata["ownerReferences"].as_array().into_iter().flatten();
    is_owned(uid, owners.filter_map(|owner| Some((owner["kind"].as_str()?, owner["uid"].as_str()?))))
}

/// What no Workflow owns is told by its label alone.
fn is_owned<'o>(uid: &str, owners: impl Iterator<Item = (&'o str, &'o str)>) -> bool {
    let mut workflows = owners.filter(|(kind, _)| *kind == "Workflow").map(|(_, uid)| uid).peekable();
    workflows.peek().is_none() || workflows.any(|owner| owner == uid)
}

/// What a look reads of a pod.
fn trimmed(mut pod: Pod) -> Pod {
    pod.metadata.managed_fields = None;
    let known = |all: Vec<Container>| {
        let one = |one: Container| Container { name: one.name, resources: one.resources, ..Container::default() };
        all.into_iter().map(one).collect()
    };
    pod.spec = pod.spec.map(|spec| PodSpec {
        node_name: spec.node_name,
        active_deadline_seconds: spec.active_deadline_seconds,
        containers: known(spec.containers),
        init_containers: spec.init_containers.map(known),
        ..PodSpec::default()
    });
    pod
}

/// A text within an object.
pub(super) fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
