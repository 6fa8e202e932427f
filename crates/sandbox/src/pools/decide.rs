//! What a pool lacks and what it has too much of.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use crate::conditions::{self, READY, Said};
use crate::kinds::{WarmPool, WarmPoolStatus};
use crate::{names, pods};

/// The longest pause between attempts of a pool whose pods fail.
const PAUSE_MAX: Duration = Duration::from_mins(5);
/// Failures after which the pause no longer grows.
const DOUBLINGS_MAX: u32 = 9;

/// A pod that comes no closer to being ready for so long is replaced: a node that goes down while it starts one may never
/// finish it. Deployments wait as long.
const STARTING_MINUTES_MAX: i64 = 10;

/// What is known when it is decided.
pub(crate) struct View<'a> {
    pub(crate) pool: &'a WarmPool,
    /// What pods made now would be made from.
    pub(crate) digest: &'a str,
    /// Every pod that says it is of the pool.
    pub(crate) pods: &'a [&'a Pod],
    /// Pods that are being made.
    pub(crate) creating: usize,
    /// Pods that are being deleted, by their ids.
    pub(crate) deleting: &'a BTreeSet<String>,
    pub(crate) status: &'a WarmPoolStatus,
    pub(crate) trouble: &'a Trouble,
    pub(crate) now: Timestamp,
}

/// What became of attempts that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// Attempts that failed one after the other.
    failures: u32,
    /// Before this nothing that failed is replaced.
    until: Option<Timestamp>,
    /// Pods whose failure is counted.
    counted: BTreeSet<String>,
    /// Why pods could not even be made.
    refused: Option<String>,
}

/// Why a pod is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Why {
    /// It failed.
    Failed,
    /// There are more than wanted.
    Excess,
    /// The template is another by now.
    Outdated,
}

/// A pod that is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doomed {
    pub(crate) uid: String,
    pub(crate) name: String,
    /// The version it was seen in: if it was claimed since, it stays.
    pub(crate) version: String,
    pub(crate) why: Why,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) create: usize,
    pub(crate) delete: Vec<Doomed>,
    pub(crate) status: WarmPoolStatus,
    pub(crate) trouble: Trouble,
    /// When to look again even if nothing happens.
    pub(crate) again: Option<Timestamp>,
    /// Idle pods that are not ready yet.
    pub(crate) starting: usize,
}

impl Trouble {
    /// Pods could not be made.
    pub(crate) fn refused(&mut self, why: String, now: Timestamp) {
        self.refused = Some(why);
        self.failed(now);
    }

    /// A pod was made.
    pub(crate) fn accepted(&mut self) {
        self.refused = None;
    }

    fn failed(&mut self, now: Timestamp) {
        let pause = Duration::from_secs(1 << self.failures.min(DOUBLINGS_MAX)).min(PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        self.until = now.checked_add(pause).ok();
    }

    /// The pause, if it is not over.
    fn pause(&self, now: Timestamp) -> Option<Timestamp> {
        self.until.filter(|until| *until > now)
    }
}

/// The pods of a pool, sorted by what they are to it.
#[derive(Default)]
struct Sorted<'a> {
    ready: Vec<&'a Pod>,
    starting: Vec<&'a Pod>,
    outdated: Vec<&'a Pod>,
    failed: Vec<(&'a Pod, String)>,
    allocated: usize,
}

/// What is to be done about a pool.
pub(crate) fn decide(view: &View<'_>) -> Plan {
    let sorted = sort(view);
    let trouble = counted(view, &sorted);
    let status = status(view, &sorted, &trouble);
    let starting = sorted.starting.len() + view.creating;
    let nothing = Plan { create: 0, delete: Vec::new(), status, trouble, again: None, starting };
    if pods::is_deleting(view.pool) {
        return nothing;
    }
    let pause = nothing.trouble.pause(view.now);
    let plan = Plan { create: create(view, &sorted, pause.is_some(), nothing.trouble.refused.is_some()), ..nothing };
    let mut delete = surplus(view, &sorted, plan.create);
    if pause.is_none() {
        delete.extend(sorted.failed.iter().map(|(pod, _)| doomed(pod, Why::Failed)));
    }
    let stuck = sorted.starting.iter().filter_map(|pod| stuck_at(pod)).min();
    Plan { delete, again: [pause, stuck].into_iter().flatten().min(), ..plan }
}

/// When a pod that is not ready will have come no closer to it for too long.
fn stuck_at(pod: &Pod) -> Option<Timestamp> {
    pods::last_progress(pod)?.checked_add(SignedDuration::from_mins(STARTING_MINUTES_MAX)).ok()
}

fn sort<'a>(view: &View<'a>) -> Sorted<'a> {
    let mut sorted = Sorted::default();
    let uid = pods::uid(view.pool);
    let here =
        view.pods.iter().copied().filter(|pod| !pods::is_deleting(*pod) && !view.deleting.contains(pods::uid(*pod)));
    for pod in here {
        if pods::is_allocated(pod) {
            sorted.allocated += usize::from(!pods::is_over(pod));
            continue;
        }
        // What belongs to somebody else is neither counted nor touched.
        if !pods::is_idle(pod) || pods::owner(pod, "WarmPool").is_none_or(|owner| owner.uid != uid) {
            continue;
        }
        if let Some(why) = pods::trouble(pod) {
            sorted.failed.push((pod, why));
        } else if pods::annotation(pod, names::TEMPLATE) != Some(view.digest) {
            sorted.outdated.push(pod);
        } else if pods::is_ready(pod) {
            sorted.ready.push(pod);
        } else if stuck_at(pod).is_some_and(|at| at <= view.now) {
            sorted.failed.push((pod, pods::stuck(pod, STARTING_MINUTES_MAX)));
        } else {
            sorted.starting.push(pod);
        }
    }
    sorted
}

/// Failures of pods that were not counted yet are one more failure; a pod that came up ends the row.
fn counted(view: &View<'_>, sorted: &Sorted<'_>) -> Trouble {
    let mut trouble = view.trouble.clone();
    let failed: BTreeSet<String> = sorted.failed.iter().map(|(pod, _)| pods::uid(*pod).to_owned()).collect();
    if failed.iter().any(|uid| !trouble.counted.contains(uid)) {
        trouble.failed(view.now);
    } else if failed.is_empty() && trouble.refused.is_none() && !sorted.ready.is_empty() {
        trouble = Trouble::default();
    }
    trouble.counted = failed;
    trouble
}

fn wanted(view: &View<'_>) -> usize {
    usize::try_from(view.pool.spec.replicas).unwrap_or_default()
}

fn most(view: &View<'_>) -> usize {
    view.pool.spec.max_replicas.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or_default())
}

fn create(view: &View<'_>, sorted: &Sorted<'_>, paused: bool, refused: bool) -> usize {
    if paused && refused {
        return 0;
    }
    let wanted = wanted(view);
    // What failed keeps its place while we pause, so that it is not replaced over and over.
    let failed = if paused { sorted.failed.len() } else { 0 };
    let current = sorted.ready.len() + sorted.starting.len() + view.creating + failed;
    let idle = current + sorted.outdated.len();
    // While a new template is rolled out there may be a quarter more.
    let surge = if sorted.outdated.is_empty() { wanted } else { wanted.saturating_add((wanted / 4).max(1)) };
    let total = idle + sorted.allocated;
    wanted.saturating_sub(current).min(surge.saturating_sub(idle)).min(most(view).saturating_sub(total))
}

/// Idle pods there are too many of: those that are not ready first, then the youngest.
fn surplus(view: &View<'_>, sorted: &Sorted<'_>, create: usize) -> Vec<Doomed> {
    let wanted = wanted(view);
    let (fresh, old): (Vec<&Pod>, Vec<&Pod>) = sorted.outdated.iter().copied().partition(|pod| !pods::is_ready(pod));
    let mut delete: Vec<Doomed> = fresh.into_iter().map(|pod| doomed(pod, Why::Outdated)).collect();
    // What is being made may be among those seen already: nothing that is there goes because of it.
    let current = sorted.ready.len() + sorted.starting.len();
    let total = current + old.len() + sorted.allocated;
    let idle_max = most(view).saturating_sub(sorted.allocated).min(wanted);
    // Old ones go as new ones come up, and where there is no room for both, first.
    let too_many = (sorted.ready.len() + old.len()).saturating_sub(wanted);
    let no_room =
        usize::from(!old.is_empty() && current < wanted && create == 0 && view.creating == 0 && total >= most(view));
    let outdated = too_many.max(no_room).max(total.saturating_sub(most(view))).min(old.len());
    delete.extend(youngest_first(old).into_iter().take(outdated).map(|pod| doomed(pod, Why::Outdated)));
    let excess = current.saturating_sub(idle_max);
    let candidates = youngest_first(sorted.starting.clone()).into_iter().chain(youngest_first(sorted.ready.clone()));
    delete.extend(candidates.take(excess).map(|pod| doomed(pod, Why::Excess)));
    delete
}

fn youngest_first(mut pods: Vec<&Pod>) -> Vec<&Pod> {
    pods.sort_by_key(|pod| std::cmp::Reverse(pod.metadata.creation_timestamp.as_ref().map(|at| at.0)));
    pods
}

fn doomed(pod: &Pod, why: Why) -> Doomed {
    Doomed {
        uid: pods::uid(pod).to_owned(),
        name: pods::name(pod).to_owned(),
        version: pod.metadata.resource_version.clone().unwrap_or_default(),
        why,
    }
}

fn status(view: &View<'_>, sorted: &Sorted<'_>, trouble: &Trouble) -> WarmPoolStatus {
    let ready = sorted.ready.len() + sorted.outdated.iter().filter(|pod| pods::is_ready(pod)).count();
    let wanted = wanted(view);
    let holds = ready >= wanted;
    let mut conditions = view.status.conditions.clone();
    let generation = view.pool.metadata.generation;
    let reason = if holds { "PoolReady" } else { "PoolNotReady" };
    let said = Said { kind: READY, holds, reason, message: format!("{ready}/{wanted} pods ready") };
    conditions::say(&mut conditions, said, generation, view.now);
    let cause = sorted.failed.first().map(|(_, why)| why.clone());
    let cause = cause.or_else(|| trouble.refused.as_ref().map(|why| format!("pods cannot be made: {why}")));
    // A pod that is being replaced is still a failure until its successor has come up.
    let going_on =
        view.status.conditions.iter().find(|condition| condition.type_ == "PodsFailing" && condition.status == "True");
    let going_on = going_on.filter(|_| trouble.failures > 0 && !holds).map(|condition| condition.message.clone());
    let said = match cause.or(going_on) {
        Some(message) => Said { kind: "PodsFailing", holds: true, reason: "PodStartupFailed", message },
        None => Said { kind: "PodsFailing", holds: false, reason: "AllPodsHealthy", message: String::new() },
    };
    conditions::say(&mut conditions, said, generation, view.now);
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    WarmPoolStatus { ready_replicas: count(ready), allocated_replicas: count(sorted.allocated), conditions }
}

#[cfg(test)]
mod tests;
