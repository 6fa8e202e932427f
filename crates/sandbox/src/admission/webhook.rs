//! The same rules for an API of somebody else's: a validating webhook.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};
use thane_runtime::Tasks;
use thane_runtime::admission::Reviewer;
use thane_runtime::net::{BoxIo, Listener};
use thane_runtime::tls::ServerTls;
use tokio::sync::Semaphore;

use super::Rules;

/// Where reviews are sent.
const PATH: &str = "/validate";
/// An object, what it replaces, and who asks.
const BODY_MAX: usize = 8 * 1024 * 1024;
/// Callers at once; more wait to be let in.
const CONNECTIONS_MAX: usize = 64;
/// How long a caller may keep a connection.
const CONNECTION_MAX: Duration = Duration::from_mins(5);
/// How long greeting and each body may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers reviews until the tasks end.
pub async fn serve(listener: Box<dyn Listener>, tls: ServerTls, tasks: Tasks) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = tasks.cancelled() => return,
        };
        let (stream, _) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a caller of the webhook was not let in");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (tls, stopping) = (tls.clone(), tasks.token());
        tasks.spawn("review", async move {
            let _permit = permit;
            tokio::select! {
                _ = tokio::time::timeout(CONNECTION_MAX, connection(stream, &tls)) => {}
                () = stopping.cancelled() => {}
            }
        });
    }
}

async fn connection(stream: BoxIo, tls: &ServerTls) {
    let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, tls.acceptor().accept(stream)).await else { return };
    let answer = service_fn(|request| async { Ok::<_, Infallible>(answer(request).await) });
    // What a caller does wrong is its own affair.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
}

async fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
    if request.uri().path() != PATH {
        return reply(StatusCode::NOT_FOUND, &json!({"error": "there is nothing here"}));
    }
    let body = Limited::new(request.into_body(), BODY_MAX).collect();
    let body = match tokio::time::timeout(PATIENCE, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => return reply(StatusCode::BAD_REQUEST, &json!({"error": error.to_string()})),
        Err(_) => return reply(StatusCode::REQUEST_TIMEOUT, &json!({"error": "the body did not come"})),
    };
    match serde_json::from_slice(&body).ok().and_then(|asked| reviewed(&asked)) {
        Some(review) => reply(StatusCode::OK, &review),
        None => reply(StatusCode::BAD_REQUEST, &json!({"error": "this is no AdmissionReview of admission.k8s.io/v1"})),
    }
}

fn reply(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// The answer to a review; nothing if it is none.
fn reviewed(asked: &Value) -> Option<Value> {
    if asked["apiVersion"] != "admission.k8s.io/v1" || asked["kind"] != "AdmissionReview" {
        return None;
    }
    let request = &asked["request"];
    let uid = request["uid"].as_str()?;
    let (group, plural) = (request["resource"]["group"].as_str()?, request["resource"]["resource"].as_str()?);
    let old = Some(&request["oldObject"]).filter(|old| old.is_object());
    let looked_at = matches!(request["operation"].as_str(), Some("CREATE" | "UPDATE"));
    let verdict = if looked_at { Rules.review(group, plural, &request["object"], old) } else { Ok(()) };
    let mut response = json!({"uid": uid, "allowed": verdict.is_ok()});
    if let Err(why) = verdict {
        response["status"] = json!({"code": 403, "reason": "Forbidden", "message": why});
    }
    Some(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reviews_are_answered_and_other_things_are_not() {
        let review = |operation: &str, pool: &str| {
            json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "request": {"uid": "7", "operation": operation,
                    "resource": {"group": "arl.infra.io", "version": "v1alpha1", "resource": "sandboxes"},
                    "object": {"apiVersion": "arl.infra.io/v1alpha1", "kind": "Sandbox", "metadata": {"name": "s"}, "spec": {"poolRef": pool}},
                    "oldObject": null},
            })
        };
        let allowed = |asked: &Value| reviewed(asked).map(|answer| answer["response"]["allowed"] == true);
        assert_eq!(allowed(&review("CREATE", "p")), Some(true));
        assert_eq!(allowed(&review("CREATE", "P P")), Some(false));
        assert_eq!(allowed(&review("DELETE", "P P")), Some(true));
        assert_eq!(allowed(&json!({"kind": "AdmissionReview"})), None);
        let refused = reviewed(&review("CREATE", "P P")).unwrap();
        assert_eq!((&refused["response"]["uid"], &refused["response"]["status"]["code"]), (&json!("7"), &json!(403)));
    }
}
