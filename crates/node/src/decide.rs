//! What has to be done with a pod's containers next.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

use crate::pod::{PodExt, RestartPolicy, is_sidecar};
use crate::state::{BackoffRule, ContainerState, Containers, Now};

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start a container, for the first time or again.
    Start(String),
    /// End a container.
    Stop(String),
    /// Say that a container waits before it is started again.
    Wait(String, Duration),
}

/// What to do now, and when to look again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// In this order.
    pub(crate) actions: Vec<Action>,
    /// Unless something happens before.
    pub(crate) wake: Option<Timestamp>,
    /// Nothing will ever run in it again.
    pub(crate) finished: bool,
}

/// Why a whole pod has to end although nobody deletes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// In one word.
    pub(crate) reason: String,
    /// In words.
    pub(crate) message: String,
}

/// Decides from the pod and what its containers do.
pub(crate) fn decide(
    pod: &Pod,
    containers: &Containers,
    verdict: Option<&Verdict>,
    rule: &BackoffRule,
    now: Timestamp,
) -> Decision {
    if pod.is_deleting() || verdict.is_some() {
        return ending(pod, containers);
    }
    let mut look = Look { pod, containers, rule, now, decision: Decision::default() };
    if look.initialise() {
        look.run();
    }
    if let Some(deadline) = deadline(pod) {
        look.wake(deadline);
    }
    look.decision
}

/// When the pod's time is up.
pub(crate) fn deadline(pod: &Pod) -> Option<Timestamp> {
    let seconds = u64::try_from(pod.spec()?.active_deadline_seconds?).ok()?;
    let started = pod.status.as_ref()?.start_time.as_ref()?.0;
    Some(started.saturating_add(Duration::from_secs(seconds)).unwrap_or(Timestamp::MAX))
}

/// Everything ends: the others first, then what runs beside them.
fn ending(pod: &Pod, containers: &Containers) -> Decision {
    let runs = |list: &[Container]| -> Vec<String> {
        let running =
            list.iter().filter(|one| containers.get(&one.name).is_some_and(|state| state.running().is_some()));
        running.map(|one| one.name.clone()).collect()
    };
    let mut left = runs(pod.containers());
    if left.is_empty() {
        left = runs(pod.init_containers());
    }
    let asked = |name: &String| containers.get(name).and_then(ContainerState::running).is_some_and(|one| one.stopping);
    let finished = left.is_empty();
    let actions = left.into_iter().filter(|name| !asked(name)).map(Action::Stop).collect();
    Decision { actions, wake: None, finished }
}

struct Look<'a> {
    pod: &'a Pod,
    containers: &'a Containers,
    rule: &'a BackoffRule,
    now: Timestamp,
    decision: Decision,
}

impl Look<'_> {
    fn wake(&mut self, at: Timestamp) {
        self.decision.wake = Some(self.decision.wake.map_or(at, |before| before.min(at)));
    }

    /// Takes the init containers one step further; whether the others may run.
    fn initialise(&mut self) -> bool {
        let begun = self.pod.containers().iter().any(|one| {
            self.containers.get(&one.name).is_some_and(|state| {
                !state.earlier && (!matches!(state.now, Now::Waiting { .. }) || state.last.is_some())
            })
        });
        for container in self.pod.init_containers() {
            let state = self.containers.get(&container.name);
            if is_sidecar(container) {
                match state.map(|state| &state.now) {
                    Some(Now::Running(running)) if running.started || begun => {}
                    Some(Now::Running(_)) => return false,
                    _ => {
                        self.start(container, state);
                        if !begun {
                            return false;
                        }
                    }
                }
                continue;
            }
            match state.map(|state| &state.now) {
                Some(Now::Ended(ended)) if ended.code == 0 => {}
                Some(Now::Running(_)) => return false,
                Some(Now::Ended(_)) if self.pod.restart_policy() == RestartPolicy::Never => {
                    self.finish();
                    return false;
                }
                // Once the others have begun, nobody needs it any more.
                _ if begun => {}
                _ => {
                    self.start(container, state);
                    return false;
                }
            }
        }
        true
    }

    /// Starts what should run; when nothing will, the pod has finished.
    fn run(&mut self) {
        let mut finished = true;
        for container in self.pod.containers() {
            let state = self.containers.get(&container.name);
            match state.map(|state| &state.now) {
                Some(Now::Running(_)) => finished = false,
                Some(Now::Ended(ended)) => {
                    let again = match self.pod.restart_policy() {
                        RestartPolicy::Always => true,
                        RestartPolicy::OnFailure => ended.code != 0,
                        RestartPolicy::Never => false,
                    };
                    if again {
                        finished = false;
                        self.start(container, state);
                    }
                }
                Some(Now::Waiting { .. }) | None => {
                    finished = false;
                    self.start(container, state);
                }
            }
        }
        if finished {
            self.finish();
        }
    }

    /// What runs beside the others ends last.
    fn finish(&mut self) {
        let end = ending(self.pod, self.containers);
        self.decision = end;
    }

    /// Starts a container if its wait is over.
    fn start(&mut self, container: &Container, state: Option<&ContainerState>) {
        let ended = state.and_then(|state| state.ended().or(state.last.as_ref().filter(|_| state.retry_at.is_none())));
        let again = state.and_then(|state| {
            let after = ended.map(|ended| state.backoff.ready_at(ended.finished, self.rule));
            state.retry_at.or(after)
        });
        match again.filter(|at| *at > self.now) {
            Some(at) => {
                self.wake(at);
                if let Some(state) = state.filter(|state| state.ended().is_some()) {
                    self.decision.actions.push(Action::Wait(container.name.clone(), state.backoff.delay()));
                }
            }
            None => self.decision.actions.push(Action::Start(container.name.clone())),
        }
    }
}
