//! Agreeing to go on with a WebSocket.

use std::future::Future;

use http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{HeaderValue, Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::Call;
use crate::failure::{Failure, Result};
use crate::response::{Answer, Body};
use crate::server::PodDoor;

/// The largest message either side sends.
const MESSAGE_MAX: usize = 1 << 20;

/// An open WebSocket.
pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// What a client asked for, and what it gets.
pub(super) struct Handshake {
    upgrade: OnUpgrade,
    accept: HeaderValue,
    /// What is spoken over it.
    pub(super) protocol: &'static str,
}

impl Handshake {
    /// Reads it from the request; `protocols` are those we speak, the best first.
    pub(super) fn read(call: &Call<'_>, protocols: &[&'static str]) -> Result<Self> {
        let words = |name: HeaderName| -> Vec<String> {
            let values = call.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.flat_map(|value| value.split(',')).map(|word| word.trim().to_owned()).collect()
        };
        let is_asked = words(UPGRADE).iter().any(|word| word.eq_ignore_ascii_case("websocket"));
        let version = call.headers.get(SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
        let key = call.headers.get(SEC_WEBSOCKET_KEY).filter(|_| is_asked && version);
        let accept = key.and_then(|key| HeaderValue::try_from(derive_accept_key(key.as_bytes())).ok());
        let (Some(accept), Some(upgrade)) = (accept, call.upgrade.clone()) else {
            return Err(Failure::bad_request("Upgrade request required: only WebSocket is spoken here"));
        };
        let offered = words(SEC_WEBSOCKET_PROTOCOL);
        let protocol = protocols.iter().find(|own| offered.iter().any(|word| word == *own));
        let Some(protocol) = protocol else {
            let message = format!("unable to upgrade: none of the protocols [{}] is spoken here", offered.join(" "));
            return Err(Failure::new(403, "Forbidden", message));
        };
        Ok(Self { upgrade, accept, protocol })
    }

    /// Agrees, and serves the socket with what `serve` makes of it.
    pub(super) fn accept<F>(self, door: &PodDoor, serve: impl FnOnce(Socket) -> F + Send + 'static) -> Answer
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = answer.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(self.protocol));
        let (group, upgrade) = (door.tasks.clone(), self.upgrade);
        door.tasks.spawn("pod-stream", async move {
            let serving = async {
                let upgraded = match upgrade.await {
                    Ok(upgraded) => upgraded,
                    Err(error) => return tracing::debug!(%error, "no websocket after all"),
                };
                let config =
                    WebSocketConfig::default().max_message_size(Some(MESSAGE_MAX)).max_frame_size(Some(MESSAGE_MAX));
                let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
                serve(socket).await;
            };
            tokio::select! {
                () = group.cancelled() => {}
                () = serving => {}
            }
        });
        answer
    }
}
