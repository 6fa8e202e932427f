//! One pod from its start to its end.

mod disk;
mod prepare;
mod start;
pub(crate) mod stop;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::json;
use thane_runtime::Tasks;
use tokio::sync::{mpsc, watch};

use crate::changes::Interest;
use crate::decide::{self, Action, Verdict, decide};
use crate::pod::PodExt;
use crate::probe::Finding;
use crate::program::Living;
use crate::record::{PodDirectory, PodRecord};
use crate::shared::Shared;
use crate::state::{Containers, Now};
use crate::status::{self, Facts};

/// News about a pod that may wait.
const NEWS_MAX: usize = 64;
/// How soon a status that could not be written is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// Where the machine is, for pods.
pub(crate) const HOST_ADDRESS: &str = "127.0.0.1";

/// Something that happened to a pod.
enum News {
    /// A start of a container has ended.
    Exited(String, u32),
    /// A probe found something out.
    Found(String, u32, Finding),
    /// It occupies so many bytes.
    Disk(u64),
    /// It has most of a disk that is nearly full.
    Crowded,
}

/// A pod that is looked after.
pub(crate) struct Runner {
    shared: Arc<Shared>,
    pod: Arc<Pod>,
    directory: PodDirectory,
    record: Option<PodRecord>,
    containers: Containers,
    living: BTreeMap<String, Arc<Living>>,
    verdict: Option<Verdict>,
    finished: bool,
    /// Its namespaces and groups are gone.
    released: bool,
    published: Option<PodStatus>,
    renew_at: Option<Timestamp>,
    /// Whether this process serves what it may reach outside.
    ways_open: bool,
    /// In the objects its volumes are made from.
    interest: Option<Interest>,
    news: mpsc::Sender<News>,
    inbox: mpsc::Receiver<News>,
    tasks: Tasks,
}

/// How looking after a pod went on.
enum Next {
    /// Look again.
    Again,
    /// The pod is no more.
    Gone,
    /// The node ends.
    Stopping,
    /// Nothing will run in it again; its logs stay.
    Finished,
}

impl Runner {
    /// Takes a pod on, with what its predecessor left of it.
    pub(crate) fn new(shared: Arc<Shared>, pod: Arc<Pod>, tasks: Tasks) -> Self {
        let directory = shared.pod(PodExt::uid(&*pod));
        let (news, inbox) = mpsc::channel(NEWS_MAX);
        let mut runner = Self {
            shared,
            pod,
            directory,
            record: None,
            containers: Containers::new(),
            living: BTreeMap::new(),
            verdict: None,
            finished: false,
            released: false,
            published: None,
            renew_at: None,
            ways_open: false,
            interest: None,
            news,
            inbox,
            tasks,
        };
        runner.adopt();
        runner
    }

    /// Looks after it until it is gone or the node ends. `pods` has its present state; none means it was removed.
    /// Whether it has finished by itself, so that its object and its logs are still there.
    pub(crate) async fn run(mut self, mut pods: watch::Receiver<Option<Arc<Pod>>>, stopping: Tasks) -> bool {
        self.resume().await;
        loop {
            match self.step(&mut pods, &stopping).await {
                Next::Again => {}
                Next::Gone => {
                    self.end(Duration::ZERO).await;
                    self.remove().await;
                    return false;
                }
                Next::Stopping => {
                    self.end(self.shared.config.stop_within.min(self.pod.grace())).await;
                    self.publish().await;
                    self.remove().await;
                    return false;
                }
                Next::Finished => return true,
            }
        }
    }

    async fn step(&mut self, pods: &mut watch::Receiver<Option<Arc<Pod>>>, stopping: &Tasks) -> Next {
        let now = self.shared.clock.now();
        self.judge(now);
        let decision = decide(&self.pod, &self.containers, self.verdict.as_ref(), &self.shared.rule(), now);
        self.finished = decision.finished;
        let acted = !decision.actions.is_empty();
        for action in decision.actions {
            self.act(action).await;
        }
        if self.finished && !self.released {
            self.release().await;
        }
        let written = self.publish().await;
        if self.pod.is_deleting() && self.finished && written {
            // First the files, then the object: who sees it gone can rely on it.
            self.remove().await;
            return if self.delete().await { Next::Gone } else { self.wait(pods, stopping, Some(AGAIN)).await };
        }
        if self.finished && written {
            return Next::Finished;
        }
        if acted {
            // What was done may ask for more at once.
            return self.poll(pods, stopping);
        }
        let due = [decision.wake, self.renew_at].into_iter().flatten().min();
        let patience = due.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        let patience = if written { patience } else { Some(patience.map_or(AGAIN, |before| before.min(AGAIN))) };
        self.wait(pods, stopping, patience).await
    }

    /// What a pod has done wrong as a whole.
    fn judge(&mut self, now: Timestamp) {
        let basis = self.basis();
        if self.verdict.is_none() && !self.finished && decide::deadline(&basis).is_some_and(|deadline| deadline <= now)
        {
            self.verdict = Some(Verdict {
                reason: "DeadlineExceeded".to_owned(),
                message: "Pod was active on the node longer than the specified deadline".to_owned(),
            });
        }
    }

    async fn act(&mut self, action: Action) {
        match action {
            Action::Start(name) => self.start(&name).await,
            Action::Stop(name) => self.stop(&name),
            Action::Wait(name, delay) => {
                let message = format!(
                    "back-off {}s restarting failed container={name} pod={}_{}({})",
                    delay.as_secs(),
                    self.pod.name(),
                    PodExt::namespace(&*self.pod),
                    PodExt::uid(&*self.pod)
                );
                if let Some(state) = self.containers.get_mut(&name) {
                    state.last = state.ended().cloned();
                    state.now = Now::Waiting { reason: "CrashLoopBackOff".to_owned(), message: message.clone() };
                }
                self.shared.tell(&self.pod, true, "BackOff", message).await;
            }
        }
    }

    /// Takes what is there already, without waiting.
    fn poll(&mut self, pods: &mut watch::Receiver<Option<Arc<Pod>>>, stopping: &Tasks) -> Next {
        if stopping.is_cancelled() {
            return Next::Stopping;
        }
        while let Ok(news) = self.inbox.try_recv() {
            self.learn(news);
        }
        match pods.has_changed() {
            Ok(true) => self.refresh(pods),
            Ok(false) => Next::Again,
            Err(_) => Next::Stopping,
        }
    }

    async fn wait(
        &mut self,
        pods: &mut watch::Receiver<Option<Arc<Pod>>>,
        stopping: &Tasks,
        patience: Option<Duration>,
    ) -> Next {
        let sleep = async {
            match patience {
                Some(patience) => tokio::time::sleep(patience).await,
                None => std::future::pending().await,
            }
        };
        let changed = async {
            match &self.interest {
                Some(interest) => interest.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stopping.cancelled() => Next::Stopping,
            () = changed => {
                self.renew_now();
                Next::Again
            }
            changed = pods.changed() => match changed {
                Ok(()) => self.refresh(pods),
                Err(_) => Next::Stopping,
            },
            Some(news) = self.inbox.recv() => {
                self.learn(news);
                Next::Again
            }
            () = sleep => {
                self.renew().await;
                Next::Again
            }
        }
    }

    fn refresh(&mut self, pods: &mut watch::Receiver<Option<Arc<Pod>>>) -> Next {
        match &*pods.borrow_and_update() {
            Some(pod) => {
                let told = |pod: &Pod| (pod.metadata.labels.clone(), pod.metadata.annotations.clone());
                let told_before = told(&self.pod);
                self.pod = Arc::clone(pod);
                if told(pod) != told_before {
                    // Files may tell the pod about itself.
                    self.renew_now();
                }
                Next::Again
            }
            None => Next::Gone,
        }
    }

    fn learn(&mut self, news: News) {
        match news {
            News::Exited(name, attempt) => self.exited(&name, attempt),
            News::Disk(bytes) => {
                let most = crate::resources::disk(&self.pod).unwrap_or(self.shared.config.disk_bytes_max);
                if bytes > most {
                    self.evict(format!(
                        "Pod ephemeral local storage usage exceeds the total limit of containers {most}."
                    ));
                }
            }
            News::Crowded => {
                self.evict("The node was low on resource: ephemeral-storage. This pod had the most of it.".to_owned());
            }
            News::Found(name, attempt, finding) => {
                let Some(state) = self.containers.get_mut(&name).filter(|state| state.restarts == attempt) else {
                    return;
                };
                let Now::Running(running) = &mut state.now else { return };
                match finding {
                    Finding::Started => running.started = true,
                    Finding::Ready(ready) => running.ready = ready,
                    Finding::Sick(why) => {
                        let (shared, pod) = (Arc::clone(&self.shared), Arc::clone(&self.pod));
                        self.tasks.spawn("event", async move { shared.tell(&pod, true, "Unhealthy", why).await });
                        self.stop(&name);
                    }
                }
            }
        }
    }

    fn evict(&mut self, message: String) {
        if self.verdict.is_none() {
            self.shared.metrics.evicted.inc();
            self.verdict = Some(Verdict { reason: "Evicted".to_owned(), message });
        }
    }

    /// The pod with the status that was written last, and conditions of others as they are now.
    fn basis(&self) -> Pod {
        let mut pod = Pod::clone(&self.pod);
        if let Some(published) = &self.published {
            let mut status = published.clone();
            let theirs = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
            let own = status.conditions.get_or_insert_default();
            own.retain(|one| OWN_CONDITIONS.contains(&one.type_.as_str()));
            own.extend(theirs.into_iter().filter(|one| !OWN_CONDITIONS.contains(&one.type_.as_str())));
            pod.status = Some(status);
        }
        pod
    }

    /// Writes the status if it has changed; whether it is written.
    async fn publish(&mut self) -> bool {
        let facts = Facts {
            address: self.record.as_ref().map(|record| self.address(record)),
            host: HOST_ADDRESS.to_owned(),
            verdict: self.verdict.clone(),
            finished: self.finished,
        };
        let status = status::status(&self.basis(), &self.containers, &facts, self.shared.clock.now());
        if self.published.as_ref() == Some(&status) {
            return true;
        }
        let api: Api<Pod> = Api::namespaced(self.shared.client.clone(), PodExt::namespace(&*self.pod));
        let patch = json!({"metadata": {"uid": PodExt::uid(&*self.pod)}, "status": status});
        match api.patch_status(self.pod.name(), &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => {
                self.published = Some(status);
                true
            }
            // It is gone, or another has its name.
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => true,
            Err(error) => {
                tracing::warn!(%error, pod = self.pod.name(), "a pod's status was not written");
                false
            }
        }
    }

    /// Removes the object, now that nothing of it runs; whether it is gone.
    async fn delete(&self) -> bool {
        let api: Api<Pod> = Api::namespaced(self.shared.client.clone(), PodExt::namespace(&*self.pod));
        let preconditions = Preconditions { uid: self.pod.metadata.uid.clone(), ..Preconditions::default() };
        let how = DeleteParams::default().grace_period(0).preconditions(preconditions);
        match api.delete(self.pod.name(), &how).await {
            // With finalizers it stays for a while; it is looked at again when it changes.
            Ok(answer) => answer.left().is_none_or(|left| left.metadata.finalizers.unwrap_or_default().is_empty()),
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => true,
            Err(error) => {
                tracing::warn!(%error, pod = self.pod.name(), "a pod was not removed");
                false
            }
        }
    }

    fn address(&self, record: &PodRecord) -> String {
        if self.pod.host_network() { HOST_ADDRESS.to_owned() } else { record.address.to_string() }
    }

    fn container(&self, name: &str) -> Option<Container> {
        self.pod.container(name).cloned()
    }
}

/// Conditions that a node reports.
const OWN_CONDITIONS: [&str; 4] = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"];

/// The control group of a start: each has its own, so that removing one never meets the next.
fn group(container: &str, attempt: u32) -> String {
    format!("{container}.{attempt}")
}
