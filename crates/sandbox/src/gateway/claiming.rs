//! New sessions: a Sandbox, a pod for it, and what is bound to it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use thane_api::wire::sandbox::BindRequest;
use tokio::sync::oneshot;

use super::Shared;
use super::failure::{Failure, Result};
use super::sessions::{OWNER, Session};
use super::sidecars::Address;
use crate::claims::{ClaimError, Claimed, OnEmpty, PoolAt};
use crate::kinds::{Phase, Sandbox, SandboxSpec};
use crate::names;

/// How much longer than whoever asks waits a claim and its answer can take, after which its gateway has ended without
/// undoing it.
const LATE: Duration = Duration::from_secs(30);
/// How long what was begun may take to be undone when the gateway ends.
pub(super) const UNDO: Duration = Duration::from_secs(2);

/// So often it is tried to write down that a session is known, with a longer pause after each.
const TOLD_ATTEMPTS_MAX: u32 = 6;
/// The first of these pauses.
const TOLD_PAUSE: Duration = Duration::from_millis(100);

/// A session that is wanted.
pub(super) struct Wanted {
    pub(super) pool: PoolAt,
    pub(super) spec: SandboxSpec,
    pub(super) owner: Option<String>,
    pub(super) experiment: Option<String>,
    pub(super) on_empty: OnEmpty,
    pub(super) bind: BindRequest,
}

impl Shared {
    /// Makes a session. It goes on when whoever asked does not wait for it, and is then undone.
    pub(super) async fn obtain(self: &Arc<Self>, wanted: Wanted) -> Result<Arc<Session>> {
        let (tell, told) = oneshot::channel();
        let shared = Arc::clone(self);
        self.tasks.spawn("claim", async move {
            let sandbox = shared.sandbox(&wanted);
            let made = tokio::select! {
                made = shared.make(wanted, &sandbox) => made,
                () = shared.tasks.cancelled() => {
                    let undone = shared.delete(&sandbox.namespace().unwrap_or_default(), &sandbox.name_any());
                    let _ = tokio::time::timeout(UNDO, undone).await;
                    return;
                }
            };
            if let Err(Ok(session)) = tell.send(made) {
                shared.discard(&session);
            }
        });
        told.await.map_err(|_| Failure::unavailable("the gateway ends"))?
    }

    async fn make(self: &Arc<Self>, wanted: Wanted, sandbox: &Sandbox) -> Result<Arc<Session>> {
        let api: Api<Sandbox> = Api::namespaced(self.client.clone(), &wanted.pool.namespace);
        let sandbox = api.create(&PostParams::default(), sandbox).await?;
        let session = Session::from(&sandbox);
        let made = async {
            let claimed = self.claim(&wanted, &sandbox).await?;
            let session = self.sessions.learn(with_pod(session.clone(), claimed));
            self.greet(&session, wanted.bind).await?;
            Ok(session)
        };
        Box::pin(made).await.inspect_err(|_| self.discard(&session))
    }

    fn sandbox(&self, wanted: &Wanted) -> Sandbox {
        let id = format!("gw-{}-{:08x}", self.clock.now().as_millisecond(), rand::random::<u32>());
        let mut sandbox = Sandbox::new(&id, wanted.spec.clone());
        sandbox.metadata.namespace = Some(wanted.pool.namespace.clone());
        let pairs = [(OWNER, &wanted.owner), (names::EXPERIMENT, &wanted.experiment)];
        let labels = pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
        sandbox.metadata.labels = Some(labels.collect());
        // the operator would add it, which is one more write
        sandbox.metadata.finalizers = Some(vec![names::FINALIZER.to_owned()]);
        let wait = match wanted.on_empty {
            OnEmpty::Wait(wait) | OnEmpty::Cold(wait) => wait,
            OnEmpty::Fail => Duration::ZERO,
        };
        let until = self.clock.now().checked_add(wait + LATE).unwrap_or(Timestamp::MAX);
        let by = [
            (names::SESSION, id),
            (names::CLAIMED_BY, self.options.name.clone()),
            (names::CLAIM_UNTIL, until.to_string()),
        ];
        sandbox.metadata.annotations = Some(by.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        sandbox
    }

    async fn claim(&self, wanted: &Wanted, sandbox: &Sandbox) -> Result<Claimed> {
        let began = self.clock.monotonic();
        let claimed = self.claims.claim(&wanted.pool, sandbox, wanted.on_empty).await;
        let result = match &claimed {
            Ok(_) => "success",
            Err(ClaimError::NoPool(_)) => "no_pool",
            Err(ClaimError::Empty { .. }) => "empty",
            Err(ClaimError::Full(_)) => "full",
            Err(ClaimError::Gone(_) | ClaimError::Api(_)) => "error",
        };
        self.metrics.allocated(&wanted.pool.name, result, self.clock.monotonic().saturating_sub(began));
        Ok(claimed?)
    }

    /// The first word with a new sandbox. Where nothing is to be bound, nobody waits for it.
    async fn greet(self: &Arc<Self>, session: &Arc<Session>, bind: BindRequest) -> Result<()> {
        if is_nothing(&bind) {
            let (shared, session) = (Arc::clone(self), Arc::clone(session));
            self.tasks.spawn("greet", async move {
                if let Ok(sidecar) = shared.sidecar(&session).await {
                    let _ = shared.bind(&session, &sidecar, BindRequest::default()).await;
                }
            });
            return Ok(());
        }
        let sidecar = self.sidecar(session).await?;
        self.bind(session, &sidecar, bind).await
    }

    /// Writes down that somebody knows of a session, once, without waiting: what nobody was told of when its gateway ended
    /// is undone by the operator.
    pub(super) fn known(&self, session: &Session) {
        if session.is_known || !self.sessions.tell(session) {
            return;
        }
        let api: Api<Sandbox> = Api::namespaced(self.client.clone(), &session.namespace);
        let (id, uid) = (session.id.clone(), session.uid.clone());
        self.tasks.spawn("known", async move {
            let change = json!({"metadata": {"uid": uid, "annotations": {names::CLAIM_UNTIL: null}}});
            for attempt in 0..TOLD_ATTEMPTS_MAX {
                match api.patch(&id, &PatchParams::default(), &Patch::Merge(&change)).await {
                    Ok(_) => return,
                    // It is gone, or another by now.
                    Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => return,
                    Err(error) => tracing::debug!(%error, session = id, "a session could not be marked as known"),
                }
                tokio::time::sleep(TOLD_PAUSE * 2_u32.pow(attempt)).await;
            }
            tracing::warn!(session = id, "a session could not be marked as known; the operator may end it");
        });
    }

    /// Deletes a session's Sandbox, without waiting.
    pub(super) fn discard(&self, session: &Session) {
        self.tasks.spawn("discard", self.undo(session));
    }

    /// Deletes a session's Sandbox, for who waits for that.
    pub(super) fn undo(&self, session: &Session) -> impl Future<Output = ()> + Send + use<> {
        self.sessions.forget(&session.id, &session.namespace);
        self.delete(&session.namespace, &session.id)
    }

    fn delete(&self, namespace: &str, id: &str) -> impl Future<Output = ()> + Send + use<> {
        let (api, id): (Api<Sandbox>, _) = (Api::namespaced(self.client.clone(), namespace), id.to_owned());
        async move {
            match api.delete(&id, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => tracing::warn!(%error, session = id, "a sandbox could not be deleted"),
            }
        }
    }
}

fn is_nothing(bind: &BindRequest) -> bool {
    bind.env.is_empty() && bind.files.is_empty()
}

/// A session whose pod is known before the watch tells it.
pub(super) fn with_pod(session: Session, claimed: Claimed) -> Session {
    let pod = Address { namespace: session.namespace.clone(), pod: claimed.pod, ip: claimed.pod_ip };
    Session { pod: Some(pod), work_dir: claimed.work_dir, phase: Phase::Ready, ..session }
}
