//! Who gets which pod: queues of idle ones in memory, fed by a watch, and a compare-and-swap on the API that decides.

mod follow;
mod hall;
mod line;
mod metrics;
mod status;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use serde_json::json;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::kinds::{Phase, Sandbox, WarmPool};
use crate::pods::{self, Shape};
use hall::{Hall, Holding, Next, Room};

/// How long a process that has just started may take to know its pods.
const SYNC_MAX: Duration = Duration::from_secs(10);
/// Pods that may turn out to be somebody else's in one claim.
const ATTEMPTS_MAX: usize = 64;

/// A pool of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolAt {
    /// The namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What to do when no pod is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnEmpty {
    /// Wait for one, in turn.
    Wait(Duration),
    /// Make one at once, beyond the pool's number, and wait for it.
    Cold(Duration),
    /// Say so.
    Fail,
}

/// A pod that is now a sandbox's, and nobody else's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The pod.
    pub pod: String,
    /// Its unique id.
    pub pod_uid: String,
    /// Where its sidecar listens.
    pub pod_ip: String,
    /// Where steps start.
    pub work_dir: String,
}

/// Why there is no pod.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// There is no such pool.
    #[error("there is no pool {0:?}")]
    NoPool(String),
    /// None was idle, or became so in time; with what the pool says about itself.
    #[error("no sandbox of pool {pool:?} is idle{}", .why.as_deref().map(|why| format!(": {why}")).unwrap_or_default())]
    Empty {
        /// The pool.
        pool: String,
        /// Why it fills no further, if it says so.
        why: Option<String>,
    },
    /// The pool has as many as it may.
    #[error("pool {0:?} has as many sandboxes as it may")]
    Full(String),
    /// The sandbox is no longer there, or has a pod already.
    #[error("sandbox {0:?} was changed meanwhile")]
    Gone(String),
    /// The API.
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl PoolAt {
    /// Where a pool is.
    pub fn of(pool: &WarmPool) -> Self {
        Self { namespace: pods::namespace(pool).to_owned(), name: pods::name(pool).to_owned() }
    }

    /// The pool of a sandbox.
    pub fn of_sandbox(sandbox: &Sandbox) -> Self {
        Self { namespace: pods::namespace(sandbox).to_owned(), name: sandbox.spec.pool_ref.clone() }
    }
}

/// Claims of one process. Clones are the same.
#[derive(Clone)]
pub struct Claims {
    client: Client,
    clock: SharedClock,
    shape: Arc<Shape>,
    hall: Arc<Hall>,
    synced: watch::Receiver<bool>,
}

impl Claims {
    /// Follows the pools and their pods, of nodes of ours, until the tasks end.
    pub fn start(client: Client, clock: SharedClock, tasks: &Tasks) -> Self {
        Self::start_shaped(client, Shape::Embedded, clock, tasks)
    }

    /// The same with pods of another shape made where none is idle.
    pub fn start_shaped(client: Client, shape: Shape, clock: SharedClock, tasks: &Tasks) -> Self {
        let hall = Arc::new(Hall::default());
        let (sender, synced) = watch::channel(false);
        tasks.spawn("claims-pods", follow::pods(client.clone(), Arc::clone(&hall), sender, tasks.clone()));
        tasks.spawn("claims-pools", follow::pools(client.clone(), Arc::clone(&hall), tasks.clone()));
        Self { client, clock, shape: Arc::new(shape), hall, synced }
    }

    /// Makes its counts visible.
    pub fn register(&self, registry: &mut Registry) {
        self.hall.metrics.register(registry);
    }

    /// How many are idle in a pool.
    pub fn idle(&self, pool: &PoolAt) -> usize {
        self.hall.idle(pool)
    }

    /// Gives a sandbox a pod and says so in its status. If it has one already, that one is told.
    pub async fn claim(&self, pool: &PoolAt, sandbox: &Sandbox, on_empty: OnEmpty) -> Result<Claimed, ClaimError> {
        let started = self.clock.monotonic();
        let pod = match self.hall.given(pods::uid(sandbox)) {
            // Somebody gave it one and did not come to say so.
            Some(name) => self.ready(pods::namespace(sandbox), &name, on_empty.patience().max(SYNC_MAX)).await?,
            None => self.pod(pool, sandbox, on_empty, true).await?,
        };
        let claimed = self.point(sandbox, &pod, Phase::Ready).await?;
        self.hall.metrics.seconds.observe((self.clock.monotonic().saturating_sub(started)).as_secs_f64());
        Ok(claimed)
    }

    /// A further pod for a sandbox that has one, which its status does not tell until [`Self::repoint`].
    pub async fn spare(&self, pool: &PoolAt, sandbox: &Sandbox, on_empty: OnEmpty) -> Result<Claimed, ClaimError> {
        Ok(claimed(&self.pod(pool, sandbox, on_empty, false).await?))
    }

    /// Makes another of its pods the one that a sandbox's status tells. The one before is to be deleted by whoever asks.
    pub async fn repoint(&self, sandbox: &Sandbox, to: &Claimed) -> Result<(), ClaimError> {
        self.write_status(sandbox, to, Phase::Ready, true).await.map(|_| ())
    }

    /// Deletes a pod that was claimed, unless it is another by now.
    pub async fn release(&self, namespace: &str, claimed: &Claimed) -> Result<(), ClaimError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let only = Preconditions { uid: Some(claimed.pod_uid.clone()), resource_version: None };
        let options = DeleteParams { preconditions: Some(only), ..DeleteParams::default().grace_period(1) };
        match api.delete(&claimed.pod, &options).await {
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
            answer => answer.map(|_| ()).map_err(ClaimError::Api),
        }
    }

    async fn pod(&self, at: &PoolAt, sandbox: &Sandbox, on_empty: OnEmpty, tell: bool) -> Result<Pod, ClaimError> {
        let mut synced = self.synced.clone();
        // A process that cannot know its pods in time has none.
        let _ = tokio::time::timeout(SYNC_MAX, synced.wait_for(|synced| *synced)).await;
        let pool = self.pool(at).await?;
        let deadline = Instant::now() + on_empty.patience();
        if pods::is_bound_otherwise(&pool, sandbox) {
            return self.own(&pool, sandbox, on_empty, deadline, tell).await;
        }
        if let OnEmpty::Wait(_) = on_empty {
            return self.wait(at, sandbox, deadline).await;
        }
        for _ in 0..ATTEMPTS_MAX {
            let Some(holding) = hall::take(&self.hall, at) else { break };
            if let Some(pod) = self.swap(holding, sandbox).await? {
                return Ok(pod);
            }
        }
        if on_empty == OnEmpty::Fail {
            return Err(self.empty(at));
        }
        match hall::room(&self.hall, at, pool.spec.max_replicas, false) {
            Room::Yes(making) => self.cold(&pool, sandbox, making, deadline, tell).await,
            Room::Starting => self.wait(at, sandbox, deadline).await,
            Room::No => Err(ClaimError::Full(at.name.clone())),
        }
    }

    /// A pod for a sandbox with bounds of its own, which those that wait do not have.
    async fn own(
        &self,
        pool: &WarmPool,
        sandbox: &Sandbox,
        on_empty: OnEmpty,
        deadline: Instant,
        tell: bool,
    ) -> Result<Pod, ClaimError> {
        let at = PoolAt::of(pool);
        if on_empty == OnEmpty::Fail {
            return Err(self.empty(&at));
        }
        match hall::room(&self.hall, &at, pool.spec.max_replicas, true) {
            Room::Yes(making) => self.cold(pool, sandbox, making, deadline, tell).await,
            Room::Starting | Room::No => Err(ClaimError::Full(at.name)),
        }
    }

    /// The pool as the watch tells it, or as the API does: it may have been made just now.
    pub async fn pool(&self, at: &PoolAt) -> Result<Arc<WarmPool>, ClaimError> {
        if let Some(pool) = self.hall.pool(at) {
            return Ok(pool);
        }
        let api: Api<WarmPool> = Api::namespaced(self.client.clone(), &at.namespace);
        let pool = api.get_opt(&at.name).await?;
        pool.map(Arc::new).ok_or_else(|| ClaimError::NoPool(at.name.clone()))
    }

    /// Waits in turn; who loses a pod to another process keeps its place.
    async fn wait(&self, at: &PoolAt, sandbox: &Sandbox, deadline: Instant) -> Result<Pod, ClaimError> {
        let mut ticket = None;
        for _ in 0..ATTEMPTS_MAX {
            let holding = match hall::next(&self.hall, at, ticket).map_err(|_| self.empty(at))? {
                Next::Now(holding) => holding,
                Next::Later(mut place) => {
                    ticket = Some(place.ticket);
                    let turn = tokio::time::timeout_at(deadline, place.turn()).await;
                    turn.ok().flatten().ok_or_else(|| self.empty(at))?
                }
            };
            if let Some(pod) = self.swap(holding, sandbox).await? {
                return Ok(pod);
            }
        }
        Err(self.empty(at))
    }

    /// Makes an idle pod the sandbox's, if it is still as it was seen.
    async fn swap(&self, holding: Holding, sandbox: &Sandbox) -> Result<Option<Pod>, ClaimError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), pods::namespace(sandbox));
        let change = json!({"metadata": {
            "resourceVersion": holding.idle.version,
            "uid": holding.idle.uid,
            "labels": pods::labels_of(sandbox),
            "ownerReferences": [pods::owned_by_sandbox(sandbox)],
        }});
        match api.patch(&holding.idle.name, &PatchParams::default(), &Patch::Merge(&change)).await {
            Ok(pod) => {
                holding.claimed();
                self.hall.gave(&pod);
                Ok(Some(pod))
            }
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {
                holding.lost();
                Ok(None)
            }
            // It would be refused to the next as well.
            Err(kube::Error::Api(status))
                if (400..500).contains(&status.code) && ![408, 429].contains(&status.code) =>
            {
                holding.lost();
                Err(kube::Error::Api(status).into())
            }
            // That says nothing about the pod: it goes back to its line.
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a pod for the sandbox alone and waits for it.
    async fn cold(
        &self,
        pool: &WarmPool,
        sandbox: &Sandbox,
        making: hall::Making,
        deadline: Instant,
        tell: bool,
    ) -> Result<Pod, ClaimError> {
        let namespace = pods::namespace(sandbox);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let made = api.create(&PostParams::default(), &pods::make(pool, &self.shape, Some(sandbox))).await?;
        self.hall.metrics.cold.inc();
        self.hall.gave(&made);
        drop(making);
        let patience = deadline.saturating_duration_since(Instant::now());
        if tell {
            let told = self.point(sandbox, &made, Phase::Bound).await?;
            if told.pod_uid != pods::uid(&made) {
                return self.ready(namespace, &told.pod, patience).await;
            }
        }
        match self.ready(namespace, pods::name(&made), patience).await {
            Ok(pod) => Ok(pod),
            Err(error) => {
                // Whoever asked has gone: what was made for nobody else goes too.
                let _ = self.release(namespace, &claimed(&made)).await;
                Err(error)
            }
        }
    }

    /// A pod of the sandbox's own once it is ready.
    async fn ready(&self, namespace: &str, name: &str, patience: Duration) -> Result<Pod, ClaimError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let settled = |pod: Option<&Pod>| pod.is_none_or(|pod| pods::is_ready(pod) || pods::trouble(pod).is_some());
        let pool = |why: String| ClaimError::Empty { pool: name.to_owned(), why: Some(why) };
        let waited = tokio::time::timeout(patience, await_condition(api, name, settled)).await;
        match waited {
            Ok(Ok(Some(pod))) if pods::is_ready(&pod) => Ok(pod),
            Ok(Ok(Some(pod))) => Err(pool(pods::trouble(&pod).unwrap_or_default())),
            Ok(Ok(None)) => Err(pool("its pod has gone".to_owned())),
            Ok(Err(error)) => Err(pool(error.to_string())),
            Err(_) => Err(pool("its pod was not ready in time".to_owned())),
        }
    }

    fn empty(&self, at: &PoolAt) -> ClaimError {
        let pool = self.hall.pool(at);
        ClaimError::Empty { pool: at.name.clone(), why: pool.and_then(|pool| status::why(&pool)) }
    }
}

impl OnEmpty {
    /// How long to wait.
    fn patience(self) -> Duration {
        match self {
            Self::Wait(patience) | Self::Cold(patience) => patience,
            Self::Fail => Duration::ZERO,
        }
    }
}

/// What is told about a pod that was claimed.
fn claimed(pod: &Pod) -> Claimed {
    Claimed {
        pod: pods::name(pod).to_owned(),
        pod_uid: pods::uid(pod).to_owned(),
        pod_ip: pods::address(pod).unwrap_or_default().to_owned(),
        work_dir: pods::work_dir(pod).to_owned(),
    }
}
