//! Discovery beside, or instead of, what a role does for a fleet.

use std::path::Path;
use std::sync::Arc;

use thane_api::code;
use thane_discovery::agent::config::{self, Config, Environment, Read};
use thane_discovery::backend::Backend;
use thane_discovery::http::Rate;
use thane_discovery::hub;
use thane_hub::transport::Guests;
use thane_runtime::tls::{ClientOptions, ClientTls};

use super::{Ground, bind};
use crate::discovery;
use crate::failure::Failure;
use crate::settings::agent::AgentSettings;
use crate::settings::discovery::HubDiscovery;

/// The hub's registry, if it has a folder for one.
pub(super) async fn registry(settings: &HubDiscovery, ground: &mut Ground) -> Result<Option<Guests>, Failure> {
    let Some(data) = &settings.data else { return Ok(None) };
    let mut options =
        hub::Options { lease: settings.lease.0, reap_after: settings.reap_after.0, ..hub::Options::default() };
    options.place.datacenter.clone_from(&settings.datacenter);
    let floor = floor(ground);
    let (registry, guests) = discovery::registry(&data.join("registry"), options, &floor, &mut ground.registry).await?;
    if let Some(address) = settings.address {
        let listener = bind(&ground.network, address, "--discovery-address").await?;
        tracing::info!(address = %listener.local_addr(), "clients without an agent find the registry here");
        discovery::serve_hub(registry, listener, Rate::per_second(settings.rate_limit), &floor, &mut ground.registry);
    }
    Ok(Some(guests))
}

/// An agent's part, if it has a folder for it.
pub(super) async fn agent(
    settings: &AgentSettings,
    name: Option<&str>,
    tls: Option<ClientTls>,
    ground: &mut Ground,
) -> Result<(), Failure> {
    let wanted = &settings.discovery;
    let Some(data) = &wanted.data else { return Ok(()) };
    let environment = environment()?;
    let mut read = match &wanted.file {
        Some(file) => config::load(file, &environment).map_err(invalid)?,
        None => without_file(settings, name, &environment)?,
    };
    for warning in &read.warnings {
        tracing::warn!("{warning}");
    }
    if read.options.adjustable.hubs.is_empty() && !settings.server.is_empty() {
        read.options.adjustable.hubs.push(format!("{}:{}", settings.server, settings.server_port));
    }
    read.options.is_open_until_told = wanted.open_until_told;
    let tls = match own_tls(&read)? {
        Some(own) => Some(own),
        None if read.tls.enabled => tls,
        None => None,
    };
    let floor = floor(ground);
    let listener = bind(&ground.network, wanted.address, "--discovery-address").await?;
    let address = listener.local_addr();
    let node = read.options.node_name.clone();
    let file = data.join("agent");
    let agent = discovery::agent(&file, read.options, tls, &floor, &mut ground.registry).await?;
    if let Some(file) = &wanted.file {
        let followed = config::follow(&agent, file, &floor.tasks);
        followed.map_err(|error| Failure::new(code::FILE_FAILED, error.to_string()))?;
    }
    let mut listeners = vec![listener];
    if let Some(address) = wanted.consul_address {
        listeners.push(bind(&ground.network, address, "--consul-address").await?);
    }
    discovery::serve(&agent, listeners, Rate::per_second(wanted.rate_limit), &floor, &mut ground.registry);
    let backend: Arc<dyn Backend> = agent;
    let dns = discovery::resolve(backend, wanted.dns_address, &floor, &mut ground.registry).await?;
    tracing::info!(node, %address, dns, "services are registered and found here");
    Ok(())
}

fn floor(ground: &Ground) -> discovery::Ground {
    discovery::Ground {
        clock: Arc::clone(&ground.clock),
        network: Arc::clone(&ground.network),
        tasks: ground.tasks.child("discovery"),
    }
}

/// What the agent is called where no file says so: as it was told, as its pod's node, or as its certificate.
fn without_file(settings: &AgentSettings, name: Option<&str>, environment: &Environment) -> Result<Read, Failure> {
    let mut config = Config::default();
    config.node_name.clone_from(&settings.discovery.node_name);
    if config.node_name.is_empty() && environment.node_name.is_none() {
        name.unwrap_or_default().clone_into(&mut config.node_name);
    }
    config.read(environment).map_err(invalid)
}

/// The certificates a node's own file names.
fn own_tls(read: &Read) -> Result<Option<ClientTls>, Failure> {
    let (Some(ca), Some(certificate), Some(key)) = (&read.tls.ca_cert, &read.tls.client_cert, &read.tls.client_key)
    else {
        return Ok(None);
    };
    let text = |path: &Path| {
        std::fs::read_to_string(path)
            .map_err(|error| Failure::new(code::FILE_FAILED, format!("{}: {error}", path.display())))
    };
    let identity = thane_runtime::pki::Identity { cert_pem: text(certificate)?, key_pem: text(key)? };
    let options = ClientOptions { protocols: vec!["h2"], ..ClientOptions::default() };
    Ok(Some(ClientTls::from_pem(&text(ca)?, Some(&identity), &options)?))
}

fn environment() -> Result<Environment, Failure> {
    Environment::read(|name| std::env::var(name).ok()).map_err(invalid)
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn invalid(error: config::Error) -> Failure {
    Failure::new(code::CONFIG_INVALID, error.to_string())
}
