//! One client's connection with its sockets.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use thane_api::redis::{Ask, Said};
use thane_redis::client::Server;
use thane_runtime::Tasks;
use thane_runtime::net::{BoxIo, SharedNetwork};
use thane_runtime::tls::ServerTls;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::Config;
use super::desk::{Desk, Told, Unanswered};
use super::follow::Follow;
use super::metrics::Metrics;
use super::session::{Answer, Effect, Owners, Question, Session};

/// Bytes that are read at once, and that wait for a slow reader before more are read for it.
const READ: usize = 16 * 1024;
const UNSENT_MAX: usize = 1024 * 1024;
/// How long a client that is to be let go may read nothing of what is left for it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// What every connection stands on.
pub(super) struct Door {
    pub(super) config: Config,
    pub(super) owners: Arc<dyn Owners>,
    pub(super) upstream: Server,
    pub(super) network: SharedNetwork,
    pub(super) desk: Arc<Desk>,
    pub(super) tls: Option<ServerTls>,
    pub(super) metrics: Metrics,
    pub(super) tasks: Tasks,
}

impl Door {
    /// Serves one client to its end.
    pub(super) async fn serve(&self, stream: BoxIo) {
        let stream = match &self.tls {
            None => stream,
            Some(tls) => {
                let handshake = tokio::time::timeout(self.config.handshake_timeout, tls.acceptor().accept(stream));
                match handshake.await {
                    Ok(Ok(stream)) => Box::new(stream) as BoxIo,
                    Ok(Err(_)) | Err(_) => return self.metrics.closed("handshake"),
                }
            }
        };
        let upstream = match self.upstream.connect(&self.network).await {
            Ok(upstream) => upstream,
            Err(error) => {
                tracing::warn!(redis = %self.upstream, %error, "the hub's Redis cannot be reached");
                return self.metrics.closed("unreachable");
            }
        };
        self.metrics.connections.inc();
        let mut connection = Connection::new(self, stream, upstream);
        if let Err(error) = connection.run().await {
            tracing::debug!(%error, "a connection to Redis ended");
        }
        self.metrics.connections.dec();
    }

    async fn get(&self, agent: &str, connection: &str, key: String) -> Answer {
        let said = self.desk.ask(agent, connection, Ask::Get(key)).await;
        self.metrics.asked(agent, "get", matches!(said, Ok(Said::Hit(_) | Said::Miss)));
        match said {
            Ok(Said::Hit(value)) => match self.desk.hold(value) {
                Some(value) => Answer::Hit(value),
                None => Answer::Failed("TRYAGAIN", "too many answers wait to be read".to_owned()),
            },
            Ok(Said::Miss) => Answer::Miss,
            Ok(Said::Failed(why) | Said::Refused(why)) => Answer::Failed("ERR", format!("agent {agent}: {why}")),
            Ok(_) => Answer::Failed("ERR", format!("agent {agent} answered another question")),
            Err(Unanswered::Absent) => Answer::Failed("ERR", format!("agent {agent} is not connected")),
            Err(Unanswered::Lost) => {
                Answer::Failed("ERR", format!("agent {agent} was disconnected before it answered"))
            }
            Err(Unanswered::Late) => {
                Answer::Failed("ERR", format!("agent {agent} has not answered within {:?}", self.desk.timeout()))
            }
            // Clients try again by themselves what is refused with that word.
            Err(Unanswered::Busy) => Answer::Failed("TRYAGAIN", format!("agent {agent} has too many questions")),
        }
    }
}

type Answers<'a> = FuturesUnordered<BoxFuture<'a, (u64, Answer)>>;

/// A channel of an agent, until it is left.
struct Listening {
    ticket: u64,
    _stop: DropGuard,
}

struct Connection<'a> {
    door: &'a Door,
    id: String,
    session: Session,
    client: (ReadHalf<BoxIo>, WriteHalf<BoxIo>),
    upstream: (ReadHalf<BoxIo>, WriteHalf<BoxIo>),
    to_client: BytesMut,
    to_upstream: BytesMut,
    answers: Answers<'a>,
    told: Arc<Told>,
    listening: BTreeMap<String, Listening>,
    /// The client sends no more.
    has_ended: bool,
    /// Why it is to be closed once everything is written.
    closes: Option<&'static str>,
}

impl<'a> Connection<'a> {
    fn new(door: &'a Door, client: BoxIo, upstream: BoxIo) -> Self {
        Self {
            door,
            id: Uuid::new_v4().to_string(),
            session: Session::new(door.config.bounds, Arc::clone(&door.owners)),
            client: tokio::io::split(client),
            upstream: tokio::io::split(upstream),
            to_client: BytesMut::new(),
            to_upstream: BytesMut::new(),
            answers: Answers::new(),
            told: Arc::default(),
            listening: BTreeMap::new(),
            has_ended: false,
            closes: None,
        }
    }

    async fn run(&mut self) -> io::Result<()> {
        let (mut from_client, mut from_upstream) = (BytesMut::new(), BytesMut::new());
        loop {
            let is_drained = self.to_client.is_empty();
            if self.closes.is_some() && is_drained || self.has_ended && is_drained && self.session.is_idle() {
                if let Some(why) = self.closes {
                    self.door.metrics.closed(why);
                }
                return self.client.1.shutdown().await;
            }
            let is_open = self.closes.is_none();
            let has_room = self.to_client.len() < UNSENT_MAX;
            let reads_client = is_open
                && !self.has_ended
                && has_room
                && self.to_upstream.len() < UNSENT_MAX
                && self.session.reads_client();
            let reads_upstream = is_open && has_room && self.session.reads_upstream();
            from_client.reserve(READ);
            from_upstream.reserve(READ);
            tokio::select! {
                written = self.client.1.write_buf(&mut self.to_client), if !is_drained => {
                    nonzero(written)?;
                    self.client.1.flush().await?;
                }
                written = self.upstream.1.write_buf(&mut self.to_upstream), if is_open && !self.to_upstream.is_empty() => {
                    nonzero(written)?;
                    self.upstream.1.flush().await?;
                }
                read = self.client.0.read_buf(&mut from_client), if reads_client => {
                    self.has_ended = read? == 0;
                    self.session.client(&from_client.split());
                }
                read = self.upstream.0.read_buf(&mut from_upstream), if reads_upstream => {
                    if read? == 0 {
                        self.closes = Some("upstream ended");
                    }
                    self.session.upstream(&from_upstream.split());
                }
                () = tokio::time::sleep(CLOSE_TIMEOUT), if !is_drained && (!is_open || self.has_ended) => {
                    self.door.metrics.closed("unread");
                    return Ok(());
                }
                Some((ticket, answer)) = self.answers.next(), if is_open && !self.answers.is_empty() => {
                    self.session.answered(ticket, answer);
                }
                // Nobody hears twice that something has changed while the first word of it waits.
                channels = self.told.channels(), if is_open && has_room => {
                    for channel in channels {
                        self.session.notified(channel.as_bytes());
                    }
                }
            }
            self.carry_out();
        }
    }

    fn carry_out(&mut self) {
        loop {
            let effects = self.session.effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    Effect::ToClient(bytes) => self.to_client.extend_from_slice(&bytes),
                    Effect::ToUpstream(bytes) => self.to_upstream.extend_from_slice(&bytes),
                    Effect::Ask(ticket, agent, Question::Get(key)) => {
                        let (door, id) = (self.door, self.id.clone());
                        let answer = async move { (ticket, door.get(&agent, &id, key).await) };
                        self.answers.push(answer.boxed());
                    }
                    Effect::Ask(ticket, agent, Question::Subscribe(channel)) => self.listen(ticket, agent, channel),
                    Effect::Left(channel) => {
                        if let Some(left) = self.listening.remove(&channel) {
                            // It may have been left before it was confirmed; commands are still answered one by one.
                            self.session.answered(left.ticket, Answer::Subscribed);
                        }
                    }
                    Effect::Close(why) => self.closes = Some(why),
                }
            }
        }
    }

    fn listen(&mut self, ticket: u64, agent: String, channel: String) {
        let follow = Follow {
            desk: Arc::clone(&self.door.desk),
            agent,
            channel: channel.clone(),
            told: Arc::clone(&self.told),
            ping_interval: self.door.config.ping_interval,
            metrics: self.door.metrics.clone(),
        };
        let (confirm, confirmed) = oneshot::channel();
        let stop: CancellationToken = self.door.tasks.token().child_token();
        let stopped = stop.clone();
        self.door.tasks.spawn("channel", async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = follow.run(confirm) => {}
            }
        });
        self.listening.insert(channel, Listening { ticket, _stop: stop.drop_guard() });
        let ended = || Answer::Failed("ERR", "it is no longer listened to".to_owned());
        self.answers.push(confirmed.map(move |answer| (ticket, answer.unwrap_or_else(|_| ended()))).boxed());
    }
}

fn nonzero(written: io::Result<usize>) -> io::Result<()> {
    if written? == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
