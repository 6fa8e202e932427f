//! Steps in warm sandboxes: each is a task here, and its result is recorded before anybody counts on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::queue::Key;
use super::{Shared, argo};
use crate::engine::{Refused, Start};
use crate::steps::names::{INSTANCE, REPORTED, WORKFLOW};
use crate::steps::runner::{self, Asked, Ran, StepRunner, Wanted};
use crate::steps::{Identity, PodRequest, TaskResult, location, pod};

/// Steps in sandboxes at once; others wait for one of them to end.
const GUESTS_MAX: usize = 512;
/// How long to wait before a result that could not be recorded is tried again; twice as long each time, up to the most.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How much is said of why a result could not be recorded.
const REASON_MAX: usize = 1000;
/// How long to wait before a sandbox that could not be had is asked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// Steps in sandboxes now.
#[derive(Default)]
pub(super) struct Lodging {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    guests: BTreeMap<Key, BTreeMap<String, Guest>>,
    count: usize,
    /// Workflows with steps that found no room.
    turned_away: BTreeSet<Key>,
    /// Why steps that wait have no sandbox.
    complaints: BTreeMap<Key, BTreeMap<String, String>>,
}

struct Guest {
    /// What its pod would be called.
    pod: String,
    /// Whether it has its sandbox.
    is_in: bool,
    end: Option<oneshot::Sender<()>>,
}

/// Where a step goes.
pub(super) enum Place {
    /// It is in a sandbox, or waits for one.
    Sandbox,
    /// It needs a pod; where it asked for a sandbox, with the reason.
    Pod(Option<String>),
    /// It had a sandbox that nobody can find; with the reason.
    Lost(String),
}

/// What is said of a step that ran in a sandbox of which nothing is left.
const LOST: &str = "its sandbox is gone, and nobody knows how far the step came: it is not run again";

impl Lodging {
    /// The nodes of a Workflow whose steps are in sandboxes or wait for one, and whether they are in.
    pub(super) fn of(&self, key: &Key) -> BTreeMap<String, bool> {
        let inner = self.inner.lock();
        let guests = inner.guests.get(key).into_iter().flatten();
        guests.map(|(node, guest)| (node.clone(), guest.is_in)).collect()
    }

    /// Why steps of a Workflow have no sandbox.
    pub(super) fn complaints(&self, key: &Key) -> Vec<(String, Refused)> {
        let inner = self.inner.lock();
        let all = inner.complaints.get(key).into_iter().flatten();
        all.map(|(node, why)| (node.clone(), Refused { message: why.clone(), is_transient: true })).collect()
    }

    fn complain(&self, key: &Key, node: &str, why: String) {
        self.inner.lock().complaints.entry(key.clone()).or_default().insert(node.to_owned(), why);
    }

    /// A step has its sandbox.
    fn is_in(&self, key: &Key, node: &str) {
        let mut inner = self.inner.lock();
        if let Some(guest) = inner.guests.get_mut(key).and_then(|guests| guests.get_mut(node)) {
            guest.is_in = true;
        }
        if let Some(complaints) = inner.complaints.get_mut(key) {
            complaints.remove(node);
            if complaints.is_empty() {
                inner.complaints.remove(key);
            }
        }
    }

    /// Forgets a Workflow that has ended.
    pub(super) fn forget(&self, key: &Key) {
        self.inner.lock().complaints.remove(key);
    }

    /// Ends the step whose pod would be called so; whether there is one.
    pub(super) fn end(&self, key: &Key, pod: &str) -> bool {
        let mut inner = self.inner.lock();
        let guests = inner.guests.get_mut(key).into_iter().flat_map(BTreeMap::values_mut);
        let mut found = false;
        for guest in guests.filter(|guest| guest.pod == pod) {
            // It may have ended by itself.
            found |= guest.end.take().is_some_and(|end| end.send(()).is_ok());
        }
        found
    }

    /// Ends all steps of a Workflow.
    pub(super) fn end_all(&self, key: &Key) {
        let mut inner = self.inner.lock();
        for guest in inner.guests.get_mut(key).into_iter().flat_map(BTreeMap::values_mut) {
            if let Some(end) = guest.end.take() {
                // It may have ended by itself.
                let _ = end.send(());
            }
        }
        inner.complaints.remove(key);
    }

    /// Takes a step in, unless it is in or there is no room.
    fn enter(&self, key: &Key, start: &Start) -> Option<oneshot::Receiver<()>> {
        let mut inner = self.inner.lock();
        if inner.guests.get(key).is_some_and(|guests| guests.contains_key(&start.node_id)) {
            return None;
        }
        if inner.count >= GUESTS_MAX {
            inner.turned_away.insert(key.clone());
            return None;
        }
        let (end, ended) = oneshot::channel();
        inner.count += 1;
        let guest = Guest { pod: start.pod.clone(), is_in: false, end: Some(end) };
        inner.guests.entry(key.clone()).or_default().insert(start.node_id.clone(), guest);
        Some(ended)
    }

    /// Lets a step go; who can be looked at again.
    fn leave(&self, key: &Key, node: &str) -> BTreeSet<Key> {
        let mut inner = self.inner.lock();
        if let Some(guests) = inner.guests.get_mut(key) {
            let was_in = guests.remove(node).is_some();
            if guests.is_empty() {
                inner.guests.remove(key);
            }
            inner.count -= usize::from(was_in);
        }
        std::mem::take(&mut inner.turned_away)
    }
}

/// Puts a step into a sandbox if it asks for one and fits.
pub(super) async fn begin(
    shared: &Arc<Shared>,
    key: &Key,
    request: &PodRequest<'_>,
    annotations: &Value,
    start: &Start,
) -> Place {
    let Some(pool) = runner::pool(request.template, annotations) else { return Place::Pod(None) };
    let Some(runner) = &shared.options.runner else {
        let why = "there are no sandboxes here".to_owned();
        return if start.was_running { Place::Lost(why) } else { Place::Pod(Some(why)) };
    };
    let template = pod::prepared(request);
    // What runs in one stays there, whatever has become of its pool.
    if !start.was_running {
        let image = match runner.image(&key.0, pool).await {
            Ok(image) => image,
            Err(why) => return Place::Pod(Some(why)),
        };
        let has_directory = request.settings.artifacts.is_some();
        if let Some(why) = runner::unfit(&template, request.spec, &image, has_directory) {
            return Place::Pod(Some(why));
        }
    }
    if let Some(ended) = shared.lodging.enter(key, start) {
        if shared.store.has_result(key, &start.node_id) {
            // It left after this look began.
            shared.lodging.leave(key, &start.node_id);
            shared.queue.push(key.clone());
            return Place::Sandbox;
        }
        shared.metrics.lodged.inc();
        let wanted = Wanted {
            workflow: request.workflow.clone(),
            node_id: start.node_id.clone(),
            pool: pool.to_owned(),
            was_running: start.was_running,
        };
        let stay = Stay {
            shared: Arc::clone(shared),
            runner: Arc::clone(runner),
            key: key.clone(),
            wanted,
            template,
            wants_result: start.wants_result,
            deadline: start.deadline,
            active: start.active_seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs),
        };
        shared.tasks.spawn("step in a sandbox", stay.run(ended));
    }
    Place::Sandbox
}

/// One step in its sandbox.
struct Stay {
    shared: Arc<Shared>,
    runner: Arc<dyn StepRunner>,
    key: Key,
    wanted: Wanted,
    template: Value,
    wants_result: bool,
    deadline: Option<Timestamp>,
    active: Option<Duration>,
}

impl Stay {
    async fn run(self, ended: oneshot::Receiver<()>) {
        let stop = self.shared.tasks.token();
        // What is cut off here goes on in its sandbox, and is found there by the next controller.
        let again = stop.run_until_cancelled(self.stay(ended)).await;
        let keys = self.shared.lodging.leave(&self.key, &self.wanted.node_id);
        if let Some(again) = again {
            match again {
                Some(wait) => self.shared.queue.push_after(self.key.clone(), wait),
                None => self.shared.queue.push(self.key.clone()),
            }
        }
        for key in keys {
            self.shared.queue.push(key);
        }
    }

    /// Runs the step and records what came of it; when to look again if nothing did.
    async fn stay(&self, mut ended: oneshot::Receiver<()>) -> Option<Duration> {
        let begun = async {
            let artifacts = self.artifacts().await?;
            Ok::<_, String>((self.runner.claim(&self.wanted).await?, artifacts))
        };
        let begun = tokio::select! {
            _ = &mut ended => return None,
            begun = begun => begun,
        };
        let (room, artifacts) = match begun {
            Ok((Some(room), artifacts)) => (room, artifacts),
            Ok((None, _)) => {
                self.record(&Ran::error(LOST.to_owned())).await;
                return None;
            }
            Err(why) => {
                tracing::debug!(
                    namespace = self.key.0,
                    workflow = self.key.1,
                    why,
                    "no sandbox for a step, trying again"
                );
                self.shared.lodging.complain(&self.key, &self.wanted.node_id, why);
                return Some(AGAIN);
            }
        };
        self.shared.lodging.is_in(&self.key, &self.wanted.node_id);
        self.shared.queue.push(self.key.clone());
        let asked =
            Asked { template: &self.template, artifacts: artifacts.as_deref(), wants_result: self.wants_result };
        let ran = tokio::select! {
            // Whoever ended it has said so already.
            _ = &mut ended => None,
            ran = runner::run(room.as_ref(), &asked) => Some(ran),
            late = self.late() => Some(Ran::failed(late)),
        };
        if self.shared.tasks.is_cancelled() {
            // Its sandbox may have been lost to this process only.
            return None;
        }
        let mut log = Vec::new();
        if let Some(ran) = ran {
            self.record(&ran).await;
            log = ran.log;
        }
        self.shared.tasks.spawn("release", async move {
            if !log.is_empty() {
                room.keep(&log).await;
            }
            room.release().await;
        });
        None
    }

    /// The directory of artifacts, if the step has some there.
    async fn artifacts(&self) -> Result<Option<std::path::PathBuf>, String> {
        let of = |side: &str| self.template[side]["artifacts"].as_array().cloned().unwrap_or_default();
        let all = of("inputs").into_iter().chain(of("outputs"));
        let archive = location::is_directory(&self.template["archiveLocation"]);
        if !all.into_iter().any(|one| location::is_directory(&one) || archive && !location::is_located(&one)) {
            return Ok(None);
        }
        super::make::claim_directory(&self.shared, &self.key.0).await.map_err(|error| error.to_string())?;
        self.runner.artifacts(&self.key.0).await
    }

    /// Waits until the step's time is over; what is said then.
    async fn late(&self) -> &'static str {
        let left = self.deadline.map(|at| at.duration_since(self.shared.clock.now()).try_into().unwrap_or_default());
        let sleep = async |wait: Option<Duration>| match wait {
            Some(wait) => tokio::time::sleep(wait).await,
            None => std::future::pending().await,
        };
        tokio::select! {
            () = sleep(left) => "Step exceeded its deadline",
            () = sleep(self.active) => "Pod was active on the node longer than the specified deadline",
        }
    }

    /// Records what came of the step, however long that takes: without a record it would run again.
    async fn record(&self, ran: &Ran) {
        let of = |ran: &Ran| result(&self.wanted.workflow, &self.wanted.node_id, ran);
        let (mut object, mut is_short) = (of(ran), false);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.shared.client.clone(), &self.key.0, &argo("WorkflowTaskResult"));
        let mut pause = PAUSE;
        while self.shared.store.has(&self.key, &self.wanted.workflow.uid) {
            let Ok(new) = serde_json::from_value::<DynamicObject>(object.clone()) else { return };
            let recorded = match api.create(&PostParams::default(), &new).await {
                // What was recorded first counts.
                Err(kube::Error::Api(status)) if status.code == 409 => api.get(&self.wanted.node_id).await,
                made => made,
            };
            let error = match recorded {
                Ok(made) => {
                    match serde_json::to_value(made).and_then(serde_json::from_value::<TaskResult>) {
                        Ok(result) => drop(self.shared.store.put_result(result)),
                        Err(error) => tracing::error!(node = self.wanted.node_id, %error, "a step's result is none"),
                    }
                    return;
                }
                Err(error) => error,
            };
            tracing::warn!(namespace = self.key.0, node = self.wanted.node_id, %error, "a step's result was not recorded, trying again");
            if !is_short && is_unacceptable(&error) {
                (object, is_short) = (of(&unrecorded(&error)), true);
                continue;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// Whether a result is refused for what it says, as one too large is, and will be every time.
fn is_unacceptable(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    matches!(status.code, 400 | 413 | 422) || super::write::is_too_large(error)
}

/// What is recorded instead.
fn unrecorded(error: &kube::Error) -> Ran {
    let why: String = error.to_string().chars().take(REASON_MAX).collect();
    Ran::error(format!("the step ended, and what it left could not be recorded: {why}"))
}

/// The object that records what came of a step.
fn result(workflow: &Identity, node: &str, ran: &Ran) -> Value {
    let mut labels = json!({WORKFLOW: workflow.name, REPORTED: "true"});
    if let Some(instance) = &workflow.instance {
        labels[INSTANCE] = json!(instance);
    }
    let owner = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": workflow.name,
        "uid": workflow.uid});
    let mut object = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTaskResult",
        "metadata": {"name": node, "namespace": workflow.namespace, "labels": labels, "ownerReferences": [owner]},
        "phase": ran.phase});
    if ran.outputs.is_object() {
        object["outputs"] = ran.outputs.clone();
    }
    if !ran.message.is_empty() {
        object["message"] = json!(ran.message);
    }
    object
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;
    use crate::steps::Phase;

    #[test]
    fn what_is_refused_for_what_it_says_is_told_in_short() {
        let error = |code: u16, message: &str| {
            let status = Status { code, message: message.to_owned(), ..Status::default() };
            kube::Error::Api(Box::new(status))
        };
        for (code, message, is_final) in [
            (413, "the object is too large", true),
            (422, "outputs: invalid", true),
            (400, "no JSON", true),
            (500, "etcdserver: request is too large", true),
            (500, "internal", false),
            (403, "forbidden", false),
            (404, "namespaces \"ns\" not found", false),
            (429, "slow down", false),
        ] {
            assert_eq!(is_unacceptable(&error(code, message)), is_final, "{code} {message}");
        }
        let ran = unrecorded(&error(413, &"x".repeat(1 << 20)));
        assert_eq!(ran.phase, Phase::Error);
        let identity =
            Identity { name: "wf".to_owned(), namespace: "ns".to_owned(), uid: "1".to_owned(), instance: None };
        let object = result(&identity, "wf-1", &ran);
        assert!(
            object.to_string().len() < 2000 && object["message"].as_str().unwrap().contains("could not be recorded")
        );
    }
}
