//! Everything in one process: the hub's API, its clusters' APIs, health and metrics.

mod agentworkloads;
mod directory;
mod discovery;
mod fleet;
mod install;
mod kubeconfig;
mod lodging;
mod nodes;
mod redis;
mod sandboxes;
mod welcome;
mod workflows;

pub(crate) use nodes::IMAGES;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use futures::future::try_join_all;
use thane_api::code;
use thane_apiserver::embedded::{self, Embedded};
use thane_runtime::admin::{self, Admin};
use thane_runtime::config::Loaded;
use thane_runtime::net::{SharedNetwork, Tcp};
use thane_runtime::readiness::Readiness;
use thane_runtime::shutdown::Signals;
use thane_runtime::tasks::Supervisor;
use thane_runtime::telemetry::LogLevels;
use thane_runtime::{SharedClock, SystemClock, Tasks, metrics};
use tokio::runtime::Handle;

use crate::failure::Failure;
use crate::output::tell;
use crate::settings::{Settings, UpSettings};
use directory::Directory;

/// The first server, and the current context of the kubeconfig.
const HUB: &str = "hub";
/// Each cluster is a server with a store of its own; this many fit a laptop.
const CLUSTERS_MAX: u16 = 64;

/// Runs until a signal or until a part fails; pods on threads of their own.
pub(crate) async fn run(settings: Loaded<Settings>, levels: LogLevels, pods: &Handle) -> Result<(), Failure> {
    let up = settings.value.up.clone();
    check(&up)?;
    // Before anything starts: a signal during the start stops in order, too.
    let listening = Signals::listen();
    let mut signals = listening.map_err(|error| Failure::new(code::BUG, format!("wait for signals: {error}")))?;
    let directory = Directory::open(&up.data)?;
    let (tasks, mut supervisor) = Tasks::root("thane");
    let started = tokio::select! {
        started = start(&settings, levels, &directory, &tasks, pods) => started.map(Some),
        reason = signals.requested() => {
            tracing::info!(?reason, "stopping before it was up");
            Ok(None)
        }
    };
    let outcome = match &started {
        Ok(Some(_)) => ended(&mut supervisor, &mut signals).await,
        _ => Ok(()),
    };
    let apis = started.as_ref().ok().and_then(Option::as_deref).unwrap_or_default();
    let stopped = stop(&up, apis, &tasks, &mut signals).await;
    started?;
    outcome.and(stopped)
}

fn check(up: &UpSettings) -> Result<(), Failure> {
    if up.clusters > CLUSTERS_MAX {
        let message = format!("{} clusters are too many; at most {CLUSTERS_MAX} run in one process", up.clusters);
        return Err(Failure::new(code::CONFIG_INVALID, message));
    }
    if up.autonomous > up.clusters {
        let message = format!("{} of {} clusters cannot be autonomous", up.autonomous, up.clusters);
        return Err(Failure::new(code::CONFIG_INVALID, message));
    }
    if let Some(why) = up.limits.wrong() {
        return Err(Failure::new(code::CONFIG_INVALID, why));
    }
    if !up.ephemeral_ports && up.api_address.port().checked_add(up.clusters).is_none() {
        let message = format!("{} clusters do not fit above port {}", up.clusters, up.api_address.port());
        return Err(Failure::new(code::CONFIG_INVALID, message));
    }
    Ok(())
}

/// Starts every part and tells where it is; on an error the caller stops what has started.
async fn start(
    settings: &Loaded<Settings>,
    levels: LogLevels,
    directory: &Directory,
    tasks: &Tasks,
    pods: &Handle,
) -> Result<Vec<Embedded>, Failure> {
    let up = &settings.value.up;
    let (clock, network) = (SystemClock::shared(), Tcp::shared());
    let readiness = Readiness::new();
    let complete = readiness.condition("endpoints");
    let listener = network.bind(listen(settings.value.admin.address, up.ephemeral_ports)).await?;
    let metrics_url = format!("http://{}", listener.local_addr());

    let names: Vec<String> =
        std::iter::once("hub".to_owned()).chain((1..=up.clusters).map(|number| format!("cluster-{number}"))).collect();
    let starting = names.iter().zip(0..=up.clusters).map(|(name, number)| {
        let port = up.api_address.port().saturating_add(number);
        let address = listen(SocketAddr::new(up.api_address.ip(), port), up.ephemeral_ports);
        let mut config = embedded::Config::new(directory.join(name), address);
        config.encryption_keys.clone_from(&up.encryption_keys);
        config.token_file.clone_from(&up.token_file);
        up.limits.apply(&mut config);
        if name == HUB {
            config.readiness = readiness.clone();
        }
        start_api(name, config, &names, &clock, &network, tasks)
    });
    let apis = try_join_all(starting).await?;

    let mut registry = metrics::open_registry(env!("CARGO_PKG_VERSION"), clock.now(), tasks);
    for (name, api) in names.iter().zip(&apis) {
        let own = registry.sub_registry_with_prefix(metrics::PREFIX);
        api.register(own.sub_registry_with_label(("server".into(), name.clone().into())));
    }
    let place = fleet::Place { directory, clock: &clock, network: &network, tasks };
    let mut endpoints = BTreeMap::from([("api".to_owned(), apis[0].url()), ("metrics".to_owned(), metrics_url)]);
    if up.roles {
        let guests = discovery::registry(&place, &mut registry).await?;
        let fleet::Started { hub, proxy, redis, material } =
            fleet::start(up, &place, &names, &apis, guests, &settings.value.hub.proxy.rules, &mut registry).await?;
        endpoints.extend(redis.map(|redis| ("redis-proxy".to_owned(), format!("redis://{redis}"))));
        endpoints.insert("hub".to_owned(), format!("https://{hub}"));
        endpoints.insert("resource-proxy".to_owned(), format!("https://{proxy}"));
        let agents: Vec<&String> = names.iter().filter(|name| *name != HUB).collect();
        endpoints.extend(discovery::agents(up, &place, hub, &material, &agents, &mut registry).await?);
    }
    agentworkloads::start(&place, &names, &apis, &mut registry).await?;
    if up.pods {
        let runners = nodes::start(up, &place, pods, &names, &apis, &mut registry).await;
        let sandboxes = sandboxes::start(up, &place, &runners, &mut registry).await?;
        endpoints.extend(sandboxes.gateway.clone().map(|gateway| ("gateway".to_owned(), gateway)));
        let said = &settings.value.workflows;
        workflows::start(&place, &names, &apis, &runners, said, &sandboxes, &mut registry).await?;
    }
    let health = Readiness::new();
    let admin = Admin { tasks: tasks.clone(), readiness, health, registry, levels, config: settings.rows() };
    admin::serve(admin, listener, &tasks.child("admin"));

    kubeconfig::publish(&names, &apis, directory, &tasks.child("kubeconfig"))?;
    directory.write("endpoints.json", &crate::output::structured(&endpoints, crate::output::Structured::Json)?)?;
    complete.holds();
    let servers: Vec<(&str, String)> = names.iter().map(String::as_str).zip(apis.iter().map(Embedded::url)).collect();
    tell(&welcome::welcome(&servers, &endpoints, directory.path()));
    Ok(apis)
}

/// Starts one server with all it should have: the hub also has a namespace for each cluster.
async fn start_api(
    name: &str,
    mut config: embedded::Config,
    all: &[String],
    clock: &SharedClock,
    network: &SharedNetwork,
    tasks: &Tasks,
) -> Result<Embedded, Failure> {
    let address = config.listen.ip();
    if !address.is_loopback() && !address.is_unspecified() {
        config.names.push(address.to_string());
    }
    let started = Embedded::start(config, SharedClock::clone(clock), network, &tasks.child(name)).await;
    let api = started.map_err(|error| Failure::from(error).about(name))?;
    api.server.review_by(vec![Arc::new(thane_sandbox::admission::Rules), Arc::new(thane_workload::agent::Approvals)]);
    let own = ["argocd", sandboxes::NAMESPACE, workflows::NAMESPACE, agentworkloads::NAMESPACE];
    let mut namespaces: Vec<String> = own.into_iter().map(str::to_owned).collect();
    if name == HUB {
        namespaces.extend(all.iter().filter(|name| *name != HUB).cloned());
    }
    install::install(&api.server, &namespaces).await.map_err(|failure| failure.about(name))?;
    Ok(api)
}

fn listen(address: SocketAddr, ephemeral: bool) -> SocketAddr {
    if ephemeral { SocketAddr::from((Ipv4Addr::LOCALHOST, 0)) } else { address }
}

/// Waits for a signal, or for the failure of a part the process needs.
async fn ended(supervisor: &mut Supervisor, signals: &mut Signals) -> Result<(), Failure> {
    tokio::select! {
        reason = signals.requested() => {
            tracing::info!(?reason, "stopping");
            Ok(())
        }
        Some(failure) = supervisor.essential_failed() => Err(failure.into()),
    }
}

/// Stops everything in order; a second signal ends the wait.
async fn stop(up: &UpSettings, apis: &[Embedded], tasks: &Tasks, signals: &mut Signals) -> Result<(), Failure> {
    let stopping = async {
        let late = tasks.shutdown(up.grace.0).await;
        if !late.is_empty() {
            tracing::warn!(tasks = ?late, "some tasks did not end in time");
        }
        for api in apis {
            api.close().await.map_err(Failure::from)?;
        }
        Ok(())
    };
    tokio::select! {
        result = stopping => result,
        reason = signals.requested() => {
            Err(Failure::new(code::TASK_FAILED, format!("a second signal ({reason:?}) cut the shutdown short")))
        }
    }
}
