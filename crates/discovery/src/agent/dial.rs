//! Connections out of the agent: to the hub, and to what is checked.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::client::conn::http2;
use thane_runtime::Tasks;
pub(super) use thane_runtime::dial::tls;
use thane_runtime::dial::{self, KeepAlive};
use thane_runtime::net::BoxIo;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Host and port of an address; a scheme before it and a path behind it are ignored.
pub(super) fn host_and_port(address: &str, default: Option<u16>) -> Option<(String, u16)> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split('/').next()?;
    let bare = |host: &str| host.trim_matches(['[', ']']).to_owned();
    match authority.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && (!host.contains(':') || host.ends_with(']')) => {
            Some((bare(host), port.parse().ok()?))
        }
        Some(("", _)) => None,
        _ if !authority.is_empty() => Some((bare(authority), default?)),
        _ => None,
    }
}

/// One HTTP/2 connection that gRPC calls are made through.
#[derive(Clone)]
pub(super) struct Channel {
    sender: http2::SendRequest<Body>,
}

impl Channel {
    /// Takes a stream into use; the connection ends with `close`, and cancels it when it ends by itself.
    pub(super) async fn over(
        stream: BoxIo,
        keep_alive: Option<Duration>,
        close: CancellationToken,
        tasks: &Tasks,
    ) -> Result<Self, BoxError> {
        let keep_alive = KeepAlive { interval: keep_alive, timeout: keep_alive.unwrap_or_default() };
        let (sender, connection) = dial::http2(stream, keep_alive).await?;
        tasks.spawn("connection", async move {
            let _ended = close.clone().drop_guard();
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_every_form() {
        for (address, expected) in [
            ("hub:8443", Some(("hub", 8443))),
            ("https://hub:8443/", Some(("hub", 8443))),
            ("hub", Some(("hub", 1))),
            ("[::1]:80", Some(("::1", 80))),
            ("::1", Some(("::1", 1))),
            ("127.0.0.1:5/service", Some(("127.0.0.1", 5))),
            ("hub:http", None),
            ("hub:99999", None),
            ("", None),
            (":80", None),
        ] {
            let read = host_and_port(address, Some(1));
            assert_eq!(read.as_ref().map(|(host, port)| (host.as_str(), *port)), expected, "{address}");
        }
    }
}
