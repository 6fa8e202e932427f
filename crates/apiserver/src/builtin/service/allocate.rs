//! Addresses and node ports for services. The caller knows what is used and where to start looking.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde_json::Value;

use crate::field::{FieldError, Path};

/// First and last node port.
pub(crate) const NODE_PORTS: (u16, u16) = (30000, 32767);

/// A free address of the range, looked for from `start` on, or `None` when all are used.
pub(crate) fn address(range: Ipv4Net, used: &BTreeSet<Ipv4Addr>, start: u32) -> Option<Ipv4Addr> {
    let (first, last) = bounds(range)?;
    let count = u64::from(last - first) + 1;
    (0..count.min(used.len() as u64 + 1)).find_map(|step| {
        let at = u64::from(first) + (u64::from(start) + step) % count;
        let candidate = Ipv4Addr::from(u32::try_from(at).ok()?);
        (!used.contains(&candidate)).then_some(candidate)
    })
}

/// What is wrong with an address a client asks for.
pub(crate) fn address_error(
    range: Ipv4Net,
    used: &BTreeSet<Ipv4Addr>,
    wanted: &str,
    all: &[Value],
    path: &Path,
) -> Option<FieldError> {
    let shown = all.to_vec();
    let refuse = |why: String| FieldError::invalid(path, shown, format!("failed to allocate IP {wanted}: {why}"));
    let inside = wanted
        .parse::<Ipv4Addr>()
        .ok()
        .zip(bounds(range))
        .filter(|(address, (first, last))| (*first..=*last).contains(&u32::from(*address)));
    match inside {
        None => Some(refuse(format!(
            "the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {}",
            range.trunc()
        ))),
        Some((address, _)) if used.contains(&address) => Some(refuse("provided IP is already allocated".to_owned())),
        Some(_) => None,
    }
}

/// A free node port, looked for from `start` on, or `None` when all are used.
pub(crate) fn node_port(used: &BTreeSet<u16>, start: u16) -> Option<u16> {
    let (first, last) = NODE_PORTS;
    let count = last - first + 1;
    (0..count).map(|step| first + (start % count + step) % count).find(|port| !used.contains(port))
}

/// What is wrong with a node port a client asks for.
pub(crate) fn node_port_error(used: &BTreeSet<u16>, wanted: i64, path: &Path) -> Option<FieldError> {
    let (first, last) = NODE_PORTS;
    match u16::try_from(wanted).ok().filter(|port| (first..=last).contains(port)) {
        None => Some(FieldError::invalid(
            path,
            wanted,
            format!("provided port is not in the valid range. The range of valid ports is {first}-{last}"),
        )),
        Some(port) if used.contains(&port) => {
            Some(FieldError::invalid(path, wanted, "provided port is already allocated"))
        }
        Some(_) => None,
    }
}

/// The first and last address that may be given out: neither the network's own nor its broadcast address.
fn bounds(range: Ipv4Net) -> Option<(u32, u32)> {
    let first = u32::from(range.network()).checked_add(1)?;
    let last = u32::from(range.broadcast()).checked_sub(1)?;
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_free_and_inside() {
        let range = "10.0.0.0/29".parse().unwrap();
        let mut used = BTreeSet::new();
        for _ in 0..6 {
            let address = address(range, &used, 4).unwrap();
            assert!(range.contains(&address) && used.insert(address), "{address}");
        }
        assert!(!used.contains(&range.network()) && !used.contains(&range.broadcast()));
        assert_eq!(address(range, &used, 4), None);
        assert_eq!(address("10.0.0.0/32".parse().unwrap(), &BTreeSet::new(), 0), None);
    }

    #[test]
    fn wanted_addresses() {
        let range = "10.0.0.0/24".parse().unwrap();
        let used = BTreeSet::from(["10.0.0.5".parse().unwrap()]);
        let path = Path::new("spec.clusterIPs");
        let check = |wanted: &str, expected: Option<&str>| {
            let error = address_error(range, &used, wanted, &[wanted.into()], &path).map(|error| error.to_string());
            assert_eq!(error.as_deref(), expected, "{wanted}");
        };
        check("10.0.0.6", None);
        check(
            "10.0.0.5",
            Some(
                "spec.clusterIPs: Invalid value: [\"10.0.0.5\"]: failed to allocate IP 10.0.0.5: provided IP is already \
                 allocated",
            ),
        );
        check(
            "1.2.3.4",
            Some(
                "spec.clusterIPs: Invalid value: [\"1.2.3.4\"]: failed to allocate IP 1.2.3.4: the provided IP (1.2.3.4) \
                 is not in the valid range. The range of valid IPs is 10.0.0.0/24",
            ),
        );
    }

    #[test]
    fn node_ports() {
        let used = BTreeSet::from([30005]);
        assert_eq!(node_port(&used, 5), Some(30006));
        assert_eq!(node_port(&(30000..=32767).collect(), 5), None);
        let error = node_port_error(&used, 80, &Path::new("p")).unwrap();
        assert_eq!(
            error.to_string(),
            "p: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"
        );
        assert!(node_port_error(&used, 30005, &Path::new("p")).is_some());
        assert!(node_port_error(&used, 30006, &Path::new("p")).is_none());
    }
}
