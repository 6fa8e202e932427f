//! Keeps pools as they should be: watches, decides, and does a bounded number of things at once.

mod count;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource};
use serde_json::json;
use thane_runtime::{SharedClock, Tasks};

use count::{Beginning, count_beginning, count_ready};

use super::decide::{Doomed, Plan, Trouble, View, decide};
use super::equipment::Equipment;
use super::metrics::Metrics;
use crate::certificates::Certificates;
use crate::claims::PoolAt;
use crate::conditions;
use crate::kinds::{WarmPool, WarmPoolStatus};
use crate::names;
use crate::pods::{self, Shape};
use crate::watched::{Watched, follow};

/// What is done at once.
const JOBS_MAX: usize = 20;
/// What one pool may begin before others have their turn.
const TURN_MAX: usize = 5;
/// The pause after a status was written, so that one write tells of many pods.
const TOLD_PAUSE: Duration = Duration::from_millis(50);
/// The pause after an answer that was no answer.
const RETRY: Duration = Duration::from_secs(1);

/// What pools are kept with.
pub(crate) struct Site {
    pub(crate) shape: Shape,
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// A pool of an experiment goes when no sandbox of it was there for so long.
    pub(crate) managed_unused: Duration,
}

/// Keeps all pools until the tasks end.
pub(crate) fn start(client: Client, site: Site, clock: SharedClock, tasks: &Tasks, metrics: Metrics) {
    let Site { shape, certificates, managed_unused } = site;
    let reporter = Reporter { controller: "thane-pools".to_owned(), instance: None };
    let keeper = Keeper {
        recorder: Recorder::new(client.clone(), reporter),
        client,
        shape,
        certificates,
        managed_unused,
        clock,
        metrics,
        pools: Watched::default(),
        pods: Watched::default(),
        kept: BTreeMap::new(),
        turns: VecDeque::new(),
        jobs: FuturesUnordered::new(),
    };
    tasks.spawn_essential("pools", keeper.run(tasks.clone()));
}

struct Keeper {
    client: Client,
    shape: Shape,
    certificates: Option<Arc<Certificates>>,
    managed_unused: Duration,
    clock: SharedClock,
    recorder: Recorder,
    metrics: Metrics,
    pools: Watched<WarmPool>,
    pods: Watched<Pod>,
    /// By the pools' ids.
    kept: BTreeMap<String, Kept>,
    /// Pools to look at, in turn.
    turns: VecDeque<String>,
    jobs: FuturesUnordered<BoxFuture<'static, Done>>,
}

/// What is remembered about a pool.
#[derive(Default)]
struct Kept {
    creating: usize,
    deleting: BTreeSet<String>,
    trouble: Trouble,
    /// As last written or found.
    status: Option<WarmPoolStatus>,
    writing: bool,
    equipping: bool,
    again: Option<Timestamp>,
    /// The template that everything is there for.
    equipped: Option<String>,
    /// Pods whose readiness was counted.
    seen_ready: BTreeSet<String>,
    /// Pods whose image cannot be had, and were counted for that.
    seen_unpulled: BTreeSet<String>,
    /// What of a new pool's beginning is still to be counted.
    beginning: Option<Beginning>,
    /// Since when no sandbox of it was there, of a pool that goes for that.
    unused: Option<Timestamp>,
    retiring: bool,
}

/// What has been done, for the pool with that id.
struct Done {
    pool: String,
    what: What,
}

enum What {
    Created(Result<Box<Pod>, kube::Error>),
    Deleted(Doomed, Result<(), kube::Error>),
    Told(Result<(), kube::Error>),
    Equipped(String, Result<(), String>),
    Retired(Result<(), kube::Error>),
}

impl What {
    fn is_done(&self) -> bool {
        match self {
            Self::Created(created) => created.is_ok(),
            Self::Deleted(_, deleted) => deleted.is_ok(),
            Self::Told(told) => told.is_ok(),
            Self::Equipped(_, equipped) => equipped.is_ok(),
            Self::Retired(retired) => retired.is_ok(),
        }
    }
}

impl Keeper {
    async fn run(mut self, tasks: Tasks) {
        let mut pools = follow(self.client.clone(), None);
        let mut pods = follow(self.client.clone(), Some(names::POOL));
        loop {
            let again = self.kept.values().filter_map(|kept| kept.again).min();
            let pause = again.map(|at| Duration::try_from(at.duration_since(self.clock.now())).unwrap_or_default());
            tokio::select! {
                () = tasks.cancelled() => return,
                Some(event) = pools.next() => {
                    for pool in self.pools.observe(event) {
                        self.pool_changed(&pool);
                    }
                }
                Some(event) = pods.next() => {
                    for pod in self.pods.observe(event) {
                        self.pod_changed(&pod);
                    }
                }
                Some(done) = self.jobs.next() => self.finish(done),
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => self.wake(),
            }
            if self.pools.is_listed() && self.pods.is_listed() {
                self.work();
            }
        }
    }

    fn pool_changed(&mut self, pool: &WarmPool) {
        let uid = pods::uid(pool);
        if self.pools.get(uid).is_some() {
            self.turn(uid);
        } else {
            self.kept.remove(uid);
            self.metrics.forget(&PoolAt::of(pool));
        }
    }

    fn pod_changed(&mut self, pod: &Pod) {
        let Some(at) = pods::pool_of(pod) else { return };
        let pool = self.pools.all().find(|pool| PoolAt::of(pool) == at).map(|pool| pods::uid(&**pool).to_owned());
        if let Some(uid) = pool {
            self.turn(&uid);
        }
    }

    fn wake(&mut self) {
        let now = self.clock.now();
        let due: Vec<String> = self
            .kept
            .iter()
            .filter(|(_, kept)| kept.again.is_some_and(|at| at <= now))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in due {
            if let Some(kept) = self.kept.get_mut(&uid) {
                kept.again = None;
            }
            self.turn(&uid);
        }
    }

    fn turn(&mut self, pool: &str) {
        if !self.turns.iter().any(|other| other == pool) {
            self.turns.push_back(pool.to_owned());
        }
    }

    /// Gives each pool its turn, as long as there is room.
    fn work(&mut self) {
        while self.jobs.len() < JOBS_MAX
            && let Some(uid) = self.turns.pop_front()
        {
            if let Some(pool) = self.pools.get(&uid).cloned()
                && self.look_after(&uid, &pool)
            {
                self.turns.push_back(uid);
            }
        }
    }

    /// Begins what a pool needs; says whether there is more to do.
    fn look_after(&mut self, uid: &str, pool: &Arc<WarmPool>) -> bool {
        let plan = self.plan(uid, pool);
        let at = PoolAt::of(pool);
        self.metrics.show(&at, plan.status.ready_replicas, plan.status.allocated_replicas, plan.starting);
        let Some(kept) = self.kept.get_mut(uid) else { return false };
        (kept.trouble, kept.again) = (plan.trouble, plan.again);
        if !kept.writing && kept.status.as_ref() != Some(&plan.status) {
            kept.writing = true;
            let before = kept.status.replace(plan.status.clone());
            self.jobs.push(self.tell(uid, pool, before.unwrap_or_default(), plan.status.clone()));
        }
        if self.retire(uid, pool, plan.status.allocated_replicas) {
            return false;
        }
        let create = if plan.create > 0 && self.equip(uid, pool) { 0 } else { plan.create };
        let wanted = create + plan.delete.len();
        let room = JOBS_MAX.saturating_sub(self.jobs.len()).min(TURN_MAX);
        let Some(kept) = self.kept.get_mut(uid) else { return false };
        let creating = create.min(room);
        kept.creating += creating;
        let doomed: Vec<Doomed> = plan.delete.into_iter().take(room - creating).collect();
        kept.deleting.extend(doomed.iter().map(|doomed| doomed.uid.clone()));
        let begun = creating + doomed.len();
        for _ in 0..creating {
            self.jobs.push(self.create(uid, pool));
        }
        for doomed in doomed {
            self.jobs.push(self.delete(uid, &at.namespace, doomed));
        }
        wanted > begun
    }

    /// Begins to write what pods of a pool find beside them, if it is not there; says whether that has to be waited for.
    fn equip(&mut self, uid: &str, pool: &Arc<WarmPool>) -> bool {
        let digest = pods::digest(pool, &self.shape);
        let Some(kept) = self.kept.get_mut(uid).filter(|kept| kept.equipped.as_ref() != Some(&digest)) else {
            return false;
        };
        if !kept.equipping {
            kept.equipping = true;
            let equipment = Equipment {
                client: self.client.clone(),
                certificates: self.certificates.clone(),
                shape: self.shape.clone(),
                now: self.clock.now(),
            };
            let (uid, pool) = (uid.to_owned(), Arc::clone(pool));
            self.jobs.push(Box::pin(async move {
                let written = equipment.write(&pool).await;
                Done { pool: uid, what: What::Equipped(digest, written) }
            }));
        }
        true
    }

    /// Deletes a pool of an experiment that nobody uses any more; who comes after all makes it again. Whether that is underway.
    fn retire(&mut self, uid: &str, pool: &WarmPool, allocated: i32) -> bool {
        let now = self.clock.now();
        let Some(kept) = self.kept.get_mut(uid) else { return false };
        if kept.retiring || pods::is_deleting(pool) || !names::is_managed(pool) {
            return kept.retiring;
        }
        kept.unused = (allocated == 0).then(|| kept.unused.unwrap_or(now));
        let Some(due) = kept.unused.and_then(|since| since.checked_add(self.managed_unused).ok()) else { return false };
        if due > now {
            kept.again = Some(kept.again.map_or(due, |again| again.min(due)));
            return false;
        }
        kept.retiring = true;
        let api: Api<WarmPool> = Api::namespaced(self.client.clone(), pods::namespace(pool));
        let (uid, name) = (uid.to_owned(), pods::name(pool).to_owned());
        self.jobs.push(Box::pin(async move {
            let only = Preconditions { uid: Some(uid.clone()), resource_version: None };
            let retired = match api.delete(&name, &DeleteParams::default().preconditions(only)).await {
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
                retired => retired.map(|_| ()),
            };
            Done { pool: uid, what: What::Retired(retired) }
        }));
        true
    }

    fn plan(&mut self, uid: &str, pool: &WarmPool) -> Plan {
        let now = self.clock.now();
        let at = PoolAt::of(pool);
        let digest = pods::digest(pool, &self.shape);
        let kept = self.kept.entry(uid.to_owned()).or_insert_with(|| Kept {
            // One that has a status was there before us.
            beginning: pool.status.is_none().then_some(Beginning::Empty),
            ..Kept::default()
        });
        let status = kept.status.get_or_insert_with(|| pool.status.clone().unwrap_or_default()).clone();
        let pods: Vec<&Pod> =
            self.pods.all().map(AsRef::as_ref).filter(|pod| pods::pool_of(pod).as_ref() == Some(&at)).collect();
        count_ready(kept, &pods, &self.metrics, now);
        count_beginning(kept, pool, &self.metrics, now);
        let view = View {
            pool,
            digest: &digest,
            pods: &pods,
            creating: kept.creating,
            deleting: &kept.deleting,
            status: &status,
            trouble: &kept.trouble,
            now,
        };
        decide(&view)
    }

    fn create(&self, uid: &str, pool: &WarmPool) -> BoxFuture<'static, Done> {
        let pod = pods::make(pool, &self.shape, None);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), pods::namespace(pool));
        let pool = uid.to_owned();
        Box::pin(async move {
            let created = api.create(&PostParams::default(), &pod).await.map(Box::new);
            Done { pool, what: What::Created(created) }
        })
    }

    /// Deletes a pod if it is as it was seen: one that was claimed since has another version.
    fn delete(&self, uid: &str, namespace: &str, doomed: Doomed) -> BoxFuture<'static, Done> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let pool = uid.to_owned();
        Box::pin(async move {
            let only = Preconditions { uid: Some(doomed.uid.clone()), resource_version: Some(doomed.version.clone()) };
            let options = DeleteParams { preconditions: Some(only), ..DeleteParams::default().grace_period(1) };
            let deleted = api.delete(&doomed.name, &options).await.map(|_| ());
            Done { pool, what: What::Deleted(doomed, deleted) }
        })
    }

    fn tell(
        &self,
        uid: &str,
        pool: &Arc<WarmPool>,
        before: WarmPoolStatus,
        status: WarmPoolStatus,
    ) -> BoxFuture<'static, Done> {
        let api: Api<WarmPool> = Api::namespaced(self.client.clone(), pods::namespace(&**pool));
        let (uid, pool, recorder) = (uid.to_owned(), Arc::clone(pool), self.recorder.clone());
        Box::pin(async move {
            let change = json!({"metadata": {"uid": uid}, "status": status});
            let told = api.patch_status(pods::name(&*pool), &PatchParams::default(), &Patch::Merge(&change)).await;
            if told.is_ok()
                && let Some(event) = news(&before, &status)
                && let Err(error) = recorder.publish(&event, &pool.object_ref(&())).await
            {
                tracing::debug!(%error, "an event was not written");
            }
            // what changes meanwhile is told in one
            tokio::time::sleep(TOLD_PAUSE).await;
            Done { pool: uid, what: What::Told(told.map(|_| ())) }
        })
    }

    fn finish(&mut self, done: Done) {
        let now = self.clock.now();
        let known = self.pools.get(&done.pool).is_some();
        let Some(kept) = self.kept.get_mut(&done.pool).filter(|_| known) else { return };
        self.metrics.reconciled(done.what.is_done());
        match done.what {
            What::Created(created) => {
                kept.creating = kept.creating.saturating_sub(1);
                match created {
                    Ok(pod) => {
                        kept.trouble.accepted();
                        self.pods.wrote(*pod);
                        self.metrics.created.inc();
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a pod of a pool could not be made");
                        kept.trouble.refused(message(&error), now);
                        self.metrics.refused.inc();
                    }
                }
            }
            What::Deleted(doomed, deleted) => {
                match deleted {
                    // The watch will tell; until then it counts as deleted.
                    Ok(()) => self.metrics.deleted(doomed.why),
                    Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {
                        kept.deleting.remove(&doomed.uid);
                        let known = self.pods.get(&doomed.uid).and_then(|pod| pod.metadata.resource_version.as_ref());
                        if known == Some(&doomed.version) {
                            // The watch has yet to tell what it is now.
                            return;
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, pod = doomed.name, "a pod of a pool could not be deleted");
                        kept.deleting.remove(&doomed.uid);
                        kept.again = now.checked_add(RETRY).ok();
                        return;
                    }
                }
            }
            What::Equipped(digest, written) => {
                kept.equipping = false;
                match written {
                    Ok(()) => kept.equipped = Some(digest),
                    Err(error) => {
                        tracing::warn!(%error, "what pods of a pool need could not be written");
                        kept.trouble.refused(error, now);
                    }
                }
            }
            // The watch tells.
            What::Retired(Ok(())) => return,
            What::Retired(Err(error)) => {
                tracing::warn!(%error, "a pool that nobody uses could not be deleted");
                // It is tried again when it has been unused for as long again.
                (kept.retiring, kept.unused) = (false, Some(now));
            }
            What::Told(told) => {
                kept.writing = false;
                match told {
                    Ok(()) => {}
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => {
                        tracing::warn!(%error, "the status of a pool could not be written");
                        (kept.status, kept.again) = (None, now.checked_add(RETRY).ok());
                        return;
                    }
                }
            }
        }
        self.turn(&done.pool);
    }
}

/// What somebody who describes a pool wants to have been told.
fn news(before: &WarmPoolStatus, after: &WarmPoolStatus) -> Option<Event> {
    let changed = |kind: &str| {
        let after = conditions::find(&after.conditions, kind)?;
        let before = conditions::find(&before.conditions, kind);
        before.is_none_or(|before| (&before.status, &before.reason) != (&after.status, &after.reason)).then_some(after)
    };
    let (type_, condition) = match (changed("PodsFailing"), changed("Ready")) {
        (Some(failing), _) if failing.status == "True" => (EventType::Warning, failing),
        (_, Some(ready)) if ready.status == "True" => (EventType::Normal, ready),
        _ => return None,
    };
    Some(Event {
        type_,
        reason: condition.reason.clone(),
        note: Some(condition.message.clone()),
        action: "Reconcile".to_owned(),
        secondary: None,
    })
}

fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
