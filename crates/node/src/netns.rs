//! Sockets inside a pod's network.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use thane_executor::plan::Started;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::program::Living;

/// The network of a pod; without a holder it is the machine's own.
#[derive(Debug, Clone)]
pub(crate) struct PodNetwork {
    holder: Option<Started>,
}

impl PodNetwork {
    /// The network of the pod that a process holds.
    pub(crate) fn of(holder: Started) -> Self {
        Self { holder: Some(holder) }
    }

    /// The machine's own.
    pub(crate) fn host() -> Self {
        Self { holder: None }
    }

    /// Connects to an address as the pod's own processes would.
    pub(crate) async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let stream = self.inside(socket_for(address)).await?.connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Listens on an address inside the pod.
    pub(crate) async fn listen(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let socket = self.inside(socket_for(address)).await?;
        socket.set_reuseaddr(true)?;
        // Where it was made is where it listens, whoever asks.
        socket.bind(address)?;
        socket.listen(64)
    }

    /// Makes something inside. A thread of its own enters the network, since it cannot come back.
    async fn inside<T: Send + 'static>(&self, make: fn() -> io::Result<T>) -> io::Result<T> {
        let Some(holder) = &self.holder else { return make() };
        let namespace = File::open(format!("/proc/{}/ns/net", holder.pid))?;
        // Its number may be another's by now, and that one's network the machine's own.
        if Living::find(holder).is_none() {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the pod has ended"));
        }
        let (tell, hear) = tokio::sync::oneshot::channel();
        std::thread::Builder::new().name("pod-network".to_owned()).spawn(move || {
            let entered = move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network));
            // Nobody waits any more: so be it.
            let _ = tell.send(entered.map_err(io::Error::from).and_then(|()| make()));
        })?;
        hear.await.map_err(io::Error::other)?
    }
}

fn socket_for(address: SocketAddr) -> fn() -> io::Result<TcpSocket> {
    if address.is_ipv4() { TcpSocket::new_v4 } else { TcpSocket::new_v6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_has_a_holders_number_after_it_is_not_taken_for_it() {
        let machine = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = machine.local_addr().unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let network = PodNetwork::of(Started { pid, ticks: 1 });
        assert_eq!(network.connect(address).await.unwrap_err().kind(), io::ErrorKind::NotConnected);
        assert_eq!(network.listen(address).await.unwrap_err().kind(), io::ErrorKind::NotConnected);
    }
}
