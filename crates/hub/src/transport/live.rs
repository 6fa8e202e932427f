//! Logs and terminals: streams beside the events, bound to the agent that opened them.

use std::net::SocketAddr;
use std::pin::Pin;

use futures::Stream;
use futures::future::BoxFuture;
use thane_api::event::Mode;
use thane_api::wire::logs::{LogStreamData, LogStreamResponse};
use thane_api::wire::terminal::TerminalStreamData;
use tonic::Status;

/// Who calls, as the gate knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The agent's name.
    pub agent: String,
    /// Its mode.
    pub mode: Mode,
    /// Where it calls from.
    pub peer: SocketAddr,
}

/// Messages of one stream; it ends with an error when the connection does.
pub type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Takes logs and terminals from agents.
pub trait Live: Send + Sync {
    /// One container's log, until the agent has sent it all.
    fn logs(&self, caller: Caller, log: Messages<LogStreamData>) -> BoxFuture<'_, Result<LogStreamResponse, Status>>;

    /// One terminal: what the container writes comes, what the user types goes.
    fn terminal(
        &self,
        caller: Caller,
        output: Messages<TerminalStreamData>,
    ) -> BoxFuture<'_, Result<Messages<TerminalStreamData>, Status>>;
}

/// Nobody asks for logs or terminals, so none are taken.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLive;

impl Live for NoLive {
    fn logs(&self, _: Caller, _: Messages<LogStreamData>) -> BoxFuture<'_, Result<LogStreamResponse, Status>> {
        Box::pin(async { Err(Status::unimplemented("this hub takes no logs")) })
    }

    fn terminal(
        &self,
        _: Caller,
        _: Messages<TerminalStreamData>,
    ) -> BoxFuture<'_, Result<Messages<TerminalStreamData>, Status>> {
        Box::pin(async { Err(Status::unimplemented("this hub opens no terminals")) })
    }
}
