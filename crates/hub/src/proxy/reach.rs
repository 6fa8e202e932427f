//! One agent's Kubernetes API as it is seen from the hub, whichever wire the request takes.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::StatusCode;
use http_body_util::combinators::UnsyncBoxBody;

/// A body as it streams through: nothing holds it whole.
pub type Body = UnsyncBoxBody<Bytes, BodyError>;
/// Why a body broke off.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// By which door a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// A person or a program, known to the hub's own API.
    People,
    /// Argo CD, by an agent's cluster secret.
    Argocd,
}

/// Who asks, as the hub knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user's name in the hub's API; `argocd` for Argo CD.
    pub name: String,
    /// The user's groups in the hub's API.
    pub groups: Vec<String>,
    /// The door they came in by.
    pub source: Source,
}

/// Why no answer came from an agent's cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// No session, or it ended before the answer's head arrived.
    #[error("agent {0} is not connected")]
    NotConnected(String),
    /// Connected, but silent for too long.
    #[error("agent {0} gave no answer in time")]
    Late(String),
    /// The agent or the hub would not carry it.
    #[error("refused: {0}")]
    Refused(String),
    /// The agent is there, but its cluster's API gave nothing that could be passed on.
    #[error("no answer from the agent's cluster: {0}")]
    Failed(String),
    /// Too much is under way already.
    #[error("too many requests are under way for agent {0}")]
    Busy(String),
    /// This agent cannot do what was asked.
    #[error("not supported by this agent: {0}")]
    Unsupported(String),
}

impl Unreachable {
    /// The HTTP status a client is given for it.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NotConnected(_) | Self::Failed(_) => StatusCode::BAD_GATEWAY,
            Self::Late(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Refused(_) => StatusCode::FORBIDDEN,
            Self::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Unsupported(_) => StatusCode::NOT_IMPLEMENTED,
        }
    }
}

/// Carries requests to agents' Kubernetes APIs.
///
/// The request's URI is a path and query of that API. If it asks for an upgrade, its extensions hold
/// hyper's `OnUpgrade` of the client's side; whoever answers 101 takes it out and copies bytes.
pub trait Reach: Send + Sync {
    /// The answer's head as soon as it is known; its body streams after it.
    fn send(
        &self,
        agent: &str,
        user: &Caller,
        request: http::Request<Body>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, Unreachable>>;
}
