//! Every route, who may use it, and what is said about it: the router and the API's description are made from one table.

mod table;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use prometheus_client::registry::Registry;
use serde::Deserialize;

use super::Shared;
use super::bodies::Health;
use super::failure::{Failure, Kind, Result};
use super::keys::Caller;
use super::read::{Json, Peer};

pub(super) use table::table;

/// The namespace somebody means.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct InNamespace {
    pub(super) namespace: Option<String>,
}

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// Anybody who reaches it.
    All,
    /// Who is let in.
    Callers,
    /// Administrators.
    Admins,
}

/// A route.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) who: For,
    pub(super) handler: MethodRouter<Arc<Shared>>,
    pub(super) about: super::openapi::About,
}

pub(super) fn router(shared: &Arc<Shared>) -> Router {
    let mut router = Router::new();
    for Route { path, who, handler, .. } in table() {
        let guarded = handler.route_layer(from_fn_with_state((Arc::clone(shared), path, who), guard));
        router = router.route(path, guarded);
    }
    let nothing = |method: Method, uri: http::Uri| async move {
        Failure::absent(format!("there is nothing at {method} {}", uri.path()))
    };
    let not_so = |method: Method, uri: http::Uri| async move {
        let message = format!("{} is not to be had by {method}", uri.path());
        Failure::new(StatusCode::METHOD_NOT_ALLOWED, Kind::User, message)
    };
    router.fallback(nothing).method_not_allowed_fallback(not_so).with_state(Arc::clone(shared))
}

type Guarded = (Arc<Shared>, &'static str, For);

/// Lets in who may, and counts.
async fn guard(State((shared, path, who)): State<Guarded>, mut request: Request, next: Next) -> Response {
    let began = shared.clock.monotonic();
    let admitted = admit(&shared, who, &request);
    let response = match admitted {
        Err(failure) if who != For::All => failure.into_response(),
        admitted => {
            if let Ok(caller) = admitted {
                request.extensions_mut().insert(caller);
            }
            next.run(request).await
        }
    };
    let took = shared.clock.monotonic().saturating_sub(began);
    shared.metrics.answered(path, response.status().as_u16(), took);
    response
}

/// Who asks, if they may.
fn admit(shared: &Shared, who: For, request: &Request) -> Result<Caller> {
    let peer = request.extensions().get::<Peer>();
    let Peer(peer) = peer.ok_or_else(|| Failure::unavailable("nobody is known to ask"))?;
    let caller = shared.options.access.admit(request.headers(), peer.ip(), shared.clock.monotonic())?;
    if who == For::Admins {
        caller.as_admin()?;
    }
    Ok(caller)
}

async fn healthz() -> &'static str {
    "ok"
}

async fn health(State(shared): State<Arc<Shared>>) -> axum::Json<Health> {
    let status = if *shared.ready.borrow() { "ok" } else { "starting" };
    axum::Json(Health {
        status: status.to_owned(),
        sessions: shared.sessions.count(|_| true),
        sidecars: shared.sidecars.len(),
    })
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Result<Response> {
    let sessions = shared.sessions.count(|_| true);
    shared.metrics.active_sessions.set(i64::try_from(sessions).unwrap_or(i64::MAX));
    let mut registry = Registry::default();
    shared.metrics.register(&mut registry);
    let text = thane_runtime::metrics::encode(&registry);
    let text = text.map_err(|_| Failure::unavailable("metrics could not be written"))?;
    Ok(([(CONTENT_TYPE, thane_runtime::metrics::CONTENT_TYPE)], text).into_response())
}

async fn document(State(shared): State<Arc<Shared>>) -> Response {
    ([(CONTENT_TYPE, "application/json")], shared.document.clone()).into_response()
}

/// What Alertmanager tells is in the log, where people look.
async fn alerts(Json(body): Json<serde_json::Value>) -> StatusCode {
    const ALERTS_MAX: usize = 64;
    for alert in body["alerts"].as_array().into_iter().flatten().take(ALERTS_MAX) {
        let (status, labels) = (&alert["status"], &alert["labels"]);
        tracing::warn!(%status, %labels, "an alert was told");
    }
    StatusCode::OK
}
