//! `kubectl port-forward`: SPDY inside a WebSocket, two streams for each connection.
//!
//! One task serves a client: it reads frames, runs the connections and sends frames, each as fast as the others let it.
//! What waits to be written to pods is bounded for all connections together, so that one that is stuck stops the others
//! only when it has used all of it.

mod streams;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{FuturesUnordered, SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use prometheus_client::metrics::counter::Counter;
use thane_runtime::net::BoxIo;
use thane_runtime::pods::PodAccess;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_tungstenite::tungstenite::Message;

use self::streams::{CONNECTIONS_MAX, Connection, Step, Streams};
use super::PodAt;
use super::channels::{LINGER, PIECE, PING, QUEUE, farewell};
use super::websocket::Socket;
use crate::spdy::{Broken, Decoder, Encoder, Frame, status};

/// As a client asks for it.
pub(super) const PROTOCOL: &str = "SPDY/3.1+portforward.k8s.io";

/// Bytes that wait to be written to pods.
const WAITING_MAX: usize = 8 << 20;
/// What a frame counts for at least.
const CHARGE_MIN: usize = 4 << 10;
/// So many frames fit.
const INPUT_QUEUE: usize = WAITING_MAX / CHARGE_MIN + 1;
/// A client of which nothing was heard for so many pings has gone.
const SILENCE_MAX: u32 = 3;

/// Bytes for a connection, and the room they take.
type Input = (Bytes, OwnedSemaphorePermit);

/// The way to a connection, while it is open.
struct Way {
    /// None when no more comes.
    input: Option<mpsc::Sender<Input>>,
    /// Its end is the connection's.
    _wanted: oneshot::Sender<Infallible>,
    /// The other ends, until the connection takes them.
    ends: Option<Ends>,
}

struct Ends {
    input: mpsc::Receiver<Input>,
    unwanted: oneshot::Receiver<Infallible>,
}

/// Serves a client until it has gone.
pub(super) async fn serve(socket: Socket, access: Arc<dyn PodAccess>, pod: PodAt, refused: Counter) {
    let (sink, stream) = socket.split();
    let (tell, frames) = mpsc::channel(QUEUE);
    let (connect, wanted) = mpsc::channel(CONNECTIONS_MAX);
    let (end, ended) = mpsc::channel(CONNECTIONS_MAX);
    let client = Client {
        streams: Streams::default(),
        ways: BTreeMap::new(),
        room: Arc::new(Semaphore::new(WAITING_MAX)),
        tell: tell.clone(),
        connect,
        ended,
        refused,
    };
    let target = Target { access, pod, tell, end };
    tokio::select! {
        () = send(sink, frames) => {}
        () = client.serve(stream) => {}
        () = connections(&target, wanted) => {}
    }
}

async fn send(mut sink: SplitSink<Socket, Message>, mut frames: mpsc::Receiver<Frame>) {
    let Ok(mut encoder) = Encoder::new() else { return };
    let mut pings = tokio::time::interval(PING);
    loop {
        let (message, last) = tokio::select! {
            frame = frames.recv() => {
                let Some(frame) = frame else { return };
                let Ok(bytes) = encoder.encode(&frame) else { return };
                (Message::Binary(bytes.into()), matches!(frame, Frame::GoAway { .. }))
            }
            _ = pings.tick() => (Message::Ping(Bytes::new()), false),
        };
        if sink.send(message).await.is_err() {
            return;
        }
        if last {
            // Whoever does not hear it is left all the same.
            let _ = sink.send(farewell()).await;
            return;
        }
    }
}

/// Runs connections as they are asked for.
async fn connections(target: &Target, mut wanted: mpsc::Receiver<(Connection, Ends)>) {
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some((connection, ends)) = wanted.recv() => running.push(target.connection(connection, ends)),
            Some(()) = running.next() => {}
            else => std::future::pending().await,
        }
    }
}

/// The side of the client.
struct Client {
    streams: Streams,
    ways: BTreeMap<u32, Way>,
    room: Arc<Semaphore>,
    tell: mpsc::Sender<Frame>,
    connect: mpsc::Sender<(Connection, Ends)>,
    ended: mpsc::Receiver<Connection>,
    refused: Counter,
}

impl Client {
    /// Reads until the client has gone or says what cannot be understood.
    async fn serve(mut self, stream: SplitStream<Socket>) {
        if let Err(broken) = self.read(stream).await {
            tracing::debug!(%broken, "a client of a pod's ports is not understood");
            let goodbye = Frame::GoAway { last: self.streams.last(), status: status::PROTOCOL_ERROR };
            // The sender ends everything once it is sent.
            let _ = self.tell.send(goodbye).await;
            tokio::time::sleep(LINGER).await;
        }
    }

    async fn read(&mut self, mut stream: SplitStream<Socket>) -> Result<(), Broken> {
        let mut decoder = Decoder::default();
        let mut ticks = tokio::time::interval(PING);
        let mut silence = 0;
        loop {
            let heard = tokio::select! {
                heard = stream.next() => heard,
                Some(connection) = self.ended.recv() => {
                    self.forget(connection);
                    continue;
                }
                _ = ticks.tick() => {
                    silence += 1;
                    if silence > SILENCE_MAX {
                        return Ok(());
                    }
                    let steps = self.streams.tick();
                    self.act(steps).await;
                    continue;
                }
            };
            silence = 0;
            match heard {
                Some(Ok(Message::Binary(bytes))) => decoder.push(&bytes),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Text(_) | Message::Frame(_))) => return Err(Broken::Malformed("a message of text")),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
            }
            while let Some(frame) = decoder.next()? {
                while let Ok(connection) = self.ended.try_recv() {
                    self.forget(connection);
                }
                let steps = self.streams.take(frame);
                self.act(steps).await;
            }
        }
    }

    fn forget(&mut self, connection: Connection) {
        self.streams.finished(connection);
        self.ways.remove(&connection.data);
    }

    async fn act(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Send(frame) => {
                    if matches!(frame, Frame::Reset { status: status::REFUSED_STREAM, .. }) {
                        self.refused.inc();
                    }
                    // When nobody sends any more, everything ends.
                    let _ = self.tell.send(frame).await;
                }
                Step::Open(stream) => {
                    let (input, inputs) = mpsc::channel(INPUT_QUEUE);
                    let (wanted, unwanted) = oneshot::channel();
                    let ends = Some(Ends { input: inputs, unwanted });
                    self.ways.insert(stream, Way { input: Some(input), _wanted: wanted, ends });
                }
                Step::Connect(connection) => {
                    if let Some(ends) = self.ways.get_mut(&connection.data).and_then(|way| way.ends.take()) {
                        let _ = self.connect.send((connection, ends)).await;
                    }
                }
                Step::Input(stream, bytes) => self.input(stream, bytes).await,
                Step::EndInput(stream) => {
                    if let Some(way) = self.ways.get_mut(&stream) {
                        way.input = None;
                    }
                }
                Step::Abort(stream) => drop(self.ways.remove(&stream)),
            }
        }
    }

    /// Waits for room, and so does the client.
    async fn input(&mut self, stream: u32, bytes: Bytes) {
        let Some(input) = self.ways.get(&stream).and_then(|way| way.input.clone()) else { return };
        let charge = u32::try_from(bytes.len().clamp(CHARGE_MIN, WAITING_MAX)).unwrap_or(u32::MAX);
        if let Ok(room) = Arc::clone(&self.room).acquire_many_owned(charge).await {
            // A connection that has ended takes no more; its end is on its way.
            let _ = input.send((bytes, room)).await;
        }
    }
}

/// The side of the pod.
struct Target {
    access: Arc<dyn PodAccess>,
    pod: PodAt,
    tell: mpsc::Sender<Frame>,
    end: mpsc::Sender<Connection>,
}

impl Target {
    async fn connection(&self, connection: Connection, ends: Ends) {
        let Ends { input, unwanted } = ends;
        tokio::select! {
            // Nobody ever says anything here: what can be heard is that the client wants no more.
            _ = unwanted => {}
            () = self.forward(connection, input) => {}
        }
        self.data(connection.error, true, Bytes::new()).await;
        let _ = self.end.send(connection).await;
    }

    /// Until the pod has nothing more to say.
    async fn forward(&self, connection: Connection, input: mpsc::Receiver<Input>) {
        let Connection { data, error, port } = connection;
        match self.access.dial(&self.pod.uid, port).await {
            Ok(stream) => {
                let whole = self.exchange(data, stream, input).await;
                let reset = Frame::Reset { stream: data, status: status::CANCEL };
                let last = if whole { Frame::Data { stream: data, fin: true, bytes: Bytes::new() } } else { reset };
                let _ = self.tell.send(last).await;
            }
            Err(why) => {
                let PodAt { name, uid } = &self.pod;
                let text = format!("error forwarding port {port} to pod {name}, uid {uid}: {why}");
                self.data(error, false, Bytes::from(text)).await;
                self.data(data, true, Bytes::new()).await;
            }
        }
    }

    /// Passes bytes on in both directions; whether the pod has ended it in order.
    async fn exchange(&self, data: u32, stream: BoxIo, mut input: mpsc::Receiver<Input>) -> bool {
        let (mut from, mut to) = tokio::io::split(stream);
        let reading = async {
            let mut buffer = vec![0; PIECE];
            loop {
                match from.read(&mut buffer).await {
                    Ok(0) => return true,
                    Ok(count) => self.data(data, false, Bytes::copy_from_slice(&buffer[..count])).await,
                    Err(_) => return false,
                }
            }
        };
        let writing = async {
            let mut open = true;
            while let Some((bytes, _room)) = input.recv().await {
                // A pod that reads no more may still have something to say.
                open = open && to.write_all(&bytes).await.is_ok();
            }
            if open {
                let _ = to.shutdown().await;
            }
            std::future::pending::<bool>().await
        };
        tokio::select! {
            whole = reading => whole,
            whole = writing => whole,
        }
    }

    async fn data(&self, stream: u32, fin: bool, bytes: Bytes) {
        // When nobody sends any more, everything ends.
        let _ = self.tell.send(Frame::Data { stream, fin, bytes }).await;
    }
}
