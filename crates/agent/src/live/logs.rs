//! Logs of containers, streamed to whoever asked.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Limited};
use jiff::SignedDuration;
use kube::client::Body;
use thane_api::live::{LogRequest, Query};
use thane_api::wire::logs::LogStreamData;
use thane_api::wire::logs::log_stream_service_client::LogStreamServiceClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::metrics::{Kind, Outcome};
use super::resume::Resume;
use super::{Inner, Open, is_segment};
use crate::connection::Calls;

/// Bytes of one message.
const PIECE_MAX: usize = 64 * 1024;
/// Messages that wait for the hub.
const WAITING_MAX: usize = 4;
/// Bytes of what the API says instead of a log.
const REASON_MAX: usize = 16 * 1024;
/// How long the hub may take to say that it has everything.
const FAREWELL: Duration = Duration::from_secs(30);
/// Waits before a stream is opened again.
const AGAIN_FIRST: Duration = Duration::from_millis(200);
const AGAIN_MAX: Duration = Duration::from_secs(5);
/// By so much the clocks of a cluster may be behind this one.
const CLOCKS_APART: SignedDuration = SignedDuration::from_secs(5);
/// How long it is tried to go on.
const GIVE_UP: Duration = Duration::from_secs(30);

/// How one stream ended.
enum Ended {
    /// Everything was sent, or nobody wants it.
    Over(Outcome),
    /// The stream broke.
    Broken(String),
}

/// Streams one log; one that is followed goes on after its stream has broken.
pub(super) async fn stream(open: Open, request: LogRequest) {
    let inner = &open.inner;
    let mut resume = Resume::default();
    let mut calls = inner.calls.clone();
    let mut wait = AGAIN_FIRST;
    let mut trouble_since = None;
    let outcome = loop {
        let sent_before = resume.total();
        let current = calls.borrow_and_update().clone();
        let ended = match current {
            Some(current) => attempt(&open, &current, &request, &mut resume).await,
            None => Ended::Broken("the hub is not there".to_owned()),
        };
        let reason = match ended {
            Ended::Over(outcome) => break outcome,
            Ended::Broken(reason) => reason,
        };
        let now = inner.clock.monotonic();
        if resume.total() > sent_before {
            (wait, trouble_since) = (AGAIN_FIRST, None);
        }
        let since = *trouble_since.get_or_insert(now);
        if !request.follow || now.saturating_sub(since) >= GIVE_UP {
            tracing::debug!(uuid = request.uuid, reason, "a log broke off");
            break Outcome::Failed;
        }
        tokio::select! {
            _ = calls.changed() => {}
            () = tokio::time::sleep(wait) => {}
        }
        wait = (wait * 2).min(AGAIN_MAX);
    };
    inner.metrics.count(Kind::Log, outcome);
}

/// One stream from beginning to end.
async fn attempt(open: &Open, calls: &Calls, request: &LogRequest, resume: &mut Resume) -> Ended {
    let (out, messages) = mpsc::channel(WAITING_MAX);
    let mut call = tonic::Request::new(ReceiverStream::new(messages));
    if let Err(failure) = calls.authorize(call.metadata_mut()).await {
        return Ended::Broken(failure.to_string());
    }
    let mut client = LogStreamServiceClient::with_origin(calls.channel(), calls.origin());
    let mut answer = std::pin::pin!(client.stream_logs(call));
    let sender = Sender { uuid: &request.uuid, out };
    let sending = async {
        let outcome = if open.place.is_some() {
            send(&open.inner, sender, &resume.request(request), resume).await
        } else {
            sender.end(Some("too many logs are open in this agent".to_owned())).await.map(|()| Outcome::Busy)
        };
        // The hub has gone if it takes no messages: its answer says why.
        outcome.unwrap_or(Outcome::Failed)
    };
    let (answered, outcome) = tokio::select! {
        biased;
        answered = &mut answer => (answered, Outcome::Failed),
        outcome = sending => match tokio::time::timeout(FAREWELL, &mut answer).await {
            Ok(answered) => (answered, outcome),
            Err(_) => return Ended::Broken("the hub does not end the stream".to_owned()),
        },
    };
    match answered {
        Ok(_) => Ended::Over(outcome),
        Err(status) => over(&status, outcome),
    }
}

/// What the hub's answer means for this log.
fn over(status: &Status, outcome: Outcome) -> Ended {
    match status.code() {
        // Nobody reads it any more, or nobody asked for it.
        Code::Cancelled | Code::NotFound | Code::PermissionDenied | Code::Unimplemented => Ended::Over(Outcome::Done),
        // The hub repeats what we told it.
        Code::Internal if outcome != Outcome::Done => Ended::Over(outcome),
        _ => Ended::Broken(status.to_string()),
    }
}

/// Puts messages of one log on its stream.
struct Sender<'a> {
    uuid: &'a str,
    out: mpsc::Sender<LogStreamData>,
}

/// The hub takes no more messages.
struct Gone;

impl Sender<'_> {
    async fn piece(&self, data: Bytes) -> Result<(), Gone> {
        self.put(LogStreamData { data, ..LogStreamData::default() }).await
    }

    async fn end(self, error: Option<String>) -> Result<(), Gone> {
        self.put(LogStreamData { eof: true, error: error.unwrap_or_default(), ..LogStreamData::default() }).await
    }

    async fn put(&self, message: LogStreamData) -> Result<(), Gone> {
        let message = LogStreamData { request_uuid: self.uuid.to_owned(), ..message };
        self.out.send(message).await.map_err(|_| Gone)
    }
}

/// Sends the log and its end.
async fn send(inner: &Inner, sender: Sender<'_>, request: &LogRequest, resume: &mut Resume) -> Result<Outcome, Gone> {
    // It tells the hub that somebody answers, before the log is there.
    sender.piece(Bytes::new()).await?;
    // Its clock and that of the cluster may differ a little.
    let now = inner.clock.now();
    let asked = now.checked_sub(CLOCKS_APART).unwrap_or(now);
    let mut log = match open_log(inner, request).await {
        Ok(log) => log,
        Err(reason) => return sender.end(Some(reason)).await.map(|()| Outcome::Refused),
    };
    resume.opened(asked);
    while let Some(frame) = log.frame().await {
        match frame.map(hyper::body::Frame::into_data) {
            Ok(Ok(mut data)) => {
                while !data.is_empty() {
                    let piece = data.split_to(data.len().min(PIECE_MAX));
                    resume.sent(&piece);
                    sender.piece(piece).await?;
                }
            }
            Ok(Err(_)) => {}
            Err(error) => {
                let reason = format!("the log broke off: {error}");
                return sender.end(Some(reason)).await.map(|()| Outcome::Failed);
            }
        }
    }
    sender.end(None).await.map(|()| Outcome::Done)
}

/// Opens the log at the cluster's API; what it says if it has none.
async fn open_log(inner: &Inner, request: &LogRequest) -> Result<Body, String> {
    let call = Request::get(path(request)?).body(Body::empty()).map_err(|error| error.to_string())?;
    let response = match inner.client.send(call).await {
        Ok(response) => response,
        Err(kube::Error::Api(status)) => return Err(status.message),
        Err(error) => return Err(format!("the cluster's API cannot be reached: {error}")),
    };
    if response.status().is_success() {
        return Ok(response.into_body());
    }
    let status = response.status();
    let reason = Limited::new(response.into_body(), REASON_MAX).collect().await;
    let reason = reason.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let told: Option<serde_json::Value> = serde_json::from_slice(&reason).ok();
    let message = told.as_ref().and_then(|told| told["message"].as_str()).map(str::to_owned);
    Err(message.unwrap_or_else(|| format!("the cluster's API answered {status}")))
}

/// The log's path; its lines always begin with their time, by which it can be gone on with.
fn path(request: &LogRequest) -> Result<String, String> {
    for part in [&request.namespace, &request.pod_name] {
        if part.is_empty() || !is_segment(part) {
            return Err(format!("{part:?} is no name"));
        }
    }
    let mut query = Query::default();
    query.push("timestamps", "true");
    let texts = [("container", &request.container), ("sinceTime", &request.since_time)];
    for (name, value) in texts.into_iter().filter(|(_, value)| !value.is_empty()) {
        query.push(name, value.as_str());
    }
    let flags = [
        ("follow", request.follow),
        ("previous", request.previous),
        ("insecureSkipTLSVerifyBackend", request.insecure_backend),
    ];
    for (name, _) in flags.into_iter().filter(|(_, is_set)| *is_set) {
        query.push(name, "true");
    }
    let numbers = [
        ("tailLines", request.tail_lines),
        ("sinceSeconds", request.since_seconds),
        ("limitBytes", request.limit_bytes),
    ];
    for (name, value) in numbers.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        query.push(name, value.to_string());
    }
    Ok(query.on(&format!("/api/v1/namespaces/{}/pods/{}/log", request.namespace, request.pod_name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_asked_for_with_its_times() {
        let request = LogRequest {
            namespace: "shop".to_owned(),
            pod_name: "web-0".to_owned(),
            container: "c".to_owned(),
            follow: true,
            tail_lines: Some(10),
            since_time: "2026-01-01T00:00:00Z".to_owned(),
            ..LogRequest::default()
        };
        let expected = "/api/v1/namespaces/shop/pods/web-0/log?timestamps=true&container=c&sinceTime=2026-01-01T00%3A00%3A00Z&follow=true&tailLines=10";
        assert_eq!(path(&request), Ok(expected.to_owned()));
        for bad in ["", "..", "a/b"] {
            assert!(path(&LogRequest { pod_name: bad.to_owned(), ..request.clone() }).is_err(), "{bad}");
        }
    }
}
