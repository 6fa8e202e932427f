//! Both gRPC services of a sandbox.

mod agent;
mod sandbox;

use std::pin::Pin;
use std::sync::Arc;

use thane_api::wire::sandbox::sandbox_service_server::SandboxServiceServer;
use thane_api::wire::sidecar::agent_service_server::AgentServiceServer;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::service::Routes;

use super::desk::Desk;

/// Bytes of one message, as upstream has it.
const MESSAGE_MAX: usize = 64 * 1024 * 1024;

/// A stream of answers.
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn answers<T: Send + 'static>(receiver: mpsc::Receiver<Result<T, Status>>) -> Answers<T> {
    Box::pin(ReceiverStream::new(receiver))
}

/// The services of one sandbox.
pub(super) fn routes(desk: &Arc<Desk>) -> Routes {
    let agent = AgentServiceServer::new(agent::Agent { desk: Arc::clone(desk) })
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX);
    let sandbox = SandboxServiceServer::new(sandbox::Steps { desk: Arc::clone(desk) })
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX);
    Routes::new(agent).add_service(sandbox)
}
