//! Where this machine is reached, as others are told.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::UdpSocket;

/// Time to find the addresses of a name: an agent starts with its hub away, too.
const LOOKUP: Duration = Duration::from_secs(2);
/// Somewhere that is not here; nothing is ever sent there. Addresses set aside for documents.
const SOMEWHERE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];
/// The port is of no matter: a route has none.
const ANY_PORT: u16 = 9;

/// The address of this machine where a route to a host begins; if nobody knows the host, where the way out begins.
pub(super) async fn towards(host: &str) -> Option<IpAddr> {
    let found = tokio::time::timeout(LOOKUP, tokio::net::lookup_host((host, ANY_PORT))).await;
    let found: Vec<IpAddr> = match found {
        Ok(Ok(addresses)) => addresses.map(|address| address.ip()).collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    };
    for target in found {
        if let Some(own) = begin(target).await {
            return Some(own);
        }
    }
    outward().await
}

/// The address of this machine where the way out begins.
pub(super) async fn outward() -> Option<IpAddr> {
    for target in SOMEWHERE {
        if let Some(own) = begin(target).await {
            return Some(own);
        }
    }
    None
}

/// The kernel chooses the address when a socket is connected; no packet leaves before something is sent.
async fn begin(target: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await.ok()?;
    socket.connect(SocketAddr::new(target, ANY_PORT)).await.ok()?;
    let own = socket.local_addr().ok()?.ip().to_canonical();
    (!own.is_unspecified()).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_route_begins_at_an_address_of_this_machine() {
        assert_eq!(towards("127.0.0.1").await, Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(towards("127.0.0.2").await, Some(Ipv4Addr::LOCALHOST.into()));
        // A machine without any network has no way out.
        if let Some(own) = outward().await {
            assert!(!own.is_unspecified() && !SOMEWHERE.contains(&own), "{own}");
            assert_eq!(towards("no such name").await, Some(own), "what nobody knows is somewhere");
        }
    }
}
