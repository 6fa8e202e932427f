//! Sessions of experiments: their pools are made when they are first wanted, one for each image and way to run it.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use futures::future::join_all;
use http::StatusCode;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use sha2::{Digest, Sha256};

use super::Shared;
use super::bodies::{CreateManagedSession, CreatePool, ExperimentDeleted, SessionInfo};
use super::claiming::Wanted;
use super::create::{Created, name, seconds};
use super::failure::{Failure, Kind, Result};
use super::keys::{Caller, is_label_value};
use super::pools::pool;
use super::read::{Asked, At, Json};
use super::routes::InNamespace;
use super::sessions::{OWNER, Session};
use super::text::hex;
use crate::claims::{OnEmpty, PoolAt};
use crate::kinds::{SandboxSpec, WarmPool};
use crate::names::{EXPERIMENT, MANAGED};

/// How long a session may wait for its sandbox, unless it is said: it may be the first of its pool.
const WAIT_SECONDS: u32 = 120;
/// Idle sandboxes of a pool that was made for an experiment.
const REPLICAS: i32 = 2;

pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Json(body): Json<CreateManagedSession>,
) -> Created<SessionInfo> {
    let namespace = body.namespace.clone().unwrap_or_else(|| shared.options.namespace.clone());
    caller.in_namespace(&namespace)?;
    name("namespace", &namespace)?;
    experiment(&body.experiment_id)?;
    if body.tools.as_ref().is_some_and(|tools| !tools.config_maps.is_empty()) && !caller.is_admin() {
        // They are anybody's of the namespace, and would be read through the sandbox.
        let message = "tools.configMaps: these are for keys of role admin; say the tools inline";
        return Err(Failure::new(StatusCode::FORBIDDEN, Kind::User, message));
    }
    if body.max_replicas.is_some_and(|max| max < 1) {
        return Err(Failure::bad("maxReplicas: it is not above zero"));
    }
    let bind = shared.bound(body.env, body.files)?;
    let wanted = CreatePool {
        name: String::new(),
        image: body.image,
        replicas: Some(REPLICAS.min(body.max_replicas.unwrap_or(REPLICAS))),
        max_replicas: body.max_replicas,
        namespace: Some(namespace.clone()),
        tools: body.tools,
        resources: body.resources,
        workspace_dir: body.workspace_dir,
        image_locality: None,
    };
    let mut made = managed_pool(wanted, &body.experiment_id)?;
    // Who made it first may delete it, and administrators.
    made.labels_mut().extend(caller.owner().map(|owner| (OWNER.to_owned(), owner.to_owned())));
    let pool_ref = made.name_any();
    let spec = SandboxSpec {
        pool_ref: pool_ref.clone(),
        keep_alive: Some(true),
        resources: None,
        idle_timeout_seconds: seconds("idleTimeoutSeconds", body.idle_timeout_seconds)?,
        max_lifetime_seconds: seconds("maxLifetimeSeconds", body.max_lifetime_seconds)?,
    };
    let wanted = || Wanted {
        pool: PoolAt { namespace: namespace.clone(), name: pool_ref.clone() },
        spec: spec.clone(),
        owner: caller.owner().map(str::to_owned),
        experiment: Some(body.experiment_id.clone()),
        on_empty: OnEmpty::Cold(shared.wait(body.wait_seconds, WAIT_SECONDS)),
        bind: bind.clone(),
    };
    let _beginning = shared.beginning(&caller, 1)?;
    shared.ensure(&namespace, &made, &caller).await?;
    let session = match shared.obtain(wanted()).await {
        // It was known to be there, and somebody deleted it meanwhile.
        Err(failure) if failure.status == StatusCode::NOT_FOUND => {
            shared.make_pool(&namespace, &made, &caller).await?;
            shared.obtain(wanted()).await?
        }
        obtained => obtained?,
    };
    shared.known(&session);
    Ok((StatusCode::CREATED, axum::Json(session.info())))
}

impl Shared {
    /// Makes a pool unless sessions of it are known, which is the rule.
    async fn ensure(&self, namespace: &str, pool: &WarmPool, caller: &Caller) -> Result<()> {
        let wanted = pool.name_any();
        if self.sessions.count(|session| session.pool == wanted && session.namespace == namespace) > 0 {
            return Ok(());
        }
        self.make_pool(namespace, pool, caller).await
    }

    async fn make_pool(&self, namespace: &str, pool: &WarmPool, caller: &Caller) -> Result<()> {
        let api: Api<WarmPool> = Api::namespaced(self.client.clone(), namespace);
        if let Some(owner) = caller.owner() {
            let own = ListParams::default().labels(&format!("{EXPERIMENT},{OWNER}={owner}"));
            let all: Api<WarmPool> = Api::all(self.client.clone());
            let own = all.list(&own).await?.items;
            let is_there = own
                .iter()
                .any(|other| other.name_any() == pool.name_any() && other.namespace().as_deref() == Some(namespace));
            let max = self.options.limits.managed_pools_max;
            if !is_there && own.len() >= max && api.get_opt(&pool.name_any()).await?.is_none() {
                let message = format!(
                    "{owner:?} has {max} pools of experiments and may have no more; those without a \
                                       session go after a while, and with their experiment at once"
                );
                return Err(Failure::crowded(message, 60));
            }
        }
        match api.create(&PostParams::default(), pool).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn of_experiment(&self, id: &str, namespace: Option<&str>, caller: &Caller) -> Vec<Arc<Session>> {
        self.sessions.page(None, usize::MAX, |session| {
            session.experiment.as_deref() == Some(id)
                && !session.is_ending
                && namespace.is_none_or(|namespace| namespace == session.namespace)
                && caller.may(&session.namespace, session.owner.as_deref())
        })
    }
}

fn permitted(caller: &Caller, namespace: Option<&str>) -> Result<()> {
    let Some(namespace) = namespace else { return Ok(()) };
    name("namespace", namespace)?;
    caller.in_namespace(namespace)
}

fn experiment(id: &str) -> Result<()> {
    let message = || Failure::bad(format!("experimentId: {id:?} cannot be a label's value"));
    if is_label_value(id) { Ok(()) } else { Err(message()) }
}

/// The pool of an experiment; its name says what it is for, so that all gateways mean the same.
fn managed_pool(body: CreatePool, experiment: &str) -> Result<WarmPool> {
    let mut made = pool(body)?;
    let written = serde_json::to_vec(&(experiment, &made.spec)).unwrap_or_default();
    made.metadata.name = Some(format!("{MANAGED}{}", hex(&Sha256::digest(&written)[..8])));
    made.labels_mut().insert(EXPERIMENT.to_owned(), experiment.to_owned());
    Ok(made)
}

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(id): At,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
) -> Result<axum::Json<Vec<SessionInfo>>> {
    experiment(&id)?;
    permitted(&caller, namespace.as_deref())?;
    let sessions = shared.of_experiment(&id, namespace.as_deref(), &caller);
    Ok(axum::Json(sessions.iter().map(|session| session.info()).collect()))
}

/// Deletes the sessions of an experiment, and its pools if all of its sessions went.
pub(super) async fn delete(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(id): At,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
) -> Result<axum::Json<ExperimentDeleted>> {
    experiment(&id)?;
    permitted(&caller, namespace.as_deref())?;
    let sessions = shared.of_experiment(&id, namespace.as_deref(), &caller);
    let removed = join_all(sessions.iter().map(|session| shared.remove(session))).await;
    let deleted = removed.iter().filter(|removed| removed.is_ok()).count();
    let mut error = removed.into_iter().find_map(Result::err).map(|failure| failure.message);
    // What is going already does not come back for its pool.
    let rest = |session: &Session| session.experiment.as_deref() == Some(id.as_str()) && !session.is_ending;
    let is_rest = shared.sessions.count(rest) > 0;
    if !is_rest && let Err(failure) = shared.remove_pools(&id, namespace.as_deref(), &caller).await {
        error = error.or(Some(failure.message));
    }
    Ok(axum::Json(ExperimentDeleted { deleted, error }))
}

impl Shared {
    /// Deletes the pools of an experiment that are the caller's.
    async fn remove_pools(&self, experiment: &str, namespace: Option<&str>, caller: &Caller) -> Result<()> {
        let api: Api<WarmPool> = match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        for pool in api.list(&ListParams::default().labels(&format!("{EXPERIMENT}={experiment}"))).await? {
            let namespace = pool.namespace().unwrap_or_default();
            if !caller.may(&namespace, pool.labels().get(OWNER).map(String::as_str)) {
                continue;
            }
            let api: Api<WarmPool> = Api::namespaced(self.client.clone(), &namespace);
            match api.delete(&pool.name_any(), &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
