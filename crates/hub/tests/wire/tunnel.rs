//! Requests to an agent's cluster through its own connection: what passes, and what breaks without harm to others.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response, StatusCode};
use http_body::Frame as BodyFrame;
use http_body_util::{BodyExt, Full, StreamBody};
use thane_agent::connection::Opened;
use thane_agent::tunnel::{self, Places, Tunnel};
use thane_api::event::TUNNEL;
use thane_api::wire::tunnel::frame::Part;
use thane_api::wire::tunnel::tunnel_client::TunnelClient;
use thane_api::wire::tunnel::{Answer, Frame};
use thane_hub::proxy::tunnel::Way;
use thane_hub::proxy::{Body, Caller, Reach, Source, Unreachable};
use thane_hub::transport::Stream;
use thane_link::tunnel::WINDOW;
use thane_runtime::net::Tcp;
use thane_sync::mapping::Pattern;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use crate::bed::{Bed, Setup, call, within};

type Answered = Response<http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>>;

fn ann() -> Caller {
    Caller { name: "ann".to_owned(), groups: Vec::new(), source: Source::People }
}

fn asked(method: &str, path: &str, body: &'static str) -> Request<Body> {
    let body = Full::new(Bytes::from_static(body.as_bytes())).map_err(|never| match never {}).boxed_unsync();
    Request::builder().method(method).uri(path).header("authorization", "Bearer secret").body(body).unwrap()
}

/// Never ends; holds on to what it is given for as long as somebody wants it.
fn endless(held: mpsc::Sender<()>) -> Answered {
    let zeros = futures::stream::repeat(Bytes::from(vec![0; 16 * 1024]));
    let frames = zeros.map(move |bytes| {
        let _held = &held;
        Ok(BodyFrame::data(bytes))
    });
    Response::new(StreamBody::new(frames).boxed_unsync())
}

/// A cluster: `/echo` says what it was asked, `/endless` has no end, `/silent` has no beginning.
fn cluster(name: &'static str, held: mpsc::Sender<()>) -> kube::Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let held = held.clone();
        async move {
            let (parts, body) = request.into_parts();
            match parts.uri.path() {
                "/endless" => return Ok::<_, Infallible>(endless(held)),
                "/silent" => std::future::pending::<()>().await,
                _ => {}
            }
            let body = body.collect_bytes().await.unwrap_or_default();
            let token = parts.headers.contains_key("authorization");
            let text = format!("{name} {} {} {} {token}", parts.method, parts.uri, String::from_utf8_lossy(&body));
            let mut response = Response::new(Full::new(Bytes::from(text)).boxed_unsync());
            *response.status_mut() = StatusCode::CREATED;
            Ok(response)
        }
    });
    kube::Client::new(service, "default")
}

pub(crate) struct Connected {
    stream: Stream,
    opened: Opened,
    pub(crate) tunnel: Tunnel,
    /// Held by every body under way, by the cluster, and here.
    held: mpsc::Sender<()>,
}

async fn connect(bed: &mut Bed, name: &'static str) -> Connected {
    connect_with(bed, name, |tunnel| tunnel).await
}

pub(crate) async fn connect_with(
    bed: &mut Bed,
    name: &'static str,
    change: impl FnOnce(Tunnel) -> Tunnel,
) -> Connected {
    let mut config = bed.config();
    config.capabilities.insert(TUNNEL.to_owned());
    let (stream, opened) = bed.pair(name, config).await;
    bed.tunnels.connected(&stream.identity, stream.close.clone());
    let (held, _) = mpsc::channel(1);
    let options = tunnel::Config { answer_timeout: Duration::from_millis(200), ..tunnel::Config::default() };
    let tunnel = change(Tunnel::new(cluster(name, held.clone()), options));
    let tasks = bed.tasks.child("tunnel");
    tasks.spawn("serve", tunnel.clone().serve(opened.calls.clone(), opened.close.clone(), tasks.clone()));
    Connected { stream, opened, tunnel, held }
}

async fn send(bed: &Bed, agent: &str, path: &str) -> Result<Response<Body>, Unreachable> {
    within(bed.tunnels.send(agent, &ann(), asked("GET", path, ""))).await
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(within(response.into_body().collect()).await.unwrap().to_bytes().into()).unwrap()
}

/// Waits until something is as it should be; what is counted can only be asked for.
pub(crate) async fn until(what: impl Fn() -> bool) {
    within(async {
        while !what() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn requests_reach_the_agent_they_are_for_and_no_other() {
    let mut bed = Bed::start().await;
    let _a = connect(&mut bed, "agent-a").await;
    let _b = connect(&mut bed, "agent-b").await;
    for round in 0..40 {
        let path = format!("/echo/{round}?x=1");
        let response = within(bed.tunnels.send("agent-a", &ann(), asked("POST", &path, "hello"))).await.unwrap();
        assert_eq!(response.status(), StatusCode::CREATED);
        assert_eq!(text(response).await, format!("agent-a POST {path} hello false"));
        assert_eq!(text(send(&bed, "agent-b", "/echo").await.unwrap()).await, "agent-b GET /echo  false");
    }
    assert_eq!(bed.tunnels.way("agent-a"), Way::Tunnel);
    assert_eq!(bed.tunnels.way("agent-c"), Way::None);
    let absent = send(&bed, "agent-c", "/echo").await.err().unwrap();
    assert_eq!(absent, Unreachable::NotConnected("agent-c".to_owned()));
    until(|| bed.tunnels.metrics().open() == 0).await;
}

#[tokio::test]
async fn slow_readers_harm_nobody() {
    let mut bed = Bed::start().await;
    let agent = connect(&mut bed, "agent-a").await;
    // More than a connection may have under way, were it not for the credit of each.
    let mut slow = Vec::new();
    for _ in 0..12 {
        slow.push(send(&bed, "agent-a", "/endless").await.unwrap());
    }
    assert_eq!(text(send(&bed, "agent-a", "/echo").await.unwrap()).await, "agent-a GET /echo  false");
    assert_eq!(bed.tunnels.metrics().open(), 12);
    for response in &mut slow {
        let mut read = 0;
        while read < 2 * 1024 * 1024 {
            read += within(response.body_mut().frame()).await.unwrap().unwrap().into_data().unwrap().len();
        }
    }
    drop(slow);
    until(|| bed.tunnels.metrics().open() == 0 && agent.tunnel.metrics().open() == 0).await;
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_request() {
    let mut bed = Bed::start().await;
    let agent = connect(&mut bed, "agent-a").await;
    let response = send(&bed, "agent-a", "/endless").await.unwrap();
    assert_eq!((agent.tunnel.metrics().open(), agent.held.strong_count()), (1, 3));
    drop(response);
    until(|| agent.tunnel.metrics().open() == 0 && agent.held.strong_count() == 2).await;
    assert_eq!(bed.tunnels.metrics().broken(), 0);
}

#[tokio::test]
async fn an_agent_that_drops_in_the_middle_is_told_from_an_end() {
    let mut bed = Bed::start().await;
    let agent = connect(&mut bed, "agent-a").await;
    let mut response = send(&bed, "agent-a", "/endless").await.unwrap();
    within(response.body_mut().frame()).await.unwrap().unwrap();
    agent.opened.close.cancel();
    let ended = within(async {
        loop {
            match response.body_mut().frame().await {
                Some(Ok(_)) => {}
                other => return other,
            }
        }
    });
    assert!(ended.await.unwrap().is_err(), "a body that broke off looks like a whole one");
    drop(response);
    until(|| bed.tunnels.metrics().open() == 0 && bed.tunnels.metrics().parked() == 0).await;
    within(agent.stream.close.cancelled()).await;
    assert_eq!(bed.tunnels.way("agent-a"), Way::None);
}

#[tokio::test]
async fn a_cluster_that_is_silent_is_given_up() {
    let mut bed = Bed::start().await;
    let _agent = connect(&mut bed, "agent-a").await;
    let failed = send(&bed, "agent-a", "/silent").await.err().unwrap();
    assert_eq!(failed, Unreachable::Failed("the cluster's API gave no answer in time".to_owned()));
    assert_eq!(text(send(&bed, "agent-a", "/echo").await.unwrap()).await, "agent-a GET /echo  false");
}

#[tokio::test]
async fn calls_are_bound_to_who_makes_them_and_to_their_order() {
    let mut bed = Bed::start().await;
    let (client, tokens) = bed.authenticated("agent-x").await;
    let (out, outgoing) = mpsc::channel(4);
    let refused = TunnelClient::new(client.clone()).serve(call("forged", ReceiverStream::new(outgoing))).await;
    assert_eq!(refused.err().unwrap().code(), Code::Unauthenticated);
    drop(out);
    // One that answers before it is asked, and with data before a head.
    let _agent = connect(&mut bed, "agent-x").await;
    let (out, outgoing) = mpsc::channel(4);
    let opened = TunnelClient::new(client).serve(call(&tokens.access_token, ReceiverStream::new(outgoing))).await;
    let _frames = opened.unwrap().into_inner();
    let frame = |part| Frame { part: Some(part) };
    out.send(frame(Part::Data(Bytes::from_static(b"x")))).await.unwrap();
    out.send(frame(Part::Answer(Answer { status: 200, headers: Vec::new() }))).await.unwrap();
    // Its call is among those of the agent and is taken in its turn: one request fails, and no other.
    let mut failed = 0;
    for _ in 0..40 {
        match send(&bed, "agent-x", "/echo").await {
            Ok(response) => assert_eq!(text(response).await, "agent-x GET /echo  false"),
            Err(unreachable) => {
                assert_eq!(unreachable, Unreachable::NotConnected("agent-x".to_owned()));
                failed += 1;
            }
        }
    }
    assert_eq!((failed, bed.tunnels.metrics().broken()), (1, 1));
}

/// A cluster's service that says all it has to say first, and then takes in everything.
async fn speaks_first(listener: tokio::net::TcpListener) -> usize {
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.write_all(b"go on").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut taken = Vec::new();
    stream.read_to_end(&mut taken).await.unwrap();
    taken.len()
}

#[tokio::test]
async fn who_has_said_everything_may_still_listen() {
    let mut bed = Bed::start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let places = Places::new(Tcp::shared(), vec![Pattern::new("127.0.0.1:*")]);
    let agent = connect_with(&mut bed, "agent-a", |tunnel| tunnel.reaching(places)).await;
    let asking = async {
        let mut stream = within(bed.tunnels.connect("agent-a", &ann(), &place)).await.unwrap();
        let mut said = Vec::new();
        within(stream.read_to_end(&mut said)).await.unwrap();
        assert_eq!(said, b"go on");
        // More than may be under way without credit, which comes after the end of the other direction.
        within(stream.write_all(&vec![7; 3 * WINDOW])).await.unwrap();
        within(stream.shutdown()).await.unwrap();
        stream
    };
    let (stream, taken) = tokio::join!(asking, within(speaks_first(listener)));
    assert_eq!(taken, 3 * WINDOW);
    drop(stream);
    until(|| bed.tunnels.metrics().open() == 0 && agent.tunnel.metrics().open() == 0).await;
    assert_eq!(bed.tunnels.metrics().broken(), 0);
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_let_go_in_the_end() {
    let stuck_max = Duration::from_millis(400);
    let tunnels = thane_hub::proxy::tunnel::Config { stuck_max, ..Default::default() };
    let mut bed = Bed::with(Setup { tunnels, ..Setup::default() }).await;
    let agent = connect(&mut bed, "agent-a").await;
    let stuck = send(&bed, "agent-a", "/endless").await.unwrap();
    let mut reading = send(&bed, "agent-a", "/endless").await.unwrap().into_body();
    let started = std::time::Instant::now();
    while bed.tunnels.metrics().stuck() == 0 || started.elapsed() < 2 * stuck_max {
        within(reading.frame()).await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(bed.tunnels.metrics().stuck(), 1, "who reads is not let go");
    // It is told as soon as it reads again, and its call is another's already.
    assert!(within(stuck.into_body().collect()).await.is_err());
    drop((reading, agent));
}
