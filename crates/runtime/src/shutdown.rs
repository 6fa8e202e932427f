//! When a process should end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Why a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Ctrl-C and SIGTERM, which no longer end the process by themselves.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes the signals over; do so before anything starts that must be stopped in order.
    pub fn listen() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for a signal since the last one; call it again to wait for a second one. Cancel safe.
    pub async fn requested(&mut self) -> Reason {
        tokio::select! {
            _ = self.interrupt.recv() => Reason::Interrupt,
            _ = self.terminate.recv() => Reason::Terminate,
        }
    }
}
