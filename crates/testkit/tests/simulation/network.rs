//! The seams of a process, on turmoil's network and clock.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use thane_runtime::clock::Clock;
use thane_runtime::net::{BindError, BoxIo, Connector, Listener, Network};

/// The network between simulated hosts.
pub(crate) struct Simulated;

impl Connector for Simulated {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<BoxIo>> {
        Box::pin(async move { Ok(Box::new(turmoil::net::TcpStream::connect((host, port)).await?) as BoxIo) })
    }
}

impl Network for Simulated {
    fn bind(&self, address: SocketAddr) -> BoxFuture<'_, Result<Box<dyn Listener>, BindError>> {
        Box::pin(async move {
            let bound = turmoil::net::TcpListener::bind(address).await;
            let listener = bound.map_err(|source| BindError::Other { address, source })?;
            Ok(Box::new(Accepting { listener, address }) as Box<dyn Listener>)
        })
    }
}

struct Accepting {
    listener: turmoil::net::TcpListener,
    address: SocketAddr,
}

impl Listener for Accepting {
    fn accept(&self) -> BoxFuture<'_, io::Result<(BoxIo, SocketAddr)>> {
        Box::pin(async move {
            let (stream, peer) = self.listener.accept().await?;
            Ok((Box::new(stream) as BoxIo, peer))
        })
    }

    fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

/// Simulated time; the wall clock of a host can be set off by some seconds.
pub(crate) struct SimulatedClock {
    started: tokio::time::Instant,
    base: Timestamp,
    skew_seconds: Arc<AtomicI64>,
}

impl SimulatedClock {
    /// A clock of the host this is called on.
    pub(crate) fn shared(day: Timestamp, skew_seconds: Arc<AtomicI64>) -> thane_runtime::SharedClock {
        let base = day + turmoil::sim_elapsed().unwrap_or_default();
        Arc::new(Self { started: tokio::time::Instant::now(), base, skew_seconds })
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let skew = jiff::SignedDuration::from_secs(self.skew_seconds.load(Ordering::Relaxed));
        self.base + self.started.elapsed() + skew
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}
