//! Listener and connector seams: a whole process can run on a simulated network.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// Whoever has been silent for so long is asked for a sign of life, again and again.
const SILENT: Duration = Duration::from_mins(1);
const ASKED_EVERY: Duration = Duration::from_secs(15);

/// A byte stream in both directions.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + ?Sized> Io for T {}

/// A byte stream whose kind nobody needs to know.
pub type BoxIo = Box<dyn Io>;

/// Something that connections arrive at.
pub trait Listener: Send + Sync {
    /// Waits for the next connection and says who called.
    fn accept(&self) -> BoxFuture<'_, io::Result<(BoxIo, SocketAddr)>>;
    /// Where it listens, with the port that was really taken.
    fn local_addr(&self) -> SocketAddr;
}

/// Opens connections to others.
pub trait Connector: Send + Sync {
    /// Connects to a host name or address.
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<BoxIo>>;
}

/// Something that packets arrive at and leave from.
pub trait Datagrams: Send + Sync {
    /// Waits for the next packet; says how long it is and who sent it.
    fn receive<'a>(&'a self, buffer: &'a mut [u8]) -> BoxFuture<'a, io::Result<(usize, SocketAddr)>>;
    /// Sends a packet.
    fn send<'a>(&'a self, packet: &'a [u8], to: SocketAddr) -> BoxFuture<'a, io::Result<()>>;
    /// Where packets arrive, with the port that was really taken.
    fn local_addr(&self) -> SocketAddr;
}

/// A network that can be listened on and called through.
pub trait Network: Connector {
    /// Starts to listen; port 0 takes a free one.
    fn bind(&self, address: SocketAddr) -> BoxFuture<'_, Result<Box<dyn Listener>, BindError>>;

    /// Starts to take packets; port 0 takes a free one. A network may have none.
    fn bind_datagrams(&self, address: SocketAddr) -> BoxFuture<'_, Result<Box<dyn Datagrams>, BindError>> {
        let source = io::Error::from(io::ErrorKind::Unsupported);
        Box::pin(async move { Err(BindError::new(address, source)) })
    }
}

/// A network that parts of a process share.
pub type SharedNetwork = Arc<dyn Network>;

/// Why a listener could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process has the port.
    #[error("port {} on {} is already taken; stop what uses it or start with --ephemeral-ports", .0.port(), .0.ip())]
    Taken(SocketAddr),
    /// Anything else the operating system said.
    #[error("listen on {address}: {source}")]
    Other {
        /// The address asked for.
        address: SocketAddr,
        /// The operating system's reason.
        source: io::Error,
    },
}

impl BindError {
    fn new(address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::Taken(address),
            _ => Self::Other { address, source },
        }
    }
}

/// TCP and UDP on this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp;

impl Tcp {
    /// TCP ready to be shared.
    pub fn shared() -> SharedNetwork {
        Arc::new(Self)
    }
}

impl Connector for Tcp {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<BoxIo>> {
        Box::pin(async move {
            let stream = TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as BoxIo)
        })
    }
}

impl Network for Tcp {
    fn bind(&self, address: SocketAddr) -> BoxFuture<'_, Result<Box<dyn Listener>, BindError>> {
        Box::pin(async move {
            let bound = async {
                let socket = TcpListener::bind(address).await?;
                let local = socket.local_addr()?;
                Ok(TcpSocket { socket, local })
            };
            let socket = bound.await.map_err(|source| BindError::new(address, source))?;
            Ok(Box::new(socket) as Box<dyn Listener>)
        })
    }

    fn bind_datagrams(&self, address: SocketAddr) -> BoxFuture<'_, Result<Box<dyn Datagrams>, BindError>> {
        Box::pin(async move {
            let bound = async {
                let socket = UdpSocket::bind(address).await?;
                let local = socket.local_addr()?;
                Ok(Packets { socket, local })
            };
            let socket = bound.await.map_err(|source| BindError::new(address, source))?;
            Ok(Box::new(socket) as Box<dyn Datagrams>)
        })
    }
}

struct Packets {
    socket: UdpSocket,
    local: SocketAddr,
}

impl Datagrams for Packets {
    fn receive<'a>(&'a self, buffer: &'a mut [u8]) -> BoxFuture<'a, io::Result<(usize, SocketAddr)>> {
        Box::pin(self.socket.recv_from(buffer))
    }

    fn send<'a>(&'a self, packet: &'a [u8], to: SocketAddr) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move { self.socket.send_to(packet, to).await.map(|_| ()) })
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

struct TcpSocket {
    socket: TcpListener,
    local: SocketAddr,
}

impl Listener for TcpSocket {
    fn accept(&self) -> BoxFuture<'_, io::Result<(BoxIo, SocketAddr)>> {
        Box::pin(async move {
            let (stream, peer) = self.socket.accept().await?;
            prepare(&stream);
            Ok((Box::new(stream) as BoxIo, peer))
        })
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

/// What every accepted connection is given.
fn prepare(stream: &TcpStream) {
    // Answers are written whole; waiting to fill a packet only adds delay.
    let _ = stream.set_nodelay(true);
    // A client whose machine has gone says no farewell: what it holds is let go of nevertheless.
    let keepalive = TcpKeepalive::new().with_time(SILENT).with_interval(ASKED_EVERY);
    if let Err(error) = SockRef::from(stream).set_tcp_keepalive(&keepalive) {
        tracing::debug!(%error, "a client that vanishes will not be noticed on a connection");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn loopback(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[tokio::test]
    async fn bytes_pass_between_connector_and_listener() {
        let network = Tcp::shared();
        let listener = network.bind(loopback(0)).await.unwrap();
        let port = listener.local_addr().port();
        let (accepted, connected) = tokio::join!(listener.accept(), network.connect("127.0.0.1", port));
        let (mut server, peer) = accepted.unwrap();
        let mut client = connected.unwrap();
        assert!(peer.ip().is_loopback());
        client.write_all(b"hi").await.unwrap();
        let mut read = [0; 2];
        server.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"hi");
    }

    #[tokio::test]
    async fn clients_that_vanish_are_noticed() {
        let listener = TcpListener::bind(loopback(0)).await.unwrap();
        let (accepted, _client) = tokio::join!(listener.accept(), TcpStream::connect(listener.local_addr().unwrap()));
        let (accepted, _) = accepted.unwrap();
        assert!(!SockRef::from(&accepted).keepalive().unwrap());
        prepare(&accepted);
        let socket = SockRef::from(&accepted);
        assert!(socket.keepalive().unwrap());
        assert_eq!((socket.tcp_keepalive_time().unwrap(), accepted.nodelay().unwrap()), (SILENT, true));
    }

    #[tokio::test]
    async fn packets_pass_between_two_sockets() {
        let network = Tcp::shared();
        let (one, other) =
            (network.bind_datagrams(loopback(0)).await.unwrap(), Tcp.bind_datagrams(loopback(0)).await.unwrap());
        one.send(b"hi", other.local_addr()).await.unwrap();
        let mut read = [0; 8];
        assert_eq!(other.receive(&mut read).await.unwrap(), (2, one.local_addr()));
        let error = Tcp.bind_datagrams(one.local_addr()).await.err().unwrap().to_string();
        assert!(error.contains("--ephemeral-ports"), "{error}");
    }

    #[tokio::test]
    async fn a_taken_port_is_named_with_the_way_out() {
        let first = Tcp.bind(loopback(0)).await.unwrap();
        let taken = first.local_addr();
        let error = Tcp.bind(taken).await.err().unwrap().to_string();
        assert!(error.contains(&taken.port().to_string()) && error.contains("--ephemeral-ports"), "{error}");
        let error = Tcp.bind(SocketAddr::from(([192, 0, 2, 1], 1))).await.err().unwrap().to_string();
        assert!(error.starts_with("listen on 192.0.2.1:1: "), "{error}");
    }
}
