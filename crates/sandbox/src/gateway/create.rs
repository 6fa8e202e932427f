//! POST /v1/sessions.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use http::StatusCode;
use thane_api::wire::sandbox::BindRequest;

use super::Shared;
use super::bodies::{CreateSession, SessionInfo, WhenEmpty};
use super::claiming::Wanted;
use super::execute::vet;
use super::failure::{Failure, Result};
use super::keys::{Beginning, Caller};
use super::read::Json;
use crate::claims::{OnEmpty, PoolAt};
use crate::kinds::SandboxSpec;

/// How long to wait for a sandbox, unless it is said.
const WAIT_SECONDS: u32 = 30;

pub(super) type Created<T> = Result<(StatusCode, axum::Json<T>)>;

pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Json(body): Json<CreateSession>,
) -> Created<SessionInfo> {
    let namespace = body.namespace.unwrap_or_else(|| shared.options.namespace.clone());
    caller.in_namespace(&namespace)?;
    name("poolRef", &body.pool_ref)?;
    name("namespace", &namespace)?;
    let bind = shared.bound(body.env, body.files)?;
    let wait = shared.wait(body.wait_seconds, WAIT_SECONDS);
    let wanted = Wanted {
        spec: SandboxSpec {
            pool_ref: body.pool_ref.clone(),
            keep_alive: body.keep_alive,
            resources: None,
            idle_timeout_seconds: seconds("idleTimeoutSeconds", body.idle_timeout_seconds)?,
            max_lifetime_seconds: seconds("maxLifetimeSeconds", body.max_lifetime_seconds)?,
        },
        pool: PoolAt { namespace, name: body.pool_ref },
        owner: caller.owner().map(str::to_owned),
        experiment: None,
        on_empty: match body.on_empty {
            WhenEmpty::Wait => OnEmpty::Wait(wait),
            WhenEmpty::Cold => OnEmpty::Cold(wait),
            WhenEmpty::Fail => OnEmpty::Fail,
        },
        bind,
    };
    let _beginning = shared.beginning(&caller, 1)?;
    let session = shared.obtain(wanted).await?;
    shared.known(&session);
    Ok((StatusCode::CREATED, axum::Json(session.info())))
}

impl Shared {
    /// Counts sessions against what their owner may have.
    pub(super) fn beginning(&self, caller: &Caller, count: usize) -> Result<Beginning> {
        let existing = match (caller.owner(), caller.sessions_max()) {
            (Some(owner), Some(_)) => self.sessions.count(|session| session.owner.as_deref() == Some(owner)),
            _ => 0,
        };
        self.pending.begin(caller, count, existing)
    }

    pub(super) fn wait(&self, seconds: Option<u32>, default: u32) -> Duration {
        Duration::from_secs(seconds.unwrap_or(default).into()).min(self.options.limits.wait_max)
    }

    pub(super) fn bound(
        &self,
        env: std::collections::BTreeMap<String, String>,
        files: Vec<super::bodies::NewFile>,
    ) -> Result<BindRequest> {
        vet::session_env(&env, &self.options.limits)?;
        let files = vet::files(files, &self.options.limits)?;
        Ok(BindRequest { session: String::new(), env: env.into_iter().collect(), files })
    }
}

/// A name as Kubernetes wants it for pools and namespaces.
pub(super) fn name(field: &str, text: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=63).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('-') && !text.ends_with('-') {
        return Ok(());
    }
    Err(Failure::bad(format!("{field}: {text:?} is not a name of at most 63 small letters, digits and -")))
}

/// Seconds that are not negative.
pub(super) fn seconds(field: &str, seconds: Option<i32>) -> Result<Option<i32>> {
    match seconds {
        Some(..0) => Err(Failure::bad(format!("{field}: it is negative"))),
        seconds => Ok(seconds),
    }
}
