//! Requests as the gateway reads them: bounded, and with the place of a fault in what is said about it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use super::Shared;
use super::failure::{Failure, Kind, Result};

/// Of a body that is too large so much is read and dropped.
const DRAIN_BYTES_MAX: usize = 16 << 20;

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// A JSON body.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Arc<Shared>> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self> {
        let body = whole(request, shared.options.limits.json_bytes_max).await?;
        parse(&body).map(Self)
    }
}

/// Reads a body that is not above a bound.
pub(super) async fn whole(request: Request, max: usize) -> Result<Bytes> {
    let declared = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| usize::try_from(length).is_ok_and(|length| length > max)) {
        drain(request.into_body()).await;
        return Err(too_large(max));
    }
    match Limited::new(request.into_body(), max).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(max)),
        Err(_) => Err(Failure::bad("the body ended early")),
    }
}

/// Reads some of a body that nobody wants, so that the client gets to read why.
pub(super) async fn drain(body: Body) {
    let mut body = Limited::new(body, DRAIN_BYTES_MAX);
    while let Some(Ok(_)) = body.frame().await {}
}

pub(super) fn too_large(max: usize) -> Failure {
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, Kind::User, format!("the body is larger than {max} bytes"))
}

/// Reads JSON, and says where it is wrong.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    if let Err(fault) = std::str::from_utf8(body) {
        return Err(Failure::bad(format!("the body is not UTF-8 from byte {} on", fault.valid_up_to())));
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|fault| {
        let path = fault.path().to_string();
        let message = fault.inner().to_string();
        if path == "." { Failure::bad(message) } else { Failure::bad(format!("{path}: {message}")).with_detail(path) }
    })?;
    reader.end().map_err(|fault| Failure::bad(format!("after the JSON value: {fault}")))?;
    Ok(value)
}

/// What stands for something in the path.
pub(super) struct At<T = String>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<Shared>> for At<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self> {
        match Path::<T>::from_request_parts(parts, shared).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(error) => Err(Failure::bad(error.body_text())),
        }
    }
}

/// What follows the question mark.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<Shared>> for Asked<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Shared>) -> Result<Self> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(value)) => Ok(Self(value)),
            Err(error) => Err(Failure::bad(error.body_text())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bodies::ExecuteRequest;
    use super::*;

    #[test]
    fn faults_of_json_are_told_with_their_place() {
        for (body, expected) in [
            (&b"{\"steps\": [{\"command\": [\"a\", 1]}]}"[..], "steps[0].command[1]: invalid type: integer `1`"),
            (
                b"{\"steps\": [{\"command\": [\"a\"], \"timeoutSeconds\": \"x\"}]}",
                "steps[0].timeoutSeconds: invalid type",
            ),
            (b"{}", "missing field `steps`"),
            (b"{\"steps\": []} x", "after the JSON value: trailing characters"),
            (b"{\"steps\": [", "EOF while parsing"),
            (b"{\"steps\": \xff}", "the body is not UTF-8 from byte 10 on"),
            (b"", "EOF while parsing a value"),
        ] {
            let failure = parse::<ExecuteRequest>(body).err().unwrap();
            assert_eq!((failure.status.as_u16(), failure.kind), (400, Kind::User));
            assert!(failure.message.contains(expected), "{} is not {expected}", failure.message);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_body_is_read_or_refused(body: Vec<u8>) {
            let _ = parse::<ExecuteRequest>(&body);
        }
    }
}
