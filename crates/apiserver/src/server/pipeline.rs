//! The way of every request: who, whether, what, and the record of it.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request};
use http_body::Body as HttpBody;
use jiff::Timestamp;
use serde_json::Value;

use super::{Inner, Origin, paths, resources};
use crate::audit::{self, AuditLog, Record};
use crate::authn::{Claims, Found, Identity, Reference, TokenError, impersonation};
use crate::authz::{Action, User, forbidden};
use crate::body;
use crate::failure::{Failure, Result};
use crate::media::{Accepted, Encoding};
use crate::request::{Query, RequestInfo};
use crate::response::{self, Answer, Body};

/// Verbs the audit log tells about.
const WRITES: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];

/// A request that passed authentication, before its body is read.
pub(super) struct Admitted<'a> {
    pub server: &'a Arc<Inner>,
    pub info: &'a RequestInfo,
    pub query: &'a Query,
    pub parts: &'a Parts,
    pub accepted: Accepted,
    pub user: User,
    pub now: Timestamp,
}

pub(super) async fn handle<B>(server: &Arc<Inner>, request: Request<B>) -> Answer
where
    B: HttpBody<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let id = crate::random::uid();
    let (now, started) = (server.clock.now(), server.clock.monotonic());
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let info = RequestInfo::parse(&parts.method, parts.uri.path(), &query);
    let mut trail = Trail { received: now, ..Trail::default() };
    let mut answer = match route(server, &info, &query, &parts, body, &mut trail).await {
        Ok(answer) => answer,
        Err(failure) => {
            trail.reason = failure.reason;
            refused(&failure, &parts)
        }
    };
    if let Ok(value) = HeaderValue::from_str(&id) {
        answer.headers_mut().insert("audit-id", value);
    }
    let code = answer.status().as_u16();
    if let Some(log) = server.audit.as_ref().filter(|_| info.is_resource && WRITES.contains(&info.verb.as_str())) {
        let object = match answer.body() {
            Body::Whole(Some(bytes)) => audit::written(bytes),
            _ => None,
        };
        let record = Answered { id: &id, request: &parts, info: &info, trail: &trail, object, code };
        audit(log, &record, server.clock.now()).await;
    }
    server.metrics.answered(&info.verb, code, server.clock.monotonic().saturating_sub(started));
    answer
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

async fn route<B>(
    server: &Arc<Inner>,
    info: &RequestInfo,
    query: &Query,
    parts: &Parts,
    body: B,
    trail: &mut Trail,
) -> Result<Answer>
where
    B: HttpBody<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let now = trail.received;
    let user = authenticate(server, parts, now).await?;
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
    let _place = if info.verb == "watch" { None } else { Some(server.inflight.request(&user.name)?) };
    trail.decision = allow(server, &user, &info.action())?;
    if !info.is_resource {
        return paths::answer(server, info, parts).await;
    }
    let body = body::read(body, server.options.body_bytes_max).await?;
    let accepted = Accepted::negotiate(&parts.headers)?;
    resources::answer(Admitted { server, info, query, parts, accepted, user, now }, body).await
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

/// What became of a request.
struct Answered<'a> {
    id: &'a str,
    request: &'a Parts,
    info: &'a RequestInfo,
    trail: &'a Trail,
    object: Option<Value>,
    code: u16,
}

/// Records a write. One that cannot be recorded in time is still answered, since it has happened: the loss is counted
/// and logged.
async fn audit(log: &AuditLog, answered: &Answered<'_>, finished: Timestamp) {
    let Answered { id, request, info, trail, object, code } = answered;
    let sources: Vec<IpAddr> = match request.extensions.get::<Origin>() {
        Some(Origin::Connection { peer, .. }) => vec![peer.ip()],
        _ => Vec::new(),
    };
    let agent = request.headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
    let nobody = User::default();
    let record = Record {
        id,
        uri: &request.uri.to_string(),
        action: &info.action(),
        user: trail.user.as_ref().unwrap_or(&nobody),
        impersonated: trail.impersonated.as_ref(),
        sources: &sources,
        user_agent: agent.unwrap_or_default(),
        object: object.as_ref(),
        code: *code,
        reason: trail.reason,
        decision: &trail.decision,
        received: trail.received,
        finished,
    };
    if let Err(error) = log.record(&record.event()).await {
        tracing::error!(%error, audit_id = id, "a write is not in the audit log");
    }
}
