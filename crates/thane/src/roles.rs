//! The hub and the agent as processes of their own, on any Kubernetes API.

pub(crate) mod agent;
mod discovery;
pub(crate) mod gateway;
pub(crate) mod hub;
pub(crate) mod live;
pub(crate) mod operator;
pub(crate) mod redis;
pub(crate) mod secrets;
pub(crate) mod sidecar;
pub(crate) mod words;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use thane_api::code;
use thane_runtime::admin::{self, Admin};
use thane_runtime::config::Loaded;
use thane_runtime::metrics::{self, Registry};
use thane_runtime::net::{BindError, Listener, SharedNetwork, Tcp};
use thane_runtime::open_files;
use thane_runtime::readiness::Readiness;
use thane_runtime::shutdown::{Reason, Signals};
use thane_runtime::tasks::Supervisor;
use thane_runtime::telemetry::{self, LogLevels};
use thane_runtime::{SharedClock, SystemClock, Tasks};
use thane_sync::mapping::Pattern;

use crate::failure::Failure;
use crate::settings::Settings;

/// Starts the log of a role, and says what of its options is of no effect.
pub(crate) fn begin(settings: &Loaded<Settings>, idle: &[&str]) -> Result<LogLevels, Failure> {
    let levels = telemetry::init(&settings.value.log)?;
    // Those of a flag are no settings.
    let is_flag = |name: &str| ["THANE_OPERATOR_", "THANE_WORKLOAD_"].iter().any(|flags| name.starts_with(flags));
    for variable in settings.unknown_variables.iter().filter(|name| !is_flag(name)) {
        tracing::warn!(variable, "an environment variable sets nothing");
    }
    if !idle.is_empty() {
        tracing::warn!(options = ?idle, "options of argocd-agent that are accepted and of no effect here");
    }
    Ok(levels)
}

/// Runs a role to its end.
pub(crate) fn block_on(role: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    open_files::lift();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(code::BUG, format!("start the runtime: {error}")))?;
    runtime.block_on(role)
}

/// What every role stands on.
pub(crate) struct Ground {
    pub(crate) tasks: Tasks,
    pub(crate) clock: SharedClock,
    pub(crate) network: SharedNetwork,
    pub(crate) registry: Registry,
    pub(crate) readiness: Readiness,
    pub(crate) health: Readiness,
    admin: Tasks,
    listeners: Vec<Box<dyn Listener>>,
}

impl Ground {
    /// Takes the ports for health and metrics, before anything else can fail.
    async fn open(settings: &Settings, health_port: u16, tasks: Tasks) -> Result<Self, Failure> {
        let address = settings.admin.address;
        let mut ground = Self::open_at(address, tasks).await?;
        if health_port != 0 && health_port != address.port() {
            let address = SocketAddr::new(address.ip(), health_port);
            ground.listeners.push(bind(&ground.network, address, "--healthz-port").await?);
        }
        Ok(ground)
    }

    /// The same at one address.
    async fn open_at(address: SocketAddr, tasks: Tasks) -> Result<Self, Failure> {
        let mut ground = Self::silent(tasks);
        ground.listeners.push(bind(&ground.network, address, "--metrics-port").await?);
        Ok(ground)
    }

    /// Without health and metrics.
    fn silent(tasks: Tasks) -> Self {
        let (clock, network) = (SystemClock::shared(), Tcp::shared());
        let registry = metrics::open_registry(env!("CARGO_PKG_VERSION"), clock.now(), &tasks);
        // The first child, so that it is the last to stop.
        let admin = tasks.child("admin");
        let (readiness, health) = (Readiness::new(), Readiness::new());
        Self { tasks, clock, network, registry, readiness, health, admin, listeners: Vec::new() }
    }

    /// Serves health and metrics.
    fn serve(self, settings: &Loaded<Settings>, levels: LogLevels) {
        let admin = Arc::new(Admin {
            tasks: self.tasks,
            readiness: self.readiness,
            health: self.health,
            registry: self.registry,
            levels,
            config: settings.rows(),
        });
        for listener in self.listeners {
            admin::serve(Arc::clone(&admin), listener, &self.admin);
        }
    }
}

/// How a role ends after SIGTERM.
struct Ending {
    /// Callers are still served for so long: a Service sends them here until all nodes know that it should not.
    linger: Duration,
    /// What is under way then has so long to end.
    grace: Duration,
}

/// Runs a role until a signal or until a part it needs fails, then stops it in order.
async fn run(ending: Ending, start: impl AsyncFnOnce(Tasks) -> Result<(), Failure>) -> Result<(), Failure> {
    // Before anything starts: a signal during the start stops in order, too.
    let mut signals =
        Signals::listen().map_err(|error| Failure::new(code::BUG, format!("wait for signals: {error}")))?;
    let (tasks, mut supervisor) = Tasks::root("thane");
    let started = tokio::select! {
        started = start(tasks.clone()) => started.map(|()| true),
        reason = signals.requested() => {
            tracing::info!(?reason, "stopping before it was up");
            Ok(false)
        }
    };
    let outcome = match &started {
        Ok(true) => ended(&mut supervisor, &mut signals, ending.linger).await,
        _ => Ok(()),
    };
    let stopped = tokio::select! {
        late = tasks.shutdown(ending.grace) => {
            if !late.is_empty() {
                tracing::warn!(tasks = ?late, "some tasks did not end in time");
            }
            Ok(())
        }
        reason = signals.requested() => {
            Err(Failure::new(code::TASK_FAILED, format!("a second signal ({reason:?}) cut the shutdown short")))
        }
    };
    started?;
    outcome.and(stopped)
}

/// Waits for a signal, or for the failure of a part the process needs.
async fn ended(supervisor: &mut Supervisor, signals: &mut Signals, linger: Duration) -> Result<(), Failure> {
    let reason = tokio::select! {
        reason = signals.requested() => reason,
        Some(failure) = supervisor.essential_failed() => return Err(failure.into()),
    };
    let linger = if reason == Reason::Terminate { linger } else { Duration::ZERO };
    tracing::info!(?reason, ?linger, "stopping");
    tokio::select! {
        () = tokio::time::sleep(linger) => Ok(()),
        _ = signals.requested() => Ok(()),
        Some(failure) = supervisor.essential_failed() => Err(failure.into()),
    }
}

/// Starts to listen; `flag` is what chooses another port.
async fn bind(network: &SharedNetwork, address: SocketAddr, flag: &str) -> Result<Box<dyn Listener>, Failure> {
    network.bind(address).await.map_err(|error| match error {
        BindError::Taken(address) => {
            let message = format!("port {} on {} is already taken", address.port(), address.ip());
            Failure::new(code::PORT_TAKEN, message)
                .with_hint(format!("stop what uses it, or choose another with {flag}"))
        }
        other @ BindError::Other { .. } => other.into(),
    })
}

/// The address a host name stands for here; empty for all.
fn listen_address(host: &str, port: u16) -> Result<SocketAddr, Failure> {
    if host.is_empty() {
        return Ok(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port));
    }
    let unknown = |why: String| Failure::new(code::CONFIG_INVALID, format!("listen on {host}: {why}"));
    let mut found = (host, port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    found.next().ok_or_else(|| unknown("the name has no address".to_owned()))
}

/// Patterns of namespaces, each of which must be one.
fn patterns(texts: &[String]) -> Result<Vec<Pattern>, Failure> {
    let patterns: Vec<Pattern> = texts.iter().map(Pattern::new).collect();
    match patterns.iter().find(|pattern| !pattern.is_valid()) {
        Some(bad) => Err(Failure::new(code::CONFIG_INVALID, format!("{bad} is neither a glob nor an expression"))),
        None => Ok(patterns),
    }
}

/// The namespace that was configured, else the one of the context or the pod.
fn namespace(configured: &str, context: String) -> Result<String, Failure> {
    let namespace = if configured.is_empty() { context } else { configured.to_owned() };
    crate::kubernetes::connection::check_segment("namespace", &namespace)?;
    Ok(namespace)
}

/// A word of a setting, or what it should be.
fn word<T: std::str::FromStr<Err: std::fmt::Display>>(key: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|error| Failure::new(code::CONFIG_INVALID, format!("{key}: {error}")))
}
