//! When a process should end.

use tokio::signal::unix::{SignalKind, signal};

/// Why a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Waits for Ctrl-C or SIGTERM; call it again to wait for a second one.
pub async fn requested() -> std::io::Result<Reason> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => Ok(Reason::Interrupt),
        _ = terminate.recv() => Ok(Reason::Terminate),
    }
}
