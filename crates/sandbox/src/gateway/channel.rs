//! One HTTP/2 connection to a sidecar, over TLS.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use thane_runtime::Tasks;
use thane_runtime::net::{Connector, Tcp};
use thane_runtime::tls::ClientTls;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;

use crate::names::{SIDECAR_NAME, SIDECAR_PORT};

/// Enough for a fast stream on one machine; there may be thousands of connections.
const STREAM_WINDOW: u32 = 512 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// A sidecar that is silent during a call is asked for a sign of life so often, and has as long to give it.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// How long calls may go on when the gateway ends.
const DRAIN: Duration = Duration::from_secs(5);
/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(2);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum NoChannel {
    /// Nobody listens there, or not yet.
    Refused(String),
    /// Whoever listens there is not a sidecar of ours.
    Stranger(String),
}

impl NoChannel {
    pub(crate) fn into_message(self) -> String {
        match self {
            Self::Refused(message) | Self::Stranger(message) => message,
        }
    }
}

/// A connection; clones are the same.
#[derive(Clone)]
pub(crate) struct Channel {
    sender: http2::SendRequest<Body>,
}

impl Channel {
    /// Connects; the connection ends with `close`, and cancels it when it ends by itself.
    pub(crate) async fn open(
        host: &str,
        tls: &ClientTls,
        close: CancellationToken,
        tasks: &Tasks,
    ) -> Result<Self, NoChannel> {
        match tokio::time::timeout(ATTEMPT, Self::dial(host, tls, close, tasks)).await {
            Ok(opened) => opened,
            Err(_) => Err(NoChannel::Refused(format!("{host} does not answer"))),
        }
    }

    async fn dial(host: &str, tls: &ClientTls, close: CancellationToken, tasks: &Tasks) -> Result<Self, NoChannel> {
        let refused = |error: &dyn std::fmt::Display| NoChannel::Refused(format!("{host}: {error}"));
        let stream = Tcp.connect(host, SIDECAR_PORT).await.map_err(|error| refused(&error))?;
        let mut config = tls.config().as_ref().clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from(SIDECAR_NAME).map_err(|error| refused(&error))?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| {
            match error.kind() {
                // What rustls itself says about the other's certificate.
                io::ErrorKind::InvalidData => NoChannel::Stranger(format!("{host}: {error}")),
                _ => refused(&error),
            }
        })?;
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(|error| refused(&error))?;
        let group = tasks.clone();
        tasks.spawn("sidecar connection", async move {
            let _ended = close.clone().drop_guard();
            // Calls under way are let to their end, but not for ever.
            let stopped = async {
                group.cancelled().await;
                tokio::time::sleep(DRAIN).await;
            };
            tokio::select! {
                () = stopped => {}
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%error, "connection to a sidecar ended");
                },
                () = close.cancelled() => {}
            }
        });
        Ok(Self { sender })
    }
}

impl tower::Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.sender.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.sender.send_request(request);
        Box::pin(async move { Ok(answer.await?.map(Body::new)) })
    }
}
