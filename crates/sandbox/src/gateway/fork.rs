//! Sessions that begin where another was.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use futures::future::join_all;
use http::StatusCode;
use kube::{Api, ResourceExt};
use thane_api::wire::sandbox::{self as wire, BindRequest};
use tonic::Code;

use super::Shared;
use super::bodies::{ForkRequest, ForkResponse};
use super::claiming::Wanted;
use super::create::Created;
use super::failure::{Failure, Result};
use super::keys::Caller;
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
    let _beginning = shared.beginning(&caller, usize::try_from(count).unwrap_or(usize::MAX))?;
    let forks = join_all((0..count).map(|_| shared.fork(&source, &caller))).await;
    let is_whole = forks.iter().all(Result::is_ok);
    let mut sessions = Vec::with_capacity(forks.len());
    let mut failed = None;
    for fork in forks {
        match fork {
            Ok(session) if is_whole => {
                shared.known(&session);
                sessions.push(session.info());
            }
            // All or none: a part would have to be looked for.
            Ok(session) => shared.discard(&session),
            Err(failure) => failed = failed.or(Some(failure)),
        }
    }
    match failed {
        Some(failure) => Err(failure),
        None => Ok((StatusCode::CREATED, axum::Json(ForkResponse { sessions }))),
    }
}

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

    async fn fork(self: &Arc<Self>, source: &Source, caller: &Caller) -> Result<Arc<Session>> {
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
        let brought = self.bring(source, &session).await;
        brought.map(|()| Arc::clone(&session)).inspect_err(|_| self.discard(&session))
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
