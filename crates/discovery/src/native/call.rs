//! One request on its way to an answer.

use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Serialize;
use serde_json::json;
use thane_runtime::metrics::CONTENT_TYPE;

use super::{Endpoint, Native, view};
use crate::access::Access;
use crate::backend::{Backend, Caller, Consistency, LocalAgent, Reading};
use crate::command::Refusal;
use crate::decode::duration;
use crate::http::{Answer, Query, Request};
use crate::model::{Index, Policy, Resource};
use crate::topic::{Row, Topic};

/// A request, and what its token may do.
pub(super) struct Call<'a> {
    pub(super) native: &'a Native,
    pub(super) request: &'a Request,
    pub(super) access: Access,
    pub(super) caller: Caller,
}

/// An answer, or what went wrong.
pub(super) type Outcome = Result<Answer, Problem>;

impl<'a> Call<'a> {
    pub(super) async fn new(native: &'a Native, request: &'a Request) -> Result<Self, Problem> {
        let caller = Caller { token: token(&request.query, &request.headers).map(str::to_owned) };
        let access = native.guard.access(caller.token.as_deref()).await;
        let access = access.map_err(Refusal::from)?;
        Ok(Self { native, request, access, caller })
    }

    /// A request that anybody may make.
    pub(super) fn open(native: &'a Native, request: &'a Request) -> Self {
        Self { native, request, access: Access::default(), caller: Caller::default() }
    }

    pub(super) async fn dispatch(&self, endpoint: Endpoint<'_>) -> Outcome {
        match endpoint {
            Endpoint::Own => self.own(),
            Endpoint::Health => self.health().await,
            Endpoint::Metrics => Ok(self.metrics()),
            Endpoint::Reload => self.reload().await,
            Endpoint::Services => self.services(),
            Endpoint::RegisterService => self.register_service().await,
            Endpoint::DeregisterService(id) => self.deregister_service(id).await,
            Endpoint::CatalogServices => self.catalog_services().await,
            Endpoint::CatalogService(name) => self.catalog_service(name).await,
            Endpoint::Checks => self.checks(),
            Endpoint::RegisterCheck => self.register_check().await,
            Endpoint::UpdateCheck(id) => self.update_check(id).await,
            Endpoint::DeregisterCheck(id) => self.deregister_check(id).await,
            Endpoint::Key(key) => match self.request.method {
                Method::PUT | Method::POST => self.put_key(key).await,
                Method::DELETE => self.delete_key(key).await,
                _ => self.get_key(key).await,
            },
        }
    }

    pub(super) fn backend(&self) -> &'a dyn Backend {
        self.native.backend.as_ref()
    }

    /// The agent beside this edge.
    pub(super) fn local(&self) -> Result<&'a dyn LocalAgent, Problem> {
        let text =
            "this is the hub: what an agent registers is registered with that agent; ask the agent of that machine";
        self.native.backend.local().ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, text))
    }

    pub(super) fn require(&self, resource: Resource, name: &str, wanted: Policy) -> Result<(), Problem> {
        Ok(self.access.require(resource, name, wanted)?)
    }

    pub(super) fn body(&self) -> Result<&'a bytes::Bytes, Problem> {
        let text = "the body is larger than may be";
        self.request.body.as_ref().map_err(|_| Problem::new(StatusCode::PAYLOAD_TOO_LARGE, text))
    }

    /// How sure the reader wants to be.
    pub(super) fn consistency(&self) -> Consistency {
        match (self.request.query.has("consistent"), self.request.query.has("stale")) {
            (true, _) => Consistency::Consistent,
            (_, true) => Consistency::Stale,
            _ => Consistency::Default,
        }
    }

    pub(super) async fn read(&self, topic: &Topic) -> Result<Reading, Problem> {
        if let Some(reading) = self.backend().ready(topic, self.consistency()) {
            return Ok(reading);
        }
        Ok(self.backend().read_for(&self.caller, topic, self.consistency()).await?)
    }

    /// The index a reader has, and how long it waits for another; `None`: it does not wait.
    pub(super) fn waiting(&self) -> Result<Option<(Index, Duration)>, Problem> {
        let bad = |what: &str| Problem::new(StatusCode::BAD_REQUEST, format!("Invalid {what}"));
        let query = &self.request.query;
        let Some(index) = query.given("index") else { return Ok(None) };
        let index: Index = index.parse().map_err(|_| bad("index"))?;
        let wait = match query.given("wait") {
            Some(text) => {
                let nanos = duration::nanos(text).map_err(|_| bad("wait time"))?;
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
            }
            None => WAIT_DEFAULT,
        };
        Ok((index > 0).then_some((index, wait.min(WAIT_MAX))))
    }

    fn own(&self) -> Outcome {
        self.require(Resource::Agent, &self.backend().place().node, Policy::Read)?;
        let place = self.backend().place();
        let local = self.backend().local();
        Ok(json(
            StatusCode::OK,
            &json!({
                "node_name": place.node,
                "node_id": place.node_id,
                "address": place.address,
                "datacenter": place.datacenter,
                "version": self.native.options.version,
                "services": local.map_or(0, |local| local.services().len()),
                "checks": local.map_or(0, |local| local.checks().len()),
            }),
        ))
    }

    /// Well is an agent that answers; whether its hub is there it says beside that.
    async fn health(&self) -> Outcome {
        let reading = self.backend().read(&Topic::Tokens, Consistency::Stale).await;
        let connected = reading.as_ref().is_ok_and(|reading| reading.freshness.connected);
        let silence = reading.map_or(0, |reading| reading.freshness.last_contact.as_secs());
        let local = self.backend().local();
        let behind = local.map_or(0, |local| local.services().values().filter(|service| !service.in_step).count());
        Ok(json(
            StatusCode::OK,
            &json!({
                "status": "ok",
                "connected": connected,
                "last_contact_seconds": silence,
                "services_behind": behind,
            }),
        ))
    }

    fn metrics(&self) -> Answer {
        let text = self.native.options.metrics_text.as_ref().map(|text| text()).unwrap_or_default();
        Answer::typed(StatusCode::OK, CONTENT_TYPE, text)
    }

    async fn reload(&self) -> Outcome {
        self.require(Resource::Agent, &self.backend().place().node, Policy::Write)?;
        let waits = self.local()?.reload().await?;
        let mut said = json!({"reloaded": true});
        if !waits.is_empty() {
            said["needs_restart"] = json!(waits);
        }
        Ok(json(StatusCode::OK, &said))
    }

    async fn catalog_services(&self) -> Outcome {
        let reading = self.read(&Topic::Services).await?;
        let names = reading.data.rows.iter().filter_map(|row| match row {
            Row::Name { name, tags, .. } => {
                self.access.allows(Resource::Service, name, Policy::Read).then_some((name, tags))
            }
            _ => None,
        });
        let names: std::collections::BTreeMap<_, _> = names.collect();
        Ok(with_reading(json(StatusCode::OK, &names), &reading))
    }

    async fn catalog_service(&self, name: &str) -> Outcome {
        self.require(Resource::Service, name, Policy::Read)?;
        let reading = self.read(&Topic::Service(name.to_lowercase())).await?;
        let tags: Vec<&str> = self.request.query.all("tag").collect();
        let is_passing = self.request.query.has("passing");
        let body = view::catalog_json(&reading.data, |it| {
            let has = |tag: &&str| it.service.value.tags.iter().any(|own| own.eq_ignore_ascii_case(tag));
            tags.iter().all(has) && (!is_passing || view::status(it) == crate::model::Status::Passing)
        });
        Ok(with_reading(Answer::json(StatusCode::OK, body), &reading))
    }
}

const WAIT_DEFAULT: Duration = Duration::from_mins(5);
const WAIT_MAX: Duration = Duration::from_mins(10);
const INDEX: HeaderName = HeaderName::from_static("x-konsul-index");
const CACHE: HeaderName = HeaderName::from_static("x-cache");
const AGE: HeaderName = http::header::AGE;
const CONNECTED: HeaderName = HeaderName::from_static("x-konsul-connected");
const LAST_CONTACT: HeaderName = HeaderName::from_static("x-konsul-lastcontact");

/// Says how fresh an answer is.
pub(super) fn put_reading(headers: &mut HeaderMap, reading: &Reading) {
    headers.insert(INDEX, HeaderValue::from(reading.data.index.max(1)));
    let freshness = &reading.freshness;
    headers.insert(CONNECTED, HeaderValue::from_static(if freshness.connected { "true" } else { "false" }));
    headers.insert(CACHE, HeaderValue::from_static(if freshness.hit.is_some() { "HIT" } else { "MISS" }));
    if let Some(age) = freshness.hit {
        headers.insert(AGE, HeaderValue::from(age.as_secs()));
    }
    if !freshness.connected {
        let silence = u64::try_from(freshness.last_contact.as_millis()).unwrap_or(u64::MAX);
        headers.insert(LAST_CONTACT, HeaderValue::from(silence));
    }
}

pub(super) fn with_reading(mut answer: Answer, reading: &Reading) -> Answer {
    put_reading(&mut answer.headers, reading);
    answer
}

/// A value as JSON.
pub(super) fn json<T: Serialize + ?Sized>(status: StatusCode, value: &T) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => Answer::json(status, body),
        Err(failure) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, failure.to_string()).answer(),
    }
}

/// What went wrong.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    text: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    pub(super) fn answer(self) -> Answer {
        Answer::json(self.status, json!({"error": self.text}).to_string())
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::new(status(&refusal), refusal.to_string())
    }
}

fn status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::Invalid(_) => StatusCode::BAD_REQUEST,
        Refusal::Forbidden(_) | Refusal::Unknown(_) => StatusCode::FORBIDDEN,
        Refusal::NotFound(_) => StatusCode::NOT_FOUND,
        Refusal::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        Refusal::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
        Refusal::Failed(_) | Refusal::NoHub => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The token a request shows.
fn token<'a>(query: &'a Query, headers: &'a HeaderMap) -> Option<&'a str> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty());
    let bearer = || header(AUTHORIZATION.as_str())?.strip_prefix("Bearer ");
    query.given("token").or_else(|| header("x-konsul-token")).or_else(|| header("x-consul-token")).or_else(bearer)
}
