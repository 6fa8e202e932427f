//! Ending containers and pods, and leaving nothing behind.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::LifecycleHandler;
use thane_executor::message::Request;

use super::Runner;
use crate::pod::PodExt;
use crate::probe::{self, Subject};
use crate::program::Living;
use crate::record::Attempt;
use crate::state::Now;
use crate::{cgroups, files};
use thane_executor::client::Executor;

/// What the kernel gets to end a process it was told to.
const KILL: Duration = Duration::from_secs(5);
/// How long groups are tried to be removed, and how often.
const GROUPS: (u32, Duration) = (100, Duration::from_millis(20));

impl Runner {
    /// Asks a container to end; its end comes as news.
    pub(super) fn stop(&mut self, name: &str) {
        let grace = self.grace(name);
        let Some(Now::Running(running)) = self.containers.get_mut(name).map(|state| &mut state.now) else { return };
        if std::mem::replace(&mut running.stopping, true) {
            return;
        }
        let Some((living, subject, hook)) = self.parts(name) else { return };
        let (shared, pod, note) =
            (Arc::clone(&self.shared), Arc::clone(&self.pod), format!("Stopping container {name}"));
        let group = self.tasks.clone();
        self.tasks.spawn("stop", async move {
            let ending = async {
                shared.tell(&pod, false, "Killing", note).await;
                end(&living, &subject, hook.as_ref(), grace).await;
            };
            tokio::select! {
                () = group.cancelled() => {}
                () = ending => {}
            }
        });
    }

    fn grace(&self, name: &str) -> Duration {
        if self.pod.is_deleting() {
            return self.pod.grace();
        }
        let own = self.container(name).and_then(|one| one.liveness_probe?.termination_grace_period_seconds);
        own.and_then(|seconds| u64::try_from(seconds).ok()).map_or_else(|| self.pod.grace(), Duration::from_secs)
    }

    fn parts(&self, name: &str) -> Option<(Arc<Living>, Subject, Option<LifecycleHandler>)> {
        let container = self.container(name)?;
        let attempt = self.containers.get(name)?.restarts;
        let run: PathBuf = self.directory.attempt(name, attempt).run();
        let hook = container.lifecycle.clone().and_then(|lifecycle| lifecycle.pre_stop);
        Some((Arc::clone(self.living.get(name)?), Subject { container, run, network: self.network() }, hook))
    }

    /// A start of a container has ended.
    pub(super) fn exited(&mut self, name: &str, attempt: u32) {
        let Some(state) = self.containers.get_mut(name).filter(|state| state.restarts == attempt) else { return };
        if state.running().is_none() {
            return;
        }
        self.living.remove(name);
        let directory = self.directory.attempt(name, attempt);
        let from_log = self.pod.container(name).and_then(|one| one.termination_message_policy.as_deref())
            == Some("FallbackToLogsOnError");
        let Some(record) = directory.read() else { return };
        let mut ended = directory.ended(&record, from_log);
        if ended.finished <= ended.started && ended.reason == "ContainerStatusUnknown" {
            ended.finished = self.shared.clock.now();
        }
        state.now = Now::Ended(ended);
        let shared = Arc::clone(&self.shared);
        let group = super::group(name, attempt);
        let paths = shared.layout.directories(&[&shared.group, PodExt::uid(&*self.pod), &group]);
        self.tasks.spawn("clear", async move {
            remove_groups(paths).await;
            if let Err(error) = directory.remove_written() {
                tracing::warn!(%error, path = %directory.path().display(), "what a container wrote was not removed");
            }
        });
    }

    /// Removes what a start that failed left.
    pub(super) async fn clear(&self, group: &str, attempt: &Attempt) {
        let shared = &self.shared;
        remove_groups(shared.layout.directories(&[&shared.group, PodExt::uid(&*self.pod), group])).await;
        if let Err(error) = files::remove_tree(attempt.path()) {
            tracing::warn!(%error, "what a start left was not removed");
        }
    }

    /// Ends all containers and waits for it.
    pub(super) async fn end(&mut self, grace: Duration) {
        let names: Vec<String> = self.living.keys().cloned().collect();
        let all = names.iter().filter_map(|name| self.parts(name));
        let all = all.map(|(living, subject, hook)| async move { end(&living, &subject, hook.as_ref(), grace).await });
        futures::future::join_all(all).await;
        for name in names {
            if let Some(attempt) = self.containers.get(&name).map(|state| state.restarts) {
                self.exited(&name, attempt);
            }
        }
        self.release().await;
    }

    /// Lets go of namespaces, groups, the address and what was written; logs stay.
    pub(super) async fn release(&mut self) {
        self.released = true;
        self.renew_at = None;
        // Watchers, ways out, and removals in progress, which finish first.
        self.tasks.shutdown(KILL).await;
        if let Some(record) = &self.record {
            if let Some(holder) = Living::find(&record.holder) {
                holder.kill();
                let _ = tokio::time::timeout(KILL, holder.ended()).await;
            }
            self.shared.addresses.give_back(record.address);
        }
        let shared = &self.shared;
        remove_groups(shared.layout.directories(&[&shared.group, PodExt::uid(&*self.pod)])).await;
        let volumes = self.directory.volumes();
        if let Err(error) = files::remove_tree(&volumes) {
            tracing::warn!(%error, path = %volumes.display(), "a pod's volumes were not removed");
        }
    }

    /// Removes all that is left of it here.
    pub(super) async fn remove(&mut self) {
        if !self.released {
            self.release().await;
        }
        if let Err(error) = files::remove_tree(&self.directory.path) {
            tracing::warn!(%error, pod = self.pod.name(), "a pod's files were not removed");
        }
        self.shared.layers.forget(PodExt::uid(&*self.pod)).await;
        self.shared.images.end_uses(PodExt::uid(&*self.pod));
    }
}

/// Ends a container: its hook, then its own process is asked, then killed; all within the grace.
async fn end(living: &Living, subject: &Subject, pre_stop: Option<&LifecycleHandler>, grace: Duration) {
    let begun = tokio::time::Instant::now();
    if let Some(hook) = pre_stop.filter(|_| !grace.is_zero()) {
        tokio::select! {
            () = living.ended() => return,
            done = self::hook(subject, hook, grace) => {
                if let Err(why) = done {
                    tracing::info!(why, "a hook before the end failed");
                }
            }
        }
    }
    let left = grace.saturating_sub(begun.elapsed());
    let asked = async {
        let mut executor = Executor::connect(&subject.run).await?;
        let grace_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        executor.call(Request::Stop { grace_ms, signal: None }).await
    };
    tokio::select! {
        () = living.ended() => return,
        asked = tokio::time::timeout(KILL, asked) => {
            if !matches!(asked, Ok(Ok(_))) {
                // An executor that does not answer cannot end anything either.
                living.kill();
            }
        }
    }
    if tokio::time::timeout(left + KILL, living.ended()).await.is_err() {
        living.kill();
        let _ = tokio::time::timeout(KILL, living.ended()).await;
    }
}

/// Runs a hook of a container's life.
pub(super) async fn hook(subject: &Subject, hook: &LifecycleHandler, limit: Duration) -> Result<(), String> {
    let run = async {
        if let Some(action) = &hook.exec {
            probe::run(subject, action, limit).await
        } else if let Some(action) = &hook.http_get {
            probe::get(subject, action).await
        } else if let Some(sleep) = &hook.sleep {
            tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or_default())).await;
            Ok(())
        } else {
            Ok(())
        }
    };
    match tokio::time::timeout(limit, run).await {
        Ok(result) => result,
        Err(_) => Err(format!("it took longer than {}s", limit.as_secs())),
    }
}

/// Removes control groups; the kernel needs a moment after the last process.
pub(crate) async fn remove_groups(paths: Vec<PathBuf>) {
    for round in 0..GROUPS.0 {
        match cgroups::remove(&paths) {
            Ok(()) => return,
            Err(error) if round + 1 == GROUPS.0 => tracing::warn!(%error, "control groups were not removed"),
            Err(_) => tokio::time::sleep(GROUPS.1).await,
        }
    }
}
