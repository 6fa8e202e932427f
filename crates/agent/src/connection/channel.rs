//! What calls are made through: one HTTP/2 connection, or a WebSocket for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper::client::conn::http2;
use thane_runtime::Tasks;
use thane_runtime::dial::{self, KeepAlive};
use thane_runtime::net::{BoxIo, SharedNetwork};
use thane_runtime::tls::ClientTls;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;

use super::failure::chain;
use super::watched::{Trouble, Watched};
use super::{Config, Failure, Step, websocket};

/// Time for a broken connection to say why, once a call has failed on it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How gRPC says in the header of an answer that it does not know who calls.
const GRPC_STATUS: &str = "grpc-status";
const UNAUTHENTICATED: &str = "16";

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Opens byte streams to the hub.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) config: Arc<Config>,
    pub(super) network: SharedNetwork,
    pub(super) tls: Option<ClientTls>,
}

impl Line {
    /// The hub's host and port, as they are written.
    pub(super) fn address(&self) -> String {
        let (host, port) = (&self.config.host, self.config.port);
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// The address as calls name it.
    pub(super) fn origin(&self) -> Result<Uri, Failure> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let uri = Uri::builder().scheme(scheme).authority(self.address()).path_and_query("/").build();
        uri.map_err(|error| self.unreachable(&error))
    }

    /// A byte stream to the hub on which `protocol` is spoken.
    pub(super) async fn open(&self, protocol: &[u8]) -> Result<BoxIo, Failure> {
        let timeout = self.config.connect_timeout;
        let connecting = self.network.connect(&self.config.host, self.config.port);
        let stream = tokio::time::timeout(timeout, connecting)
            .await
            .map_err(|_| self.late(Step::Connect))?
            .map_err(|error| self.unreachable(&error))?;
        let Some(tls) = &self.tls else { return Ok(stream) };
        let config = tls.config();
        let shaking = dial::tls(stream, &self.config.host, &config, protocol);
        let shaken = tokio::time::timeout(timeout, shaking).await.map_err(|_| self.late(Step::Tls))?;
        let address = self.address();
        shaken.map_err(|error| Failure::of_tls(&address, &error).unwrap_or_else(|| self.unreachable(&chain(&error))))
    }

    pub(super) fn late(&self, step: Step) -> Failure {
        Failure::Timeout { address: self.address(), step }
    }

    fn unreachable(&self, reason: &dyn std::fmt::Display) -> Failure {
        Failure::Unreachable { address: self.address(), reason: reason.to_string() }
    }
}

/// What calls are made through.
#[derive(Clone)]
pub struct Channel {
    calls: Calls,
    broken: watch::Receiver<Option<Failure>>,
    /// Whether the hub has said since the last new token that it does not believe it.
    refused: Arc<AtomicBool>,
}

#[derive(Clone)]
enum Calls {
    Http2(http2::SendRequest<Body>),
    WebSocket(websocket::Sockets),
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel").finish_non_exhaustive()
    }
}

impl Channel {
    /// Connects; the connection ends with `close`.
    pub(super) async fn open(line: &Line, close: &CancellationToken, tasks: &Tasks) -> Result<Self, Failure> {
        let (tell, broken) = watch::channel(None);
        if line.config.websocket {
            let sockets = websocket::Sockets::new(line.clone(), close.clone(), tasks.clone());
            return Ok(Self { calls: Calls::WebSocket(sockets), broken, refused: Arc::default() });
        }
        let trouble = Trouble::default();
        let stream = Watched { stream: line.open(b"h2").await?, address: line.address(), trouble: trouble.clone() };
        let keep_alive = KeepAlive { interval: line.config.keepalive_interval, timeout: line.config.keepalive_timeout };
        let shaking = tokio::time::timeout(line.config.connect_timeout, dial::http2(stream, keep_alive));
        let shaken = shaking.await.map_err(|_| line.late(Step::Http))?;
        let told = move |error: &hyper::Error| trouble.get().unwrap_or_else(|| Failure::Lost(chain(error)));
        let (sender, connection) = shaken.map_err(|error| told(&error))?;
        let close = close.clone();
        tasks.spawn("connection", async move {
            let ended = tokio::select! {
                ended = connection => ended,
                () = close.cancelled() => return,
            };
            tell.send_replace(ended.err().map(|error| told(&error)));
        });
        Ok(Self { calls: Calls::Http2(sender), broken, refused: Arc::default() })
    }

    /// Whether the hub has refused a call because of its token.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// There is a new token.
    pub(super) fn forgive(&self) {
        self.refused.store(false, Ordering::Relaxed);
    }

    /// Why the connection broke, if it did so itself: a refused certificate shows only after the handshake.
    pub(super) async fn last_words(&self) -> Option<Failure> {
        let mut broken = self.broken.clone();
        let told = tokio::time::timeout(LAST_WORDS, broken.wait_for(Option::is_some)).await;
        told.ok()?.ok()?.clone()
    }
}

impl tower::Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match &mut self.calls {
            Calls::Http2(sender) => sender.poll_ready(context).map_err(Into::into),
            Calls::WebSocket(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer: Self::Future = match &mut self.calls {
            Calls::Http2(sender) => {
                let answer = sender.send_request(request);
                Box::pin(async move { Ok(answer.await?.map(Body::new)) })
            }
            Calls::WebSocket(sockets) => Box::pin(sockets.clone().call(request)),
        };
        let refused = Arc::clone(&self.refused);
        Box::pin(async move {
            let answer = answer.await?;
            if answer.headers().get(GRPC_STATUS).is_some_and(|code| code == UNAUTHENTICATED) {
                refused.store(true, Ordering::Relaxed);
            }
            Ok(answer)
        })
    }
}
