//! Answers as Kubernetes gives them.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::json;
use thane_api::live::ResourceResponse;

use crate::proxy::Body;

/// A refusal's body in Kubernetes' own form.
pub(super) fn plain(status: u16, message: &str) -> String {
    let reason = match status {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 => "Conflict",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": status,
    });
    status.to_string()
}

/// A refusal.
pub(super) fn refusal(status: u16, message: &str) -> Response<Body> {
    text(status, "application/json", plain(status, message))
}

/// What an agent answered. A Go agent says no more than a number when something failed.
pub(super) fn of_agent(answer: ResourceResponse, is_creation: bool) -> Response<Body> {
    let status = u16::try_from(answer.status).ok().filter(|status| (200..600).contains(status));
    match status {
        None => refusal(502, "the agent answered with a status that is none"),
        Some(200) if is_creation => text(201, "application/json", answer.resource),
        Some(200) if answer.resource.is_empty() => {
            let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 200});
            text(200, "application/json", done.to_string())
        }
        Some(status) if answer.resource.is_empty() => refusal(status, "the agent's cluster refused the request"),
        Some(status) => text(status, "application/json", answer.resource),
    }
}

/// A whole answer.
pub(super) fn text(status: u16, kind: &'static str, body: String) -> Response<Body> {
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_agents_number_becomes_an_answer() {
        let cases = [
            (200, "{}", false, 200, "{}"),
            (200, "{}", true, 201, "{}"),
            (200, "", false, 200, "\"Success\""),
            (404, "", false, 404, "\"NotFound\""),
            (403, "why", false, 403, "why"),
            (7, "", false, 502, "InternalError"),
            (-1, "", false, 502, "InternalError"),
            (99_999, "", true, 502, "InternalError"),
        ];
        for (status, resource, is_creation, expected, part) in cases {
            let answer = ResourceResponse { status, resource: resource.to_owned(), ..ResourceResponse::default() };
            let response = of_agent(answer, is_creation);
            assert_eq!(response.status().as_u16(), expected, "{status}");
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert!(String::from_utf8_lossy(&body).contains(part), "{status}: {body:?}");
        }
    }
}
