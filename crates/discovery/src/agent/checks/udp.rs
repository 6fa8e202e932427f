//! A check that is sent an empty packet: whoever answers passes, and so does who says nothing, as most do. Only a machine
//! that says that nobody listens there fails.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{UdpSocket, lookup_host};

use super::machine::Observation;
use super::{chain, plan};
use crate::agent::dial::{self, BoxError};
use crate::model::{CheckDefinition, Status};

/// An answer is waited for so long at most: silence is no news.
const SILENCE_MAX: Duration = Duration::from_secs(1);

pub(super) async fn ask(definition: &CheckDefinition) -> Observation {
    let address = &definition.udp;
    match send(definition).await {
        Ok(()) => Observation::new(Status::Passing, format!("UDP connect {address}: Success")),
        Err(error) => Observation::new(Status::Critical, format!("UDP connect {address}: {}", chain(&*error))),
    }
}

async fn send(definition: &CheckDefinition) -> Result<(), BoxError> {
    let (host, port) = dial::host_and_port(&definition.udp, None).ok_or("not a host and a port")?;
    let to = lookup_host((host.as_str(), port)).await?.next().ok_or("no such host")?;
    let any = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    socket.connect(to).await?;
    socket.send(&[]).await?;
    // Half of the time there is: the run itself must not time out.
    let silence = SILENCE_MAX.min(plan::timeout(definition) / 2);
    match tokio::time::timeout(silence, socket.recv(&mut [0; 1])).await {
        Ok(Err(error)) => Err(error.into()),
        Ok(Ok(_)) | Err(_) => Ok(()),
    }
}
