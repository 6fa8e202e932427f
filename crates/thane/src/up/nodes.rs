//! A node for every API of the process, so that their pods run on this machine.

use std::path::Path;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use thane_apiserver::embedded::Embedded;
use thane_node::images::Images;
use thane_node::{Addresses, Config, Error, Node, host};
use thane_runtime::metrics;
use tokio::runtime::Handle;

use super::fleet::Place;
use super::install;
use super::sandboxes::Runner;
use crate::output::tell;
use crate::settings::UpSettings;

/// Where images are, in the data directory.
pub(crate) const IMAGES: &str = "images";

/// Starts the nodes; those that run. Where pods cannot be run it says why, and everything else goes on.
pub(super) async fn start<'a>(
    up: &UpSettings,
    place: &Place<'_>,
    pods: &Handle,
    names: &'a [String],
    apis: &'a [Embedded],
    registry: &mut Registry,
) -> Vec<Runner<'a>> {
    let mut runners = Vec::new();
    let addresses = Arc::new(Addresses::default());
    let node = machine();
    sweep(place.directory.path());
    for (name, api) in names.iter().zip(apis) {
        let mut config = Config::new(&node, place.directory.join(name).join("node"), place.directory.join(IMAGES));
        config.pods_max = up.max_pods;
        let client = api.server.client(install::process(), "default");
        let tasks = place.tasks.child(format!("node-{name}"));
        let (clock, addresses, own) = (Arc::clone(place.clock), Arc::clone(&addresses), tasks.clone());
        let starting = pods.spawn(async move { Node::start(config, client, clock, addresses, &own).await });
        let Ok(started) = starting.await else {
            tell(&format!("pods of {name} are not run: the start failed"));
            continue;
        };
        match started {
            Ok(running) => {
                let own = registry.sub_registry_with_prefix(metrics::PREFIX);
                running.register(own.sub_registry_with_label(("server".into(), name.clone().into())));
                api.server.open_pods(Arc::new(running.clone()), tasks.child("streams"));
                runners.push(Runner { name, server: &api.server, node: running });
            }
            Err(Error::Missing(missing)) => {
                tell("pods are not run here; what is missing:");
                for what in missing {
                    tell(&format!("  {what}"));
                }
                break;
            }
            Err(error) => tell(&format!("pods of {name} are not run: {error}")),
        }
    }
    runners
}

/// Removes what is left of images, if no pod of an earlier life can be using it.
fn sweep(directory: &Path) {
    let has_pods = |name: &Path| std::fs::read_dir(name.join("node/pods")).is_ok_and(|mut pods| pods.next().is_some());
    let servers = std::fs::read_dir(directory).into_iter().flatten().flatten();
    if servers.map(|server| server.path()).any(|server| has_pods(&server)) {
        return;
    }
    if let Err(error) = Images::open(directory.join(IMAGES)).and_then(|images| images.sweep()) {
        tracing::warn!(%error, "what is left of images was not removed");
    }
}

/// The machine's name, as a name in the API.
fn machine() -> String {
    let name = host::name().to_ascii_lowercase();
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    let name = name.trim_matches(['-', '.']).to_owned();
    if name.is_empty() { "node".to_owned() } else { name }
}
