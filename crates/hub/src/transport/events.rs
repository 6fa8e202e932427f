//! The stream of events: one for each agent, and the newest one counts.

mod active;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use thane_api::event::{Codec, DecodeError, Event, PONG, Target, Type};
use thane_api::wire::events::{PingRequest, PongReply, PushSummary};
use thane_runtime::Tasks;
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::codec::CompressionEncoding::Gzip;
use tonic::codec::{BufferSettings, Codec as GrpcCodec};
use tonic::server::{Grpc, NamedService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::{ProstCodec, ProstEncoder};

use active::{Active, Outgoing};

use super::metrics::Open;
use super::{Service, Stream, services};

type Received = Result<Event, DecodeError>;

/// What the stream of events needs.
pub(super) struct Events {
    service: Service,
    active: Active,
    tasks: Tasks,
}

/// Reads what one agent sends.
struct Reader {
    stream: Streaming<Received>,
    incoming: mpsc::Sender<Received>,
    outgoing: mpsc::WeakSender<Event>,
    is_answered: bool,
    received: Counter,
    _open: Open,
}

impl Events {
    pub(super) fn new(service: Service, tasks: Tasks) -> Self {
        Self { service, active: Active::default(), tasks }
    }

    async fn subscribe(&self, request: Request<Streaming<Received>>) -> Result<Response<Outgoing>, Status> {
        let (identity, connection) = services::admit(&self.service.gate, &request)?;
        let config = &self.service.config;
        let (outgoing, to_send) = mpsc::channel(config.outgoing_max);
        let (incoming, received) = mpsc::channel(config.incoming_max);
        let (received_count, sent_count) = self.service.metrics.calls().messages();
        let handle = self.active.replace(&identity.agent, incoming.clone(), connection.ended.child_token());
        let reader = Reader {
            stream: request.into_inner(),
            incoming,
            outgoing: outgoing.downgrade(),
            is_answered: identity.capabilities.contains(PONG),
            received: received_count,
            _open: self.service.metrics.subscribed(),
        };
        let response = handle.outgoing(to_send, self.active.clone(), sent_count);
        let close = handle.close.clone();
        let (peer, status) = (connection.peer.address, Arc::clone(&handle.status));
        let stream = Stream { identity, peer, outgoing, incoming: received, close, status };
        let handing_over = tokio::time::timeout(config.handshake_timeout, self.service.streams.send(stream));
        if !matches!(handing_over.await, Ok(Ok(()))) {
            return Err(Status::unavailable("the hub is not ready for streams"));
        }
        let metrics = self.service.metrics.clone();
        self.tasks.spawn("stream", async move {
            let ended = tokio::select! {
                () = handle.close.cancelled() => None,
                ended = reader.read(&metrics) => ended,
            };
            if let Some(status) = ended {
                metrics.broken();
                handle.end(status);
            }
            handle.close.cancel();
        });
        Ok(services::capable(&self.service.gate, response))
    }

    async fn push(&self, request: Request<Streaming<Received>>) -> Result<Response<PushSummary>, Status> {
        let (identity, _) = services::admit(&self.service.gate, &request)?;
        let mut stream = request.into_inner();
        let mut summary = PushSummary { result: "OK".to_owned(), ..PushSummary::default() };
        while let Some(received) = stream.message().await? {
            summary.received = summary.received.saturating_add(1);
            match received {
                Ok(event) if event.target == Target::Application => {
                    let absent = || Status::failed_precondition("no stream of events is open");
                    let incoming = self.active.incoming(&identity.agent).ok_or_else(absent)?;
                    incoming.send(Ok(event)).await.map_err(|_| absent())?;
                    summary.processed = summary.processed.saturating_add(1);
                }
                Ok(_) => {}
                Err(error) => self.service.metrics.refused(&error.fault),
            }
        }
        Ok(Response::new(summary))
    }

    fn ping(&self, request: &Request<PingRequest>) -> Result<Response<PongReply>, Status> {
        services::admit(&self.service.gate, request)?;
        Ok(Response::new(PongReply {}))
    }
}

impl Reader {
    /// Reads until the agent ends the stream, or breaks it: then with what to answer.
    async fn read(mut self, metrics: &super::Metrics) -> Option<Status> {
        loop {
            let received = match self.stream.message().await {
                Ok(Some(received)) => received,
                Ok(None) => return None,
                Err(status) => return Some(too_large(status)),
            };
            self.received.inc();
            match &received {
                Ok(event) if event.target == Target::Heartbeat => {
                    if event.kind == Type::Ping && self.is_answered {
                        self.answer(pong(event));
                    }
                    continue;
                }
                Ok(_) => {}
                Err(error) => {
                    metrics.refused(&error.fault);
                    if let Some(ack) = error.acknowledgement() {
                        self.answer(ack);
                    }
                }
            }
            if self.incoming.send(received).await.is_err() {
                return None;
            }
        }
    }

    /// Answers if there is room: whoever gets no answer asks again.
    fn answer(&self, event: Event) {
        if let Some(outgoing) = self.outgoing.upgrade() {
            let _ = outgoing.try_send(event);
        }
    }
}

fn pong(ping: &Event) -> Event {
    Event { kind: Type::Pong, data: bytes::Bytes::new(), ..ping.clone() }
}

/// grpc-go's code for messages that are too large, which agents know.
fn too_large(status: Status) -> Status {
    match status.code() {
        tonic::Code::OutOfRange => Status::resource_exhausted(status.message()),
        _ => status,
    }
}

/// The service `EventStream`, with a codec that survives frames that are no events.
#[derive(Clone)]
pub(super) struct EventStream {
    events: Arc<Events>,
}

impl EventStream {
    pub(super) fn new(events: Events) -> Self {
        Self { events: Arc::new(events) }
    }

    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        let config = &self.events.service.config;
        let limit = config.message_bytes_max;
        let codec = Codec::new(config.source.as_str());
        let events = &self.events;
        match request.uri().path() {
            "/eventstreamapi.EventStream/Subscribe" => {
                let mut grpc = Grpc::new(codec).accept_compressed(Gzip).max_decoding_message_size(limit);
                // Compressed is what was asked for by compressing.
                if request.headers().get("grpc-encoding").is_some_and(|encoding| encoding == "gzip") {
                    grpc = grpc.send_compressed(Gzip);
                }
                let method = tower::service_fn(|request| {
                    let events = Arc::clone(events);
                    async move { events.subscribe(request).await }
                });
                grpc.streaming(method, request).await
            }
            "/eventstreamapi.EventStream/Push" => {
                let grpc = Grpc::new(PushCodec { events: codec });
                let method = tower::service_fn(|request| {
                    let events = Arc::clone(events);
                    async move { events.push(request).await }
                });
                grpc.accept_compressed(Gzip).max_decoding_message_size(limit).client_streaming(method, request).await
            }
            "/eventstreamapi.EventStream/Ping" => {
                let method = tower::service_fn(|request| {
                    let events = Arc::clone(events);
                    async move { events.ping(&request) }
                });
                let codec = ProstCodec::<PongReply, PingRequest>::new();
                Grpc::new(codec).accept_compressed(Gzip).unary(method, request).await
            }
            _ => Status::unimplemented("no such method").into_http(),
        }
    }
}

impl NamedService for EventStream {
    const NAME: &'static str = "eventstreamapi.EventStream";
}

impl tower::Service<http::Request<Body>> for EventStream {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

/// Events come, a summary goes.
struct PushCodec {
    events: Codec,
}

impl GrpcCodec for PushCodec {
    type Encode = PushSummary;
    type Decode = Received;
    type Encoder = ProstEncoder<PushSummary>;
    type Decoder = Codec;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::default())
    }

    fn decoder(&mut self) -> Codec {
        self.events.clone()
    }
}
