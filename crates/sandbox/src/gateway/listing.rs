//! Sessions there are: one, many, and their end.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderName, HeaderValue, StatusCode};
use kube::Api;
use kube::api::DeleteParams;
use serde::Deserialize;

use super::Shared;
use super::bodies::SessionInfo;
use super::failure::{Failure, Result};
use super::keys::Caller;
use super::read::{Asked, At};
use super::routes::InNamespace;
use super::sessions::Session;
use crate::kinds::Sandbox;

/// Where the next page begins.
pub(super) const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");
const PAGE: usize = 100;
const PAGE_MAX: usize = 1000;

/// What of the list is wanted.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Page {
    cursor: Option<String>,
    limit: Option<usize>,
    namespace: Option<String>,
    #[serde(rename = "poolRef")]
    pool: Option<String>,
}

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Asked(page): Asked<Page>,
) -> Result<Response> {
    let after = page.cursor.as_deref().filter(|cursor| !cursor.is_empty()).map(read).transpose()?;
    let limit = page.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    if let Some(namespace) = &page.namespace {
        caller.in_namespace(namespace)?;
    }
    let wanted = |session: &Session| {
        caller.may(&session.namespace, session.owner.as_deref())
            && !session.is_ending
            && page.namespace.as_ref().is_none_or(|namespace| *namespace == session.namespace)
            && page.pool.as_ref().is_none_or(|pool| *pool == session.pool)
    };
    let mut sessions = shared.sessions.page(after.as_ref(), limit + 1, wanted);
    let has_more = sessions.len() > limit;
    sessions.truncate(limit);
    let shown: Vec<SessionInfo> = sessions.iter().map(|session| session.info()).collect();
    let mut response = axum::Json(shown).into_response();
    if let Some(last) = sessions.last().filter(|_| has_more)
        && let Ok(cursor) = HeaderValue::try_from(write(last))
    {
        response.headers_mut().insert(NEXT_CURSOR, cursor);
    }
    Ok(response)
}

fn write(last: &Session) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}/{}", last.id, last.namespace))
}

fn read(cursor: &str) -> Result<(String, String)> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let place = text.as_deref().and_then(|text| text.split_once('/'));
    let (id, namespace) = place.ok_or_else(|| Failure::bad("cursor: it is none of ours"))?;
    Ok((id.to_owned(), namespace.to_owned()))
}

pub(super) async fn get(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(id): At,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
) -> Result<axum::Json<SessionInfo>> {
    Ok(axum::Json(shared.session(&id, namespace.as_deref(), &caller).await?.info()))
}

pub(super) async fn delete(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(id): At,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
) -> Result<StatusCode> {
    let session = shared.session(&id, namespace.as_deref(), &caller).await?;
    shared.remove(&session).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl Shared {
    /// Deletes a session's Sandbox; one that has gone already is gone.
    pub(super) async fn remove(&self, session: &Session) -> Result<()> {
        let api: Api<Sandbox> = Api::namespaced(self.client.clone(), &session.namespace);
        match api.delete(&session.id, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        self.sessions.forget(&session.id, &session.namespace);
        if let Some(pod) = &session.pod {
            self.sidecars.forget(pod);
        }
        Ok(())
    }
}
