//! Probes: whether a container has started, lives, and is ready.

mod grpc;
mod http;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ExecAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use thane_executor::client::Executor;
use thane_executor::message::Spawn;
use tokio::sync::mpsc;

use crate::netns::PodNetwork;
pub(crate) use http::get;

const OUTPUT_MAX: usize = 10 * 1024;

/// What a probe has found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// It has started.
    Started,
    /// It is ready, or no longer.
    Ready(bool),
    /// It has to be started again, and why.
    Sick(String),
}

/// Counts successes and failures in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    needed: u32,
    bearable: u32,
    successes: u32,
    failures: u32,
}

impl Tally {
    pub(crate) fn new(probe: &Probe) -> Self {
        let number = |value: Option<i32>, default: u32| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0).unwrap_or(default)
        };
        Self {
            needed: number(probe.success_threshold, 1),
            bearable: number(probe.failure_threshold, 3),
            successes: 0,
            failures: 0,
        }
    }

    /// What follows from one more result, if anything does.
    pub(crate) fn count(&mut self, succeeded: bool) -> Option<bool> {
        if succeeded {
            self.failures = 0;
            self.successes = self.successes.saturating_add(1);
            (self.successes >= self.needed).then_some(true)
        } else {
            self.successes = 0;
            self.failures = self.failures.saturating_add(1);
            (self.failures >= self.bearable).then_some(false)
        }
    }
}

/// What probes need to know of a container.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) container: Container,
    pub(crate) run: PathBuf,
    pub(crate) network: PodNetwork,
}

/// Probes a container until it ends; what is found is told.
pub(crate) async fn watch(subject: Subject, findings: mpsc::Sender<Finding>) {
    if let Some(probe) = subject.container.startup_probe.clone()
        && !startup(&subject, &probe, &findings).await
    {
        return;
    }
    if findings.send(Finding::Started).await.is_err() {
        return;
    }
    let readiness = async {
        if let Some(probe) = &subject.container.readiness_probe {
            repeat(&subject, probe, |good, _| Some(Finding::Ready(good)), &findings).await;
        }
    };
    let liveness = async {
        if let Some(probe) = &subject.container.liveness_probe {
            let sick =
                |good: bool, why: String| (!good).then(|| Finding::Sick(format!("Liveness probe failed: {why}")));
            repeat(&subject, probe, sick, &findings).await;
        }
    };
    tokio::join!(readiness, liveness);
}

async fn startup(subject: &Subject, probe: &Probe, findings: &mpsc::Sender<Finding>) -> bool {
    let mut tally = Tally::new(probe);
    tokio::time::sleep(delay(probe)).await;
    loop {
        let result = once(subject, probe).await;
        match tally.count(result.is_ok()) {
            Some(true) => return true,
            Some(false) => {
                let why = result.err().unwrap_or_default();
                // The runner has gone, or it will end the container.
                let _ = findings.send(Finding::Sick(format!("Startup probe failed: {why}"))).await;
                return false;
            }
            None => tokio::time::sleep(period(probe)).await,
        }
    }
}

async fn repeat(
    subject: &Subject,
    probe: &Probe,
    finding: impl Fn(bool, String) -> Option<Finding>,
    findings: &mpsc::Sender<Finding>,
) {
    let mut tally = Tally::new(probe);
    let mut known = None;
    tokio::time::sleep(delay(probe)).await;
    loop {
        let result = once(subject, probe).await;
        let now = tally.count(result.is_ok());
        if let Some(good) = now.filter(|now| known != Some(*now)) {
            known = Some(good);
            if let Some(finding) = finding(good, result.err().unwrap_or_default())
                && findings.send(finding).await.is_err()
            {
                return;
            }
        }
        tokio::time::sleep(period(probe)).await;
    }
}

fn seconds(value: Option<i32>, default: u64, least: u64) -> Duration {
    Duration::from_secs(value.and_then(|value| u64::try_from(value).ok()).unwrap_or(default).max(least))
}

fn delay(probe: &Probe) -> Duration {
    seconds(probe.initial_delay_seconds, 0, 0)
}

fn period(probe: &Probe) -> Duration {
    seconds(probe.period_seconds, 10, 1)
}

async fn once(subject: &Subject, probe: &Probe) -> Result<(), String> {
    let limit = seconds(probe.timeout_seconds, 1, 1);
    let attempt = async {
        if let Some(action) = &probe.exec {
            run(subject, action, limit).await
        } else if let Some(action) = &probe.http_get {
            get(subject, action).await
        } else if let Some(action) = &probe.tcp_socket {
            let address = address(subject, action.host.as_deref(), &action.port)?;
            subject.network.connect(address).await.map(|_| ()).map_err(|error| format!("dial {address}: {error}"))
        } else if let Some(action) = &probe.grpc {
            grpc::check(subject, action).await
        } else {
            Err("the probe does not say what to ask".to_owned())
        }
    };
    match tokio::time::timeout(limit, attempt).await {
        Ok(result) => result,
        Err(_) => Err(format!("no answer within {}s", limit.as_secs())),
    }
}

/// Runs a command in the container.
pub(crate) async fn run(subject: &Subject, action: &ExecAction, limit: Duration) -> Result<(), String> {
    let mut executor = Executor::connect(&subject.run).await.map_err(|error| error.to_string())?;
    let spawn = Spawn {
        command: action.command.clone().unwrap_or_default(),
        tag: "probe".to_owned(),
        timeout_ms: u64::try_from(limit.as_millis()).ok(),
        ..Spawn::default()
    };
    let (exit, output) = executor.run(spawn, OUTPUT_MAX).await.map_err(|error| error.to_string())?;
    if exit.code == 0 { Ok(()) } else { Err(String::from_utf8_lossy(&output).trim().to_owned()) }
}

fn address(subject: &Subject, host: Option<&str>, port: &IntOrString) -> Result<SocketAddr, String> {
    let number = match port {
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(name) => {
            let ports = subject.container.ports.iter().flatten();
            let named = ports.filter(|port| port.name.as_deref() == Some(name)).map(|port| port.container_port).next();
            named.and_then(|number| u16::try_from(number).ok()).or_else(|| name.parse().ok())
        }
    };
    let number = number.ok_or_else(|| format!("{port:?} is no port"))?;
    let ip = match host.filter(|host| !host.is_empty() && *host != "localhost") {
        Some(host) => host.parse().map_err(|_| format!("{host:?} is no address"))?,
        None => IpAddr::from(Ipv4Addr::LOCALHOST),
    };
    Ok(SocketAddr::new(ip, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_count_in_a_row() {
        let probe = Probe { success_threshold: Some(2), failure_threshold: Some(3), ..Probe::default() };
        let mut tally = Tally::new(&probe);
        let results = [true, true, false, false, true, false, false, false, true].map(|result| tally.count(result));
        let expected = [None, Some(true), None, None, None, None, None, Some(false), None];
        assert_eq!(results, expected);
    }
}
