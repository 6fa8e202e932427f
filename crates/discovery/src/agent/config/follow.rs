//! Reloads an agent when its file changes, or when it is told to by a signal.

use std::path::Path;
use std::sync::Arc;

use thane_runtime::Tasks;
use thane_runtime::tls::{Contents, Error as WatchError};
use tokio::signal::unix::{SignalKind, signal};

use crate::agent::Agent;
use crate::backend::LocalAgent;

/// Reloads an agent when its file changes and on SIGHUP, until `tasks` stops.
pub fn follow(agent: &Arc<Agent>, path: &Path, tasks: &Tasks) -> Result<(), WatchError> {
    let mut contents = Contents::follow(vec![path.to_owned()], tasks)?;
    let hangup = signal(SignalKind::hangup());
    let mut hangup = hangup.map_err(|source| WatchError::Read { path: path.to_owned(), source })?;
    let (agent, stopped) = (Arc::clone(agent), tasks.token());
    tasks.spawn("settings", async move {
        loop {
            let goes_on = tokio::select! {
                () = stopped.cancelled() => false,
                changed = contents.changed() => changed,
                received = hangup.recv() => received.is_some(),
            };
            if !goes_on {
                return;
            }
            match agent.reload().await {
                Ok(()) => tracing::info!("settings read again"),
                Err(error) => tracing::warn!(%error, "changed settings are no good; the old ones stay"),
            }
        }
    });
    Ok(())
}
