//! The discovery API, as commands call it.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::Value;
use thane_api::code;
use thane_runtime::config::units::Span;
use thane_runtime::config::{DISCOVERY_TOKEN_VARIABLE, DISCOVERY_VARIABLE};

use crate::failure::Failure;
use crate::plain::{Conversation, ENDPOINTS, published, split, variable};

/// What Consul's own tools go by.
const CONSUL_ADDRESS: &str = "CONSUL_HTTP_ADDR";
const CONSUL_TOKEN: &str = "CONSUL_HTTP_TOKEN";

/// Where an agent listens unless told otherwise.
const DEFAULT: &str = "127.0.0.1:8502";
/// No answer of a list is larger.
const ANSWER_MAX: usize = 256 * 1024 * 1024;

const ADDRESS_HELP: &str = "Where an agent or hub serves it; else $THANE_DISCOVERY, $CONSUL_HTTP_ADDR, ./.thane/endpoints.json or 127.0.0.1:8502";

/// Where the API is and what it is shown.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Reach {
    #[arg(long, value_name = "ADDRESS", help = ADDRESS_HELP)]
    address: Option<String>,
    #[arg(long, value_name = "TOKEN", help = "Token to show; else $THANE_DISCOVERY_TOKEN or $CONSUL_HTTP_TOKEN")]
    token: Option<String>,
    /// Longest wait for an answer
    #[arg(long, value_name = "TIME", default_value = "10s")]
    request_timeout: Span,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl Reach {
    /// What a path holds.
    pub(super) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.ask(Method::GET, path, Bytes::new()).await?.json()
    }

    /// Writes, and says what came back.
    pub(super) async fn put(&self, path: &str, body: impl Into<Bytes>) -> Result<Value, Failure> {
        let answer = self.ask(Method::PUT, path, body.into()).await?;
        if answer.body.is_empty() { Ok(Value::Null) } else { answer.json() }
    }

    /// An answer that is none of the API's complaints, unless that it does not have it.
    pub(super) async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Answer, Failure> {
        let address = address(self.address.as_deref(), variable, Path::new(ENDPOINTS))?;
        let wait: Duration = self.request_timeout.0;
        let asked = tokio::time::timeout(wait, self.send(&address, method, path, body)).await;
        let answer = asked.map_err(|_| {
            Failure::new(code::DISCOVERY_TIMED_OUT, format!("{address} did not answer within {}", Span(wait)))
        })??;
        answer.judged()
    }

    async fn send(&self, address: &str, method: Method, path: &str, body: Bytes) -> Result<Answer, Failure> {
        let unreachable = |error: &dyn std::fmt::Display| {
            Failure::new(code::DISCOVERY_UNREACHABLE, format!("http://{address}: {error}"))
        };
        let (host, port) = split(address).ok_or_else(|| unusable(address))?;
        let mut conversation = Conversation::open(&host, port).await.map_err(|error| unreachable(&error))?;
        let mut request = Request::builder().method(method).uri(path).header(http::header::HOST, address);
        let token = self.token.clone().or_else(|| variable(DISCOVERY_TOKEN_VARIABLE));
        if let Some(token) = token.or_else(|| variable(CONSUL_TOKEN)) {
            request = request.header("x-consul-token", token);
        }
        let request = request.body(Full::new(body)).map_err(|error| Failure::new(code::USAGE, error.to_string()))?;
        let (status, body) = conversation.ask(request, ANSWER_MAX).await.map_err(|error| unreachable(&error))?;
        Ok(Answer { status, body })
    }
}

impl Answer {
    fn judged(self) -> Result<Self, Failure> {
        let said = || String::from_utf8_lossy(&self.body).trim().to_owned();
        let code = match self.status {
            status if status.is_success() || status == StatusCode::NOT_FOUND => return Ok(self),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => code::DISCOVERY_DENIED,
            _ => code::DISCOVERY_REFUSED,
        };
        let said = said();
        let reason = if said.is_empty() { self.status.to_string() } else { said };
        Err(Failure::new(code, reason))
    }

    pub(super) fn json(&self) -> Result<Value, Failure> {
        if self.status == StatusCode::NOT_FOUND {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| Failure::new(code::DISCOVERY_REFUSED, format!("the answer is no JSON: {error}")))
    }
}

/// The first place that says where the API is: `host:port`.
pub(super) fn address(
    flag: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
    endpoints: &Path,
) -> Result<String, Failure> {
    let named = flag.map(str::to_owned).or_else(|| variable(DISCOVERY_VARIABLE)).or_else(|| variable(CONSUL_ADDRESS));
    let named = match named {
        Some(named) => named,
        None => published(endpoints, "discovery").unwrap_or_else(|| DEFAULT.to_owned()),
    };
    let bare = named.strip_prefix("http://").unwrap_or(&named).trim_end_matches('/');
    if bare.contains("://") || bare.contains('/') {
        return Err(unusable(&named));
    }
    let whole = if split(bare).is_some() { bare.to_owned() } else { format!("{bare}:8500") };
    split(&whole).map(|_| whole).ok_or_else(|| unusable(&named))
}

fn unusable(address: &str) -> Failure {
    Failure::new(code::USAGE, format!("{address} is no address of the discovery API"))
        .with_hint("it looks like 127.0.0.1:8502; the API is spoken without TLS, to an agent on the same machine")
}
