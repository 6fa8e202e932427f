//! Probes by gRPC's health service: one call, whose two messages have one field each.

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::GRPCAction;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Subject, address};

/// An answer is a few bytes.
const ANSWER_MAX: usize = 4096;
/// Field 1, bytes.
const SERVICE: u8 = 0x0a;
/// Field 1, a number.
const STATUS: u8 = 0x08;
const SERVING: u8 = 1;
const OK: &str = "0";
const UNIMPLEMENTED: &str = "12";

/// Asks whether a service is served.
pub(super) async fn check(subject: &Subject, action: &GRPCAction) -> Result<(), String> {
    let address = address(subject, None, &IntOrString::Int(action.port))?;
    let service = action.service.as_deref().unwrap_or_default();
    let failed = |error: &dyn std::fmt::Display| format!("failed to connect service {address:?}: {error}");
    let stream = subject.network.connect(address).await.map_err(|error| failed(&error))?;
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    let authority = address.to_string();
    let uri = Uri::builder().scheme("http").authority(authority).path_and_query("/grpc.health.v1.Health/Check");
    let request = Request::post(uri.build().map_err(|error| failed(&error))?)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "kube-probe/1.34")
        .body(Full::new(question(service)?))
        .map_err(|error| failed(&error))?;
    let call = async {
        let answer = sender.send_request(request).await.map_err(|error| failed(&error))?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_MAX).collect().await.map_err(|error| failed(&error))?;
        let word = |name: &str| {
            let trailers = body.trailers().and_then(|trailers| trailers.get(name));
            trailers.or_else(|| head.headers.get(name)).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let (code, message) = (word("grpc-status"), word("grpc-message"));
        judge(code.as_deref(), message.as_deref(), &body.to_bytes())
    };
    let driving = async {
        // A call on a connection that has ended ends by itself, and says why.
        let _ = connection.await;
        std::future::pending().await
    };
    tokio::select! {
        judged = call => judged,
        never = driving => never,
    }
}

/// The message that names a service, framed as gRPC does.
fn question(service: &str) -> Result<Bytes, String> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(SERVICE);
        let mut rest = service.len();
        while rest > 0x7f {
            message.push(0x80 | u8::try_from(rest & 0x7f).unwrap_or_default());
            rest >>= 7;
        }
        message.push(u8::try_from(rest).unwrap_or_default());
        message.extend_from_slice(service.as_bytes());
    }
    let length = u32::try_from(message.len()).map_err(|_| "the service's name is too long".to_owned())?;
    Ok([&[0], &length.to_be_bytes()[..], &message].concat().into())
}

fn judge(code: Option<&str>, message: Option<&str>, body: &[u8]) -> Result<(), String> {
    match code {
        Some(OK) => {}
        Some(UNIMPLEMENTED) => {
            return Err("this server does not implement the grpc health protocol (grpc.health.v1.Health)".to_owned());
        }
        Some(code) => {
            return Err(format!("health rpc probe failed: code {code}: {}", message.unwrap_or_default()));
        }
        None => return Err("the answer is not gRPC".to_owned()),
    }
    // A message without the field says that nothing is known.
    let status = match body.get(5..) {
        Some([STATUS, status, ..]) => *status,
        _ => 0,
    };
    if status == SERVING {
        return Ok(());
    }
    let name = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"].get(usize::from(status)).unwrap_or(&"UNKNOWN");
    Err(format!("service unhealthy (responded with {name:?})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_framed() {
        assert_eq!(&question("").unwrap()[..], [0, 0, 0, 0, 0]);
        assert_eq!(&question("ab").unwrap()[..], [0, 0, 0, 0, 4, SERVICE, 2, b'a', b'b']);
        let long = question(&"x".repeat(300)).unwrap();
        assert_eq!(&long[..8], [0, 0, 0, 1, 47, SERVICE, 0xac, 2]);
    }

    #[test]
    fn answers_are_judged() {
        for (code, body, good) in [
            (Some("0"), &[0, 0, 0, 0, 2, 8, 1][..], true),
            (Some("0"), &[0, 0, 0, 0, 2, 8, 2], false),
            (Some("0"), &[0, 0, 0, 0, 0], false),
            (Some("0"), &[], false),
            (Some("12"), &[], false),
            (Some("5"), &[0, 0, 0, 0, 2, 8, 1], false),
            (None, &[0, 0, 0, 0, 2, 8, 1], false),
        ] {
            assert_eq!(judge(code, None, body).is_ok(), good, "{code:?} {body:?}");
        }
    }
}
