//! What a sandbox needs next.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use thane_api::wire::sandbox::Description;

use crate::conditions::{self, READY, Said};
use crate::kinds::{Phase, Sandbox, WarmPool};
use crate::{names, pods};

/// How long a sandbox that has failed can still be looked at.
pub(crate) const KEPT: Duration = Duration::from_hours(1);

/// What is known when it is decided.
pub(crate) struct View<'a> {
    pub(crate) sandbox: &'a Sandbox,
    /// Its pods: those it owns.
    pub(crate) pods: &'a [&'a Pod],
    pub(crate) pool: Option<&'a WarmPool>,
    /// Somebody here waits for a pod for it.
    pub(crate) claiming: bool,
    /// Its sidecar was asked and is not asked again before.
    pub(crate) rested: Option<Timestamp>,
    pub(crate) now: Timestamp,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Nothing, until something happens or that time has come.
    Rest(Option<Timestamp>),
    /// Make sure that we are asked before it goes.
    AddFinalizer,
    /// It may go.
    RemoveFinalizer,
    /// Its pods go.
    DeletePods(Vec<(String, String)>),
    /// Say that it waits, and what for.
    Wait(Said),
    /// Wait for a pod for it.
    Claim,
    /// Its pod is not known here: is it really gone?
    LookForPod(String),
    /// Its pod has come up.
    Ready {
        /// The pod's address.
        ip: String,
    },
    /// Ask its sidecar what goes on.
    Ask {
        /// Where it is.
        ip: String,
    },
    /// It is over.
    Fail(Said),
    /// Nobody looks at it any more.
    Delete,
}

/// What is to be done about a sandbox.
pub(crate) fn decide(view: &View<'_>) -> Step {
    let sandbox = view.sandbox;
    let status = sandbox.status.clone().unwrap_or_default();
    let ours = sandbox.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == names::FINALIZER);
    if pods::is_deleting(sandbox) {
        let pods = living(view);
        return match (ours, pods.is_empty()) {
            (true, true) => Step::RemoveFinalizer,
            (true, false) => Step::DeletePods(pods),
            (false, _) => Step::Rest(None),
        };
    }
    if status.phase == Some(Phase::Failed) {
        let pods = living(view);
        return if pods.is_empty() { kept(view) } else { Step::DeletePods(pods) };
    }
    let created = sandbox.metadata.creation_timestamp.as_ref().map_or(view.now, |created| created.0);
    let until = pods::annotation(sandbox, names::CLAIM_UNTIL).and_then(|until| until.parse::<Timestamp>().ok());
    if until.is_some_and(|until| until <= view.now) {
        // Its gateway has ended, and whoever asked that never had an answer.
        return Step::Delete;
    }
    if status.pod_name.is_none() && pods::annotation(sandbox, names::CLAIMED_BY).is_some() {
        let patience = until.unwrap_or_else(|| after(created, names::CLAIM_PATIENCE_SECONDS));
        if view.now < patience {
            return Step::Rest(Some(patience));
        }
    }
    if !ours {
        return Step::AddFinalizer;
    }
    let lifetime = bound(sandbox.spec.max_lifetime_seconds).map(|seconds| after(created, seconds));
    if lifetime.is_some_and(|end| end <= view.now) {
        let seconds = sandbox.spec.max_lifetime_seconds.unwrap_or_default();
        return fail("LifetimeExceeded", format!("it has lived for its {seconds} seconds"));
    }
    let step = match &status.pod_name {
        Some(pod) => with_pod(view, pod, status.phase, lifetime),
        None => without_pod(view, lifetime),
    };
    match step {
        Step::Rest(again) => Step::Rest([again, until].into_iter().flatten().min()),
        step => step,
    }
}

/// Pods of a sandbox that nobody has asked to go.
fn living(view: &View<'_>) -> Vec<(String, String)> {
    let living = view.pods.iter().filter(|pod| !pods::is_deleting(**pod));
    living.map(|pod| (pods::name(*pod).to_owned(), pods::uid(*pod).to_owned())).collect()
}

fn kept(view: &View<'_>) -> Step {
    let conditions = view.sandbox.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let since = conditions::find(conditions, READY).map_or(view.now, |ready| ready.last_transition_time.0);
    let until = since.checked_add(KEPT).unwrap_or(Timestamp::MAX);
    if until <= view.now { Step::Delete } else { Step::Rest(Some(until)) }
}

fn without_pod(view: &View<'_>, lifetime: Option<Timestamp>) -> Step {
    let sandbox = view.sandbox;
    let pool = &sandbox.spec.pool_ref;
    let failing = view.pool.and_then(|pool| pool.status.as_ref()).and_then(|status| {
        conditions::find(&status.conditions, "PodsFailing").filter(|failing| failing.status == "True")
    });
    let (reason, message) = match (view.pool, failing) {
        (None, _) => ("PoolNotFound", format!("there is no pool {pool:?}")),
        (Some(_), Some(failing)) => {
            ("PoolNotReady", format!("pods of pool {pool:?} do not come up: {}", failing.message))
        }
        (Some(_), None) => ("WaitingForPod", format!("it waits for an idle pod of pool {pool:?}")),
    };
    let said = Said { kind: READY, holds: false, reason, message };
    let status = sandbox.status.as_ref();
    let told = status.and_then(|status| conditions::find(&status.conditions, READY));
    let told = told.is_some_and(|told| told.reason == said.reason && told.message == said.message);
    if !told || status.and_then(|status| status.phase) != Some(Phase::Pending) {
        return Step::Wait(said);
    }
    if view.pool.is_some() && !view.claiming { Step::Claim } else { Step::Rest(lifetime) }
}

fn with_pod(view: &View<'_>, name: &str, phase: Option<Phase>, lifetime: Option<Timestamp>) -> Step {
    let Some(pod) = view.pods.iter().find(|pod| pods::name(**pod) == name) else {
        return Step::LookForPod(name.to_owned());
    };
    if let Some(why) = pods::trouble(pod) {
        return fail("PodFailed", why);
    }
    if pods::is_deleting(*pod) {
        return fail("PodDeleted", format!("its pod {name} was deleted"));
    }
    if phase != Some(Phase::Ready) {
        return match pods::address(pod) {
            Some(ip) if pods::is_ready(pod) => Step::Ready { ip: ip.to_owned() },
            _ => Step::Rest(lifetime),
        };
    }
    idle(view, pod, lifetime)
}

/// Whether it is time to ask what goes on in it.
fn idle(view: &View<'_>, pod: &Pod, lifetime: Option<Timestamp>) -> Step {
    let timeout = bound(view.sandbox.spec.idle_timeout_seconds);
    let due = match (timeout, is_for_once(view.sandbox)) {
        // A gateway ends it after an execution; of others nobody is told.
        (_, true) => Some(view.now),
        (Some(seconds), false) => Some(after(active(view.sandbox).unwrap_or(view.now), seconds)),
        (None, false) => None,
    };
    let due = due.map(|due| view.rested.map_or(due, |rested| due.max(rested)));
    match (due, pods::address(pod)) {
        (Some(due), Some(ip)) if due <= view.now => Step::Ask { ip: ip.to_owned() },
        _ => Step::Rest([due, lifetime].into_iter().flatten().min()),
    }
}

/// When something last happened in it, as far as is told.
fn active(sandbox: &Sandbox) -> Option<Timestamp> {
    sandbox.status.as_ref()?.last_task_time.as_ref()?.parse().ok()
}

/// Whether it was made by hand, and is not to stay after something was executed in it.
fn is_for_once(sandbox: &Sandbox) -> bool {
    let by_hand =
        pods::annotation(sandbox, names::CLAIMED_BY).is_none() && pods::annotation(sandbox, names::SESSION).is_none();
    by_hand && sandbox.spec.keep_alive == Some(false)
}

/// What a sidecar's answer means.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It is used, or was meanwhile: ask again then.
    Active {
        /// When something last happened.
        at: Timestamp,
        /// When to ask again.
        again: Timestamp,
    },
    /// It is over.
    Over(Said),
}

/// The least between two questions.
const QUESTIONS_APART: i64 = 5;
/// After so long without a step no more belong to those before.
const BETWEEN_STEPS: i64 = 2;

/// What a sidecar's answer means for a sandbox.
pub(crate) fn verdict(sandbox: &Sandbox, description: &Description, now: Timestamp) -> Verdict {
    let last = Timestamp::from_millisecond(description.active_at_ms).unwrap_or(now).min(now);
    let at = active(sandbox).map_or(last, |told| told.max(last));
    let busy = description.running > 0 || description.streams > 0;
    // The next step of the same request comes at once.
    let rests = !busy && after(last, BETWEEN_STEPS) <= now;
    if rests && is_for_once(sandbox) && description.next_index > 0 {
        return Verdict::Over(over("Released", "it was to be used once, and was".to_owned()));
    }
    let Some(seconds) = bound(sandbox.spec.idle_timeout_seconds) else {
        return Verdict::Active { at, again: after(now, QUESTIONS_APART) };
    };
    let (at, end) = if busy { (now, after(now, seconds)) } else { (at, after(at, seconds)) };
    if end > now {
        return Verdict::Active { at, again: end.max(after(now, QUESTIONS_APART.min(seconds))) };
    }
    Verdict::Over(over("IdleTimeout", format!("nothing was done in it for {seconds} seconds")))
}

fn fail(reason: &'static str, message: String) -> Step {
    Step::Fail(over(reason, message))
}

fn over(reason: &'static str, message: String) -> Said {
    Said { kind: READY, holds: false, reason, message }
}

/// A bound that is said; 0 says that there is none.
fn bound(seconds: Option<i32>) -> Option<i64> {
    seconds.filter(|seconds| *seconds > 0).map(i64::from)
}

fn after(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
