//! The agent's connection to a hub: made again for ever, with the next hub when one is away.

mod session;

pub(super) use session::{content, timely};

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use thane_api::wire::discovery::agent_sync_client::AgentSyncClient;
use thane_runtime::Tasks;
use thane_runtime::net::SharedNetwork;
use thane_runtime::tls::ClientTls;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::config::is_here;
use super::core::Core;
use super::dial::{self, BoxError, Channel};
use super::pending::Sequence;

/// Bytes of one message.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Time to connect and shake hands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A sign of life so often.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The longest wait after every hub was tried in vain.
const BACKOFF_MAX: Duration = Duration::from_secs(10);
const BACKOFF_FIRST: Duration = Duration::from_millis(250);
/// The port of a hub that names none.
const PORT: u16 = 8443;

/// What calls are made with.
pub(super) type Client = AgentSyncClient<Channel>;

/// How hubs are reached.
pub(super) struct Line {
    pub(super) network: SharedNetwork,
    pub(super) tls: Option<ClientTls>,
}

impl Line {
    async fn open(&self, address: &str, close: &CancellationToken, tasks: &Tasks) -> Result<Client, BoxError> {
        let (host, port) = dial::host_and_port(address, Some(PORT)).ok_or("not a host and a port")?;
        if self.tls.is_none() && !is_here(&host) {
            return Err("without certificates a hub is called only on this machine".into());
        }
        let mut stream = self.network.connect(&host, port).await?;
        if let Some(tls) = &self.tls {
            stream = dial::tls(stream, &host, &tls.config(), b"h2").await?;
        }
        let channel = Channel::over(stream, Some(KEEP_ALIVE), close.clone(), tasks).await?;
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let authority = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let origin = Uri::builder().scheme(scheme).authority(authority).path_and_query("/").build()?;
        Ok(AgentSyncClient::with_origin(channel, origin)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX))
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("{0}")]
    Unreachable(BoxError),
    #[error("{}: {}", .0.code(), .0.message())]
    Refused(#[from] Status),
    #[error("the hub ended the connection")]
    Ended,
    #[error("the hub does not answer")]
    Silent,
    #[error("the agent's own data cannot be written: {0}")]
    Disk(#[from] thane_kv::Error),
}

/// Waits that double up to a bound, each shortened by chance so that agents do not come back together.
struct Backoff(u32);

impl Backoff {
    fn next(&mut self, share: f64) -> Duration {
        let longest = BACKOFF_FIRST.saturating_mul(2_u32.saturating_pow(self.0)).min(BACKOFF_MAX);
        self.0 = self.0.saturating_add(1);
        longest.mul_f64(share.clamp(0.0, 1.0))
    }
}

/// Connects for ever.
pub(super) async fn run(core: Arc<Core>, line: Line, mut sequence: Sequence, tasks: Tasks) {
    let mut backoff = Backoff(0);
    let mut failed_in_turn = 0;
    let mut turn = 0_usize;
    let mut told = String::new();
    loop {
        let moved = core.moved.notified();
        let hubs = core.hubs();
        let Some(address) = hubs.get(turn % hubs.len().max(1)).cloned() else {
            // Without a hub the agent serves what is registered with it.
            tokio::select! {
                () = tasks.cancelled() => return,
                () = moved => continue,
            }
        };
        let ended = tokio::select! {
            () = tasks.cancelled() => return,
            () = core.left(&address) => {
                tracing::info!(hub = address, "left: it is none of the hubs any more");
                core.lost();
                (backoff, failed_in_turn, turn) = (Backoff(0), 0, 0);
                continue;
            }
            ended = session::connect(&core, &line, &address, &mut sequence, &tasks) => ended,
        };
        core.lost();
        if ended.was_open {
            backoff = Backoff(0);
            failed_in_turn = 0;
            told.clear();
        }
        let reason = ended.why.to_string();
        // The same trouble again and again is said once.
        if told == reason {
            tracing::debug!(hub = address, reason, "not connected to the hub");
        } else {
            tracing::warn!(hub = address, reason, "not connected to the hub");
        }
        told = reason;
        core.metrics.errors.inc();
        turn = turn.wrapping_add(1);
        failed_in_turn += 1;
        if failed_in_turn >= hubs.len() {
            failed_in_turn = 0;
            let wait = backoff.next(rand::random());
            tokio::select! {
                () = tasks.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                () = moved => turn = 0,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_certificates_nobody_else_is_called() {
        let (tasks, _) = Tasks::root("test");
        let line = Line { network: thane_runtime::net::Tcp::shared(), tls: None };
        for address in ["192.0.2.1:1", "hub.example.com"] {
            let refused = line.open(address, &CancellationToken::new(), &tasks).await.err();
            let said = refused.map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains("only on this machine"), "{said}");
        }
    }

    #[test]
    fn waits_double_up_to_the_bound() {
        let mut backoff = Backoff(0);
        let waits: Vec<u128> = (0..8).map(|_| backoff.next(1.0).as_millis()).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
        assert_eq!(backoff.next(0.5), Duration::from_secs(5));
    }
}
