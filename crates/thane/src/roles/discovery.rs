//! Discovery beside, or instead of, what a role does for a fleet.

mod place;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thane_api::code;
use thane_discovery::agent::config::{self, Config, Environment, Read};
use thane_discovery::backend::{self, Backend};
use thane_discovery::http::{Limits, Rate};
use thane_discovery::{dns, hub};
use thane_hub::transport::Guests;
use thane_runtime::tls::{ClientFiles, ClientOptions, ClientTls, Reloads};

use super::{Ground, bind};
use crate::discovery;
use crate::failure::Failure;
use crate::settings::agent::AgentSettings;
use crate::settings::discovery::{DnsSettings, HubDiscovery};

/// The flags that name an agent's certificates.
const FLAGS: [&str; 3] = ["--tls-client-cert", "--tls-client-key", "--root-ca-path"];

/// The hub's registry, if it has a folder for one.
pub(super) async fn registry(settings: &HubDiscovery, ground: &mut Ground) -> Result<Option<Guests>, Failure> {
    let Some(data) = &settings.data else { return Ok(None) };
    let mut options =
        hub::Options { lease: settings.lease.0, reap_after: settings.reap_after.0, ..hub::Options::default() };
    options.place.datacenter.clone_from(&settings.datacenter);
    let floor = floor(ground);
    let opened = discovery::registry(&data.join("registry"), options, &floor, &mut ground.registry).await?;
    let guests = opened.guests();
    if let Some(address) = settings.address {
        let listener = bind(&ground.network, address, "--discovery-address").await?;
        let place = place_of_hub(settings, listener.local_addr()).await?;
        let (node, address) = (place.node.clone(), listener.local_addr());
        let discovery::Opened { registry, routes } = opened;
        let direct = discovery::direct::start(&data.join("local"), &place, registry, routes, &floor).await?;
        let limits = limits(settings.rate_limit, settings.client_connections);
        discovery::serve_hub(direct, listener, &limits, &floor, &mut ground.registry);
        tracing::info!(%address, node, at = place.address, "clients without an agent find the registry here");
    }
    Ok(Some(guests))
}

/// What one client may take of a listener.
fn limits(rate: u32, connections: usize) -> Limits {
    let client_max = if connections == 0 { usize::MAX } else { connections };
    Limits { rate: Rate::per_second(rate), client_max, ..Limits::default() }
}

/// What the hub is in the catalog: the node of whoever registers without an agent.
async fn place_of_hub(settings: &HubDiscovery, listener: SocketAddr) -> Result<backend::Place, Failure> {
    let told = Some(settings.node_address.clone()).filter(|address| !address.is_empty());
    let address = match told.or(environment()?.pod_ip) {
        Some(address) => Some(address),
        None if !listener.ip().is_unspecified() => Some(listener.ip().to_string()),
        None => place::outward().await.map(|ip| ip.to_string()),
    };
    Ok(backend::Place {
        datacenter: settings.datacenter.clone(),
        node: settings.node_name.clone(),
        node_id: String::new(),
        address: address.unwrap_or_else(|| "127.0.0.1".to_owned()),
    })
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
    let mut environment = environment()?;
    environment.address = Some(wanted.node_address.clone()).filter(|address| !address.is_empty());
    let mut read = match &wanted.file {
        Some(file) => config::load(file, &environment).map_err(invalid)?,
        None => without_file(settings, name, &environment)?,
    };
    for warning in &read.warnings {
        tracing::warn!("{warning}");
    }
    if read.options.adjustable.hubs.is_empty() {
        read.options.adjustable.hubs = config::hubs(&settings.server, settings.server_port).map_err(invalid)?;
    }
    read.options.is_open_until_told = wanted.open_until_told;
    let floor = floor(ground);
    let tls = match read.tls.files().map_err(invalid)? {
        Some(own) => Some(followed(own, &ClientOptions::default(), &floor)?.0),
        None if read.tls.enabled => tls,
        None => None,
    };
    if tls.is_none() {
        let refused = |error| invalid(error).with_hint(format!("give {}", FLAGS.join(", ")));
        config::only_here(&read.options.adjustable.hubs).map_err(refused)?;
    }
    if !read.has_address {
        find_address(&mut read).await?;
    }
    let listener = bind(&ground.network, wanted.address, "--discovery-address").await?;
    let address = listener.local_addr();
    let (node, at) = (read.options.node_name.clone(), read.options.address.clone());
    let file = data.join("agent");
    let agent = discovery::agent(&file, read.options, tls, &floor, &mut ground.registry).await?;
    let followed = config::follow(&agent, wanted.file.as_deref(), &floor.tasks);
    followed.map_err(|error| Failure::new(code::FILE_FAILED, error.to_string()))?;
    let mut listeners = vec![listener];
    if let Some(address) = wanted.consul_address {
        listeners.push(bind(&ground.network, address, "--consul-address").await?);
    }
    let limits = limits(wanted.rate_limit, wanted.client_connections);
    discovery::serve(&agent, listeners, &limits, &floor, &mut ground.registry);
    let backend: Arc<dyn Backend> = agent;
    let names = names(&wanted.dns);
    let dns = discovery::resolve(backend, wanted.dns_address, names, &floor, &mut ground.registry).await?;
    tracing::info!(node, at, %address, dns, "services are registered and found here");
    Ok(())
}

/// What calls hubs with the certificates that were given as flags, if any were.
pub(super) fn given(settings: &AgentSettings, ground: &Ground) -> Result<Option<ClientTls>, Failure> {
    let tls = &settings.tls;
    let files = config::files(FLAGS, [&tls.cert, &tls.key, &tls.ca].map(Option::as_deref)).map_err(invalid)?;
    let options = ClientOptions { versions: tls.min_version.into(), ..ClientOptions::default() };
    files.map(|files| Ok(followed(files, &options, &floor(ground))?.0)).transpose()
}

/// Certificates in files, taken into use again when they change.
fn followed(
    files: ClientFiles,
    options: &ClientOptions,
    floor: &discovery::Ground,
) -> Result<(ClientTls, Reloads), Failure> {
    let options = ClientOptions { protocols: vec!["h2"], ..options.clone() };
    Ok(ClientTls::from_files(files, options, &floor.tasks)?)
}

/// Where the node is reached, if nobody says: where the route to its hub begins.
async fn find_address(read: &mut Read) -> Result<(), Failure> {
    let Some((host, _)) = config::far(&read.options.adjustable.hubs).map_err(invalid)? else { return Ok(()) };
    match place::towards(&host).await {
        Some(address) => read.options.address = address.to_string(),
        None => tracing::warn!(
            address = read.options.address,
            "there is no route to the hub: others are told an address where only this machine is; give --node-address"
        ),
    }
    Ok(())
}

fn names(settings: &DnsSettings) -> dns::Settings {
    let seconds = |span: Duration| u32::try_from(span.as_secs()).unwrap_or(u32::MAX);
    dns::Settings {
        zones: settings.zones.iter().map(|zone| zone.trim_matches('.').to_lowercase()).collect(),
        service_ttl: seconds(settings.service_ttl.0),
        node_ttl: seconds(settings.node_ttl.0),
        only_passing: settings.only_passing,
        udp_answers_max: settings.udp_answers_max,
        truncate: settings.truncate,
    }
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

fn environment() -> Result<Environment, Failure> {
    Environment::read(|name| std::env::var(name).ok()).map_err(invalid)
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn invalid(error: config::Error) -> Failure {
    Failure::new(code::CONFIG_INVALID, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thane_runtime::net::Tcp;
    use thane_runtime::pki::store::Paths;
    use thane_runtime::pki::{Authority, Request};
    use thane_runtime::{Clock, SystemClock, Tasks};

    use super::*;

    /// A certificate of a machine is renewed by writing a file; the agent is not started again for it.
    #[tokio::test]
    async fn certificates_in_files_are_followed() {
        let (tasks, _) = Tasks::root("test");
        let clock = SystemClock::new();
        let hour = Duration::from_hours(1);
        let authority = Authority::create("test", clock.now(), hour).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path(), "agent");
        let ca = folder.path().join("ca.crt");
        let write = || {
            let identity = authority.issue(&Request::agent("web-1"), clock.now(), hour).unwrap();
            std::fs::write(&paths.key, &identity.key_pem).unwrap();
            std::fs::write(&paths.cert, &identity.cert_pem).unwrap();
        };
        std::fs::write(&ca, authority.cert_pem()).unwrap();
        write();
        let floor = discovery::Ground { clock: SystemClock::shared(), network: Tcp::shared(), tasks: tasks.clone() };
        let files = config::files(FLAGS, [Some(&paths.cert), Some(&paths.key), Some(&ca)]);
        let files = files.unwrap().unwrap();
        let (tls, mut reloads) = followed(files, &ClientOptions::default(), &floor).unwrap();
        let before = tls.config();
        write();
        let taken = reloads.wait_until(|attempts| attempts.taken > 0);
        assert!(tokio::time::timeout(Duration::from_mins(1), taken).await.expect("nobody looked"));
        assert!(!Arc::ptr_eq(&before, &tls.config()));
        tasks.shutdown(Duration::from_secs(5)).await;
    }

    #[test]
    fn names_are_answered_as_the_settings_say() {
        assert_eq!(names(&DnsSettings::default()), dns::Settings::default());
        let zones = vec!["Consul.".to_owned(), "example.com".to_owned()];
        let told = names(&DnsSettings { zones, only_passing: true, ..DnsSettings::default() });
        assert_eq!((told.zones, told.only_passing), (vec!["consul".to_owned(), "example.com".to_owned()], true));
    }
}
