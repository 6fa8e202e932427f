//! The way of every request: who, whether, what, and the record of it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request};
use http_body::Body as HttpBody;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::oneshot;

use super::{Inner, Origin, paths, resources};
use crate::audit::{self, Record};
use crate::authn::{Claims, Found, Identity, Reference, TokenError, impersonation};
use crate::authz::{Action, User, forbidden};
use crate::body;
use crate::failure::{Failure, Result};
use crate::inflight::Place;
use crate::media::{Accepted, Encoding};
use crate::request::{Query, RequestInfo};
use crate::response::{self, Answer};

/// Verbs the audit log tells about.
const WRITES: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];

/// A request whose body has been read and who asks is known, on its way to the verb.
pub(super) struct Admitted<'a> {
    pub server: &'a Arc<Inner>,
    pub info: &'a RequestInfo,
    pub query: &'a Query,
    pub parts: &'a Parts,
    pub accepted: Accepted,
    pub user: User,
    pub now: Timestamp,
}

/// A request and what is found out about it.
struct Asked {
    id: String,
    parts: Parts,
    query: Query,
    info: RequestInfo,
    trail: Trail,
    /// When it came, by the clock that only goes forward.
    started: Duration,
}

/// What a request brings that may be answered.
struct Entered {
    user: User,
    place: Option<Place>,
    body: Bytes,
    accepted: Accepted,
}

pub(super) async fn handle<B>(server: &Arc<Inner>, request: Request<B>) -> Answer
where
    B: HttpBody<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let info = RequestInfo::parse(&parts.method, parts.uri.path(), &query);
    let trail = Trail { received: server.clock.now(), ..Trail::default() };
    let mut asked = Asked { id: crate::random::uid(), parts, query, info, trail, started: server.clock.monotonic() };
    let outcome = match enter(server, &mut asked, body).await {
        Ok(entered) if is_recorded(&asked.info) => return apart(server, asked, entered).await,
        Ok(entered) => serve(server, &asked, entered).await,
        Err(failure) => Err(failure),
    };
    let mut answer = None;
    finish(server, asked, outcome, |given| answer = Some(given)).await;
    answer.unwrap_or_else(|| response::failure(&Failure::internal("the request was given up")))
}

/// Whether the audit log tells about it: of writes, and of ways into a pod, which a WebSocket asks for with `get`.
fn is_recorded(info: &RequestInfo) -> bool {
    info.is_resource && (enters_pod(info) || WRITES.contains(&info.verb.as_str()))
}

fn enters_pod(info: &RequestInfo) -> bool {
    matches!(info.subresource.as_str(), "exec" | "attach" | "portforward")
}

/// Answers in a task of its own: a client may leave, but what was begun for it is done to its end and recorded.
async fn apart(server: &Arc<Inner>, asked: Asked, entered: Entered) -> Answer {
    let (sender, answer) = oneshot::channel();
    let inner = Arc::clone(server);
    server.writes.spawn("write", async move {
        let outcome = serve(&inner, &asked, entered).await;
        finish(&inner, asked, outcome, |answer| {
            // nobody takes the answer whose client left
            let _ = sender.send(answer);
        })
        .await;
    });
    answer.await.unwrap_or_else(|_| response::failure(&Failure::internal("the request was given up")))
}

/// Words the answer, hands it over, and records what became of the request.
async fn finish(server: &Inner, mut asked: Asked, outcome: Result<Answer>, hand_over: impl FnOnce(Answer)) {
    let mut answer = outcome.unwrap_or_else(|failure| {
        asked.trail.reason = failure.reason;
        refused(&failure, &asked.parts)
    });
    if let Ok(value) = HeaderValue::from_str(&asked.id) {
        answer.headers_mut().insert("audit-id", value);
    }
    let code = answer.status().as_u16();
    let took = server.clock.monotonic().saturating_sub(asked.started);
    server.metrics.answered(&asked.info.verb, code, took);
    let Some(log) = server.audit.as_ref().filter(|_| is_recorded(&asked.info)) else { return hand_over(answer) };
    let (finished, written) = (server.clock.now(), answer.body().whole().cloned());
    // nobody is answered faster than the log is written; the words are found while the answer is on its way
    let place = log.place().await;
    hand_over(answer);
    tokio::task::yield_now().await;
    match place {
        Ok(place) => {
            let object = written.and_then(|bytes| audit::written(&bytes));
            place.fill(&event(&asked, object.as_ref(), code, finished));
        }
        Err(error) => tracing::error!(%error, audit_id = asked.id, "a write is not in the audit log"),
    }
}

/// A refusal, in the encoding the client wants.
fn refused(failure: &Failure, request: &Parts) -> Answer {
    let mut answer = response::failure(failure);
    let yaml = Accepted::negotiate(&request.headers).is_ok_and(|accepted| accepted.encoding == Encoding::Yaml);
    if yaml && !failure.plain {
        let headers = std::mem::take(answer.headers_mut());
        answer = response::value(failure.code, &failure.to_status(), Encoding::Yaml);
        answer.headers_mut().extend(
            headers
                .into_iter()
                .filter(|(name, _)| name.as_ref().is_some_and(|name| *name == http::header::RETRY_AFTER)),
        );
    }
    answer
}

/// What the audit log will say about who asked.
#[derive(Default)]
struct Trail {
    user: Option<User>,
    impersonated: Option<User>,
    reason: &'static str,
    decision: String,
    received: Timestamp,
}

/// Finds out who asks and whether it is allowed, and reads the body. Nothing has been done yet: who leaves here leaves no trace.
async fn enter<B>(server: &Arc<Inner>, asked: &mut Asked, body: B) -> Result<Entered>
where
    B: HttpBody<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let Asked { parts, info, trail, .. } = asked;
    let user = authenticate(server, parts, trail.received).await?;
    trail.user = Some(user.clone());
    let user = match impersonation(&parts.headers, &parts.uri)? {
        None => user,
        Some(wanted) => {
            for action in &wanted.actions {
                allow(server, &user, action)?;
            }
            trail.impersonated = Some(wanted.user.clone());
            wanted.user
        }
    };
    let place = if info.verb == "watch" { None } else { Some(server.inflight.request(&user.name)?) };
    trail.decision = allow(server, &user, &info.action())?;
    if !info.is_resource {
        return Ok(Entered { user, place, body: Bytes::new(), accepted: Accepted::default() });
    }
    let body = body::read(body, server.options.body_bytes_max).await?;
    let accepted = Accepted::negotiate(&parts.headers)?;
    Ok(Entered { user, place, body, accepted })
}

/// Answers what is allowed. A request for objects has its place until its answer is sent, unless it lasts as long as a pod does.
async fn serve(server: &Arc<Inner>, asked: &Asked, entered: Entered) -> Result<Answer> {
    let Asked { parts, query, info, trail, .. } = asked;
    let Entered { user, place, body, accepted } = entered;
    let mut answer = if info.is_resource {
        let now = trail.received;
        resources::answer(Admitted { server, info, query, parts, accepted, user, now }, body).await?
    } else {
        paths::answer(server, info, parts).await?
    };
    if info.is_resource && !enters_pod(info) && info.subresource != "log" {
        answer.body_mut().hold(place);
    }
    Ok(answer)
}

/// Why the action is allowed, or the refusal.
fn allow(server: &Inner, user: &User, action: &Action) -> Result<String> {
    let decision = server.rules.current().decide(user, action);
    if decision.allowed { Ok(decision.reason) } else { Err(forbidden(user, action, &decision.reason)) }
}

async fn authenticate(server: &Inner, parts: &Parts, now: Timestamp) -> Result<User> {
    let certificate = match parts.extensions.get::<Origin>() {
        Some(Origin::Process(user)) => return Ok(User::clone(user)),
        Some(Origin::Connection { certificate, .. }) => certificate.as_deref(),
        None => None,
    };
    let authorization = parts.headers.get(http::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    match server.authenticator.identify(certificate, authorization, now) {
        Identity::User(user) => Ok(user),
        Identity::Claims(claims) => resolve(server, &claims, now).await?.map_err(|error| {
            tracing::debug!(%error, "a service account token was refused");
            Failure::unauthorized()
        }),
        Identity::Refused(errors) => {
            for error in &errors {
                tracing::debug!(%error, "credentials were refused");
            }
            Err(Failure::unauthorized())
        }
    }
}

/// The user of a service-account token, if what it is bound to is still there.
pub(super) async fn resolve(server: &Inner, claims: &Claims, now: Timestamp) -> Result<Result<User, TokenError>> {
    let mut found = Vec::new();
    for reference in claims.references() {
        let object = lookup(server, &reference).await?;
        found.push((reference, object));
    }
    let find = |wanted: &Reference| {
        let known = found.iter().find(|(reference, _)| reference == wanted);
        known.and_then(|(_, object)| object.as_ref()).map(Found::of)
    };
    Ok(claims.user(now, find))
}

/// Finds what a token is bound to.
async fn lookup(server: &Inner, reference: &Reference) -> Result<Option<Value>> {
    let kind = server.catalog.builtin("", reference.resource);
    let stored = server.objects.get(&kind, &reference.namespace, &reference.name).await?;
    stored.map(|stored| stored.value(&kind)).transpose()
}

/// The record of a write. One that cannot be queued in time is still answered, since it has happened: the loss is counted
/// and logged.
fn event(asked: &Asked, object: Option<&Value>, code: u16, finished: Timestamp) -> Value {
    let Asked { id, parts, info, trail, .. } = asked;
    let sources: Vec<IpAddr> = match parts.extensions.get::<Origin>() {
        Some(Origin::Connection { peer, .. }) => vec![peer.ip()],
        _ => Vec::new(),
    };
    let agent = parts.headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
    let nobody = User::default();
    let record = Record {
        id,
        uri: &parts.uri.to_string(),
        action: &info.action(),
        user: trail.user.as_ref().unwrap_or(&nobody),
        impersonated: trail.impersonated.as_ref(),
        sources: &sources,
        user_agent: agent.unwrap_or_default(),
        object,
        code,
        reason: trail.reason,
        decision: &trail.decision,
        received: trail.received,
        finished,
    };
    record.event()
}

#[cfg(test)]
mod tests;
