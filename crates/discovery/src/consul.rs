//! Consul's HTTP API, `/v1/*`: pure functions of topics and commands over a [`Backend`].

mod acl;
mod acl_policy;
mod acl_token;
mod agent;
mod agent_read;
mod agent_write;
mod call;
mod catalog;
mod catalog_write;
mod event;
mod failure;
mod filtered;
mod headers;
mod health;
mod hot;
mod kv;
mod kv_write;
mod metrics;
mod options;
mod read;
mod route;
mod session;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;
mod txn;
mod view;

use std::sync::Arc;

use futures::future::BoxFuture;
use http::header::{ALLOW, LOCATION};
use http::{HeaderValue, Method, StatusCode};
use tokio::sync::Semaphore;

use crate::access::Guard;
use crate::backend::Backend;
use crate::http::{Answer, BODY_BYTES_MAX, Head, Query, Request, Routes};
use crate::model::{Policy, Resource};
use crate::wire::SNAPSHOT_BYTES_MAX;
use call::{Call, Outcome};
use failure::Failure;
use headers::put_policy;
pub use metrics::Metrics;
use route::Endpoint;

const SNAPSHOT_PATH: &str = "/v1/snapshot";

/// What the API is told about its process.
#[derive(Clone)]
pub struct Options {
    /// Queries that may wait at once; one more is answered 429.
    pub blocked_max: usize,
    /// The program's version.
    pub version: String,
    /// The process's metrics in the text format, for `/v1/agent/metrics`.
    pub metrics_text: Option<Arc<dyn Fn() -> String + Send + Sync>>,
}

impl Default for Options {
    fn default() -> Self {
        Self { blocked_max: 10_000, version: env!("CARGO_PKG_VERSION").to_owned(), metrics_text: None }
    }
}

/// Consul's API over a backend.
pub struct Consul {
    backend: Arc<dyn Backend>,
    guard: Guard,
    blocked: Semaphore,
    options: Options,
    metrics: Metrics,
}

impl Consul {
    /// The API over a registry, or over an agent's part of one.
    pub fn new(backend: Arc<dyn Backend>, options: Options, metrics: Metrics) -> Self {
        let guard = Guard::new(Arc::clone(&backend));
        Self { guard, blocked: Semaphore::new(options.blocked_max), backend, options, metrics }
    }

    async fn respond(&self, request: Request) -> Answer {
        let Some(route) = route::find(&request.path) else { return unknown(&request) };
        let allow = route::allow(route.methods);
        let mut answer = if request.method == Method::OPTIONS {
            with_allow(Call::done(), &allow)
        } else if !route.methods.contains(&request.method) {
            let text = format!("method {} not allowed", request.method);
            with_allow(Answer::text(StatusCode::METHOD_NOT_ALLOWED, text), &allow)
        } else {
            match Call::new(self, &request, route.rest).await {
                Ok(call) => self.dispatched(&call, route.endpoint).await.unwrap_or_else(Failure::answer),
                Err(failure) if route.endpoint == Endpoint::AclTokenSelf => {
                    Failure { text: format!("token does not exist: {}", failure.text), ..failure }.answer()
                }
                Err(failure) => failure.answer(),
            }
        };
        put_policy(&mut answer.headers, self.guard.is_open());
        answer
    }

    /// An answer that is allowed when it is given: while somebody waited, what their token may do can have changed.
    async fn dispatched(&self, call: &Call<'_>, endpoint: Endpoint) -> Outcome {
        let answered = call.dispatch(endpoint).await;
        if !call.request.may_wait() {
            return answered;
        }
        let now = Call::new(self, call.request, call.rest).await?;
        if now.access == call.access {
            return answered;
        }
        let at_once = call.request.at_once();
        Call { request: &at_once, ..now }.dispatch(endpoint).await
    }

    fn too_many(&self) -> Failure {
        self.metrics.too_many_blocked();
        let text = "rate limit exceeded, try again later or against a different server";
        Failure::new(StatusCode::TOO_MANY_REQUESTS, text)
    }
}

impl Routes for Consul {
    fn name(&self) -> &'static str {
        "consul"
    }

    fn owns(&self, path: &str) -> bool {
        path.starts_with("/v1/")
    }

    fn quick(&self, head: &Head<'_>) -> Option<Answer> {
        self.hot(head)
    }

    fn body_max(&self, head: &Head<'_>) -> u64 {
        if head.path != SNAPSHOT_PATH {
            return BODY_BYTES_MAX;
        }
        // So much is read only from those who may replace everything.
        let query = Query::parse(head.query.unwrap_or_default()).unwrap_or_default();
        let access = self.guard.quick(options::token(&query, head.headers));
        let may = access.is_some_and(|access| access.allows(Resource::Acl, "", Policy::Write));
        if may { u64::try_from(SNAPSHOT_BYTES_MAX).unwrap_or(u64::MAX) } else { BODY_BYTES_MAX }
    }

    fn answer(&self, request: Request) -> BoxFuture<'_, Answer> {
        Box::pin(self.respond(request))
    }
}

fn unknown(request: &Request) -> Answer {
    if route::lacks_slash(&request.path)
        && let Ok(there) = HeaderValue::from_str(&format!("{}/", request.path))
    {
        // Only who asks for something reads an answer before going where it is sent.
        let mut answer = if request.method == Method::GET {
            let body = format!("<a href=\"{}/\">Temporary Redirect</a>.\n\n", request.path);
            Answer::typed(StatusCode::TEMPORARY_REDIRECT, "text/html; charset=utf-8", body)
        } else {
            Answer::empty(StatusCode::TEMPORARY_REDIRECT)
        };
        answer.headers.insert(LOCATION, there);
        return answer;
    }
    Answer::text(StatusCode::NOT_FOUND, "Invalid URL path: not a recognized HTTP API endpoint\n")
}

fn with_allow(mut answer: Answer, allow: &str) -> Answer {
    if let Ok(value) = HeaderValue::from_str(allow) {
        answer.headers.insert(ALLOW, value);
    }
    answer
}
