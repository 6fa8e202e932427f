//! The hub's registry of services, and an agent beside each cluster with its own API.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use prometheus_client::registry::Registry as Metrics;
use thane_discovery::agent::{Adjustable, Options};
use thane_discovery::backend::Backend;
use thane_discovery::http::Limits;
use thane_discovery::{dns, hub};
use thane_hub::transport::Guests;
use thane_runtime::tls::{ClientOptions, ClientTls};

use super::fleet::{Material, Place};
use crate::discovery::{self, Ground};
use crate::failure::Failure;
use crate::settings::UpSettings;

/// The datacenter of everything `thane up` runs.
const DATACENTER: &str = "dc1";

/// The registry, as agents call it on the hub's listener.
pub(super) async fn registry(place: &Place<'_>, metrics: &mut Metrics) -> Result<Guests, Failure> {
    let mut options = hub::Options::default();
    DATACENTER.clone_into(&mut options.place.datacenter);
    let ground = ground(place, "discovery-hub");
    let file = place.directory.join("discovery").join("registry");
    Ok(discovery::registry(&file, options, &ground, metrics).await?.guests())
}

/// An agent for each cluster; where their APIs are.
pub(super) async fn agents(
    up: &UpSettings,
    place: &Place<'_>,
    hub: SocketAddr,
    material: &Material,
    names: &[&String],
    metrics: &mut Metrics,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut endpoints = BTreeMap::new();
    for (number, (name, identity)) in (0..).zip(names.iter().zip(&material.agents)) {
        let above = |address: SocketAddr| {
            let port = address.port().saturating_add(number);
            super::listen(SocketAddr::new(address.ip(), port), up.ephemeral_ports)
        };
        let listener = place.network.bind(above(up.discovery_address)).await?;
        let label = if number == 0 { String::new() } else { format!("-{name}") };
        endpoints.insert(format!("discovery{label}"), format!("http://{}", listener.local_addr()));
        let options = ClientOptions { protocols: vec!["h2"], ..ClientOptions::default() };
        let tls = ClientTls::from_pem(&material.ca_pem, Some(identity), &options)?;
        let metrics = metrics.sub_registry_with_label(("agent".into(), (*name).clone().into()));
        let ground = ground(place, &format!("discovery-{name}"));
        let file = place.directory.join("discovery").join(name);
        let options = Options {
            datacenter: DATACENTER.to_owned(),
            // On loopback nobody is asked for anything until somebody makes a token.
            is_open_until_told: true,
            adjustable: Adjustable { hubs: vec![hub.to_string()], ..Adjustable::default() },
            ..Options::new((*name).clone())
        };
        let agent = discovery::agent(&file, options, Some(tls), &ground, metrics).await?;
        discovery::serve(&agent, vec![listener], &Limits::default(), &ground, metrics);
        let backend: Arc<dyn Backend> = agent;
        let dns =
            discovery::resolve(backend, above(up.dns_address), dns::Settings::default(), &ground, metrics).await?;
        endpoints.insert(format!("dns{label}"), dns);
    }
    Ok(endpoints)
}

fn ground(place: &Place<'_>, name: &str) -> Ground {
    Ground { clock: Arc::clone(place.clock), network: Arc::clone(place.network), tasks: place.tasks.child(name) }
}
