//! The operator as a process: of sandboxes, Workflows and workloads.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use thane_api::code;
use thane_runtime::Tasks;
use thane_runtime::config::Loaded;
use thane_runtime::telemetry::LogLevels;
use thane_runtime::tls::ServerTls;
use thane_sandbox::admission;
use thane_sandbox::certificates::{Certificates, Issued};
use thane_sandbox::lease::{self, Candidate};
use thane_sandbox::operator::{self, Options};
use thane_sandbox::pods::{Kubernetes, Shape};
use thane_workload::agent::{self, Services};
use thane_workload::controller;

use super::{Ending, Ground, bind, namespace};
use crate::commands::operator::Operator;
use crate::failure::Failure;
use crate::judge::Apart;
use crate::settings::Settings;
use crate::settings::workflows::WorkflowSettings;

/// The lease of whoever leads.
const LEASE: &str = "thane-sandbox-operator";
/// What sidecars show, in each namespace with pools.
const SIDECARS: &str = "thane-sidecar";
/// The configuration that has us asked.
const WEBHOOK: &str = "thane-sandboxes";
/// The lease of whoever keeps Workflows.
const WORKFLOWS_LEASE: &str = "thane-workflow-controller";
/// Whose Workflows are ours, beside an Argo that takes those without.
const INSTANCE: &str = "thane";
/// The lease of whoever follows workloads.
const WORKLOADS_LEASE: &str = "thane-workloads";
const GRACE: Duration = Duration::from_secs(20);

/// Runs the operator until a signal, or until a part it needs fails.
pub(crate) async fn run(settings: Loaded<Settings>, levels: LogLevels, said: &Operator) -> Result<(), Failure> {
    let ending = Ending { linger: settings.value.admin.linger.0, grace: GRACE };
    super::run(ending, async |tasks| start(&settings, levels, said, tasks).await).await
}

async fn start(settings: &Loaded<Settings>, levels: LogLevels, said: &Operator, tasks: Tasks) -> Result<(), Failure> {
    let mut ground = Ground::open(&settings.value, 0, tasks).await?;
    let (client, context) = said.connection.open().await?;
    let namespace = namespace(&said.namespace, context)?;
    let identity = uuid::Uuid::new_v4().to_string();
    let candidate =
        |name: &str| Candidate { namespace: namespace.clone(), name: name.to_owned(), identity: identity.clone() };
    if said.workflows {
        workflows(said, &settings.value.workflows, client.clone(), candidate(WORKFLOWS_LEASE), &mut ground);
    }
    if said.workloads {
        workloads(said, client.clone(), candidate(WORKLOADS_LEASE), &mut ground);
    }
    if said.sandboxes {
        sandboxes(said, client, candidate(LEASE), &mut ground).await?;
    }
    ground.serve(settings, levels);
    tracing::info!(namespace, image = said.image, "the operator runs");
    Ok(())
}

/// Keeps pools and sandboxes, and does so alone.
async fn sandboxes(said: &Operator, client: Client, candidate: Candidate, ground: &mut Ground) -> Result<(), Failure> {
    let (namespace, now) = (candidate.namespace.clone(), ground.clock.now());
    let certificates = Certificates::open(&client, &namespace, now).await.map_err(|error| failed(&error))?;
    certificates.keep_gateway(&client, &namespace, now).await.map_err(|error| failed(&error))?;
    let sidecars = certificates.client("operator", now).map_err(|error| failed(&error))?;
    let certificates = Arc::new(certificates);
    let webhook = webhook(said, &namespace, &client, &certificates, ground).await?;
    let (secret, kept) = (SIDECARS.to_owned(), sidecars.clone());
    let issued = Issued { namespace, secret, sidecars: kept, webhook };
    let (group, clock) = (ground.tasks.child("certificates"), Arc::clone(&ground.clock));
    group.spawn("renewal", Arc::clone(&certificates).keep_renewed(client.clone(), issued, clock, group.clone()));
    let options = Options {
        shape: Shape::Kubernetes(Kubernetes { image: said.image.clone(), secret: SIDECARS.to_owned() }),
        sidecars,
        lease: Some(candidate),
        certificates: Some(certificates),
        claims: None,
        managed_unused: Duration::from_secs(said.managed_unused_seconds),
    };
    let role = ground.tasks.child("operator");
    operator::start(client, options, Arc::clone(&ground.clock), &role, &mut ground.registry);
    Ok(())
}

/// Follows workloads, and does so alone.
fn workloads(said: &Operator, client: Client, candidate: Candidate, ground: &mut Ground) {
    let services = Services {
        agent_image: said.services.agent_image.clone(),
        browserless_url: said.services.browserless_url.clone(),
        litellm_url: said.services.litellm_url.clone(),
        postgres_dsn: said.services.postgres_dsn.clone(),
        bucket: said.services.bucket.clone(),
        instance: Some(INSTANCE.to_owned()),
    };
    let namespace = candidate.namespace.clone();
    let options = agent::controller::Options { services, namespace, judge: Arc::new(Apart) };
    let metrics = agent::controller::Metrics::new(&mut ground.registry);
    let (tasks, clock, api) = (ground.tasks.child("workloads"), Arc::clone(&ground.clock), client.clone());
    let lead = move |tasks: &Tasks| {
        agent::controller::start(api.clone(), options.clone(), Arc::clone(&clock), tasks, metrics.clone());
    };
    tasks.spawn_essential("lease", lease::run(client, candidate, Arc::clone(&ground.clock), tasks.clone(), lead));
}

/// Keeps Workflows that are ours, and does so alone.
fn workflows(said: &Operator, told: &WorkflowSettings, client: Client, candidate: Candidate, ground: &mut Ground) {
    let settings = thane_workload::steps::Settings { image: said.image.clone(), ..Default::default() };
    let options = controller::Options {
        instance: Some(INSTANCE.to_owned()),
        settings: told.over(settings),
        repository: told.repository.clone(),
        runner: None,
    };
    let metrics = controller::Metrics::new(&mut ground.registry);
    let (tasks, clock, api) = (ground.tasks.child("workflows"), Arc::clone(&ground.clock), client.clone());
    let lead = move |tasks: &Tasks| {
        controller::start(api.clone(), options.clone(), Arc::clone(&clock), tasks, metrics.clone());
    };
    tasks.spawn_essential("lease", lease::run(client, candidate, Arc::clone(&ground.clock), tasks.clone(), lead));
}

/// Answers reviews, where that is asked for, and says by which certificate, which is told with the names in it.
async fn webhook(
    said: &Operator,
    namespace: &str,
    client: &Client,
    certificates: &Arc<Certificates>,
    ground: &Ground,
) -> Result<Option<(ServerTls, Vec<String>)>, Failure> {
    let Some(address) = said.webhook_address else { return Ok(None) };
    let service = &said.webhook_service;
    let names = vec![format!("{service}.{namespace}.svc"), format!("{service}.{namespace}")];
    let tls = certificates.server(&names, ground.clock.now()).map_err(|error| failed(&error))?;
    let listener = bind(&ground.network, address, "--webhook-address").await?;
    let group = ground.tasks.child("webhook");
    group.spawn_essential("webhook", admission::serve(listener, tls.clone(), group.clone()));
    group.spawn("told", Arc::clone(certificates).keep_told(client.clone(), WEBHOOK, group.clone()));
    Ok(Some((tls, names)))
}

fn failed(error: &thane_sandbox::certificates::Error) -> Failure {
    Failure::new(code::CERTIFICATE_UNUSABLE, format!("certificates of sandboxes: {error}"))
}
