//! The few addresses outside that a pod may reach, each through a listener inside it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use thane_runtime::Tasks;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::netns::PodNetwork;

/// What a pod may reach: `host:port`, separated by commas.
pub(crate) const ANNOTATION: &str = "thane.dev/egress";
/// Targets of one pod.
const TARGETS_MAX: usize = 64;
/// Connections of one pod through all of them.
const CONNECTIONS_MAX: usize = 256;
const CONNECT: Duration = Duration::from_secs(10);
/// The pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// One target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Its name, as the pod calls it.
    pub(crate) host: String,
    /// Its port, inside and outside.
    pub(crate) port: u16,
    /// Where it is inside.
    pub(crate) inside: Ipv4Addr,
}

/// The targets of a pod, each name with a loopback address of its own.
pub(crate) fn targets(pod: &Pod) -> Result<Vec<Target>, String> {
    let text = pod.metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION)).map_or("", String::as_str);
    let mut addresses: BTreeMap<&str, Ipv4Addr> = BTreeMap::new();
    let mut targets = Vec::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let parsed =
            item.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok().filter(|port| *port != 0)?)));
        let (host, port) = parsed.ok_or_else(|| format!("{ANNOTATION}: {item:?} is not host:port"))?;
        let is_name = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
        if !is_name {
            return Err(format!("{ANNOTATION}: {host:?} is no name of a host"));
        }
        let inside = match host.parse::<Ipv4Addr>() {
            Ok(address) if address == Ipv4Addr::LOCALHOST => address,
            Ok(_) => return Err(format!("{ANNOTATION}: {host} has to be a name, or 127.0.0.1 for this machine")),
            Err(_) => {
                let number = u8::try_from(addresses.len() + 1).unwrap_or(u8::MAX);
                *addresses.entry(host).or_insert(Ipv4Addr::new(127, 0, 1, number))
            }
        };
        let target = Target { host: host.to_owned(), port, inside };
        if !targets.contains(&target) {
            targets.push(target);
        }
        if targets.len() > TARGETS_MAX {
            return Err(format!("{ANNOTATION}: more than {TARGETS_MAX} targets"));
        }
    }
    Ok(targets)
}

/// Lines for the pod's `/etc/hosts`.
pub(crate) fn hosts(targets: &[Target]) -> String {
    let mut lines: Vec<String> = targets
        .iter()
        .filter(|target| target.inside != Ipv4Addr::LOCALHOST)
        .map(|target| format!("{}\t{}\n", target.inside, target.host))
        .collect();
    lines.dedup();
    lines.concat()
}

/// Listens inside and forwards, until the tasks end.
pub(crate) async fn serve(targets: Vec<Target>, network: &PodNetwork, tasks: &Tasks) -> std::io::Result<()> {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    for target in targets {
        let listener = network.listen(SocketAddr::from((target.inside, target.port))).await?;
        let (group, places) = (tasks.clone(), Arc::clone(&places));
        tasks.spawn("egress", async move {
            tokio::select! {
                () = group.cancelled() => {}
                () = accept(listener, target, &places, &group) => {}
            }
        });
    }
    Ok(())
}

async fn accept(listener: TcpListener, target: Target, places: &Arc<Semaphore>, tasks: &Tasks) {
    loop {
        let Ok(place) = Arc::clone(places).acquire_owned().await else { return };
        let (mut inside, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Who called has gone, or there are no descriptors just now: the next may get through.
                tracing::debug!(%error, host = target.host, port = target.port, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (target, group) = (target.clone(), tasks.clone());
        tasks.spawn("egress-connection", async move {
            let forward = async {
                let connected = tokio::time::timeout(CONNECT, TcpStream::connect((target.host.as_str(), target.port)));
                if let Ok(Ok(mut outside)) = connected.await {
                    // How either side ends is theirs to know.
                    let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
                }
            };
            tokio::select! {
                () = group.cancelled() => {}
                () = forward => {}
            }
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(text: &str) -> Result<Vec<Target>, String> {
        let annotations = json!({ANNOTATION: text});
        targets(&serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap())
    }

    #[test]
    fn targets_have_addresses_by_name() {
        let found = of("a.example:443, b:80,a.example:80,127.0.0.1:9").unwrap();
        let shown: Vec<String> = found.iter().map(|one| format!("{}:{}@{}", one.host, one.port, one.inside)).collect();
        assert_eq!(
            shown,
            ["a.example:443@127.0.1.1", "b:80@127.0.1.2", "a.example:80@127.0.1.1", "127.0.0.1:9@127.0.0.1"]
        );
        assert_eq!(hosts(&found), "127.0.1.1\ta.example\n127.0.1.2\tb\n127.0.1.1\ta.example\n");
        assert!(of("").unwrap().is_empty());
        for bad in ["a", "a:", "a:0", ":1", "a:99999", "10.0.0.1:80", "a b:1", "[::1]:2"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
