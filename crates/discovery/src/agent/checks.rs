//! Health checks: what they ask (`plan`), what follows from the answers (`machine`, pure), and who asks (here).

pub(super) mod alias;
mod grpc;
mod h2ping;
mod http;
pub mod machine;
pub mod plan;
mod script;
mod tcp;
#[cfg(test)]
mod tests;
mod trust;
mod udp;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use thane_runtime::net::SharedNetwork;
use thane_runtime::tls::ClientTls;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use self::machine::{Change, Due, Machine, Observation};
use self::plan::Kind;
use super::state::{Edit, Observed, unknown_check};
use crate::command::Refusal;
use crate::model::{Check, Status};

/// Programs that run at once; further ones wait.
const SCRIPTS_MAX: usize = 64;
/// Checks of any other one kind that are asked at once; further ones wait. Those of another kind do not wait for them.
const ASKED_MAX: usize = 256;
/// What is told to one check and waits to be taken up.
const TOLD_MAX: usize = 16;
/// A new check is run for the first time within this.
const FIRST_RUN: Duration = Duration::from_secs(1);

/// What checks work with.
pub(super) struct Tools {
    pub(super) network: SharedNetwork,
    pub(super) clock: SharedClock,
    pub(super) trust: trust::Trusted,
    pub(super) tasks: Tasks,
    runs: Runs,
}

/// Bounds what runs at once, each kind for itself: services that hang all alike hold up their like alone.
struct Runs {
    http: Semaphore,
    tcp: Semaphore,
    udp: Semaphore,
    grpc: Semaphore,
    h2ping: Semaphore,
    script: Semaphore,
}

impl Default for Runs {
    fn default() -> Self {
        let asked = || Semaphore::new(ASKED_MAX);
        let script = Semaphore::new(SCRIPTS_MAX);
        Self { http: asked(), tcp: asked(), udp: asked(), grpc: asked(), h2ping: asked(), script }
    }
}

impl Runs {
    /// The bound of a kind; what is only told or copied has none.
    fn of(&self, kind: &Kind) -> Option<&Semaphore> {
        Some(match kind {
            Kind::Http => &self.http,
            Kind::Tcp => &self.tcp,
            Kind::Udp => &self.udp,
            Kind::Grpc => &self.grpc,
            Kind::H2Ping => &self.h2ping,
            Kind::Script => &self.script,
            Kind::Ttl | Kind::Alias => return None,
        })
    }
}

impl Tools {
    pub(super) fn new(network: SharedNetwork, clock: SharedClock, tls: Option<ClientTls>, tasks: Tasks) -> Self {
        let trust = trust::Trusted::new(tls);
        Self { network, clock, trust, tasks, runs: Runs::default() }
    }
}

/// What checks are about and where their results go.
pub(super) trait Patient: Send + Sync + 'static {
    /// A check has come to a result.
    fn observed(&self, observed: Observed) -> futures::future::BoxFuture<'_, ()>;
    /// A check was critical for too long.
    fn expired<'a>(&'a self, service_id: &'a str) -> futures::future::BoxFuture<'a, ()>;
    /// How what an alias stands for is doing, and what resolves when that may have changed.
    fn aliased<'a>(&'a self, check: &'a Check) -> futures::future::BoxFuture<'a, (Observation, crate::backend::Wake)>;
    /// Whether every result is reported.
    fn reports_all(&self) -> bool;
}

/// The checks that run.
pub(super) struct Runners {
    running: Mutex<HashMap<String, Running>>,
    tools: Arc<Tools>,
}

struct Running {
    told: mpsc::Sender<Told>,
    stop: CancellationToken,
}

type Told = (Observation, oneshot::Sender<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Runners {
    pub(super) fn new(tools: Tools) -> Self {
        Self { running: Mutex::default(), tools: Arc::new(tools) }
    }

    /// Starts and stops checks as registrations come and go.
    pub(super) fn follow(&self, edits: &[Edit], patient: &Weak<dyn Patient>) {
        for edit in edits {
            match edit {
                Edit::Check(kept, effect) if effect.run => {
                    self.start(&kept.check, kept.generation, FIRST_RUN, patient);
                }
                Edit::NoCheck(id) => drop(self.running.lock().remove(id)),
                Edit::Check(..) | Edit::Service(_) | Edit::NoService(_) => {}
            }
        }
    }

    /// Starts a check; its first run comes within `first`.
    pub(super) fn start(&self, check: &Arc<Check>, generation: u64, first: Duration, patient: &Weak<dyn Patient>) {
        let Ok(kind) = plan::kind(check) else {
            // Maintenance, for one, is no check that is run.
            self.running.lock().remove(&check.id);
            return;
        };
        let (told, receiver) = mpsc::channel(TOLD_MAX);
        let stop = self.tools.tasks.token().child_token();
        let runner = Runner {
            check: Arc::clone(check),
            kind,
            generation,
            machine: Machine::new(
                self.tools.clock.monotonic(),
                &check.definition,
                check.status,
                &check.output,
                !check.service_id.is_empty(),
            ),
            tools: Arc::clone(&self.tools),
            patient: Weak::clone(patient),
        };
        let running = Running { told, stop: stop.clone() };
        self.running.lock().insert(check.id.clone(), running);
        let first = first.min(plan::interval(&check.definition)).mul_f64(rand::random());
        self.tools.tasks.spawn("check", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = runner.run(first, receiver) => {}
            }
        });
    }

    /// Tells a TTL check how it is. Resolves once that is taken up.
    pub(super) async fn tell(&self, check: &Check, observation: Observation) -> Result<(), Refusal> {
        let id = &check.id;
        if !matches!(plan::kind(check), Ok(Kind::Ttl)) {
            return Err(Refusal::Failed(format!("CheckID {id:?} does not have associated TTL")));
        }
        let told = self.running.lock().get(id).map(|running| running.told.clone());
        let gone = || unknown_check(id);
        let (taken, answered) = oneshot::channel();
        told.ok_or_else(gone)?.send((observation, taken)).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }
}

/// One check that runs.
struct Runner {
    check: Arc<Check>,
    kind: Kind,
    generation: u64,
    machine: Machine,
    tools: Arc<Tools>,
    patient: Weak<dyn Patient>,
}

impl Runner {
    async fn run(mut self, first: Duration, mut told: mpsc::Receiver<Told>) {
        let clock = Arc::clone(&self.tools.clock);
        let is_timed = !matches!(self.kind, Kind::Ttl | Kind::Alias);
        let mut next_run = is_timed.then(|| clock.monotonic() + first);
        let mut wake: Option<crate::backend::Wake> =
            (self.kind == Kind::Alias).then(|| Box::pin(std::future::ready(())) as crate::backend::Wake);
        loop {
            let due = [next_run, self.machine.due()].into_iter().flatten().min();
            let until = due.map(|due| due.saturating_sub(clock.monotonic()));
            tokio::select! {
                Some((observation, taken)) = told.recv() => {
                    self.take(observation).await;
                    let _ = taken.send(());
                }
                () = woken(wake.as_mut()) => wake = self.copy().await,
                () = sleep(until) => {
                    if next_run.is_some_and(|at| at <= clock.monotonic()) {
                        let observation = self.ask().await;
                        self.take(observation).await;
                        next_run = Some(clock.monotonic() + self.wait());
                    }
                    self.tick().await;
                }
            }
        }
    }

    /// Time to the next run: a little more or less each time, so that checks do not run in step.
    fn wait(&self) -> Duration {
        plan::interval(&self.check.definition).mul_f64(0.95 + 0.1 * rand::random::<f64>())
    }

    async fn ask(&self) -> Observation {
        let _run = match self.tools.runs.of(&self.kind) {
            // The semaphores are never closed.
            Some(runs) => runs.acquire().await.ok(),
            None => None,
        };
        let timeout = plan::timeout(&self.check.definition);
        let asking = async {
            match self.kind {
                Kind::Http => http::ask(&self.tools, &self.check.definition).await,
                Kind::Tcp => tcp::ask(&self.tools, &self.check.definition).await,
                Kind::Udp => udp::ask(&self.check.definition).await,
                Kind::Grpc => grpc::ask(&self.tools, &self.check.definition).await,
                Kind::H2Ping => h2ping::ask(&self.tools, &self.check.definition).await,
                Kind::Script => script::run(&self.check.definition.args).await,
                Kind::Ttl | Kind::Alias => Observation::new(Status::Critical, "nothing is asked"),
            }
        };
        match tokio::time::timeout(timeout, asking).await {
            Ok(observation) => observation,
            Err(_) => Observation::new(Status::Critical, format!("timed out after {timeout:?}")),
        }
    }

    async fn copy(&mut self) -> Option<crate::backend::Wake> {
        let patient = self.patient.upgrade()?;
        let (observation, wake) = patient.aliased(&self.check).await;
        self.take(observation).await;
        Some(wake)
    }

    async fn take(&mut self, observation: Observation) {
        let now = self.tools.clock.monotonic();
        let change = self.machine.step(now, observation, rand::random());
        let reports_all = self.patient.upgrade().is_some_and(|patient| patient.reports_all());
        match change {
            Change::Status => self.report(true).await,
            Change::Output => self.report(reports_all).await,
            Change::Nothing if reports_all => self.report(true).await,
            Change::Nothing => {}
        }
    }

    async fn tick(&mut self) {
        loop {
            match self.machine.tick(self.tools.clock.monotonic()) {
                Due::Nothing => return,
                Due::Lapsed | Due::Publish => self.report(true).await,
                Due::Deregister => {
                    let Some(patient) = self.patient.upgrade() else { return };
                    tracing::info!(check = self.check.id, service = self.check.service_id, "critical for too long");
                    patient.expired(&self.check.service_id).await;
                }
            }
        }
    }

    async fn report(&self, tell: bool) {
        let Some(patient) = self.patient.upgrade() else { return };
        let observed = Observed {
            id: self.check.id.clone(),
            generation: self.generation,
            status: self.machine.status(),
            output: self.machine.output().to_owned(),
            tell,
        };
        patient.observed(observed).await;
    }
}

async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

async fn woken(wake: Option<&mut crate::backend::Wake>) {
    match wake {
        Some(wake) => wake.await,
        None => std::future::pending().await,
    }
}

/// What went wrong, with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}
