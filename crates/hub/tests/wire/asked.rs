//! Live access by events: what is asked reaches the agent it is for, and only that one can answer.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty, Full};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use thane_api::event::{Event, Target, Type};
use thane_api::live::{LogRequest, ResourceRequest};
use thane_api::wire::auth::AuthResponse;
use thane_api::wire::logs::LogStreamData;
use thane_api::wire::logs::log_stream_service_client::LogStreamServiceClient;
use thane_api::wire::terminal::TerminalStreamData;
use thane_api::wire::terminal::terminal_stream_service_client::TerminalStreamServiceClient;
use thane_hub::live::Events;
use thane_hub::proxy::{Body, Caller, Reach, Source, Unreachable};
use thane_hub::transport::Live;
use thane_link::{Passage, Passing};
use thane_runtime::Tasks;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::bed::{Bed, Setup, call, within};

/// A hub that asks, and agents whose streams of events are played here.
struct Asking {
    bed: Bed,
    events: Events,
    passage: Passage,
    registry: Registry,
    _tasks: Tasks,
}

/// The stream of events of one agent.
struct Played {
    events: mpsc::Receiver<Event>,
    close: tokio_util::sync::CancellationToken,
}

impl Asking {
    async fn start() -> Self {
        let (tasks, _) = Tasks::root("asking");
        let (passage, mut registry) = (Passage::default(), Registry::default());
        let events = Events::new(passage.clone(), &mut registry, tasks.child("live"));
        let live: Arc<dyn Live> = Arc::new(events.clone());
        let bed = Bed::with(Setup { live, ..Setup::default() }).await;
        Self { bed, events, passage, registry, _tasks: tasks }
    }

    fn connect(&self, agent: &str) -> Played {
        let close = tokio_util::sync::CancellationToken::new();
        Played { events: self.passage.attach(agent, close.clone()), close }
    }

    async fn send(&self, agent: &str, method: &str, uri: &str) -> Result<(u16, Bytes), Unreachable> {
        let body: Body = Full::new(Bytes::from_static(b"{}")).map_err(|never| match never {}).boxed_unsync();
        let request = Request::builder().method(method).uri(uri).body(body).unwrap();
        let response = within(self.events.send(agent, &user(), request)).await?;
        let status = response.status().as_u16();
        Ok((status, response.into_body().collect().await.unwrap().to_bytes()))
    }

    /// How often something was refused for that reason.
    fn refused(&self, reason: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let wanted = format!("hub_live_refused_total{{reason=\"{reason}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&wanted)).map_or(0, |count| count.parse().unwrap())
    }
}

fn user() -> Caller {
    Caller { name: "anna".to_owned(), groups: Vec::new(), source: Source::People }
}

fn answer(request: &str, status: u16, body: &Value) -> Event {
    let data = json!({"uuid": request, "status": status, "resource": body.to_string()}).to_string();
    Event::answer(Target::Resource, Type::Response, "r".to_owned(), request, Bytes::from(data))
}

#[tokio::test]
async fn only_the_agent_that_was_asked_can_answer() {
    let asking = Asking::start().await;
    let (mut mine, _other) = (asking.connect("mine"), asking.connect("other"));
    let uri = "/api/v1/namespaces/shop/configmaps/web?dryRun=All";
    let answering = async {
        let event = within(mine.events.recv()).await.unwrap();
        assert_eq!((&event.target, &event.kind), (&Target::Resource, &Type::Verb("PATCH".to_owned())));
        assert_eq!(event.resource_id, event.event_id);
        let request: ResourceRequest = serde_json::from_slice(&event.data).unwrap();
        assert_eq!((&*request.namespace, &*request.name, &*request.params["dryRun"]), ("shop", "web", "All"));
        assert_eq!(request.body, "{}");
        asking.events.received("other", answer(&request.uuid, 200, &json!("forged")));
        asking.events.received("mine", answer("no such id", 200, &json!("guessed")));
        let mut other_kind = answer(&request.uuid, 200, &json!("odd"));
        other_kind.kind = Type::Create;
        asking.events.received("mine", other_kind);
        asking.events.received("mine", answer(&request.uuid, 200, &json!({"real": true})));
        asking.events.received("mine", answer(&request.uuid, 200, &json!("again")));
    };
    let (answered, ()) = tokio::join!(asking.send("mine", "PATCH", uri), answering);
    let (status, body) = answered.unwrap();
    assert_eq!((status, &body[..]), (200, br#"{"real":true}"#.as_slice()));
    assert_eq!(asking.events.open(), 0);
    assert_eq!((asking.refused("stranger"), asking.refused("unknown")), (1, 1));
    assert_eq!(asking.refused("unasked"), 2, "an event of another kind, and a second answer");
}

#[tokio::test]
async fn without_an_answer_there_is_a_reason() {
    let asking = Asking::start().await;
    let uri = "/api/v1/namespaces/shop/configmaps/web";
    assert_eq!(asking.send("gone", "GET", uri).await, Err(Unreachable::NotConnected("gone".to_owned())));
    let mut agent = asking.connect("a");
    let leaving = async {
        within(agent.events.recv()).await.unwrap();
        agent.close.cancel();
    };
    let (answered, ()) = tokio::join!(asking.send("a", "GET", uri), leaving);
    assert_eq!(answered, Err(Unreachable::NotConnected("a".to_owned())));
    let mut agent = asking.connect("a");
    for (method, uri, expected) in [
        ("GET", "/api/v1/namespaces/shop/pods?watch=true", 501),
        ("PUT", uri, 501),
        ("GET", "/api/v1/../secrets", 400),
        ("GET", "/api/v1/namespaces/shop/pods/web/exec?command=sh", 400),
    ] {
        let status = match asking.send("a", method, uri).await {
            Ok((status, _)) => status,
            Err(unreachable) => unreachable.status().as_u16(),
        };
        assert_eq!(status, expected, "{method} {uri}");
    }
    assert!(agent.events.try_recv().is_err(), "none of it reached the agent");
    assert_eq!(asking.events.open(), 0);
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_session() {
    let asking = Asking::start().await;
    let mut agent = asking.connect("a");
    {
        let asked = asking.send("a", "GET", "/api/v1/nodes/n");
        tokio::select! {
            answered = asked => panic!("{answered:?}"),
            event = agent.events.recv() => assert!(event.is_some()),
        }
        assert_eq!(asking.events.open(), 0);
    }
}

/// Opens a log at the hub as an agent.
fn stream_logs(
    client: &Channel,
    tokens: &AuthResponse,
) -> (mpsc::Sender<LogStreamData>, tokio::task::JoinHandle<Result<(), Status>>) {
    let (messages, received) = mpsc::channel(1);
    let mut logs = LogStreamServiceClient::new(client.clone());
    let request = call(&tokens.access_token, ReceiverStream::new(received));
    #[expect(clippy::disallowed_methods, reason = "a test's own task")]
    let answered = tokio::spawn(async move { logs.stream_logs(request).await.map(|_| ()) });
    (messages, answered)
}

fn piece(uuid: &str, data: &str) -> LogStreamData {
    LogStreamData { request_uuid: uuid.to_owned(), data: data.to_owned().into(), ..LogStreamData::default() }
}

#[tokio::test]
async fn a_followed_log_goes_on_after_its_stream_broke_and_belongs_to_its_agent() {
    let asking = Asking::start().await;
    let mut agent = asking.connect("agent-a");
    let (client, tokens) = asking.bed.authenticated("agent-a").await;
    let (other, other_tokens) = asking.bed.authenticated("agent-b").await;
    let body: Body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let request = Request::get("/api/v1/namespaces/shop/pods/web/log?follow=true").body(body).unwrap();
    let serving = async {
        let event = within(agent.events.recv()).await.unwrap();
        assert_eq!((&event.target, &event.kind), (&Target::ContainerLog, &Type::Verb("GET".to_owned())));
        let log: LogRequest = serde_json::from_slice(&event.data).unwrap();
        assert!(log.follow && log.pod_name == "web");
        for (client, tokens, uuid) in [(&other, &other_tokens, log.uuid.as_str()), (&client, &tokens, "guessed")] {
            let (forged, refused) = stream_logs(client, tokens);
            forged.send(piece(uuid, "forged")).await.unwrap();
            assert_eq!(within(refused).await.unwrap().unwrap_err().code(), Code::NotFound);
        }
        let (messages, answered) = stream_logs(&client, &tokens);
        messages.send(piece(&log.uuid, "")).await.unwrap();
        messages.send(piece(&log.uuid, "2026-01-01T00:00:00Z one\n2026-01-01T00:00:01Z tw")).await.unwrap();
        (log.uuid, messages, answered)
    };
    let (response, (uuid, messages, _)) =
        tokio::join!(within(asking.events.send("agent-a", &user(), request)), serving);
    let mut body = response.unwrap().into_body();
    let mut next = async || within(body.frame()).await.map(|frame| frame.unwrap().into_data().unwrap());
    assert_eq!(next().await.unwrap(), "one\ntw");
    drop(messages);
    let (messages, answered) = stream_logs(&client, &tokens);
    messages.send(piece(&uuid, "2026-01-01T00:00:00Z one\n2026-01-01T00:00:01Z two\n")).await.unwrap();
    assert_eq!(next().await.unwrap(), "o\n");
    messages.send(LogStreamData { request_uuid: uuid.clone(), eof: true, ..LogStreamData::default() }).await.unwrap();
    assert_eq!(next().await, None);
    within(answered).await.unwrap().unwrap();
    drop(body);
    assert_eq!(asking.events.open(), 0);
    assert_eq!((asking.refused("stranger"), asking.refused("unknown")), (1, 1));
}

#[tokio::test]
async fn a_reader_that_stops_holds_up_its_own_log_only() {
    let asking = Asking::start().await;
    let mut agent = asking.connect("agent-a");
    let (client, tokens) = asking.bed.authenticated("agent-a").await;
    let request = |pod: &str| {
        let body: Body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        Request::get(format!("/api/v1/namespaces/shop/pods/{pod}/log")).body(body).unwrap()
    };
    let mut stuck = Vec::new();
    for _ in 0..8 {
        let serving = async {
            let event = within(agent.events.recv()).await.unwrap();
            let (messages, answered) = stream_logs(&client, &tokens);
            messages.send(piece(&event.event_id, "first")).await.unwrap();
            (event.event_id, messages, answered)
        };
        let caller = user();
        let (response, (uuid, messages, answered)) =
            tokio::join!(within(asking.events.send("agent-a", &caller, request("stuck"))), serving);
        // Far more than fits into the windows of the stream; nobody reads it.
        let text = "x".repeat(256 * 1024);
        #[expect(clippy::disallowed_methods, reason = "a test's own task")]
        let flood = tokio::spawn(async move { while messages.send(piece(&uuid, &text)).await.is_ok() {} });
        stuck.push((response.unwrap(), flood, answered));
    }
    let serving = async {
        let event = within(agent.events.recv()).await.unwrap();
        let (messages, answered) = stream_logs(&client, &tokens);
        messages.send(piece(&event.event_id, "fine\n")).await.unwrap();
        let end = LogStreamData { request_uuid: event.event_id, eof: true, ..LogStreamData::default() };
        messages.send(end).await.unwrap();
        within(answered).await.unwrap().unwrap();
    };
    let reading = asking.send("agent-a", "GET", "/api/v1/namespaces/shop/pods/fine/log");
    let (read, ()) = tokio::join!(reading, serving);
    assert_eq!(read.unwrap(), (200, Bytes::from_static(b"fine\n")));
    for (response, flood, answered) in stuck {
        drop(response);
        within(flood).await.unwrap();
        assert_eq!(within(answered).await.unwrap().unwrap_err().code(), Code::Cancelled);
    }
    assert_eq!(asking.events.open(), 0);
}

#[tokio::test]
async fn a_log_that_is_not_there_is_an_error() {
    let asking = Asking::start().await;
    let mut agent = asking.connect("agent-a");
    let (client, tokens) = asking.bed.authenticated("agent-a").await;
    let serving = async {
        let event = within(agent.events.recv()).await.unwrap();
        let (messages, _answered) = stream_logs(&client, &tokens);
        let error = "pods \"web\" not found".to_owned();
        messages.send(piece(&event.event_id, "")).await.unwrap();
        messages.send(LogStreamData { error, eof: true, ..piece(&event.event_id, "") }).await.unwrap();
    };
    let (read, ()) = tokio::join!(asking.send("agent-a", "GET", "/api/v1/namespaces/shop/pods/web/log"), serving);
    let (status, body) = read.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, &body["reason"]), (404, &json!("NotFound")));
}

#[tokio::test]
async fn a_terminal_nobody_asked_for_is_refused() {
    let asking = Asking::start().await;
    let (client, tokens) = asking.bed.authenticated("agent-a").await;
    let first = TerminalStreamData { request_uuid: "guessed".to_owned(), ..TerminalStreamData::default() };
    let mut terminals = TerminalStreamServiceClient::new(client);
    let refused = terminals.stream_terminal(call(&tokens.access_token, tokio_stream::iter([first]))).await.unwrap_err();
    assert_eq!((refused.code(), asking.refused("unknown")), (Code::NotFound, 1));
}
