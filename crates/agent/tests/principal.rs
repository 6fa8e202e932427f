//! The agent with hubs that are not ours: one that behaves as a Go principal, which takes its own version only, knows no
//! capabilities and says nothing on the stream before the first event; and one that falls silent.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use thane_agent::connection::{self, Config, Dialer, Failure, Opened, State, Step};
use thane_api::event::{CAPABILITIES, Event, Mode, PONG, Target, Type};
use thane_api::wire::auth::authentication_server::{Authentication, AuthenticationServer};
use thane_api::wire::auth::{AuthRequest, AuthResponse, RefreshTokenRequest};
use thane_api::wire::events;
use thane_api::wire::events::event_stream_server::{EventStream, EventStreamServer};
use thane_api::wire::version::version_server::{Version, VersionServer};
use thane_api::wire::version::{VersionRequest, VersionResponse};
use thane_runtime::net::Tcp;
use thane_runtime::{Clock, ManualClock, SharedClock, SystemClock, Tasks};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status, Streaming};

const VERSION: &str = "0.9.0";
const PATIENCE: Duration = Duration::from_secs(30);

/// What the principal saw.
#[derive(Default)]
struct Seen {
    requests: Vec<AuthRequest>,
    tokens: Vec<String>,
    signs_of_life: usize,
    /// Whether nobody gets in any more.
    refuses: bool,
}

#[derive(Clone)]
struct Principal {
    seen: Arc<Mutex<Seen>>,
    /// The version it demands.
    demands: &'static str,
    /// How many signs of life it answers, if it says that it does.
    answers: Option<usize>,
}

fn token() -> String {
    let claims = r#"{"sub":"{\"clientID\":\"agent-a\",\"mode\":\"managed\"}","iat":1,"exp":301}"#;
    format!("e30.{}.x", URL_SAFE_NO_PAD.encode(claims))
}

#[tonic::async_trait]
impl Version for Principal {
    async fn version(&self, _: Request<VersionRequest>) -> Result<Response<VersionResponse>, Status> {
        Ok(Response::new(VersionResponse { version: format!("argocd-agent-{VERSION}") }))
    }
}

#[tonic::async_trait]
impl Authentication for Principal {
    async fn authenticate(&self, request: Request<AuthRequest>) -> Result<Response<AuthResponse>, Status> {
        let request = request.into_inner();
        let is_ours = request.version == self.demands;
        self.seen.lock().requests.push(request);
        if self.seen.lock().refuses {
            return Err(Status::unauthenticated("authentication failed"));
        }
        if !is_ours {
            return Err(Status::failed_precondition("version mismatch"));
        }
        let mut response = Response::new(AuthResponse {
            access_token: token(),
            refresh_token: token(),
            version: VERSION.to_owned(),
            principal_namespace: "argocd".to_owned(),
        });
        if self.answers.is_some() {
            response.metadata_mut().insert(CAPABILITIES, PONG.parse().unwrap());
        }
        Ok(response)
    }

    async fn refresh_token(&self, _: Request<RefreshTokenRequest>) -> Result<Response<AuthResponse>, Status> {
        Err(Status::unauthenticated("authentication failed"))
    }
}

#[tonic::async_trait]
impl EventStream for Principal {
    type SubscribeStream = BoxStream<'static, Result<events::Event, Status>>;

    /// Says nothing, not even yes, until it has heard something; then repeats it. Where signs of life are answered, it
    /// says yes at once.
    async fn subscribe(
        &self,
        request: Request<Streaming<events::Event>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let token = request.metadata().get("authorization").unwrap().to_str().unwrap().to_owned();
        self.seen.lock().tokens.push(token);
        let mut stream = request.into_inner();
        if let Some(answers) = self.answers {
            let seen = Arc::clone(&self.seen);
            let answered = stream.filter_map(move |sign| {
                let mut seen = seen.lock();
                seen.signs_of_life += 1;
                std::future::ready((seen.signs_of_life <= answers).then_some(sign))
            });
            return Ok(Response::new(answered.boxed()));
        }
        let first = stream.message().await?.ok_or_else(|| Status::unavailable("nothing came"))?;
        let (sender, receiver) = mpsc::channel(4);
        sender.send(Ok(first)).await.unwrap();
        sender.send(Ok(events::Event { event: None })).await.unwrap();
        sender.send(Err(Status::unavailable("going down"))).await.unwrap();
        Ok(Response::new(ReceiverStream::new(receiver).boxed()))
    }

    async fn push(&self, _: Request<Streaming<events::Event>>) -> Result<Response<events::PushSummary>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn ping(&self, _: Request<events::PingRequest>) -> Result<Response<events::PongReply>, Status> {
        Err(Status::unimplemented(""))
    }
}

async fn start(demands: &'static str, answers: Option<usize>, tasks: &Tasks) -> (Principal, Dialer) {
    start_at(SystemClock::shared(), demands, answers, tasks).await
}

async fn start_at(
    clock: SharedClock,
    demands: &'static str,
    answers: Option<usize>,
    tasks: &Tasks,
) -> (Principal, Dialer) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let principal = Principal { seen: Arc::default(), demands, answers };
    let serving = Server::builder()
        .add_service(VersionServer::new(principal.clone()))
        .add_service(AuthenticationServer::new(principal.clone()))
        .add_service(EventStreamServer::new(principal.clone()))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tasks.spawn("principal", serving);
    let mut config = Config::new("127.0.0.1", port, Mode::Managed);
    "spoke".clone_into(&mut config.namespace);
    config.capabilities = ["pong".to_owned()].into();
    config.backoff_first = Duration::from_millis(5);
    config.heartbeat_interval = answers.map(|_| Duration::from_millis(1));
    (principal, Dialer::new(config, Tcp::shared(), None, clock))
}

fn event() -> Event {
    Event {
        target: Target::Application,
        kind: Type::StatusUpdate,
        resource_id: "app_u".to_owned(),
        event_id: "app_u_1".to_owned(),
        subject: None,
        data: Bytes::from_static(b"{}"),
        extensions: BTreeMap::new(),
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it took too long")
}

#[tokio::test]
async fn the_stream_is_open_before_the_principal_says_so() {
    let (tasks, _supervisor) = Tasks::root("test");
    let (principal, dialer) = start(VERSION, None, &tasks).await;
    let mut state = dialer.state();
    let (on, mut opened) = mpsc::channel::<Opened>(1);
    tasks.spawn("agent", connection::run(dialer, on, tasks.clone()));
    let mut stream = within(opened.recv()).await.unwrap();
    assert_eq!((&*stream.agent, &*stream.hub_version, &*stream.hub_namespace), ("agent-a", VERSION, "argocd"));
    assert!(stream.capabilities.is_empty());
    stream.outgoing.send(event()).await.unwrap();
    assert_eq!(within(stream.incoming.recv()).await, Some(Ok(event())));
    assert!(within(stream.incoming.recv()).await.unwrap().is_err(), "what is no event does not end the stream");
    let down = |state: &State| {
        matches!(state, State::Failed(Failure::Refused { step: Step::Stream, code: Code::Unavailable, .. }))
    };
    within(state.wait_for(down)).await.unwrap();
    assert!(stream.close.is_cancelled());
    within(opened.recv()).await.unwrap();
    let seen = principal.seen.lock();
    let asked = &seen.requests[0];
    assert_eq!((&*asked.method, &*asked.mode, &*asked.version), ("mtls", "managed", VERSION));
    assert_eq!((&*asked.agent_namespace, asked.credentials.len()), ("spoke", 0));
    assert_eq!(seen.tokens[0], token(), "the token stands alone in its header");
}

#[tokio::test]
async fn what_the_principal_refuses_is_told() {
    let (tasks, _supervisor) = Tasks::root("test");
    let (_principal, dialer) = start("another", None, &tasks).await;
    let failure = within(dialer.attempt(&tasks)).await.unwrap_err();
    let expected = Failure::Refused {
        step: Step::Authenticate,
        code: Code::FailedPrecondition,
        message: "version mismatch".to_owned(),
    };
    assert_eq!(failure, expected);
}

#[tokio::test]
async fn a_hub_that_falls_silent_is_given_up() {
    let (tasks, _supervisor) = Tasks::root("test");
    let (principal, dialer) = start(VERSION, Some(10), &tasks).await;
    let mut state = dialer.state();
    let (on, mut opened) = mpsc::channel::<Opened>(1);
    tasks.spawn("agent", connection::run(dialer, on, tasks.clone()));
    let stream = within(opened.recv()).await.unwrap();
    within(state.wait_for(|state| matches!(state, State::Failed(Failure::Lost(_))))).await.unwrap();
    assert!(stream.close.is_cancelled());
    assert!(principal.seen.lock().signs_of_life > 10, "as long as it answered it was believed");
}

#[tokio::test]
async fn calls_that_need_a_new_token_ask_for_it_together_and_a_hub_that_refuses_is_left_alone() {
    let (tasks, _supervisor) = Tasks::root("test");
    let clock = ManualClock::new(SystemClock::new().now());
    let (principal, dialer) = start_at(Arc::new(clock.clone()), VERSION, None, &tasks).await;
    let (on, mut opened) = mpsc::channel::<Opened>(1);
    tasks.spawn("agent", connection::run(dialer, on, tasks.clone()));
    let stream = within(opened.recv()).await.unwrap();
    let many = async || {
        let calls = (0..20).map(|_| async {
            let mut request = Request::new(());
            stream.calls.authorize(request.metadata_mut()).await
        });
        within(futures::future::join_all(calls)).await
    };
    let asked = || principal.seen.lock().requests.len();
    assert!(many().await.iter().all(Result::is_ok));
    assert_eq!(asked(), 1, "the first token is still good");
    // This principal refreshes nothing.
    clock.advance(Duration::from_hours(25));
    assert!(many().await.iter().all(Result::is_ok));
    assert_eq!(asked(), 2);
    principal.seen.lock().refuses = true;
    clock.advance(Duration::from_hours(1));
    for _ in 0..3 {
        assert!(many().await.iter().all(Result::is_err));
    }
    assert_eq!(asked(), 3, "a refusal is not asked for again at once");
    principal.seen.lock().refuses = false;
    clock.advance(Duration::from_mins(2));
    assert!(many().await.iter().all(Result::is_ok));
    assert_eq!(asked(), 4);
}
