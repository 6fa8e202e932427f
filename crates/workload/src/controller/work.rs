//! One look at one Workflow, and doing what it came to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use super::Shared;
use super::lodging::{self, Place};
use super::make::{make_claim, make_pod};
use super::queue::Key;
use super::store::{Elsewhere, Memory, View, Within};
use super::watches::KINDS;
use super::{argo, done, elsewhere, repository, write};
use crate::engine::{Effect, OVER_SECONDS, Operated, Refused, Seen, Start, leftovers, operate, unclaimed};
use crate::status::{NodePhase, NodeStatus, NodeType, Phase, WorkflowStatus};
use crate::steps::names::WORKFLOW;
use crate::steps::{Identity, PodRequest};

/// Pods made at once for one Workflow.
const STARTS: usize = 16;
/// How long to wait before a pod that could not be made is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Looks at Workflows, one after another, for ever.
pub(super) async fn run(shared: &Arc<Shared>) {
    loop {
        let key = shared.queue.next().await;
        shared.metrics.waiting.set(i64::try_from(shared.queue.len()).unwrap_or(i64::MAX));
        look(shared, &key).await;
        shared.queue.done(&key);
    }
}

pub(super) async fn look(shared: &Arc<Shared>, key: &Key) {
    if !shared.store.is_listed(KINDS) {
        return;
    }
    let Some(view) = shared.store.view(key) else { return };
    shared.metrics.looks.inc();
    if done::is_done(&view.stored) {
        if let Ok(status) = &view.stored.status {
            finish(shared, key, uid(&view), &left(&view, status)).await;
            done::sweep(shared, key, &view, status).await;
        }
        return;
    }
    if !view.memory.based_on.is_empty() && view.memory.based_on != view.stored.version && !reread(shared, key).await {
        return;
    }
    if view.stored.status.as_ref().is_ok_and(|status| has_lost(status, &view)) && !reread(shared, key).await {
        return;
    }
    // First: a step that leaves its sandbox has its result in the store by then.
    let lodged = shared.lodging.of(key);
    let Some(view) = shared.store.view(key) else { return };
    let refused = still_refused(&view);
    let Some(operated) = decided(shared, key, &view, &lodged, &refused).await else { return };
    let mut memory = Memory {
        based_on: view.stored.version.clone(),
        status: operated.status.clone(),
        refused,
        written_at: view.memory.written_at,
        is_unclaimed: false,
    };
    let (starts, ends): (Vec<Effect>, Vec<Effect>) =
        operated.effects.iter().cloned().partition(|effect| matches!(effect, Effect::Start(_) | Effect::Claim(_)));
    begin(shared, key, &view, &starts, &mut memory).await;
    let urgent = operated.status.phase.is_completed() || !ends.is_empty();
    let stored = write::due(shared, key, &view, &operated, &mut memory, urgent).await;
    shared.store.remember(key, memory);
    if stored {
        finish(shared, key, uid(&view), &ends).await;
        done::sweep(shared, key, &view, &operated.status).await;
    } else if !ends.is_empty() {
        shared.queue.push(key.clone());
    }
    if let Some(at) = operated.wake_at {
        let wait = at.duration_since(shared.clock.now());
        shared.queue.push_after(key.clone(), wait.try_into().unwrap_or_default());
    }
}

/// Whether the pod of a step that runs is gone and nothing is known of its end: the watch of results may not have told yet.
fn has_lost(status: &WorkflowStatus, view: &View) -> bool {
    let is_newer = view.memory.based_on == view.stored.version;
    let status = if is_newer { &view.memory.status } else { status };
    let lost = |node: &NodeStatus| {
        let is_pod = node.kind == NodeType::Pod && node.phase == NodePhase::Running && !node.host_node_name.is_empty();
        let known = view.results.get(&node.id).is_some_and(|result| result.is_complete());
        is_pod && !known && !view.pods.contains_key(&node.id)
    };
    status.nodes.iter().any(lost)
}

/// Somebody else changed the Workflow, and perhaps removed pods and results before: what there is of them counts, not
/// what the watches have told so far.
async fn reread(shared: &Shared, key: &Key) -> bool {
    let own = ListParams::default().labels(&format!("{WORKFLOW}={}", key.1));
    let pods: Api<Pod> = Api::namespaced(shared.client.clone(), &key.0);
    let results: Api<DynamicObject> = Api::namespaced_with(shared.client.clone(), &key.0, &argo("WorkflowTaskResult"));
    match futures::future::try_join(pods.list(&own), results.list(&own)).await {
        Ok((pods, results)) => {
            let results =
                results.items.iter().filter_map(|one| serde_json::from_value(serde_json::to_value(one).ok()?).ok());
            shared.store.put_all(key, pods.items, results.collect());
            true
        }
        Err(error) => {
            tracing::warn!(namespace = key.0, workflow = key.1, %error, "its pods could not be listed, trying again");
            shared.queue.push_after(key.clone(), AGAIN);
            false
        }
    }
}

/// What of a Workflow that has ended still is to be ended, whoever decided that.
fn left(view: &View, status: &WorkflowStatus) -> Vec<Effect> {
    let mut left: Vec<Effect> = leftovers(status, &view.pods).into_iter().map(|pod| Effect::End { pod }).collect();
    if let (Ok(workflow), false) = (&view.stored.workflow, view.memory.is_unclaimed) {
        left.extend(unclaimed(workflow, status).into_iter().map(|claim| Effect::Unclaim { claim }));
    }
    left
}

/// Steps whose pod could not be made. Somebody else's change may have taken a step back, and it is to be tried again.
fn still_refused(view: &View) -> BTreeMap<String, Refused> {
    let mut refused = view.memory.refused.clone();
    if let (true, Ok(status)) = (view.memory.based_on != view.stored.version, &view.stored.status) {
        refused.retain(|node, _| status.nodes.get(node).is_some());
    }
    refused
}

/// What a Workflow does next. Where its first look ends it badly, what it names is read from the API and it is looked at
/// again: that may have been made with it. Each round reads something that was not read before. None if that failed.
async fn decided(
    shared: &Shared,
    key: &Key,
    view: &View,
    lodged: &BTreeMap<String, bool>,
    refused: &BTreeMap<String, Refused>,
) -> Option<Operated> {
    let is_first = view.stored.status.as_ref().is_ok_and(|status| status.phase == Phase::Unknown);
    let mut read = BTreeSet::new();
    loop {
        let (operated, asked) = decided_now(shared, key, view, lodged, refused);
        let unread: Vec<Elsewhere> = asked.difference(&read).cloned().collect();
        let is_bad = matches!(operated.status.phase, Phase::Failed | Phase::Error);
        if !is_first || !is_bad || unread.is_empty() {
            return Some(operated);
        }
        if let Err(error) = elsewhere::fetch(shared, &key.0, &unread).await {
            tracing::warn!(namespace = key.0, workflow = key.1, %error, "what it names could not be read, trying again");
            shared.queue.push_after(key.clone(), AGAIN);
            return None;
        }
        read.extend(unread);
    }
}

/// What a Workflow does next by what is known, and what it asked for elsewhere.
fn decided_now(
    shared: &Shared,
    key: &Key,
    view: &View,
    lodged: &BTreeMap<String, bool>,
    refused: &BTreeMap<String, Refused>,
) -> (Operated, BTreeSet<Elsewhere>) {
    let stored = &view.stored;
    let (workflow, status) = match (&stored.workflow, &stored.status) {
        (Ok(workflow), Ok(status)) => (workflow, status),
        (Err(error), _) => return (broken(&format!("cannot unmarshall spec: {error}"), shared), BTreeSet::new()),
        (_, Err(error)) => return (broken(error, shared), BTreeSet::new()),
    };
    let status = if view.memory.based_on == stored.version { view.memory.status.clone() } else { status.clone() };
    let identity = identity(shared, key, workflow.metadata.uid.as_deref());
    let sources = Within::new(&shared.store, &key.0);
    let mut refused = refused.clone();
    refused.extend(shared.lodging.complaints(key));
    let seen = Seen { pods: &view.pods, results: &view.results, lodged, refused: &refused, sources: &sources };
    let operated = operate(workflow, &identity, status, &seen, shared.clock.now());
    (operated, sources.asked())
}

fn identity(shared: &Shared, key: &Key, uid: Option<&str>) -> Identity {
    Identity {
        name: key.1.clone(),
        namespace: key.0.clone(),
        uid: uid.unwrap_or_default().to_owned(),
        instance: shared.options.instance.clone(),
    }
}

/// A Workflow that cannot be read ends at once.
fn broken(message: &str, shared: &Shared) -> Operated {
    let now = crate::status::Moment::of(shared.clock.now());
    let labels = [(crate::engine::PHASE_LABEL, "Failed"), (crate::engine::COMPLETED_LABEL, "true")];
    Operated {
        status: WorkflowStatus {
            phase: Phase::Failed,
            message: message.to_owned(),
            started_at: now,
            finished_at: now,
            ..WorkflowStatus::default()
        },
        labels: labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        annotations: BTreeMap::new(),
        effects: Vec::new(),
        wake_at: None,
        changed: true,
    }
}

/// Makes claims, then pods, a few at a time.
async fn begin(shared: &Arc<Shared>, key: &Key, view: &View, effects: &[Effect], memory: &mut Memory) {
    for effect in effects {
        if let Effect::Claim(claim) = effect
            && let Err(error) = make_claim(shared, key, claim).await
        {
            tracing::warn!(namespace = key.0, workflow = key.1, %error, "a claim could not be made");
            shared.queue.push_after(key.clone(), AGAIN);
        }
    }
    let claims = memory.status.persistent_volume_claims.clone();
    let uid = view.stored.workflow.as_ref().ok().and_then(|workflow| workflow.metadata.uid.clone());
    let identity = identity(shared, key, uid.as_deref());
    let mut starts = Vec::new();
    for effect in effects {
        if let Effect::Start(start) = effect {
            starts.push(make_step(shared, key, view, &identity, &claims, start));
        }
    }
    let started: Vec<(String, Result<Option<Pod>, Refused>)> =
        futures::stream::iter(starts).buffer_unordered(STARTS).collect().await;
    for (node, made) in started {
        match made {
            Ok(pod) => {
                memory.refused.remove(&node);
                if let Some(pod) = pod {
                    shared.metrics.starts.inc();
                    shared.store.put_new_pod(pod);
                }
            }
            Err(refused) => {
                shared.metrics.refusals.inc();
                let wait = if refused.is_transient { AGAIN } else { Duration::ZERO };
                memory.refused.insert(node, refused);
                shared.queue.push_after(key.clone(), wait);
            }
        }
    }
}

/// Starts a step; its pod, unless it is in a sandbox.
async fn make_step(
    shared: &Arc<Shared>,
    key: &Key,
    view: &View,
    identity: &Identity,
    claims: &[Value],
    start: &Start,
) -> (String, Result<Option<Pod>, Refused>) {
    let repository = match repository::resolved(shared, &key.0, &start.spec).await {
        Ok(repository) => repository,
        Err(refused) => return (start.node_id.clone(), Err(refused)),
    };
    let request = PodRequest {
        workflow: identity,
        node_id: &start.node_id,
        node_name: &start.node_name,
        template: &start.template,
        boundary: start.boundary.as_deref(),
        spec: &start.spec,
        claims,
        repository: repository.as_ref(),
        active_seconds: start.active_seconds,
        deadline: start.deadline,
        wants_result: start.wants_result,
        on_exit: start.on_exit,
        settings: &shared.options.settings,
    };
    let annotations = &view.stored.object["metadata"]["annotations"];
    let made = match lodging::begin(shared, key, &request, annotations, start).await {
        Place::Sandbox => Ok(None),
        Place::Lost(message) => Err(Refused { message, is_transient: false }),
        Place::Pod(why) => make_pod(shared, &request, &start.pod, why).await.map(Some),
    };
    (start.node_id.clone(), made)
}

fn uid(view: &View) -> &str {
    view.stored.object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Ends pods and gives claims back.
async fn finish(shared: &Shared, key: &Key, uid: &str, effects: &[Effect]) {
    let (mut claims, mut kept) = (0, 0);
    for effect in effects {
        let ended = match effect {
            Effect::End { pod } if shared.lodging.end(key, pod) => Ok(()),
            Effect::End { pod } => end_pod(shared, key, pod).await,
            Effect::Unclaim { claim } => {
                claims += 1;
                give_back(shared, key, uid, claim).await
            }
            Effect::Start(_) | Effect::Claim(_) => Ok(()),
        };
        match ended {
            Ok(()) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                tracing::warn!(namespace = key.0, workflow = key.1, %error, "something could not be ended, trying again");
                kept += usize::from(matches!(effect, Effect::Unclaim { .. }));
                // Pods and claims that are left over are found by the next look.
                shared.queue.push_after(key.clone(), AGAIN);
            }
        }
    }
    if claims > 0 && kept == 0 {
        shared.store.unclaimed(key);
    }
}

/// Deletes a claim, if it is this Workflow's: somebody may have made another of that name since.
async fn give_back(shared: &Shared, key: &Key, uid: &str, claim: &str) -> Result<(), kube::Error> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(shared.client.clone(), &key.0);
    let Some(found) = api.get_opt(claim).await? else { return Ok(()) };
    if found.metadata.owner_references.iter().flatten().all(|owner| owner.uid != uid) {
        return Ok(());
    }
    let preconditions = Preconditions { uid: found.metadata.uid, resource_version: None };
    api.delete(claim, &DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }).await.map(drop)
}

/// Ends a pod and keeps it, so that its log can still be read; where that is refused, deletes it. One that has no machine
/// has said nothing, and nobody there looks at its clock.
async fn end_pod(shared: &Shared, key: &Key, pod: &str) -> Result<(), kube::Error> {
    let api: Api<Pod> = Api::namespaced(shared.client.clone(), &key.0);
    let over = json!({"spec": {"activeDeadlineSeconds": OVER_SECONDS}});
    match api.patch(pod, &PatchParams::default(), &Patch::Merge(&over)).await {
        Err(kube::Error::Api(status)) if status.code == 422 || status.code == 403 => {
            api.delete(pod, &DeleteParams::default()).await.map(drop)
        }
        Ok(patched) if patched.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) => {
            api.delete(pod, &DeleteParams::default()).await.map(drop)
        }
        patched => patched.map(drop),
    }
}
