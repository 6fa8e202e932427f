//! Live access as argocd-agent has it: requests go to an agent as events, answers, logs and terminals come back.
//!
//! Every answer belongs to a session, and every session to one agent: nobody else can answer in its place.

mod answer;
mod channels;
mod discovery;
mod logs;
mod metrics;
mod path;
mod sessions;
mod terminal;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use http_body_util::BodyExt;
use prometheus_client::registry::Registry;
use thane_api::event::{Event, Target, Type};
use thane_api::live::{Query, ResourceRequest, ResourceResponse};
use thane_api::wire::logs::{LogStreamData, LogStreamResponse};
use thane_api::wire::terminal::TerminalStreamData;
use thane_link::{Line, Passage, Passing, Takers, Unsent};
use thane_runtime::Tasks;
use tokio::sync::oneshot;
use tonic::Status;

use self::answer::{plain, refusal};
pub(crate) use self::channels::{Protocol, ended};
use self::metrics::Metrics;
use self::path::{Asked, Refused};
use self::sessions::{Session, Sessions, Wants};
use crate::proxy::{Body, Caller, Reach, Unreachable};
use crate::transport::{self, Messages};

/// How long an agent may take to answer, or to open a log or a terminal.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an agent may take to say whose log or terminal a stream is.
const FIRST_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of one request's body; a Kubernetes API takes three MiB.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of one message of a log or terminal; a session holds a few of them.
const PIECE_BYTES_MAX: usize = 1024 * 1024;

/// Reaches agents by events.
#[derive(Clone)]
pub struct Events(Arc<Inner>);

struct Inner {
    passage: Passage,
    sessions: Sessions,
    metrics: Metrics,
    tasks: Tasks,
}

impl Events {
    /// Ready to ask; `tasks` is where terminals run.
    pub fn new(passage: Passage, registry: &mut Registry, tasks: Tasks) -> Self {
        let metrics = Metrics::default();
        metrics.register(registry);
        let sessions = Sessions::new(metrics.clone());
        Self(Arc::new(Inner { passage, sessions, metrics, tasks }))
    }

    /// Who takes what agents say: this, for answers of live access.
    pub fn takers(&self) -> Takers {
        Takers::default().with(Target::Resource, Arc::new(self.clone()))
    }

    /// Whether an agent could be asked now.
    pub fn is_connected(&self, agent: &str) -> bool {
        self.0.passage.line(agent).is_some()
    }

    /// Requests, logs and terminals that are open.
    pub fn open(&self) -> usize {
        self.0.sessions.len()
    }

    async fn carry(&self, agent: String, mut request: Request<Body>) -> Result<Response<Body>, Unreachable> {
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let asked = match path::read(request.method(), request.uri().path(), &query, content_type) {
            Ok(asked) => asked,
            Err(Refused::Unsupported(what)) => return Err(Unreachable::Unsupported(what)),
            Err(Refused::Status(status, message)) => return Ok(refusal(status, &message)),
        };
        match asked {
            Asked::Version => Ok(discovery::version()),
            Asked::Discovery(document) => {
                let answer = self.request(&agent, ResourceRequest { method: "GET".to_owned(), ..Default::default() });
                Ok(discovery::document(answer.await?, &document))
            }
            Asked::Resource(asked) => {
                let body = match whole(request.into_body()).await {
                    Ok(body) => body,
                    Err((status, reason)) => return Ok(refusal(status, &reason)),
                };
                let is_creation = asked.method == "POST" && asked.subresource.is_empty();
                Ok(answer::of_agent(self.request(&agent, ResourceRequest { body, ..asked }).await?, is_creation))
            }
            Asked::Log(asked) => self.log(&agent, asked).await,
            Asked::Exec(asked) => {
                let upgrade = request.extensions_mut().remove::<hyper::upgrade::OnUpgrade>();
                let record = request.extensions_mut().remove();
                self.exec(&agent, asked, request.headers(), (upgrade, record)).await
            }
        }
    }

    /// Asks an agent and waits for its answer.
    async fn request(&self, agent: &str, request: ResourceRequest) -> Result<ResourceResponse, Unreachable> {
        let line = self.line(agent)?;
        let (answer, answered) = oneshot::channel();
        let session = self.session(agent, Wants::Answer(Some(answer)))?;
        let request = ResourceRequest { uuid: session.uuid().to_owned(), ..request };
        let kind = Type::Verb(request.method.clone());
        ask(agent, &line, Target::Resource, kind, session.uuid(), &request)?;
        self.wait(agent, &line, answered).await
    }

    /// What comes from an agent before it is late or gone.
    async fn wait<T>(&self, agent: &str, line: &Line, coming: oneshot::Receiver<T>) -> Result<T, Unreachable> {
        let ended = line.ended();
        tokio::select! {
            biased;
            come = coming => come.map_err(|_| Unreachable::NotConnected(agent.to_owned())),
            () = ended => Err(Unreachable::NotConnected(agent.to_owned())),
            () = tokio::time::sleep(ANSWER_TIMEOUT) => {
                self.0.metrics.refused("late");
                Err(Unreachable::Late(agent.to_owned()))
            }
        }
    }

    fn line(&self, agent: &str) -> Result<Line, Unreachable> {
        self.0.passage.line(agent).ok_or_else(|| Unreachable::NotConnected(agent.to_owned()))
    }

    fn session(&self, agent: &str, wants: Wants) -> Result<Session, Unreachable> {
        self.0.sessions.open(agent, wants).ok_or_else(|| {
            self.0.metrics.refused("busy");
            Unreachable::Busy(agent.to_owned())
        })
    }
}

/// A whole body, within its bound; what to answer otherwise.
async fn whole(mut body: Body) -> Result<Bytes, (u16, String)> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| (400, format!("the body broke off: {error}")))?;
        whole.extend_from_slice(&frame.into_data().unwrap_or_default());
        if whole.len() > BODY_BYTES_MAX {
            return Err((413, "the body is too large for this agent".to_owned()));
        }
    }
    Ok(whole.freeze())
}

/// Puts a request on an agent's stream.
fn ask(
    agent: &str,
    line: &Line,
    target: Target,
    kind: Type,
    uuid: &str,
    request: &impl serde::Serialize,
) -> Result<(), Unreachable> {
    let data = serde_json::to_vec(request).map_err(|error| Unreachable::Refused(error.to_string()))?;
    line.send(Event::request(target, kind, uuid, Bytes::from(data))).map_err(|unsent| match unsent {
        Unsent::Absent => Unreachable::NotConnected(agent.to_owned()),
        Unsent::Full => Unreachable::Busy(agent.to_owned()),
    })
}

impl Reach for Events {
    fn send(
        &self,
        agent: &str,
        _user: &Caller,
        request: Request<Body>,
    ) -> BoxFuture<'_, Result<Response<Body>, Unreachable>> {
        let agent = agent.to_owned();
        Box::pin(self.carry(agent, request))
    }
}

impl Passing for Events {
    fn received(&self, peer: &str, event: Event) {
        if event.target != Target::Resource || event.kind != Type::Response {
            return self.0.metrics.refused("unasked");
        }
        let answer = match self.0.sessions.answer(peer, &event.event_id) {
            Ok(answer) => answer,
            Err(mismatch) => return self.0.metrics.refused(mismatch.as_str()),
        };
        match serde_json::from_slice(&event.data) {
            // Whoever asked may have gone.
            Ok(response) => drop(answer.send(response)),
            Err(error) => {
                self.0.metrics.refused("unreadable");
                let message = format!("the agent's answer cannot be read: {error}");
                let _ =
                    answer.send(ResourceResponse { status: 502, resource: plain(502, &message), ..Default::default() });
            }
        }
    }
}

impl transport::Live for Events {
    fn logs(
        &self,
        caller: transport::Caller,
        log: Messages<LogStreamData>,
    ) -> BoxFuture<'_, Result<LogStreamResponse, Status>> {
        Box::pin(self.take_log(caller, log))
    }

    fn terminal(
        &self,
        caller: transport::Caller,
        output: Messages<TerminalStreamData>,
    ) -> BoxFuture<'_, Result<Messages<TerminalStreamData>, Status>> {
        Box::pin(self.take_terminal(caller, output))
    }
}
