//! Calls counted under the names of go-grpc-middleware, which dashboards of gRPC servers know.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tonic::body::Body;
use tonic::{Code, Status};

/// Services, methods and whether they are streams; anything else is not told apart.
const METHODS: [(&str, &str, &str); 9] = [
    ("authapi.Authentication", "Authenticate", "unary"),
    ("authapi.Authentication", "RefreshToken", "unary"),
    ("versionapi.Version", "Version", "unary"),
    ("eventstreamapi.EventStream", "Subscribe", "bidi_stream"),
    ("eventstreamapi.EventStream", "Push", "client_stream"),
    ("eventstreamapi.EventStream", "Ping", "unary"),
    ("principal.apis.logstreamapi.LogStreamService", "StreamLogs", "client_stream"),
    ("terminalstreamapi.TerminalStreamService", "StreamTerminal", "bidi_stream"),
    ("thane.tunnel.v1.Tunnel", "Serve", "bidi_stream"),
];
const UNKNOWN: (&str, &str, &str) = ("unknown", "unknown", "unary");

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
#[expect(clippy::struct_field_names, reason = "labels have the names that others look for")]
struct Method {
    grpc_type: &'static str,
    grpc_service: &'static str,
    grpc_method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
#[expect(clippy::struct_field_names, reason = "labels have the names that others look for")]
struct Ended {
    grpc_type: &'static str,
    grpc_service: &'static str,
    grpc_method: &'static str,
    grpc_code: String,
}

/// Counts of calls; clones count together.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    started: Family<Method, Counter>,
    handled: Family<Ended, Counter>,
    received: Family<Method, Counter>,
    sent: Family<Method, Counter>,
}

impl Calls {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("grpc_server_started", "Calls that began", self.started.clone());
        registry.register("grpc_server_handled", "Calls that ended, by code", self.handled.clone());
        registry.register("grpc_server_msg_received", "Events that came", self.received.clone());
        registry.register("grpc_server_msg_sent", "Events that were sent", self.sent.clone());
    }

    /// A call of that path begins.
    pub(super) fn begin(&self, path: &str) -> Call {
        let method = method(path);
        self.started.get_or_create(&method).inc();
        Call { calls: self.clone(), method, is_over: false }
    }

    /// Counters of events that come and go on streams.
    pub(super) fn messages(&self) -> (Counter, Counter) {
        let method = method("/eventstreamapi.EventStream/Subscribe");
        (self.received.get_or_create_owned(&method), self.sent.get_or_create_owned(&method))
    }
}

fn method(path: &str) -> Method {
    let (service, name) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    let known = METHODS.into_iter().find(|(known, method, _)| (*known, *method) == (service, name));
    let (grpc_service, grpc_method, grpc_type) = known.unwrap_or(UNKNOWN);
    Method { grpc_type, grpc_service, grpc_method }
}

/// One call, until its answer has been sent or is given up.
pub(super) struct Call {
    calls: Calls,
    method: Method,
    is_over: bool,
}

impl Call {
    /// The answer, watched until its end.
    pub(super) fn answered(mut self, response: Response<Body>) -> Response<Body> {
        // An answer without a body says how it ended at once.
        self.end(response.headers());
        let (parts, body) = response.into_parts();
        Response::from_parts(parts, Body::new(Watched { body, call: self }))
    }

    fn end(&mut self, headers: &HeaderMap) {
        if let Some(status) = Status::from_header_map(headers) {
            self.count(status.code());
        }
    }

    fn count(&mut self, code: Code) {
        if !std::mem::replace(&mut self.is_over, true) {
            let Method { grpc_type, grpc_service, grpc_method } = self.method.clone();
            let grpc_code = match code {
                // Go spells these two in its own way.
                Code::Ok => "OK".to_owned(),
                Code::Cancelled => "Canceled".to_owned(),
                other => format!("{other:?}"),
            };
            let labels = Ended { grpc_type, grpc_service, grpc_method, grpc_code };
            self.calls.handled.get_or_create(&labels).inc();
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.count(Code::Cancelled);
    }
}

/// The body of an answer, whose end says how the call ended.
struct Watched {
    body: Body,
    call: Call,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(trailers) = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::trailers_ref) {
            self.call.end(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn text(calls: &Calls) -> String {
        let mut registry = Registry::default();
        calls.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[tokio::test]
    async fn calls_are_counted_by_how_they_ended() {
        let calls = Calls::default();
        let version = calls.begin("/versionapi.Version/Version");
        version.answered(Status::unauthenticated("no").into_http()).into_body().collect().await.unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
        let frames = futures::stream::iter([Ok::<_, Status>(Frame::<Bytes>::trailers(trailers))]);
        let body = Body::new(http_body_util::StreamBody::new(frames));
        let subscribe = calls.begin("/eventstreamapi.EventStream/Subscribe");
        subscribe.answered(Response::new(body)).into_body().collect().await.unwrap();
        drop(calls.begin("/other.Service/Anything"));
        let text = text(&calls);
        for (service, method, code) in [
            ("versionapi.Version", "Version", "Unauthenticated"),
            ("eventstreamapi.EventStream", "Subscribe", "OK"),
            ("unknown", "unknown", "Canceled"),
        ] {
            let labels = format!("grpc_service=\"{service}\",grpc_method=\"{method}\"");
            assert!(text.contains(&format!("{labels},grpc_code=\"{code}\"}} 1")), "{text}");
        }
    }
}
