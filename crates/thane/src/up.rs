//! Everything in one process: the hub's API, its clusters' APIs, health and metrics.

mod directory;
mod kubeconfig;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use futures::future::try_join_all;
use thane_api::code;
use thane_apiserver::embedded::{self, Embedded};
use thane_runtime::admin::{self, Admin};
use thane_runtime::config::Loaded;
use thane_runtime::net::{SharedNetwork, Tcp};
use thane_runtime::readiness::Readiness;
use thane_runtime::tasks::Supervisor;
use thane_runtime::telemetry::LogLevels;
use thane_runtime::{SharedClock, SystemClock, Tasks, metrics, shutdown};

use crate::failure::Failure;
use crate::output::tell;
use crate::settings::{Settings, UpSettings};
use directory::Directory;

/// The hub's Kubernetes API; cluster N's is N above it.
const API_PORT: u16 = 6443;
/// Each cluster is a server with a store of its own; this many fit a laptop.
const CLUSTERS_MAX: u16 = 64;

/// Runs until a signal or until a part fails.
pub(crate) async fn run(settings: Loaded<Settings>, levels: LogLevels) -> Result<(), Failure> {
    let up = settings.value.up.clone();
    check(&up)?;
    let directory = Directory::open(&up.data)?;
    let (tasks, mut supervisor) = Tasks::root("thane");
    let started = start(&settings, levels, &directory, &tasks).await;
    let outcome = match &started {
        Ok(_) => ended(&mut supervisor).await,
        Err(_) => Ok(()),
    };
    let stopped = stop(&up, started.as_deref().unwrap_or_default(), &tasks).await;
    started?;
    outcome.and(stopped)
}

fn check(up: &UpSettings) -> Result<(), Failure> {
    if up.clusters > CLUSTERS_MAX {
        let message = format!("{} clusters are too many; at most {CLUSTERS_MAX} run in one process", up.clusters);
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
) -> Result<Vec<Embedded>, Failure> {
    let up = &settings.value.up;
    let (clock, network) = (SystemClock::shared(), Tcp::shared());
    let readiness = Readiness::new();
    let complete = readiness.condition("endpoints");
    let registry = metrics::registry(env!("CARGO_PKG_VERSION"), clock.now(), tasks);
    let address = listen(settings.value.admin.address, up.ephemeral_ports);
    let listener = network.bind(address).await?;
    let metrics_url = format!("http://{}", listener.local_addr());
    let admin = Admin { tasks: tasks.clone(), readiness, registry, levels, config: settings.rows() };
    admin::serve(admin, listener, &tasks.child("admin"));

    let names: Vec<String> =
        std::iter::once("hub".to_owned()).chain((1..=up.clusters).map(|number| format!("cluster-{number}"))).collect();
    let starting = names.iter().zip(API_PORT..).map(|(name, port)| {
        let address = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), up.ephemeral_ports);
        start_api(name, address, directory, &clock, &network, tasks)
    });
    let apis = try_join_all(starting).await?;
    directory.write("kubeconfig", &kubeconfig::write(&names, &apis)?)?;
    let endpoints = BTreeMap::from([("api", apis[0].url()), ("metrics", metrics_url)]);
    directory.write("endpoints.json", &crate::output::structured(&endpoints, crate::output::Structured::Json)?)?;
    complete.holds();
    welcome(directory, &names, &apis, &endpoints);
    Ok(apis)
}

async fn start_api(
    name: &str,
    address: SocketAddr,
    directory: &Directory,
    clock: &SharedClock,
    network: &SharedNetwork,
    tasks: &Tasks,
) -> Result<Embedded, Failure> {
    let config = embedded::Config::new(directory.join(name), address);
    let started = Embedded::start(config, SharedClock::clone(clock), network, &tasks.child(name)).await;
    started.map_err(|error| Failure::from(error).about(name))
}

fn listen(address: SocketAddr, ephemeral: bool) -> SocketAddr {
    if ephemeral { SocketAddr::from((Ipv4Addr::LOCALHOST, 0)) } else { address }
}

/// Waits for a signal, or for the failure of a part the process needs.
async fn ended(supervisor: &mut Supervisor) -> Result<(), Failure> {
    tokio::select! {
        signal = shutdown::requested() => {
            let reason = signal.map_err(|error| Failure::new(code::BUG, format!("wait for signals: {error}")))?;
            tracing::info!(?reason, "stopping");
            Ok(())
        }
        Some(failure) = supervisor.essential_failed() => Err(failure.into()),
    }
}

/// Stops everything in order; a second signal ends the wait.
async fn stop(up: &UpSettings, apis: &[Embedded], tasks: &Tasks) -> Result<(), Failure> {
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
        Ok(reason) = shutdown::requested() => {
            Err(Failure::new(code::TASK_FAILED, format!("a second signal ({reason:?}) cut the shutdown short")))
        }
    }
}

fn welcome(directory: &Directory, names: &[String], apis: &[Embedded], endpoints: &BTreeMap<&str, String>) {
    tell("thane is up");
    for (name, api) in names.iter().zip(apis) {
        tell(&format!("  {name:<12} {}", api.url()));
    }
    tell(&format!("  {:<12} {}", "metrics", endpoints["metrics"]));
    let kubeconfig = directory.join("kubeconfig");
    tell(&format!("\ntry:  thane get namespaces --kubeconfig {}", kubeconfig.display()));
    tell(&format!("      kubectl --kubeconfig {} --context hub get namespaces", kubeconfig.display()));
}
