//! Sockets: queries in, answers out.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thane_runtime::clock::SharedClock;
use thane_runtime::net::{BoxIo, Datagrams, Listener};
use thane_runtime::tasks::Tasks;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::access::{Access, Guard};
use crate::backend::{Backend, Consistency};
use crate::topic::{Topic, TopicData};

use super::answer::{Context, answer, found_among_nodes};
use super::lookup::{Lookup, lookup};
use super::record::{Answer, CLASS_ANY, CLASS_IN, Code, kind};
use super::wire::{self, Malformed, Query};
use super::write::{self, Limits, Transport};
use super::{Metrics, Settings};

/// Queries over UDP that wait for the hub at once; more are dropped, and asked again by who wants them.
const WAITING_MAX: usize = 1024;
const CONNECTIONS_MAX: usize = 512;
/// A connection without a query for so long is closed.
const IDLE: Duration = Duration::from_secs(10);
/// Clients of DNS do not wait longer.
const PATIENCE: Duration = Duration::from_secs(4);
/// After an error of the socket itself.
const PAUSE: Duration = Duration::from_millis(50);

/// What answers are made from.
pub struct Edge {
    /// The registry.
    pub backend: Arc<dyn Backend>,
    /// How names are answered.
    pub settings: Settings,
    /// The time, for the zone's serial.
    pub clock: SharedClock,
    /// What is counted.
    pub metrics: Metrics,
    /// Where the order of instances is drawn from.
    pub chance: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// What answers are made from, and who sees it: nobody shows a token over DNS.
struct Server {
    edge: Edge,
    guard: Guard,
}

impl std::ops::Deref for Server {
    type Target = Edge;

    fn deref(&self) -> &Edge {
        &self.edge
    }
}

/// Answers on both until the tasks are stopped.
pub fn serve(udp: Box<dyn Datagrams>, tcp: Box<dyn Listener>, edge: Edge, tasks: &Tasks) {
    let server = Arc::new(Server { guard: Guard::new(Arc::clone(&edge.backend)), edge });
    let group = tasks.child("dns");
    tasks.spawn_essential("dns-udp", datagrams(Arc::from(udp), Arc::clone(&server), group.clone()));
    tasks.spawn_essential("dns-tcp", connections(tcp, server, group));
}

async fn datagrams(socket: Arc<dyn Datagrams>, edge: Arc<Server>, tasks: Tasks) {
    let waiting = Arc::new(Semaphore::new(WAITING_MAX));
    let mut buffer = vec![0; usize::from(u16::MAX)];
    loop {
        let received = tokio::select! {
            () = tasks.cancelled() => return,
            received = socket.receive(&mut buffer) => received,
        };
        let Ok((length, peer)) = received else {
            // Errors here are echoes of earlier answers (port unreachable); a pause keeps a broken socket from spinning.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        match edge.at_once(&buffer[..length], Transport::Udp) {
            Reply::Now(packet) => send(socket.as_ref(), &packet, peer).await,
            Reply::Silence => {}
            Reply::Wait(query, lookup) => match Arc::clone(&waiting).try_acquire_owned() {
                Ok(permit) => {
                    let (socket, edge) = (Arc::clone(&socket), Arc::clone(&edge));
                    tasks.spawn("dns-query", async move {
                        let packet = edge.in_time(&query, &lookup, Transport::Udp).await;
                        send(socket.as_ref(), &packet, peer).await;
                        drop(permit);
                    });
                }
                Err(_) => edge.metrics.dropped(),
            },
        }
    }
}

async fn send(socket: &dyn Datagrams, packet: &[u8], peer: SocketAddr) {
    if let Err(error) = socket.send(packet, peer).await {
        tracing::debug!(%peer, %error, "DNS answer not sent");
    }
}

async fn connections(listener: Box<dyn Listener>, edge: Arc<Server>, tasks: Tasks) {
    let open = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            () = tasks.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        match Arc::clone(&open).try_acquire_owned() {
            Ok(permit) => {
                let edge = Arc::clone(&edge);
                tasks.spawn("dns-connection", async move {
                    // A client that goes away in the middle is no news.
                    let _ = connection(stream, &edge).await;
                    drop(permit);
                });
            }
            Err(_) => edge.metrics.dropped(),
        }
    }
}

/// Queries one after the other, each behind its length.
async fn connection(mut stream: BoxIo, edge: &Server) -> io::Result<()> {
    loop {
        let read = timeout(IDLE, async {
            let length = stream.read_u16().await?;
            let mut packet = vec![0; usize::from(length)];
            stream.read_exact(&mut packet).await?;
            Ok::<_, io::Error>(packet)
        });
        let Ok(packet) = read.await else { return Ok(()) };
        let packet = match edge.at_once(&packet?, Transport::Tcp) {
            Reply::Now(packet) => packet,
            Reply::Wait(query, lookup) => edge.in_time(&query, &lookup, Transport::Tcp).await,
            Reply::Silence => return Ok(()),
        };
        let length = u16::try_from(packet.len()).map_err(io::Error::other)?;
        let mut framed = Vec::with_capacity(packet.len() + 2);
        framed.extend_from_slice(&length.to_be_bytes());
        framed.extend_from_slice(&packet);
        match timeout(IDLE, stream.write_all(&framed)).await {
            Ok(written) => written?,
            Err(_) => return Ok(()),
        }
    }
}

/// What can be said without waiting.
enum Reply {
    Now(Vec<u8>),
    Wait(Box<Query>, Lookup),
    Silence,
}

impl Server {
    fn at_once(&self, packet: &[u8], transport: Transport) -> Reply {
        let query = match wire::read(packet) {
            Ok(query) => query,
            Err(Malformed::Silent) => return Reply::Silence,
            Err(Malformed::Told { id, opcode }) => {
                self.metrics.answered(label(transport), Code::Malformed);
                return Reply::Now(write::refusal(id, opcode, Code::Malformed));
            }
        };
        if let Some(code) = unanswerable(&query) {
            return Reply::Now(self.finish(&query, Answer::of(code, code == Code::NotImplemented), transport));
        }
        let place = self.backend.place();
        let lookup = lookup(&query.question, &self.settings, &place.datacenter);
        match self.ready(&lookup) {
            Some((data, more)) => Reply::Now(self.answer(&query, &lookup, data.as_deref(), more.as_deref(), transport)),
            None => Reply::Wait(Box::new(query), lookup),
        }
    }

    /// What the lookup needs, if all of it is here.
    fn ready(&self, lookup: &Lookup) -> Option<Needed> {
        let Some(topic) = lookup.topic() else { return Some((None, None)) };
        let access = self.guard.quick(None)?;
        let data = seen(&access, self.backend.ready(&topic, Consistency::Stale)?.data);
        let more = match lookup {
            Lookup::Reverse(ip) if !found_among_nodes(*ip, &data) => {
                Some(seen(&access, self.backend.ready(&Topic::Instances, Consistency::Stale)?.data))
            }
            _ => None,
        };
        Some((Some(data), more))
    }

    async fn in_time(&self, query: &Query, lookup: &Lookup, transport: Transport) -> Vec<u8> {
        match timeout(PATIENCE, self.fetch(lookup)).await {
            Ok(Some((data, more))) => self.answer(query, lookup, data.as_deref(), more.as_deref(), transport),
            _ => self.finish(query, Answer::of(Code::ServerFailure, false), transport),
        }
    }

    async fn fetch(&self, lookup: &Lookup) -> Option<Needed> {
        let Some(topic) = lookup.topic() else { return Some((None, None)) };
        let access = self.guard.access(None).await.ok()?;
        let data = seen(&access, self.backend.read(&topic, Consistency::Stale).await.ok()?.data);
        let more = match lookup {
            Lookup::Reverse(ip) if !found_among_nodes(*ip, &data) => {
                Some(seen(&access, self.backend.read(&Topic::Instances, Consistency::Stale).await.ok()?.data))
            }
            _ => None,
        };
        Some((Some(data), more))
    }

    fn answer(
        &self,
        query: &Query,
        lookup: &Lookup,
        data: Option<&TopicData>,
        more: Option<&TopicData>,
        transport: Transport,
    ) -> Vec<u8> {
        let context = Context {
            settings: &self.settings,
            place: self.backend.place(),
            now: self.clock.now().as_second(),
            seed: (self.chance)(),
        };
        self.finish(query, answer(&query.question, lookup, data, more, context), transport)
    }

    fn finish(&self, query: &Query, answer: Answer, transport: Transport) -> Vec<u8> {
        self.metrics.answered(label(transport), answer.code);
        let limits =
            Limits { transport, udp_answers_max: self.settings.udp_answers_max, truncate: self.settings.truncate };
        let (packet, cut) = write::answer(query, answer, limits);
        if cut {
            self.metrics.cut();
        }
        packet
    }
}

/// What may be seen without a token.
fn seen(access: &Access, data: Arc<TopicData>) -> Arc<TopicData> {
    if access.is_open() {
        return data;
    }
    Arc::new(TopicData::new(data.index, data.rows.iter().filter(|row| access.sees(row)).cloned().collect()))
}

type Needed = (Option<Arc<TopicData>>, Option<Arc<TopicData>>);

/// What is refused whatever the name.
fn unanswerable(query: &Query) -> Option<Code> {
    if query.edns.is_some_and(|edns| edns.version != 0) {
        return Some(Code::BadVersion);
    }
    if query.opcode != 0 || matches!(query.question.kind, kind::AXFR | kind::IXFR) {
        return Some(Code::NotImplemented);
    }
    (!matches!(query.question.class, CLASS_IN | CLASS_ANY)).then_some(Code::Refused)
}

fn label(transport: Transport) -> &'static str {
    match transport {
        Transport::Udp => "udp",
        Transport::Tcp => "tcp",
    }
}
