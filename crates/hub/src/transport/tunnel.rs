//! Calls of agents that wait for requests.

use std::sync::Arc;

use thane_api::wire::tunnel::Frame;
use thane_api::wire::tunnel::tunnel_server::{Tunnel, TunnelServer};
use thane_link::tunnel::FRAME_MAX;
use tonic::{Request, Response, Status, Streaming};

use super::services;
use crate::gate::Gate;
use crate::proxy::tunnel::{Outgoing, Tunnels};

/// The service, bound to the agent that calls.
pub(super) struct Calls {
    pub(super) gate: Arc<Gate>,
    pub(super) tunnels: Tunnels,
}

pub(super) fn service(calls: Calls) -> TunnelServer<Calls> {
    TunnelServer::new(calls).max_decoding_message_size(FRAME_MAX)
}

#[tonic::async_trait]
impl Tunnel for Calls {
    type ServeStream = Outgoing;

    async fn serve(&self, request: Request<Streaming<Frame>>) -> Result<Response<Outgoing>, Status> {
        let (identity, connection) = services::admit(&self.gate, &request)?;
        let ended = connection.ended.clone();
        self.tunnels.park(&identity.agent, request.into_inner(), ended).map(Response::new)
    }
}
