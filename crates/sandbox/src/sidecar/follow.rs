//! The sidecars of all sandboxes that run here, each at the address of its pod.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use thane_runtime::net::SharedNetwork;
use thane_runtime::pods::ContainerAt;
use thane_runtime::rooms::Rooms;
use thane_runtime::tls::ServerTls;
use thane_runtime::{SharedClock, Tasks};

use super::metrics::Metrics;
use super::serve::{Served, serve};
use crate::names::{CONTAINER, POOL, SIDECAR_PORT};

/// How long a sidecar may take to end.
const END: Duration = Duration::from_secs(5);
/// How soon one that could not be started is tried again, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// The sidecars of all sandboxes that run here.
pub struct Sidecars {
    metrics: Metrics,
}

impl Sidecars {
    /// Serves every pod of a pool for as long as it runs.
    pub fn start(
        client: Client,
        rooms: Arc<dyn Rooms>,
        tls: ServerTls,
        network: SharedNetwork,
        clock: SharedClock,
        tasks: &Tasks,
    ) -> Self {
        let metrics = Metrics::default();
        let follow = Follow {
            rooms,
            tls,
            network,
            clock,
            metrics: metrics.clone(),
            tasks: tasks.child("sandboxes"),
            served: BTreeMap::new(),
            listed: BTreeSet::new(),
        };
        tasks.spawn("sidecars", follow.run(client, tasks.clone()));
        Self { metrics }
    }

    /// What they count.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

struct Follow {
    rooms: Arc<dyn Rooms>,
    tls: ServerTls,
    network: SharedNetwork,
    clock: SharedClock,
    metrics: Metrics,
    tasks: Tasks,
    served: BTreeMap<String, Tasks>,
    listed: BTreeSet<String>,
}

/// Where a pod's sidecar listens, and the container it is of; none if it has none now.
fn wanted(pod: &Pod) -> Option<(SocketAddr, ContainerAt)> {
    let status = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Running"))?;
    let address: IpAddr = status.pod_ip.as_deref()?.parse().ok()?;
    let container = pod.metadata.annotations.as_ref()?.get(CONTAINER)?.clone();
    pod.metadata.labels.as_ref()?.get(POOL)?;
    let uid = pod.metadata.uid.clone()?;
    Some((SocketAddr::new(address, SIDECAR_PORT), ContainerAt { uid, container }))
}

impl Follow {
    async fn run(mut self, client: Client, stopping: Tasks) {
        let api: Api<Pod> = Api::all(client);
        let stream = watcher(api, watcher::Config::default().labels(POOL)).default_backoff();
        let mut stream = std::pin::pin!(stream);
        loop {
            tokio::select! {
                () = stopping.cancelled() => return,
                event = stream.try_next() => match event {
                    Ok(Some(event)) => self.observe(event),
                    Ok(None) => return,
                    Err(error) => tracing::warn!(%error, "the watch of sandboxes failed, trying again"),
                },
            }
        }
    }

    fn observe(&mut self, event: watcher::Event<Pod>) {
        match event {
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(pod) => {
                self.listed.extend(pod.metadata.uid.clone());
                self.apply(&pod);
            }
            watcher::Event::InitDone => {
                let gone: Vec<String> = self.served.keys().filter(|uid| !self.listed.contains(*uid)).cloned().collect();
                for uid in gone {
                    self.end(&uid);
                }
            }
            watcher::Event::Apply(pod) => self.apply(&pod),
            watcher::Event::Delete(pod) => self.end(pod.metadata.uid.as_deref().unwrap_or_default()),
        }
    }

    fn apply(&mut self, pod: &Pod) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let Some((address, at)) = wanted(pod) else { return self.end(&uid) };
        if self.served.contains_key(&uid) {
            return;
        }
        let group = self.tasks.child("sidecar");
        self.served.insert(uid, group.clone());
        let served = Served {
            rooms: Arc::clone(&self.rooms),
            at,
            tls: self.tls.clone(),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
        };
        let (network, tasks) = (Arc::clone(&self.network), group.clone());
        group.spawn("serve", async move { keep(address, &served, &network, &tasks).await });
    }

    fn end(&mut self, uid: &str) {
        if let Some(group) = self.served.remove(uid) {
            self.tasks.spawn("unbind", async move {
                group.shutdown(END).await;
            });
        }
    }
}

/// Serves a sandbox until it goes, however often that takes.
async fn keep(address: SocketAddr, served: &Served, network: &SharedNetwork, tasks: &Tasks) {
    let mut patience = AGAIN.0;
    while !tasks.is_cancelled() {
        match network.bind(address).await {
            Ok(listener) => match serve(listener, served.clone(), tasks.clone()).await {
                Ok(()) => return,
                Err(status) => tracing::info!(%status, pod = served.at.uid, "a sandbox cannot be served yet"),
            },
            Err(error) => tracing::warn!(%error, pod = served.at.uid, "a sandbox's address cannot be listened on"),
        }
        tokio::select! {
            () = tasks.cancelled() => return,
            () = tokio::time::sleep(patience) => {}
        }
        patience = (patience * 2).min(AGAIN.1);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_running_sandboxes_are_served() {
        let pod = |labels: Value, annotations: Value, status: Value| -> Pod {
            let metadata = json!({"uid": "u", "labels": labels, "annotations": annotations});
            serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
        };
        let (label, mark) = (json!({POOL: "p"}), json!({CONTAINER: "main"}));
        let running = json!({"phase": "Running", "podIP": "127.64.0.1"});
        let found = wanted(&pod(label.clone(), mark.clone(), running.clone())).unwrap();
        assert_eq!(found.0, "127.64.0.1:50051".parse().unwrap());
        assert_eq!(found.1, ContainerAt { uid: "u".to_owned(), container: "main".to_owned() });
        for other in [
            pod(json!({}), mark.clone(), running.clone()),
            pod(label.clone(), json!({}), running),
            pod(label.clone(), mark.clone(), json!({"phase": "Pending", "podIP": "127.64.0.1"})),
            pod(label.clone(), mark.clone(), json!({"phase": "Failed", "podIP": "127.64.0.1"})),
            pod(label, mark, json!({"phase": "Running"})),
        ] {
            assert_eq!(wanted(&other), None);
        }
    }
}
