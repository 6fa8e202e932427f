//! What went wrong, and whose fault it is: of whoever asked, of time, of memory, or ours.

use axum::response::{IntoResponse, Response};
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tonic::Code;

use crate::claims::ClaimError;

/// Whose fault something is. An agent's mistake is never told as ours, nor ours as its.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// What was asked for, or the command itself.
    User,
    /// It took longer than it was given.
    Timeout,
    /// The kernel ended it for want of memory.
    Oom,
    /// The sandbox, its node, or the control plane.
    Infra,
}

impl Kind {
    /// As it is written.
    pub const fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Timeout => "timeout",
            Self::Oom => "oom",
            Self::Infra => "infra",
        }
    }
}

/// The body of every answer that is an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorBody {
    /// What went wrong.
    pub error: String,
    /// Whose fault it is.
    pub kind: Kind,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// An answer that is an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    pub(crate) retry_after: Option<u64>,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn new(status: StatusCode, kind: Kind, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), detail: None, retry_after: None }
    }

    /// What was asked for cannot be understood.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Kind::User, message)
    }

    /// There is no such thing.
    pub(crate) fn absent(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, Kind::User, message)
    }

    /// It does not fit what is there.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, Kind::User, message)
    }

    /// Too much at once, by whoever asks.
    pub(crate) fn crowded(message: impl Into<String>, retry_after: u64) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, Kind::User, message).after(retry_after)
    }

    /// Not now, and not for anything that was asked.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, Kind::Infra, message).after(1)
    }

    /// The sandbox is lost, with everything in it.
    pub(crate) fn lost(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, Kind::Infra, message)
    }

    pub(crate) fn after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The body that says it.
    pub(crate) fn body(&self) -> ErrorBody {
        ErrorBody { error: self.message.clone(), kind: self.kind, detail: self.detail.clone() }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(http::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::unavailable("the Kubernetes API does not answer").with_detail(error.to_string());
        };
        match status.code {
            400 | 422 => Self::bad(status.message),
            404 => Self::absent(status.message),
            409 => Self::conflict(status.message),
            429 => Self::unavailable("the Kubernetes API is crowded").with_detail(status.message),
            // What a gateway may not do, its caller can do nothing about.
            401 | 403 => Self::new(StatusCode::INTERNAL_SERVER_ERROR, Kind::Infra, "the gateway may not do that")
                .with_detail(status.message),
            _ => Self::unavailable("the Kubernetes API failed").with_detail(status.message),
        }
    }
}

impl From<ClaimError> for Failure {
    fn from(error: ClaimError) -> Self {
        let message = error.to_string();
        match error {
            ClaimError::NoPool(_) => Self::absent(message),
            ClaimError::Empty { pool, why } => {
                let failure = Self::unavailable(format!("no sandbox of pool {pool:?} is idle"));
                match why {
                    Some(why) => failure.with_detail(why),
                    None => failure,
                }
            }
            ClaimError::Full(_) => Self::new(StatusCode::TOO_MANY_REQUESTS, Kind::Infra, message).after(5),
            ClaimError::Gone(_) => Self::new(StatusCode::CONFLICT, Kind::Infra, message),
            ClaimError::Api(error) => error.into(),
        }
    }
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            Code::InvalidArgument | Code::OutOfRange => Self::bad(message),
            Code::NotFound => Self::absent(message),
            // Files of the sandbox that its own user may not touch.
            Code::PermissionDenied => Self::new(StatusCode::FORBIDDEN, Kind::User, message),
            Code::FailedPrecondition | Code::AlreadyExists | Code::Aborted => Self::conflict(message),
            Code::ResourceExhausted => Self::crowded(message, 1),
            Code::Unimplemented => Self::new(StatusCode::NOT_IMPLEMENTED, Kind::Infra, message),
            _ => Self::unavailable("the sandbox does not answer").with_detail(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_apart() {
        let api = |code: u16| {
            let mut status = kube::core::Status::failure("no", "Reason");
            status.code = code;
            Failure::from(kube::Error::Api(Box::new(status)))
        };
        for (code, status, kind) in [
            (422, 400, Kind::User),
            (404, 404, Kind::User),
            (409, 409, Kind::User),
            (403, 500, Kind::Infra),
            (500, 503, Kind::Infra),
        ] {
            let failure = api(code);
            assert_eq!((failure.status.as_u16(), failure.kind), (status, kind), "{code}");
        }
        for (code, status, kind) in [
            (Code::InvalidArgument, 400, Kind::User),
            (Code::PermissionDenied, 403, Kind::User),
            (Code::AlreadyExists, 409, Kind::User),
            (Code::ResourceExhausted, 429, Kind::User),
            (Code::Unavailable, 503, Kind::Infra),
            (Code::Unknown, 503, Kind::Infra),
            (Code::Internal, 503, Kind::Infra),
        ] {
            let failure = Failure::from(tonic::Status::new(code, "no"));
            assert_eq!((failure.status.as_u16(), failure.kind), (status, kind), "{code:?}");
        }
        let empty = Failure::from(ClaimError::Empty { pool: "p".to_owned(), why: Some("no image".to_owned()) });
        assert_eq!((empty.status.as_u16(), empty.kind, empty.detail.as_deref()), (503, Kind::Infra, Some("no image")));
        assert!(empty.retry_after.is_some());
        assert_eq!(Failure::from(ClaimError::NoPool("p".to_owned())).status.as_u16(), 404);
        assert_eq!(Failure::from(ClaimError::Full("p".to_owned())).status.as_u16(), 429);
    }
}
