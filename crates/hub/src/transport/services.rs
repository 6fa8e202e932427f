//! The services of the listener, but for the stream of events.

use std::sync::Arc;

use futures::StreamExt;
use thane_api::event::CAPABILITIES;
use thane_api::wire::auth::authentication_server::{Authentication, AuthenticationServer};
use thane_api::wire::auth::{AuthRequest, AuthResponse, RefreshTokenRequest};
use thane_api::wire::logs::log_stream_service_server::{LogStreamService, LogStreamServiceServer};
use thane_api::wire::logs::{LogStreamData, LogStreamResponse};
use thane_api::wire::terminal::TerminalStreamData;
use thane_api::wire::terminal::terminal_stream_service_server::{TerminalStreamService, TerminalStreamServiceServer};
use thane_api::wire::version::version_server::{Version, VersionServer};
use thane_api::wire::version::{VersionRequest, VersionResponse};
use thane_runtime::Tasks;
use tonic::codec::CompressionEncoding::Gzip;
use tonic::metadata::MetadataValue;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use super::connection::Connection;
use super::events::EventStream;
use super::live::{Caller, Live, Messages};
use super::{Service, events, tunnel};
use crate::gate::{Gate, Identity};

/// Bytes of a message of someone who has not proved who they are.
const STRANGER_BYTES_MAX: usize = 64 * 1024;
/// What the version begins with, as argocd-agent says it.
const PRODUCT: &str = "argocd-agent-";

/// All services.
pub(super) fn routes(service: &Service, tasks: &Tasks) -> Routes {
    let limit = service.config.message_bytes_max;
    let door = Arc::new(FrontDesk { gate: Arc::clone(&service.gate), live: Arc::clone(&service.live) });
    let authentication = AuthenticationServer::from_arc(Arc::clone(&door))
        .accept_compressed(Gzip)
        .max_decoding_message_size(STRANGER_BYTES_MAX);
    let version = VersionServer::from_arc(Arc::clone(&door))
        .accept_compressed(Gzip)
        .max_decoding_message_size(STRANGER_BYTES_MAX);
    let logs =
        LogStreamServiceServer::from_arc(Arc::clone(&door)).accept_compressed(Gzip).max_decoding_message_size(limit);
    let terminals =
        TerminalStreamServiceServer::from_arc(door).accept_compressed(Gzip).max_decoding_message_size(limit);
    let calls = tunnel::Calls { gate: Arc::clone(&service.gate), tunnels: service.tunnels.clone() };
    Routes::new(authentication)
        .add_service(version)
        .add_service(EventStream::new(events::Events::new(service.clone(), tasks.clone())))
        .add_service(logs)
        .add_service(terminals)
        .add_service(tunnel::service(calls))
}

/// The connection a call came on.
pub(super) fn connection<T>(request: &Request<T>) -> Result<Arc<Connection>, Status> {
    let connection = request.extensions().get::<Arc<Connection>>();
    connection.cloned().ok_or_else(|| Status::internal("the call has no connection"))
}

/// Whose call it is.
pub(super) fn admit<T>(gate: &Gate, request: &Request<T>) -> Result<(Identity, Arc<Connection>), Status> {
    let connection = connection(request)?;
    let text = |name: &str| request.metadata().get(name).and_then(|value| value.to_str().ok());
    let identity = gate
        .admit(&connection.peer, text("authorization"), text(CAPABILITIES))
        .map_err(|refusal| refusal.while_calling())?;
    connection.admit();
    Ok((identity, connection))
}

/// An answer that says what the hub can do beyond the protocol.
pub(super) fn capable<T>(gate: &Gate, message: T) -> Response<T> {
    let mut response = Response::new(message);
    let words: Vec<&str> = gate.options().capabilities.iter().map(String::as_str).collect();
    if let Ok(value) = MetadataValue::try_from(words.join(",")) {
        response.metadata_mut().insert(CAPABILITIES, value);
    }
    response
}

struct FrontDesk {
    gate: Arc<Gate>,
    live: Arc<dyn Live>,
}

#[tonic::async_trait]
impl Authentication for FrontDesk {
    async fn authenticate(&self, request: Request<AuthRequest>) -> Result<Response<AuthResponse>, Status> {
        let connection = connection(&request)?;
        let tokens = self.gate.authenticate(&connection.peer, request.into_inner()).await;
        let tokens = tokens.map_err(|refusal| refusal.while_authenticating())?;
        connection.admit();
        Ok(capable(&self.gate, tokens))
    }

    async fn refresh_token(&self, request: Request<RefreshTokenRequest>) -> Result<Response<AuthResponse>, Status> {
        let connection = connection(&request)?;
        let tokens = self.gate.refresh(&connection.peer, &request.into_inner().refresh_token);
        let tokens = tokens.map_err(|refusal| refusal.while_authenticating())?;
        connection.admit();
        Ok(Response::new(tokens))
    }
}

#[tonic::async_trait]
impl Version for FrontDesk {
    async fn version(&self, _: Request<VersionRequest>) -> Result<Response<VersionResponse>, Status> {
        Ok(Response::new(VersionResponse { version: format!("{PRODUCT}{}", self.gate.options().version) }))
    }
}

impl FrontDesk {
    /// Who calls, and what they send until the connection is cut.
    fn caller<T: Send + 'static>(&self, request: Request<Streaming<T>>) -> Result<(Caller, Messages<T>), Status> {
        let (identity, connection) = admit(&self.gate, &request)?;
        let caller = Caller { agent: identity.agent, mode: identity.mode, peer: connection.peer.address };
        let ended = connection.ended.clone().cancelled_owned();
        Ok((caller, Box::pin(request.into_inner().take_until(ended))))
    }
}

#[tonic::async_trait]
impl LogStreamService for FrontDesk {
    async fn stream_logs(
        &self,
        request: Request<Streaming<LogStreamData>>,
    ) -> Result<Response<LogStreamResponse>, Status> {
        let (caller, log) = self.caller(request)?;
        self.live.logs(caller, log).await.map(Response::new)
    }
}

#[tonic::async_trait]
impl TerminalStreamService for FrontDesk {
    type StreamTerminalStream = Messages<TerminalStreamData>;

    async fn stream_terminal(
        &self,
        request: Request<Streaming<TerminalStreamData>>,
    ) -> Result<Response<Self::StreamTerminalStream>, Status> {
        let (caller, output) = self.caller(request)?;
        self.live.terminal(caller, output).await.map(Response::new)
    }
}
