//! Places beside the cluster's API that the hub may have bytes carried to.

use std::time::Duration;

use thane_runtime::net::{BoxIo, SharedNetwork};
use thane_sync::mapping::Pattern;

/// Which places, and the way there.
#[derive(Clone)]
pub struct Places {
    network: SharedNetwork,
    allowed: Vec<Pattern>,
}

impl Places {
    /// Those whose `host:port` one of the patterns matches.
    pub fn new(network: SharedNetwork, allowed: Vec<Pattern>) -> Self {
        Self { network, allowed }
    }

    /// Connects to a place; why not.
    pub(super) async fn connect(&self, place: &str, timeout: Duration) -> Result<BoxIo, String> {
        let (host, port) = read(place).ok_or_else(|| format!("{place:?} is not HOST:PORT"))?;
        if !self.allowed.iter().any(|pattern| pattern.matches(place)) {
            return Err(format!("this agent carries no bytes to {place}"));
        }
        let connecting = tokio::time::timeout(timeout, self.network.connect(host, port)).await;
        let connected = connecting.map_err(|_| format!("{place} does not answer"))?;
        connected.map_err(|error| format!("{place} cannot be reached: {error}"))
    }
}

fn read(place: &str) -> Option<(&str, u16)> {
    let (host, port) = place.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    (!host.is_empty() && host.bytes().all(is_host)).then_some(())?;
    let port: u16 = port.parse().ok()?;
    (port > 0).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_host_and_a_port() {
        let cases = [
            ("sandbox.pool.svc:7681", Some(("sandbox.pool.svc", 7681))),
            ("10.0.0.1:1", Some(("10.0.0.1", 1))),
            ("[::1]:80", Some(("::1", 80))),
            (":80", None),
            ("host", None),
            ("host:0", None),
            ("host:65536", None),
            ("host:80/path", None),
            ("user@host:80", None),
            ("ho st:80", None),
        ];
        for (place, expected) in cases {
            assert_eq!(read(place), expected, "{place}");
        }
    }
}
