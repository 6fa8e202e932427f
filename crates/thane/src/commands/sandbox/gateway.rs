//! The gateway, as commands call it.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use futures::stream;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use serde_json::Value;
use thane_api::code;
use thane_runtime::config::units::Span;
use thane_runtime::config::{API_KEY_VARIABLE, GATEWAY_VARIABLE};
use tokio::io::AsyncReadExt;

use crate::failure::Failure;
use crate::plain::{Conversation, ENDPOINTS, published, split, variable};

/// Where a gateway listens unless told otherwise.
const DEFAULT: &str = "127.0.0.1:8080";
/// No answer that is read whole is larger.
const ANSWER_MAX: usize = 256 * 1024 * 1024;
const PIECE: usize = 256 * 1024;

const GATEWAY_HELP: &str = "Where the gateway is; else $THANE_GATEWAY, ./.thane/endpoints.json or 127.0.0.1:8080";

/// What goes to a gateway.
pub(crate) type Sent = BoxBody<Bytes, std::io::Error>;

/// Where the gateway is and what it is shown.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Gateway {
    #[arg(long = "gateway", value_name = "ADDRESS", help = GATEWAY_HELP)]
    at: Option<String>,
    #[arg(long, value_name = "KEY", help = "Key to show; else $THANE_API_KEY")]
    key: Option<String>,
    /// Longest wait for an answer, or for its next piece
    #[arg(long, value_name = "TIME", default_value = "60s")]
    request_timeout: Span,
}

/// An answer that is read piece by piece.
pub(crate) struct Answer {
    conversation: Conversation<Sent>,
    /// None once it was read to its end.
    body: Option<Incoming>,
    wait: Duration,
    cursor: Option<String>,
}

impl Gateway {
    /// Asks, and understands the answer.
    pub(crate) async fn json(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let sent = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let mut answer = self.open(request(method, path)?, whole(sent)).await?;
        let bytes = answer.rest().await?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes)
            .map_err(|error| Failure::new(code::GATEWAY_REFUSED, format!("the answer is no JSON: {error}")))
    }

    /// Asks, and goes on once it was not refused.
    pub(crate) async fn open(&self, mut request: Request<()>, body: Sent) -> Result<Answer, Failure> {
        let address = self.address()?;
        let wait = self.request_timeout.0;
        let headers = request.headers_mut();
        let text = |text: &str| {
            HeaderValue::from_str(text).map_err(|_| Failure::new(code::USAGE, "that cannot be sent in a header"))
        };
        headers.insert(header::HOST, text(&address)?);
        if !headers.contains_key(header::CONTENT_TYPE) {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = self.key() {
            headers.insert(header::AUTHORIZATION, text(&format!("Bearer {key}"))?);
        }
        let unreachable = |error: &dyn std::fmt::Display| {
            Failure::new(code::GATEWAY_UNREACHABLE, format!("http://{address}: {error}"))
        };
        let (host, port) = split(&address).ok_or_else(|| unusable(&address))?;
        let asked = async {
            let mut conversation = Conversation::open(&host, port).await.map_err(|error| unreachable(&error))?;
            let answer = conversation.send(request.map(|()| body)).await.map_err(|error| unreachable(&error))?;
            Ok((conversation, answer))
        };
        let (conversation, answer) = within(wait, asked).await?;
        let (head, body) = answer.into_parts();
        let cursor = head.headers.get("x-next-cursor").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut answer = Answer { conversation, body: Some(body), wait, cursor };
        if head.status.is_success() {
            return Ok(answer);
        }
        let said = answer.rest().await?;
        Err(refusal(head.status, &said))
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> Result<String, Failure> {
        address(self.at.as_deref(), variable, Path::new(ENDPOINTS))
    }

    /// What it is shown.
    pub(crate) fn key(&self) -> Option<String> {
        self.key.clone().or_else(|| variable(API_KEY_VARIABLE))
    }
}

impl Answer {
    /// Where the next part of a list begins, if there is one.
    pub(crate) fn cursor(&self) -> Option<String> {
        self.cursor.clone().filter(|cursor| !cursor.is_empty())
    }

    /// The next piece; none at the end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        let Self { conversation, body, wait, .. } = self;
        let Some(body) = body else { return Ok(None) };
        within(*wait, async { conversation.piece(body).await.map_err(|error| broken(&error)) }).await
    }

    /// All that is left.
    pub(crate) async fn rest(&mut self) -> Result<Bytes, Failure> {
        let Self { conversation, body, wait, .. } = self;
        let Some(body) = body.take() else { return Ok(Bytes::new()) };
        within(*wait, async { conversation.rest(body, ANSWER_MAX).await.map_err(|error| broken(&error)) }).await
    }
}

async fn within<T>(wait: Duration, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let late = |_| Failure::new(code::GATEWAY_TIMED_OUT, format!("nothing came within {}", Span(wait)));
    tokio::time::timeout(wait, work).await.map_err(late)?
}

fn broken(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(code::GATEWAY_UNREACHABLE, format!("the answer broke off: {error}"))
}

/// What a gateway's refusal means.
fn refusal(status: StatusCode, body: &[u8]) -> Failure {
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |key: &str| said.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let code = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => code::GATEWAY_DENIED,
        StatusCode::NOT_FOUND => code::SANDBOX_ABSENT,
        _ if text("kind") == "infra" => code::SANDBOX_LOST,
        _ => code::GATEWAY_REFUSED,
    };
    let message = match (text("error"), text("detail")) {
        (error, _) if error.is_empty() => status.to_string(),
        (error, detail) if detail.is_empty() => error,
        (error, detail) => format!("{error}: {detail}"),
    };
    Failure::new(code, message)
}

/// A request without a body yet.
pub(crate) fn request(method: Method, path: &str) -> Result<Request<()>, Failure> {
    let made = Request::builder().method(method).uri(path).body(());
    made.map_err(|error| Failure::new(code::USAGE, error.to_string()))
}

/// A body that is there.
pub(crate) fn whole(bytes: Bytes) -> Sent {
    Full::new(bytes).map_err(|never| match never {}).boxed()
}

/// A file as a body, read as it is sent.
pub(crate) fn file(file: tokio::fs::File) -> Sent {
    let pieces = stream::try_unfold(file, |mut file| async move {
        let mut piece = vec![0; PIECE];
        let count = file.read(&mut piece).await?;
        piece.truncate(count);
        Ok((count > 0).then(|| (Frame::data(Bytes::from(piece)), file)))
    });
    BodyExt::boxed(StreamBody::new(Box::pin(pieces) as Pieces))
}

type Pieces = std::pin::Pin<Box<dyn futures::Stream<Item = std::io::Result<Frame<Bytes>>> + Send + Sync>>;

/// The first place that says where the gateway is: `host:port`.
fn address(flag: Option<&str>, variable: impl Fn(&str) -> Option<String>, endpoints: &Path) -> Result<String, Failure> {
    let named = flag.map(str::to_owned).or_else(|| variable(GATEWAY_VARIABLE));
    let named = named.or_else(|| published(endpoints, "gateway")).unwrap_or_else(|| DEFAULT.to_owned());
    let bare = named.strip_prefix("http://").unwrap_or(&named).trim_end_matches('/');
    if bare.contains('/') || split(bare).is_none() {
        return Err(unusable(&named));
    }
    Ok(bare.to_owned())
}

fn unusable(address: &str) -> Failure {
    Failure::new(code::USAGE, format!("{address} is no address of a gateway")).with_hint("it looks like 127.0.0.1:8080")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_that_says_where_it_is_counts() {
        let folder = tempfile::tempdir().unwrap();
        let endpoints = folder.path().join("endpoints.json");
        let none = |_: &str| None;
        let named = |name: &str| (name == "THANE_GATEWAY").then(|| "http://gateway:81/".to_owned());
        assert_eq!(address(None, none, &endpoints).unwrap(), DEFAULT);
        std::fs::write(&endpoints, r#"{"gateway": "http://127.0.0.1:9"}"#).unwrap();
        assert_eq!(address(None, none, &endpoints).unwrap(), "127.0.0.1:9");
        assert_eq!(address(None, named, &endpoints).unwrap(), "gateway:81");
        assert_eq!(address(Some("[::1]:7"), named, &endpoints).unwrap(), "[::1]:7");
        for wrong in ["https://host:7", "host", "host:7/v1"] {
            assert!(address(Some(wrong), none, &endpoints).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_refusal_keeps_whose_fault_it_was() {
        for (status, body, expected) in [
            (404, r#"{"error": "no pool", "kind": "user"}"#, code::SANDBOX_ABSENT),
            (410, r#"{"error": "gone", "kind": "infra"}"#, code::SANDBOX_LOST),
            (401, "", code::GATEWAY_DENIED),
            (400, r#"{"error": "what", "kind": "user", "detail": "where"}"#, code::GATEWAY_REFUSED),
        ] {
            let failure = refusal(StatusCode::from_u16(status).unwrap(), body.as_bytes());
            assert_eq!(failure.code(), expected, "{body}");
        }
    }
}
