//! Following everything that Workflows are made of.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use thane_runtime::Tasks;

use super::queue::Key;
use super::store::Stored;
use super::{Shared, argo};
use crate::spec::Workflow;
use crate::steps::TaskResult;
use crate::steps::names::{INSTANCE, WORKFLOW};

/// Kinds that have to be known before anything is started.
pub(super) const KINDS: usize = 6;
/// `ConfigMaps` that parameters may come from.
pub(super) const SETTINGS: [&str; 2] = ["workflows.argoproj.io/configmap-type", "Parameter"];

/// A word of a watch.
pub(super) enum Word<K> {
    /// All there are are listed next.
    Listing,
    There(K),
    Gone(K),
    Listed(Vec<K>),
}

pub(super) fn start(shared: &Arc<Shared>, tasks: &Tasks) {
    let own = match &shared.options.instance {
        Some(id) => format!("{INSTANCE}={id}"),
        None => format!("!{INSTANCE}"),
    };
    let dynamic = |kind: &str| Api::<DynamicObject>::all_with(shared.client.clone(), &argo(kind));
    follow(shared, tasks, "workflows", dynamic("Workflow"), Some(&own), workflow);
    follow(shared, tasks, "pods", Api::<Pod>::all(shared.client.clone()), Some(WORKFLOW), pod);
    follow(shared, tasks, "task-results", dynamic("WorkflowTaskResult"), Some(WORKFLOW), result);
    follow(shared, tasks, "templates", dynamic("WorkflowTemplate"), None, template);
    follow(shared, tasks, "cluster-templates", dynamic("ClusterWorkflowTemplate"), None, cluster_template);
    follow(
        shared,
        tasks,
        "settings",
        Api::<ConfigMap>::all(shared.client.clone()),
        Some(&SETTINGS.join("=")),
        settings,
    );
}

fn follow<K>(
    shared: &Arc<Shared>,
    tasks: &Tasks,
    name: &'static str,
    api: Api<K>,
    labels: Option<&str>,
    observe: fn(&Shared, Word<K>),
) where
    K: Resource<DynamicType: Clone> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = labels.map_or_else(watcher::Config::default, |labels| watcher::Config::default().labels(labels));
    let mut words = watcher(api, config).default_backoff().boxed();
    let shared = Arc::clone(shared);
    let stop = tasks.token();
    tasks.spawn_essential(
        name,
        stop.run_until_cancelled_owned(async move {
            let mut listing = Vec::new();
            while let Some(word) = words.next().await {
                match word {
                    Ok(watcher::Event::Init) => {
                        listing.clear();
                        observe(&shared, Word::Listing);
                    }
                    Ok(watcher::Event::InitApply(object)) => {
                        listing.push(object.clone());
                        observe(&shared, Word::There(object));
                    }
                    Ok(watcher::Event::InitDone) => {
                        observe(&shared, Word::Listed(std::mem::take(&mut listing)));
                        listed(&shared, name);
                    }
                    Ok(watcher::Event::Apply(object)) => observe(&shared, Word::There(object)),
                    Ok(watcher::Event::Delete(object)) => observe(&shared, Word::Gone(object)),
                    Err(error) => {
                        tracing::warn!(%error, watch = name, "a watch failed, trying again");
                        if is_absent(&error) {
                            // A cluster without this kind has none of them.
                            listed(&shared, name);
                        }
                    }
                }
            }
        })
        .map(drop),
    );
}

fn is_absent(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

/// Once everything is known, everything is looked at.
fn listed(shared: &Shared, name: &'static str) {
    if shared.store.listed(name, KINDS) {
        for key in shared.store.keys() {
            shared.queue.push(key);
        }
    }
}

fn workflow(shared: &Shared, word: Word<DynamicObject>) {
    match word {
        Word::There(object) => {
            let Ok(object) = serde_json::to_value(&object) else { return };
            shared.queue.push(shared.store.put(Stored::read(object)));
        }
        Word::Gone(object) => forget(shared, &key(&object)),
        Word::Listed(all) => {
            let known = keys(&all);
            for gone in shared.store.keys().into_iter().filter(|one| !known.contains(one)) {
                forget(shared, &gone);
            }
        }
        Word::Listing => {}
    }
}

/// A Workflow is gone: its steps end, and its namespace may be gone too, with its claim for artifacts.
fn forget(shared: &Shared, key: &Key) {
    shared.lodging.end_all(key);
    if shared.store.remove(key) {
        shared.claimed.lock().remove(&key.0);
    }
}

fn pod(shared: &Shared, word: Word<Pod>) {
    let key = match word {
        Word::There(pod) => shared.store.put_pod(pod),
        Word::Gone(pod) => shared.store.remove_pod(&pod),
        Word::Listed(all) => {
            for key in shared.store.retain_pods(&all) {
                shared.queue.push(key);
            }
            None
        }
        Word::Listing => None,
    };
    if let Some(key) = key {
        shared.queue.push(key);
    }
}

fn result(shared: &Shared, word: Word<DynamicObject>) {
    let read = |object: DynamicObject| -> Option<TaskResult> {
        serde_json::from_value(serde_json::to_value(object).ok()?).ok()
    };
    match word {
        Word::There(object) => {
            if let Some(key) = read(object).and_then(|result| shared.store.put_result(result)) {
                shared.queue.push(key);
            }
        }
        Word::Gone(object) => {
            if let Some(result) = read(object) {
                shared.store.remove_result(&result);
            }
        }
        Word::Listing => shared.store.doubt_results(),
        Word::Listed(_) => shared.store.retain_results(),
    }
}

pub(super) fn template(shared: &Shared, word: Word<DynamicObject>) {
    templates(shared, word, false);
}

pub(super) fn cluster_template(shared: &Shared, word: Word<DynamicObject>) {
    templates(shared, word, true);
}

fn templates(shared: &Shared, word: Word<DynamicObject>, of_cluster: bool) {
    match word {
        Word::There(object) => {
            let (key, version) = (key(&object), object.resource_version().unwrap_or_default());
            let read =
                serde_json::to_value(object).ok().and_then(|value| crate::spec::from_value::<Workflow>(value).ok());
            shared.store.put_template(key, &version, read.map(|template| template.spec));
        }
        Word::Gone(object) => {
            shared.store.put_template(key(&object), &object.resource_version().unwrap_or_default(), None);
        }
        Word::Listed(all) => shared.store.retain_templates(of_cluster, &keys(&all)),
        Word::Listing => {}
    }
}

pub(super) fn settings(shared: &Shared, word: Word<ConfigMap>) {
    match word {
        Word::There(map) => shared.store.put_settings(&map, true),
        Word::Gone(map) => shared.store.put_settings(&map, false),
        Word::Listed(all) => shared.store.retain_settings(&keys(&all)),
        Word::Listing => {}
    }
}

fn key<K: Resource>(object: &K) -> Key {
    let metadata = object.meta();
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

fn keys<K: Resource>(all: &[K]) -> BTreeSet<Key> {
    all.iter().map(key).collect()
}
