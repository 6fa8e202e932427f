//! Sessions that begin where another was.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use futures::future::join_all;
use http::StatusCode;
use kube::{Api, ResourceExt};
use parking_lot::Mutex;
use thane_api::wire::sandbox::{self as wire, BindRequest};
use tokio::sync::oneshot;
use tonic::Code;

use super::Shared;
use super::bodies::{ForkRequest, ForkResponse};
use super::claiming::{UNDO, Wanted};
use super::create::Created;
use super::failure::{Failure, Result};
use super::keys::{Beginning, Caller};
use super::read::{Asked, At, Json};
use super::restore::{Way, index};
use super::routes::InNamespace;
use super::sessions::Session;
use crate::claims::{OnEmpty, PoolAt};
use crate::kinds::{Sandbox, SandboxSpec};

/// How long to wait for the new sandboxes; what the pool lacks is made.
const WAIT: Duration = Duration::from_mins(1);

pub(super) async fn fork(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(id): At,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
    Json(body): Json<ForkRequest>,
) -> Created<ForkResponse> {
    let session = shared.session(&id, namespace.as_deref(), &caller).await?;
    let (step, count, max) = (index(&body.snapshot_id)?, body.count.unwrap_or(1), shared.options.limits.forks_max);
    if !(1..=max).contains(&count) {
        return Err(Failure::bad(format!("count: it is not between 1 and {max}")));
    }
    let source = shared.source(&session, step).await?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let beginning = shared.beginning(&caller, count)?;
    let forks = shared.forks(source, caller, count, beginning).await?;
    for session in &forks {
        shared.known(session);
    }
    let sessions = forks.iter().map(|session| session.info()).collect();
    Ok((StatusCode::CREATED, axum::Json(ForkResponse { sessions })))
}

/// Forks that are there and may have to go again.
type Begun = Mutex<Vec<Arc<Session>>>;

/// What forks begin with.
struct Source {
    session: Arc<Session>,
    spec: SandboxSpec,
    step: i64,
    way: Way,
    pod_uid: String,
    bind: BindRequest,
}

impl Shared {
    async fn source(&self, session: &Arc<Session>, step: i64) -> Result<Source> {
        let way = self.way(session, step).await?;
        let api: Api<Sandbox> = Api::namespaced(self.client.clone(), &session.namespace);
        let spec = api.get(&session.id).await?.spec;
        let pod = self.pod(session.address()?).await?;
        let lost = || Failure::lost(format!("the sandbox of session {:?} is lost", session.id));
        let pod_uid = pod.and_then(|pod| pod.uid()).ok_or_else(lost)?;
        let bind = self.remembered(session).await?;
        Ok(Source { session: Arc::clone(session), spec, step, way, pod_uid, bind })
    }

    /// Makes so many, all or none. What was begun is undone when whoever asked goes, or the gateway ends.
    async fn forks(
        self: &Arc<Self>,
        source: Source,
        caller: Caller,
        count: usize,
        beginning: Beginning,
    ) -> Result<Vec<Arc<Session>>> {
        let (mut tell, told) = oneshot::channel();
        let shared = Arc::clone(self);
        self.tasks.spawn("fork", async move {
            let _beginning = beginning;
            let begun = Begun::default();
            let made = tokio::select! {
                forks = join_all((0..count).map(|_| shared.fork(&source, &caller, &begun))) => {
                    forks.into_iter().collect::<Result<Vec<_>>>()
                }
                () = tell.closed() => Err(Failure::unavailable("nobody waits for it")),
                () = shared.tasks.cancelled() => Err(Failure::unavailable("the gateway ends")),
            };
            // A part would have to be looked for.
            let is_taken = made.is_ok();
            if tell.send(made).is_err() || !is_taken {
                let undone = begun.lock().drain(..).map(|session| shared.undo(&session)).collect::<Vec<_>>();
                let _ = tokio::time::timeout(UNDO, join_all(undone)).await;
            }
        });
        told.await.map_err(|_| Failure::unavailable("the gateway ends"))?
    }

    async fn fork(self: &Arc<Self>, source: &Source, caller: &Caller, begun: &Begun) -> Result<Arc<Session>> {
        let owner = caller.owner().map(str::to_owned).or_else(|| source.session.owner.clone());
        let session = self
            .obtain(Wanted {
                pool: PoolAt { namespace: source.session.namespace.clone(), name: source.session.pool.clone() },
                spec: source.spec.clone(),
                owner,
                experiment: source.session.experiment.clone(),
                on_empty: OnEmpty::Cold(WAIT),
                bind: source.bind.clone(),
            })
            .await?;
        begun.lock().push(Arc::clone(&session));
        self.bring(source, &session).await?;
        Ok(session)
    }

    /// Brings a fresh session to where its source was.
    async fn bring(&self, source: &Source, session: &Session) -> Result<()> {
        let sidecar = self.proven(session).await?;
        if let Way::Kept(snapshot) = &source.way {
            let request = wire::RestoreRequest {
                session: session.id.clone(),
                snapshot: snapshot.clone(),
                source_pod_uid: source.pod_uid.clone(),
            };
            match sidecar.steps().restore(request).await {
                Ok(_) => return Ok(()),
                // Another machine has no part in what is kept on the first.
                Err(status) if matches!(status.code(), Code::FailedPrecondition | Code::NotFound) => {}
                Err(status) => return Err(self.verdict(session, status).await),
            }
        }
        // However long that takes, it is not forgotten.
        self.known(session);
        self.replay(&source.session, source.step, session, true).await.map(|_| ())
    }
}
