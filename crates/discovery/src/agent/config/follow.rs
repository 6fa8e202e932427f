//! Reloads an agent when its file changes, or when it is told to by a signal.

use std::path::Path;
use std::sync::Arc;

use thane_runtime::Tasks;
use thane_runtime::tls::{Contents, Error as WatchError};
use tokio::signal::unix::{SignalKind, signal};

use crate::agent::Agent;
use crate::backend::LocalAgent;

/// Reloads an agent when its file changes, if it has one, and on SIGHUP, until `tasks` stops. Without a file there is
/// nothing to read again, but the signal does not end the process.
pub fn follow(agent: &Arc<Agent>, path: Option<&Path>, tasks: &Tasks) -> Result<(), WatchError> {
    let mut contents = path.map(|path| Contents::follow(vec![path.to_owned()], tasks)).transpose()?;
    let hangup = signal(SignalKind::hangup());
    let mut hangup = hangup.map_err(|source| WatchError::Read { path: "SIGHUP".into(), source })?;
    let (agent, stopped) = (Arc::clone(agent), tasks.token());
    tasks.spawn("settings", async move {
        loop {
            let goes_on = tokio::select! {
                () = stopped.cancelled() => false,
                goes_on = changed(contents.as_mut()) => goes_on,
                received = hangup.recv() => received.is_some(),
            };
            if !goes_on {
                return;
            }
            match agent.reload().await {
                Ok(waits) if waits.is_empty() => tracing::info!("settings read again"),
                Ok(waits) => {
                    tracing::warn!(settings = ?waits, "settings read again; these take effect after a restart");
                }
                Err(error) => tracing::warn!(%error, "changed settings are no good; the old ones stay"),
            }
        }
    });
    Ok(())
}

async fn changed(contents: Option<&mut Contents>) -> bool {
    match contents {
        Some(contents) => contents.changed().await,
        None => std::future::pending().await,
    }
}
