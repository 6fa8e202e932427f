//! Where claims wait: the lines, and a way to tell each one who waits what it got.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::PoolAt;
use super::line::{Crowded, Idle, Lines, Served, Ticket};
use super::metrics::Metrics;
use crate::kinds::WarmPool;
use crate::pods;

/// Those who may wait for one pool.
const WAITERS_MAX: usize = 1024;

/// What all claims of a process share.
pub(super) struct Hall {
    state: Mutex<State>,
    pub(super) metrics: Metrics,
}

struct State {
    lines: Lines,
    waiters: BTreeMap<Ticket, oneshot::Sender<Idle>>,
    pools: BTreeMap<PoolAt, Arc<WarmPool>>,
    /// Pods that have not ended and are not to go: which pool they are of, and the sandbox they were given to.
    members: BTreeMap<String, Member>,
    /// Pods that are being made outside of a pool's own number, and whose pool that is.
    making: BTreeMap<PoolAt, usize>,
}

struct Member {
    pool: PoolAt,
    name: String,
    sandbox: Option<String>,
    ready: bool,
}

impl Default for Hall {
    fn default() -> Self {
        let state = State {
            lines: Lines::new(WAITERS_MAX),
            waiters: BTreeMap::new(),
            pools: BTreeMap::new(),
            members: BTreeMap::new(),
            making: BTreeMap::new(),
        };
        Self { state: Mutex::new(state), metrics: Metrics::default() }
    }
}

impl Hall {
    pub(super) fn idle(&self, pool: &PoolAt) -> usize {
        self.state.lock().lines.idle(pool)
    }

    pub(super) fn pool(&self, pool: &PoolAt) -> Option<Arc<WarmPool>> {
        self.state.lock().pools.get(pool).cloned()
    }

    /// The pod that was given to a sandbox, if its status does not say so yet.
    pub(super) fn given(&self, sandbox_uid: &str) -> Option<String> {
        let state = self.state.lock();
        state
            .members
            .values()
            .find(|member| member.sandbox.as_deref() == Some(sandbox_uid))
            .map(|member| member.name.clone())
    }

    pub(super) fn saw_pool(&self, pool: WarmPool) {
        let at = PoolAt { namespace: pods::namespace(&pool).to_owned(), name: pods::name(&pool).to_owned() };
        self.state.lock().pools.insert(at, Arc::new(pool));
    }

    pub(super) fn forget_pool(&self, pool: &PoolAt) {
        self.state.lock().pools.remove(pool);
    }

    pub(super) fn only_pools(&self, listed: &BTreeSet<PoolAt>) {
        self.state.lock().pools.retain(|pool, _| listed.contains(pool));
    }

    pub(super) fn saw(&self, pod: &Pod) {
        let (uid, Some(pool)) = (pods::uid(pod).to_owned(), pods::pool_of(pod)) else { return };
        if pods::is_deleting(pod) || pods::is_over(pod) {
            self.forget(&uid);
            return;
        }
        let sandbox = pods::owner(pod, "Sandbox").map(|owner| owner.uid.clone());
        let ours = pods::owner(pod, "WarmPool").is_some_and(|owner| owner.name == pool.name);
        let ready = pods::is_ready(pod);
        let mut state = self.state.lock();
        let member = Member { pool: pool.clone(), name: pods::name(pod).to_owned(), sandbox, ready };
        state.members.insert(uid.clone(), member);
        if ours && ready && pods::is_idle(pod) {
            let version = pod.metadata.resource_version.clone().unwrap_or_default();
            let served = state.lines.seen(&pool, Idle { uid, name: pods::name(pod).to_owned(), version });
            self.hand(&mut state, served);
        } else {
            state.lines.gone(&uid);
        }
    }

    /// A pod that was just given to a sandbox, which the watch will tell in its own time.
    pub(super) fn gave(&self, pod: &Pod) {
        let (Some(pool), Some(owner)) = (pods::pool_of(pod), pods::owner(pod, "Sandbox")) else { return };
        let member = Member {
            pool,
            name: pods::name(pod).to_owned(),
            sandbox: Some(owner.uid.clone()),
            ready: pods::is_ready(pod),
        };
        self.state.lock().members.insert(pods::uid(pod).to_owned(), member);
    }

    pub(super) fn forget(&self, uid: &str) {
        let mut state = self.state.lock();
        state.members.remove(uid);
        state.lines.gone(uid);
    }

    pub(super) fn only(&self, listed: &BTreeSet<String>) {
        let mut state = self.state.lock();
        state.members.retain(|uid, _| listed.contains(uid));
        state.lines.only(listed);
    }

    /// Gives a pod to whoever is next, until somebody is there to take it.
    fn hand(&self, state: &mut State, mut served: Served) {
        while let Some((ticket, idle)) = served {
            let Some(waiter) = state.waiters.remove(&ticket) else {
                served = state.lines.put_back(idle);
                continue;
            };
            match waiter.send(idle) {
                Ok(()) => break,
                Err(idle) => served = state.lines.put_back(idle),
            }
        }
        self.count(state);
    }

    fn count(&self, state: &State) {
        self.metrics.waiting.set(i64::try_from(state.lines.waiting()).unwrap_or(i64::MAX));
    }
}

/// A pod that somebody tries to claim. Unless it was, or turned out not to be as it had been seen, others may.
pub(super) struct Holding {
    hall: Arc<Hall>,
    pub(super) idle: Idle,
    settled: bool,
}

impl Holding {
    fn new(hall: &Arc<Hall>, idle: Idle) -> Self {
        Self { hall: Arc::clone(hall), idle, settled: false }
    }

    pub(super) fn claimed(mut self) {
        self.settled = true;
        self.hall.state.lock().lines.claimed(&self.idle.uid);
        self.hall.metrics.claimed.inc();
    }

    /// It was not as it had been seen: nobody tries it again until it is seen anew.
    pub(super) fn lost(mut self) {
        self.settled = true;
        self.hall.metrics.lost.inc();
        let mut state = self.hall.state.lock();
        let served = state.lines.lost(&self.idle.uid);
        self.hall.hand(&mut state, served);
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if !self.settled {
            // Nobody knows what became of it; who tries it next finds out, since it must be as it was seen.
            let mut state = self.hall.state.lock();
            let served = state.lines.put_back(self.idle.clone());
            self.hall.hand(&mut state, served);
        }
    }
}

/// A pod at once, or a place in the line.
pub(super) enum Next {
    Now(Holding),
    Later(Place),
}

/// A place in a line.
pub(super) struct Place {
    hall: Arc<Hall>,
    pool: PoolAt,
    pub(super) ticket: Ticket,
    pod: oneshot::Receiver<Idle>,
}

/// A pod if one is idle.
pub(super) fn take(hall: &Arc<Hall>, pool: &PoolAt) -> Option<Holding> {
    let idle = hall.state.lock().lines.take(pool);
    idle.map(|idle| Holding::new(hall, idle))
}

/// A pod, or a place in the line: where one was before, or at its end.
pub(super) fn next(hall: &Arc<Hall>, pool: &PoolAt, before: Option<Ticket>) -> Result<Next, Crowded> {
    let mut state = hall.state.lock();
    if let Some(idle) = state.lines.take(pool) {
        return Ok(Next::Now(Holding::new(hall, idle)));
    }
    let ticket = state.lines.join(pool, before).inspect_err(|_| {
        hall.metrics.crowded.inc();
    })?;
    let (sender, pod) = oneshot::channel();
    state.waiters.insert(ticket, sender);
    hall.count(&state);
    Ok(Next::Later(Place { hall: Arc::clone(hall), pool: pool.clone(), ticket, pod }))
}

impl Place {
    /// The pod, when it is one's turn. Nothing when the hall is gone.
    pub(super) async fn turn(&mut self) -> Option<Holding> {
        let idle = (&mut self.pod).await.ok()?;
        Some(Holding::new(&self.hall, idle))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.hall.state.lock();
        state.waiters.remove(&self.ticket);
        state.lines.leave(&self.pool, self.ticket);
        // It may have been given one that it did not come to look at.
        self.pod.close();
        let served = self.pod.try_recv().ok().and_then(|idle| state.lines.put_back(idle));
        self.hall.hand(&mut state, served);
    }
}

/// Room for one more pod of a pool, until it is seen.
pub(super) struct Making {
    hall: Arc<Hall>,
    pool: PoolAt,
}

/// Whether a pool may have one more.
pub(super) enum Room {
    Yes(Making),
    /// No, but some are on their way.
    Starting,
    No,
}

/// Room for one more pod beyond what is idle; or, for one that none of the idle will do, in the place of one of them, which
/// the pool gives up.
pub(super) fn room(hall: &Arc<Hall>, at: &PoolAt, most: Option<i32>, instead_of_idle: bool) -> Room {
    let mut state = hall.state.lock();
    let counts = |member: &&Member| member.pool == *at && (member.sandbox.is_some() || !instead_of_idle);
    let members = state.members.values().filter(counts);
    let (total, starting) = members.fold((0_usize, 0_usize), |(total, starting), member| {
        (total + 1, starting + usize::from(!member.ready && member.sandbox.is_none()))
    });
    let making = state.making.entry(at.clone()).or_default();
    let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or_default());
    if total + *making >= most {
        return if starting > 0 { Room::Starting } else { Room::No };
    }
    *making += 1;
    Room::Yes(Making { hall: Arc::clone(hall), pool: at.clone() })
}

impl Drop for Making {
    fn drop(&mut self) {
        let mut state = self.hall.state.lock();
        let left = state.making.get_mut(&self.pool).map(|making| {
            *making = making.saturating_sub(1);
            *making
        });
        if left == Some(0) {
            state.making.remove(&self.pool);
        }
    }
}
