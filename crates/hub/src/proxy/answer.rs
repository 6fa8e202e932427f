//! One request to an agent's cluster: who, where, what, whether, and on its way.

use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, UPGRADE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use thane_link::tunnel::switches_protocol;

use super::audit::Record;
use super::bodies::Bodies;
use super::followed::Followed;
use super::metrics::Metrics;
use super::reach::{Body, Caller, Reach, Source, Unreachable};
use super::session::SessionRecord;
use super::status::Refused;
use super::target::{Target, Unknown};
use super::tunnel::Way;
use super::{Client, Proxy};

/// What people's paths begin with.
const PEOPLE: &str = "/agents/";
/// Kubernetes' name for what links the records of one request.
const AUDIT_ID: &str = "audit-id";
/// Bytes of a request's body; Kubernetes itself takes three MiB.
const BODY_MAX: usize = 4 * 1024 * 1024;
/// Time to send it.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Time to wait until there is room for it.
const ROOM_TIMEOUT: Duration = Duration::from_secs(10);
/// Headers by which a client would be somebody else.
const IMPERSONATE: &str = "impersonate-";

impl Proxy {
    /// Answers one request; refusals are `Status` objects.
    pub(super) async fn answer(&self, client: &Client, request: Request<Incoming>) -> Response<Body> {
        let id = uuid::Uuid::new_v4().to_string();
        let mut record = Record::begin(&request, &id, client.peer.address, &self.metrics);
        let answered = self.carry(client, request, &id, &mut record).await;
        let (response, why) = match answered {
            Ok(response) => (response, String::new()),
            Err(refused) => (refused.response(), refused.message),
        };
        record.answered(response.status().as_u16(), why);
        response
    }

    async fn carry(
        &self,
        client: &Client,
        request: Request<Incoming>,
        id: &str,
        record: &mut Record,
    ) -> Result<Response<Body>, Refused> {
        let (mut parts, body) = request.into_parts();
        let (caller, agent) = self.identify(client, &mut parts).await?;
        let way = self.tunnels.way(&agent);
        record.known(&caller.name, &agent, way != Way::None);
        if caller.source == Source::People {
            self.people.authorize(&caller, &agent).await?;
        }
        client.admitted.cancel();
        let target = Target::read(&parts.method, parts.uri.path(), parts.uri.query()).map_err(unknown)?;
        record.understood(&target, parts.uri.query());
        if !self.policy.permits(&caller, &agent, &target) {
            return Err(forbidden(&caller, &agent, &target));
        }
        if check_upgrade(&mut parts)? {
            parts.extensions.insert(SessionRecord::new(&caller.name, &agent, id, &self.clock));
        }
        parts.headers.insert(AUDIT_ID, HeaderValue::from_str(id).unwrap_or(HeaderValue::from_static("none")));
        let body = collect(&parts.headers, body, &self.bodies, &self.metrics).await?;
        let request = Request::from_parts(parts, body);
        let answered = match way {
            Way::Tunnel => match Followed::of(&target, &request) {
                Some(followed) => followed.send(&self.tunnels, &agent, &caller, self.clock.now()).await,
                None => self.tunnels.send(&agent, &caller, request).await,
            },
            Way::Events => self.by_events(&agent, &caller, request).await,
            Way::None => Err(Unreachable::NotConnected(agent)),
        };
        Ok(answered?)
    }

    async fn by_events(
        &self,
        agent: &str,
        caller: &Caller,
        request: Request<Body>,
    ) -> Result<Response<Body>, Unreachable> {
        match &self.events {
            Some(events) => events.send(agent, caller, request).await,
            None => Err(Unreachable::Unsupported(format!("{agent} has no tunnel to its cluster"))),
        }
    }

    /// Who asks, and for whose cluster; the path is the cluster's own afterwards.
    async fn identify(&self, client: &Client, parts: &mut Parts) -> Result<(Caller, String), Refused> {
        if parts.headers.keys().any(|name| name.as_str().starts_with(IMPERSONATE)) {
            return Err(Refused::new(StatusCode::FORBIDDEN, "nobody can be impersonated through the hub"));
        }
        let token = bearer(&parts.headers);
        if let Some(rest) = parts.uri.path().strip_prefix(PEOPLE) {
            let (agent, path) = rest.split_once('/').unwrap_or((rest, ""));
            let (agent, path) = (agent.to_owned(), format!("/{path}"));
            let caller = self.people.identify(client.person.as_ref(), token).await.inspect_err(|refused| {
                if refused.code == StatusCode::TOO_MANY_REQUESTS {
                    self.metrics.reviews_full.inc();
                }
            })?;
            parts.uri = at(&path, parts.uri.query())?;
            return Ok((caller, agent));
        }
        let agent = self.gate.proxied(&client.peer, token).map_err(|_| Refused::unauthorized())?;
        Ok((Caller { name: "argocd".to_owned(), groups: Vec::new(), source: Source::Argocd }, agent))
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer")).then(|| token.trim())
}

fn at(path: &str, query: Option<&str>) -> Result<Uri, Refused> {
    let text = query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let path = text.parse::<PathAndQuery>().map_err(|_| unknown(Unknown::Path))?;
    Ok(Uri::from(path))
}

fn unknown(unknown: Unknown) -> Refused {
    let code = match unknown {
        Unknown::Path => StatusCode::BAD_REQUEST,
        Unknown::Place => StatusCode::NOT_FOUND,
        Unknown::Verb => StatusCode::METHOD_NOT_ALLOWED,
    };
    Refused::new(code, unknown.to_string())
}

fn forbidden(caller: &Caller, agent: &str, target: &Target) -> Refused {
    let place = match target.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace \"{namespace}\""),
    };
    let message = format!(
        "{} is forbidden: the policy of live access does not let \"{}\" {} it {place} of agent \"{agent}\"",
        target.kind(),
        caller.name,
        target.verb
    );
    Refused::new(StatusCode::FORBIDDEN, message)
}

/// Whether a session is asked for. It is a WebSocket; clients that begin with SPDY try that next.
fn check_upgrade(parts: &mut Parts) -> Result<bool, Refused> {
    if !switches_protocol(&parts.headers) {
        parts.extensions.remove::<OnUpgrade>();
        return Ok(false);
    }
    let is_websocket =
        parts.headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    if is_websocket && parts.extensions.get::<OnUpgrade>().is_some() {
        return Ok(true);
    }
    Err(Refused::new(StatusCode::BAD_REQUEST, "Upgrade request required: only WebSocket is spoken here"))
}

/// The whole body: agents pass on nothing that is not whole.
async fn collect(headers: &HeaderMap, body: Incoming, bodies: &Bodies, metrics: &Metrics) -> Result<Body, Refused> {
    let large = || {
        let message = format!("Request entity too large: limit is {BODY_MAX}");
        Refused::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    let said = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|said| said > u64::try_from(BODY_MAX).unwrap_or(u64::MAX)) {
        return Err(large());
    }
    let late = |_| Refused::new(StatusCode::REQUEST_TIMEOUT, "the request's body did not come in time");
    let most = match said {
        _ if body.is_end_stream() => 0,
        Some(said) => usize::try_from(said).unwrap_or(BODY_MAX),
        None => BODY_MAX,
    };
    let busy = |_| {
        metrics.bodies_full.inc();
        Refused::new(StatusCode::TOO_MANY_REQUESTS, "too many bodies of requests are under way")
    };
    let room = tokio::time::timeout(ROOM_TIMEOUT, bodies.room(most, &metrics.bodies)).await.map_err(busy)?;
    let collected = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_MAX).collect()).await.map_err(late)?;
    let collected = collected.map_err(|error| {
        if error.is::<LengthLimitError>() {
            return large();
        }
        Refused::new(StatusCode::BAD_REQUEST, "the request's body broke off")
    })?;
    Ok(room.hold(collected.to_bytes()))
}
