//! What is left of Workflows that have ended: pods, results, and in the end they themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::core::{Selector, SelectorExt};

use super::queue::Key;
use super::store::{Stored, View, text};
use super::{Shared, argo};
use crate::spec::{self, PodGc, WorkflowSpec};
use crate::status::{NodePhase, Phase, WorkflowStatus};
use crate::steps::names::{POOL, WORKFLOW};

/// How long to wait before what could not be removed is tried again.
const AGAIN: Duration = Duration::from_secs(10);
/// How long pods are kept where nothing is said.
const DELAY: Duration = Duration::from_secs(5);

/// Whether a Workflow has ended and that is stored.
pub(super) fn is_done(stored: &Stored) -> bool {
    text(&stored.object, "/metadata/labels/workflows.argoproj.io~1completed") == "true"
}

/// Removes what a Workflow does not need any more, and has the rest looked at when its time comes.
pub(super) async fn sweep(shared: &Shared, key: &Key, view: &View, status: &WorkflowStatus) {
    let Ok(workflow) = &view.stored.workflow else { return };
    let spec = status.stored_spec.as_deref().unwrap_or(&workflow.spec);
    sweep_pods(shared, key, view, spec, status).await;
    if !status.phase.is_completed() {
        return;
    }
    shared.lodging.forget(key);
    if !view.results.is_empty() && sweep_sandboxes(shared, key, view).await {
        let api: Api<DynamicObject> = Api::namespaced_with(shared.client.clone(), &key.0, &argo("WorkflowTaskResult"));
        let own = ListParams::default().labels(&format!("{WORKFLOW}={}", key.1));
        told(shared, key, api.delete_collection(&DeleteParams::default(), &own).await.map(drop));
    }
    if let Some(at) = removal(spec, status) {
        if at <= shared.clock.now() {
            let api: Api<DynamicObject> = Api::namespaced_with(shared.client.clone(), &key.0, &argo("Workflow"));
            told(shared, key, api.delete(&key.1, &DeleteParams::background()).await.map(drop));
        } else {
            later(shared, key, at);
        }
    }
}

/// Gives sandboxes back that steps still have; whether that is done. Results go after them: while there are some, whoever
/// starts next looks for sandboxes, too.
async fn sweep_sandboxes(shared: &Shared, key: &Key, view: &View) -> bool {
    let Some(runner) = &shared.options.runner else { return true };
    if !view.stored.object.to_string().contains(POOL) {
        return true;
    }
    let swept = runner.sweep(&key.0, &key.1).await;
    if let Err(error) = &swept {
        tracing::warn!(namespace = key.0, workflow = key.1, error, "sandboxes could not be given back, trying again");
        shared.queue.push_after(key.clone(), AGAIN);
    }
    swept.is_ok()
}

/// When a Workflow that has ended is removed.
fn removal(spec: &WorkflowSpec, status: &WorkflowStatus) -> Option<Timestamp> {
    let ttl = spec.ttl_strategy.as_ref()?;
    let own = if status.phase == Phase::Succeeded { ttl.seconds_after_success } else { ttl.seconds_after_failure };
    let seconds = own.or(ttl.seconds_after_completion)?;
    status.finished_at.time()?.checked_add(SignedDuration::from_secs(seconds.into())).ok()
}

async fn sweep_pods(shared: &Shared, key: &Key, view: &View, spec: &WorkflowSpec, status: &WorkflowStatus) {
    let Some(gc) = &spec.pod_gc else { return };
    let (completed, succeeded) = (status.phase.is_completed(), status.phase == Phase::Succeeded);
    let delay = spec::duration(&gc.delete_delay_duration).unwrap_or(DELAY);
    let api: Api<Pod> = Api::namespaced(shared.client.clone(), &key.0);
    for (id, pod) in &view.pods {
        let Some(node) = status.nodes.get(id).filter(|node| node.is_ended()) else { continue };
        let goes = match gc.strategy.as_str() {
            "OnPodCompletion" => true,
            "OnPodSuccess" => node.phase == NodePhase::Succeeded,
            "OnWorkflowCompletion" => completed,
            "OnWorkflowSuccess" => succeeded,
            _ => false,
        };
        let goes = goes && is_selected(gc, pod);
        let (Some(name), true) = (&pod.metadata.name, goes && pod.metadata.deletion_timestamp.is_none()) else {
            continue;
        };
        let at = node.finished_at.time().and_then(|end| end.checked_add(delay).ok()).unwrap_or(Timestamp::MIN);
        if at <= shared.clock.now() {
            told(shared, key, api.delete(name, &DeleteParams::default()).await.map(drop));
        } else {
            later(shared, key, at);
        }
    }
}

/// Whether a pod is one of those that are to go; all are where nothing is said.
fn is_selected(gc: &PodGc, pod: &Pod) -> bool {
    let Some(said) = &gc.label_selector else { return true };
    let none = BTreeMap::new();
    // Which it is was checked with the spec.
    Selector::try_from(said.clone())
        .is_ok_and(|selector| selector.matches(pod.metadata.labels.as_ref().unwrap_or(&none)))
}

fn later(shared: &Shared, key: &Key, at: Timestamp) {
    let wait = at.duration_since(shared.clock.now());
    shared.queue.push_after(key.clone(), wait.try_into().unwrap_or_default());
}

fn told(shared: &Shared, key: &Key, removed: Result<(), kube::Error>) {
    match removed {
        Ok(()) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => {
            tracing::warn!(namespace = key.0, workflow = key.1, %error, "something could not be removed, trying again");
            shared.queue.push_after(key.clone(), AGAIN);
        }
    }
}
