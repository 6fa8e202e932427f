//! Minds sandboxes: watches, decides, and does one thing at a time for each.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{AbortHandle, Abortable, BoxFuture};
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::runtime::events::{Recorder, Reporter};
use thane_api::wire::sandbox::Description;
use thane_runtime::{SharedClock, Tasks};

use super::decide::{Step, Verdict, View, decide, verdict};
use super::metrics::Metrics;
use super::write::{Writer, ready, waiting};
use crate::ask::Ask;
use crate::claims::{ClaimError, Claims, OnEmpty, PoolAt};
use crate::conditions::{READY, Said};
use crate::kinds::{Sandbox, SandboxStatus, WarmPool};
use crate::watched::{Watched, follow};
use crate::{names, pods};

/// What is done at once.
const JOBS_MAX: usize = 32;
/// Sandboxes that wait for pods at once; the others wait for a place.
const CLAIMS_MAX: usize = 512;
/// How long one waits in line before it is looked at again.
const CLAIM_PATIENCE: Duration = Duration::from_mins(10);
const RETRY_FIRST: Duration = Duration::from_millis(500);
const DOUBLINGS_MAX: u32 = 6;

/// Minds all sandboxes until the tasks end.
pub(crate) fn start(client: Client, claims: Claims, ask: Ask, clock: SharedClock, tasks: &Tasks, metrics: Metrics) {
    let reporter = Reporter { controller: "thane-sandboxes".to_owned(), instance: None };
    let recorder = Recorder::new(client.clone(), reporter);
    let minder = Minder {
        writer: Writer { client: client.clone(), recorder },
        client,
        claims,
        ask,
        clock,
        sandboxes: Watched::default(),
        pods: Watched::default(),
        pools: Watched::default(),
        minded: BTreeMap::new(),
        turns: VecDeque::new(),
        jobs: FuturesUnordered::new(),
        waiting: FuturesUnordered::new(),
        metrics,
    };
    tasks.spawn_essential("sandboxes", minder.run(tasks.clone()));
}

struct Minder {
    client: Client,
    writer: Writer,
    claims: Claims,
    ask: Ask,
    clock: SharedClock,
    sandboxes: Watched<Sandbox>,
    pods: Watched<Pod>,
    pools: Watched<WarmPool>,
    /// By the sandboxes' ids.
    minded: BTreeMap<String, Minded>,
    turns: VecDeque<String>,
    jobs: FuturesUnordered<BoxFuture<'static, Done>>,
    waiting: FuturesUnordered<BoxFuture<'static, Done>>,
    metrics: Metrics,
}

/// What is remembered about a sandbox.
#[derive(Default)]
struct Minded {
    busy: bool,
    claiming: Option<AbortHandle>,
    rested: Option<Timestamp>,
    again: Option<Timestamp>,
    failures: u32,
}

/// What has been done, for the sandbox with that id.
struct Done {
    sandbox: String,
    /// The version of it that was acted on.
    version: Option<String>,
    what: What,
}

enum What {
    Written(Result<(), kube::Error>),
    Claimed(Result<(), ClaimError>),
    Looked(String, Result<Option<Box<Pod>>, kube::Error>),
    Asked(Result<Description, String>),
}

impl What {
    fn is_done(&self) -> bool {
        match self {
            Self::Written(written) => written.is_ok(),
            Self::Claimed(claimed) => claimed.is_ok(),
            Self::Looked(_, looked) => looked.is_ok(),
            Self::Asked(answer) => answer.is_ok(),
        }
    }
}

impl Minder {
    async fn run(mut self, tasks: Tasks) {
        let mut sandboxes = follow(self.client.clone(), None);
        let mut pods = follow(self.client.clone(), Some(names::POOL));
        let mut pools = follow(self.client.clone(), None);
        loop {
            let again = self.minded.values().filter_map(|minded| minded.again).min();
            let pause = again.map(|at| Duration::try_from(at.duration_since(self.clock.now())).unwrap_or_default());
            tokio::select! {
                () = tasks.cancelled() => return,
                Some(event) = sandboxes.next() => {
                    for sandbox in self.sandboxes.observe(event) {
                        self.changed(&sandbox);
                    }
                }
                Some(event) = pods.next() => {
                    for pod in self.pods.observe(event) {
                        if let Some(owner) = pods::owner(&pod, "Sandbox") {
                            self.turn(&owner.uid);
                        }
                    }
                }
                Some(event) = pools.next() => {
                    for pool in self.pools.observe(event) {
                        self.pool_changed(&PoolAt::of(&pool));
                    }
                }
                Some(done) = self.jobs.next() => self.finish(done),
                Some(done) = self.waiting.next() => self.finish(done),
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => self.wake(),
            }
            if self.sandboxes.is_listed() && self.pods.is_listed() && self.pools.is_listed() {
                self.work();
            }
        }
    }

    fn changed(&mut self, sandbox: &Sandbox) {
        let uid = pods::uid(sandbox);
        if self.sandboxes.get(uid).is_some() {
            self.turn(uid);
        } else if let Some(claiming) = self.minded.remove(uid).and_then(|minded| minded.claiming) {
            claiming.abort();
        }
        self.metrics.sandboxes.set(i64::try_from(self.sandboxes.all().count()).unwrap_or(i64::MAX));
    }

    /// Those that wait for a pod of that pool may now, or should say why they cannot.
    fn pool_changed(&mut self, at: &PoolAt) {
        let waits = |sandbox: &&Arc<Sandbox>| {
            let pod = sandbox.status.as_ref().and_then(|status| status.pod_name.as_ref());
            pod.is_none() && PoolAt::of_sandbox(sandbox) == *at
        };
        let waiting: Vec<String> =
            self.sandboxes.all().filter(waits).map(|sandbox| pods::uid(&**sandbox).to_owned()).collect();
        for uid in waiting {
            self.turn(&uid);
        }
    }

    fn wake(&mut self) {
        let now = self.clock.now();
        let due = self.minded.iter().filter(|(_, minded)| minded.again.is_some_and(|at| at <= now));
        let due: Vec<String> = due.map(|(uid, _)| uid.clone()).collect();
        for uid in due {
            if let Some(minded) = self.minded.get_mut(&uid) {
                minded.again = None;
            }
            self.turn(&uid);
        }
    }

    fn turn(&mut self, uid: &str) {
        if !self.turns.iter().any(|other| other == uid) {
            self.turns.push_back(uid.to_owned());
        }
    }

    fn work(&mut self) {
        while self.jobs.len() < JOBS_MAX
            && let Some(uid) = self.turns.pop_front()
        {
            if let Some(sandbox) = self.sandboxes.get(&uid).cloned() {
                self.mind(uid, sandbox);
            }
        }
    }

    fn mind(&mut self, uid: String, sandbox: Arc<Sandbox>) {
        let now = self.clock.now();
        let minded = self.minded.entry(uid.clone()).or_default();
        if minded.busy {
            return;
        }
        let own = |pod: &&Pod| pods::owner(pod, "Sandbox").is_some_and(|owner| owner.uid == uid);
        let own: Vec<&Pod> = self.pods.all().map(AsRef::as_ref).filter(own).collect();
        let at = PoolAt::of_sandbox(&sandbox);
        let pool = self.pools.all().find(|pool| PoolAt::of(pool) == at);
        let step = decide(&View {
            sandbox: &sandbox,
            pods: &own,
            pool: pool.map(AsRef::as_ref),
            claiming: minded.claiming.is_some(),
            rested: minded.rested,
            now,
        });
        if pods::is_deleting(&*sandbox)
            && let Some(claiming) = minded.claiming.take()
        {
            claiming.abort();
        }
        match step {
            Step::Rest(again) => minded.again = again,
            Step::Claim => self.claim(uid, sandbox, at),
            step => {
                minded.busy = true;
                let job = self.act(uid, sandbox, step, now);
                self.jobs.push(job);
            }
        }
    }

    /// Waits for a pod, beside whatever else is done for the sandbox.
    fn claim(&mut self, uid: String, sandbox: Arc<Sandbox>, at: PoolAt) {
        let Some(minded) = self.minded.get_mut(&uid) else { return };
        if self.waiting.len() >= CLAIMS_MAX {
            // The watch says nothing when a place is free.
            minded.again = self.clock.now().checked_add(RETRY_FIRST).ok();
            return;
        }
        let claims = self.claims.clone();
        let version = sandbox.metadata.resource_version.clone();
        let (handle, registration) = AbortHandle::new_pair();
        minded.claiming = Some(handle);
        let claim = async move { claims.claim(&at, &sandbox, OnEmpty::Wait(CLAIM_PATIENCE)).await.map(|_| ()) };
        let claim = Abortable::new(claim, registration);
        self.waiting.push(Box::pin(async move {
            let claimed = claim.await.unwrap_or_else(|_| Err(ClaimError::Gone(String::new())));
            Done { sandbox: uid, version, what: What::Claimed(claimed) }
        }));
    }

    fn act(&self, uid: String, sandbox: Arc<Sandbox>, step: Step, now: Timestamp) -> BoxFuture<'static, Done> {
        let (writer, ask) = (self.writer.clone(), Arc::clone(&self.ask));
        let version = sandbox.metadata.resource_version.clone();
        let since = |at: Option<Timestamp>| at.map(|at| now.duration_since(at).as_secs_f64().max(0.0));
        match &step {
            Step::Fail(said) => {
                self.metrics.failed.inc();
                let active = sandbox.status.as_ref().and_then(|status| status.last_task_time.as_ref()?.parse().ok());
                if let Some(idle) = since(active).filter(|_| said.reason == "IdleTimeout") {
                    self.metrics.idle_seconds.observe(idle);
                }
            }
            Step::Ready { .. } => {
                let created = sandbox.metadata.creation_timestamp.as_ref().map(|created| created.0);
                self.metrics.ready_seconds.observe(since(created).unwrap_or_default());
            }
            _ => {}
        }
        Box::pin(async move {
            let sandbox = &*sandbox;
            let written = match step {
                Step::AddFinalizer => writer.finalizer(sandbox, true).await,
                Step::RemoveFinalizer => writer.finalizer(sandbox, false).await,
                Step::DeletePods(doomed) => writer.delete_pods(sandbox, doomed).await,
                Step::Wait(said) => writer.status(sandbox, waiting(sandbox, said, now)).await,
                Step::Ready { ip } => writer.status(sandbox, ready(sandbox, ip, now)).await,
                Step::Fail(said) => writer.fail(sandbox, said, now).await,
                Step::Delete => writer.delete(sandbox).await,
                Step::LookForPod(name) => {
                    let looked = writer.look_for(sandbox, &name).await.map(|pod| pod.map(Box::new));
                    return Done { sandbox: uid, version, what: What::Looked(name, looked) };
                }
                Step::Ask { ip } => return Done { sandbox: uid, version, what: What::Asked(ask(ip).await) },
                Step::Rest(_) | Step::Claim => Ok(()),
            };
            Done { sandbox: uid, version, what: What::Written(written) }
        })
    }

    fn finish(&mut self, done: Done) {
        let now = self.clock.now();
        let Some(minded) = self.minded.get_mut(&done.sandbox) else { return };
        self.metrics.reconciled(done.what.is_done());
        if let What::Claimed(claimed) = done.what {
            minded.claiming = None;
            self.claimed(&done.sandbox, claimed, now);
            return;
        }
        minded.busy = false;
        let found = matches!(done.what, What::Looked(..));
        let Some(sandbox) = self.sandboxes.get(&done.sandbox).cloned() else { return };
        match done.what {
            What::Written(Ok(())) => minded.failures = 0,
            What::Written(Err(kube::Error::Api(status))) if status.code == 409 => {
                // Somebody was quicker; the watch tells.
                self.metrics.conflicts.inc();
                minded.again = pause(minded, now);
                return;
            }
            What::Written(Err(error)) | What::Looked(_, Err(error)) => {
                tracing::warn!(%error, sandbox = pods::name(&*sandbox), "a sandbox could not be written");
                minded.again = pause(minded, now);
                return;
            }
            What::Looked(_, Ok(Some(pod)))
                if pods::owner(&pod, "Sandbox").is_some_and(|owner| owner.uid == done.sandbox) =>
            {
                self.pods.wrote(*pod);
            }
            What::Looked(name, Ok(_)) => {
                let message = format!("its pod {name} is gone");
                let said = Said { kind: READY, holds: false, reason: "PodLost", message };
                return self.go_on(done.sandbox, sandbox, Step::Fail(said), now);
            }
            What::Asked(answer) => return self.answered(done.sandbox, sandbox, answer, now),
            What::Claimed(_) => {}
        }
        if sandbox.metadata.resource_version == done.version && !found {
            // The watch has yet to tell what was written; should it not, it is looked at again.
            self.turn_later(&done.sandbox, now);
        } else {
            self.turn(&done.sandbox);
        }
    }

    fn go_on(&mut self, uid: String, sandbox: Arc<Sandbox>, step: Step, now: Timestamp) {
        if let Some(minded) = self.minded.get_mut(&uid) {
            minded.busy = true;
        }
        let job = self.act(uid, sandbox, step, now);
        self.jobs.push(job);
    }

    /// Looks again soon.
    fn turn_later(&mut self, uid: &str, now: Timestamp) {
        if let Some(minded) = self.minded.get_mut(uid) {
            minded.again = pause(minded, now);
        }
    }

    fn claimed(&mut self, uid: &str, claimed: Result<(), ClaimError>, now: Timestamp) {
        let Some(minded) = self.minded.get_mut(uid) else { return };
        match claimed {
            Ok(()) => minded.failures = 0,
            Err(ClaimError::Gone(_)) => minded.again = pause(minded, now),
            Err(error) => {
                if matches!(error, ClaimError::Empty { .. }) {
                    self.metrics.no_idle.inc();
                }
                tracing::info!(%error, "no pod for a sandbox yet");
                minded.again = pause(minded, now);
            }
        }
    }

    fn answered(&mut self, uid: String, sandbox: Arc<Sandbox>, answer: Result<Description, String>, now: Timestamp) {
        let Some(minded) = self.minded.get_mut(&uid) else { return };
        let description = match answer {
            Ok(description) => description,
            Err(error) => {
                tracing::warn!(%error, sandbox = pods::name(&*sandbox), "a sidecar does not say what goes on");
                minded.rested = pause(minded, now);
                minded.again = minded.rested;
                return;
            }
        };
        minded.failures = 0;
        match verdict(&sandbox, &description, now) {
            Verdict::Over(said) => self.go_on(uid, sandbox, Step::Fail(said), now),
            Verdict::Active { at, again } => {
                (minded.rested, minded.again) = (Some(again), Some(again));
                let before = sandbox.status.clone().unwrap_or_default();
                let status = SandboxStatus { last_task_time: Some(at.to_string()), ..before.clone() };
                if status == before {
                    return;
                }
                minded.busy = true;
                let writer = self.writer.clone();
                self.jobs.push(Box::pin(async move {
                    let written = writer.status(&sandbox, status).await;
                    let version = sandbox.metadata.resource_version.clone();
                    Done { sandbox: uid, version, what: What::Written(written) }
                }));
            }
        }
    }
}

/// When to try again; later with each failure in a row.
fn pause(minded: &mut Minded, now: Timestamp) -> Option<Timestamp> {
    let pause = RETRY_FIRST * (1 << minded.failures.min(DOUBLINGS_MAX));
    minded.failures = minded.failures.saturating_add(1);
    now.checked_add(pause).ok()
}
