//! The agent's own HTTP API, `/agent/*`, as the design record has it: pure functions of topics over a [`Backend`].

mod bodies;
mod call;
mod kv;
mod local;
#[cfg(test)]
mod tests;
mod view;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::ALLOW;
use http::{HeaderValue, Method, StatusCode};
use tokio::sync::Semaphore;

use crate::access::Guard;
use crate::backend::{Backend, Consistency};
use crate::http::{Answer, Head, Request, Routes, percent_decoded};
use crate::topic::{Memo, Topic};
use call::{Call, Outcome, Problem};

/// What the API is told about its process.
#[derive(Clone)]
pub struct Options {
    /// Watches that may be open at once; one more is answered 429.
    pub watches_max: usize,
    /// The program's version.
    pub version: String,
    /// How often a check runs that does not say.
    pub check_interval: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// The process's metrics in the text format.
    pub metrics_text: Option<Arc<dyn Fn() -> String + Send + Sync>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            watches_max: 10_000,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            check_interval: Arc::new(|| Duration::from_secs(10)),
            metrics_text: None,
        }
    }
}

/// The agent's own API over a backend.
pub struct Native {
    backend: Arc<dyn Backend>,
    guard: Arc<Guard>,
    watches: Arc<Semaphore>,
    options: Options,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Endpoint<'a> {
    Own,
    Health,
    Metrics,
    Reload,
    Services,
    RegisterService,
    DeregisterService(&'a str),
    CatalogServices,
    CatalogService(&'a str),
    Checks,
    RegisterCheck,
    UpdateCheck(&'a str),
    DeregisterCheck(&'a str),
    Key(&'a str),
}

impl<'a> Endpoint<'a> {
    fn find(path: &'a str) -> Option<Self> {
        let path = path.strip_prefix("/agent/")?;
        Some(match path {
            "self" => Self::Own,
            "health" => Self::Health,
            "metrics" => Self::Metrics,
            "reload" => Self::Reload,
            "services" => Self::Services,
            "service/register" => Self::RegisterService,
            "catalog/services" => Self::CatalogServices,
            "checks" => Self::Checks,
            "check/register" => Self::RegisterCheck,
            "kv" => Self::Key(""),
            _ => match path.split_once('/')? {
                ("kv", key) => Self::Key(key),
                ("service", rest) => Self::DeregisterService(named(rest, "deregister/")?),
                ("catalog", rest) => Self::CatalogService(named(rest, "service/")?),
                ("check", rest) => match named(rest, "update/") {
                    Some(id) => Self::UpdateCheck(id),
                    None => Self::DeregisterCheck(named(rest, "deregister/")?),
                },
                _ => return None,
            },
        })
    }

    fn methods(&self) -> &'static [Method] {
        const READ: &[Method] = &[Method::GET, Method::HEAD];
        const WRITE: &[Method] = &[Method::POST, Method::PUT];
        const REMOVE: &[Method] = &[Method::DELETE, Method::PUT, Method::POST];
        const ALL: &[Method] = &[Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::DELETE];
        match self {
            Self::Own
            | Self::Health
            | Self::Metrics
            | Self::Services
            | Self::CatalogServices
            | Self::CatalogService(_)
            | Self::Checks => READ,
            Self::Reload | Self::RegisterService | Self::RegisterCheck | Self::UpdateCheck(_) => WRITE,
            Self::DeregisterService(_) | Self::DeregisterCheck(_) => REMOVE,
            Self::Key(_) => ALL,
        }
    }
}

/// What follows a word; nothing is no name.
fn named<'a>(rest: &'a str, word: &str) -> Option<&'a str> {
    rest.strip_prefix(word).filter(|name| !name.is_empty())
}

impl Native {
    /// The API over an agent, or over a registry for those who have none yet.
    pub fn new(backend: Arc<dyn Backend>, options: Options) -> Self {
        let guard = Arc::new(Guard::new(Arc::clone(&backend)));
        Self { guard, watches: Arc::new(Semaphore::new(options.watches_max)), backend, options }
    }

    async fn respond(&self, request: Request) -> Answer {
        let Some(endpoint) = Endpoint::find(&request.path) else {
            return Problem::new(StatusCode::NOT_FOUND, "there is nothing here").answer();
        };
        let methods = endpoint.methods();
        if !methods.contains(&request.method) {
            let mut answer = match request.method {
                Method::OPTIONS => Answer::empty(StatusCode::OK),
                _ => Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("{} is not done here", request.method))
                    .answer(),
            };
            let allow = methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
            if let Ok(value) = HeaderValue::from_str(&allow) {
                answer.headers.insert(ALLOW, value);
            }
            return answer;
        }
        self.dispatched(&request, endpoint).await.unwrap_or_else(Problem::answer)
    }

    /// An answer that is allowed when it is given: while somebody waited, what their token may do can have changed.
    async fn dispatched(&self, request: &Request, endpoint: Endpoint<'_>) -> Outcome {
        if matches!(endpoint, Endpoint::Health | Endpoint::Metrics) {
            // Nobody is asked for a token: whoever watches over an agent hears of it before its hub is there.
            return Call::open(self, request).dispatch(endpoint).await;
        }
        let call = Call::new(self, request).await?;
        let answered = call.dispatch(endpoint.clone()).await;
        if !request.may_wait() {
            return answered;
        }
        let now = Call::new(self, request).await?;
        if now.access == call.access {
            return answered;
        }
        Call { request: &request.at_once(), ..now }.dispatch(endpoint).await
    }

    /// The instances of a service, if they are here and nobody is asked for a token.
    fn hot(&self, head: &Head<'_>) -> Option<Answer> {
        if head.method != Method::GET || head.query.is_some() || !self.guard.is_open() {
            return None;
        }
        let name = percent_decoded(head.path.strip_prefix("/agent/catalog/service/")?)?;
        let reading = self.backend.ready(&Topic::Service(name.to_lowercase()), Consistency::Default)?;
        let body = reading.data.memo(Memo::Plain, || view::catalog_json(&reading.data, |_| true));
        let mut answer = Answer::json(StatusCode::OK, body);
        call::put_reading(&mut answer.headers, &reading);
        Some(answer)
    }
}

impl Routes for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn owns(&self, path: &str) -> bool {
        path.starts_with("/agent/")
    }

    fn quick(&self, head: &Head<'_>) -> Option<Answer> {
        self.hot(head)
    }

    fn answer(&self, request: Request) -> BoxFuture<'_, Answer> {
        Box::pin(self.respond(request))
    }
}
