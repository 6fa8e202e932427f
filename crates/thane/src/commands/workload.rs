//! `thane workload`.

mod follow;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use thane_api::code;
use thane_workload::agent::controller;
use thane_workload::agent::{AgentWorkload, GateAnswer, WorkflowView};

use super::rows::{self, Column, Form, text};
use crate::failure::Failure;
use crate::kubernetes::connection::{Connection, Session};
use crate::kubernetes::manifests;
use crate::output::tell;

/// Jobs of agents, and the gates that wait for a person
#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    Submit(Submit),
    List(List),
    Watch(Named),
    Logs(Named),
    Approve(Rule),
    Deny(Rule),
    Artifacts(Artifacts),
    Retry(Named),
    Stop(Named),
}

/// Create workloads from files
#[derive(Debug, Args)]
pub(crate) struct Submit {
    /// Files; `-` is the standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

/// List workloads
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    connection: Connection,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Form>,
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// Its name
    name: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub(crate) struct Rule {
    /// Its name
    name: String,
    /// Which gate, by the name of its step or the id of its node; needed where several wait
    #[arg(long, value_name = "GATE")]
    gate: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    connection: Connection,
}

/// List what its steps left
#[derive(Debug, Args)]
pub(crate) struct Artifacts {
    /// Its name
    name: String,
    #[command(flatten)]
    connection: Connection,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Form>,
}

const COLUMNS: [Column; 6] = [
    Column { heading: "NAME", wide: false, cell: |row| text(row, "/metadata/name") },
    Column { heading: "NAMESPACE", wide: true, cell: |row| text(row, "/metadata/namespace") },
    Column { heading: "PHASE", wide: false, cell: |row| text(row, "/status/phase") },
    Column { heading: "WORKFLOW", wide: false, cell: |row| text(row, "/status/argoPhase") },
    Column { heading: "RUN BY", wide: true, cell: |row| text(row, "/status/argoWorkflow/runtime") },
    Column { heading: "SAYS", wide: false, cell: |row| text(row, "/status/message") },
];

const PLACES: [Column; 2] = [
    Column { heading: "STEP/NAME", wide: false, cell: |row| text(row, "/name") },
    Column { heading: "PLACE", wide: false, cell: |row| text(row, "/place") },
];

/// How long a Workflow may take to be gone before a retry.
const GONE: Duration = Duration::from_mins(1);

impl Workload {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Submit(command) => command.run().await,
            Self::List(command) => command.run().await,
            Self::Watch(command) => follow::watch(&command.connection.open().await?, &command.name).await,
            Self::Logs(command) => follow::logs(&command.connection.open().await?, &command.name).await,
            Self::Approve(command) => command.run(true).await,
            Self::Deny(command) => command.run(false).await,
            Self::Artifacts(command) => command.run().await,
            Self::Retry(command) => command.retry().await,
            Self::Stop(command) => command.stop().await,
        }
    }
}

fn workloads(session: &Session) -> Api<AgentWorkload> {
    Api::namespaced(session.client.clone(), &session.namespace)
}

async fn find(session: &Session, name: &str) -> Result<AgentWorkload, Failure> {
    let found = workloads(session).get_opt(name).await.map_err(|error| session.failure(error))?;
    found.ok_or_else(|| {
        Failure::new(
            code::WORKLOAD_ABSENT,
            format!("there is no AgentWorkload {name} in namespace {}", session.namespace),
        )
    })
}

/// The Workflows beside a workload, and the name of its own.
fn workflows(session: &Session, workload: &AgentWorkload) -> Result<(Api<DynamicObject>, String), Failure> {
    let reference = workload.status.as_ref().and_then(|status| status.argo_workflow.clone());
    let reference = reference.ok_or_else(|| {
        Failure::new(code::WORKLOAD_ABSENT, format!("AgentWorkload {} has no Workflow yet", workload.name_any()))
    })?;
    let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Workflow");
    let kind = ApiResource::from_gvk_with_plural(&kind, "workflows");
    Ok((Api::namespaced_with(session.client.clone(), &reference.namespace, &kind), reference.name))
}

impl Submit {
    async fn run(self) -> Result<(), Failure> {
        let session = self.connection.open().await?;
        let read = manifests::read(&self.files)?;
        if let Some(other) = read.iter().find(|manifest| manifest.kind != "AgentWorkload") {
            let why = format!("{}: {} is no AgentWorkload", other.source, other.kind);
            return Err(Failure::new(code::MANIFEST_UNREADABLE, why).with_hint("`thane apply -f` takes any kind"));
        }
        for manifest in read {
            let namespace = manifest.namespace.clone().unwrap_or_else(|| session.namespace.clone());
            let workload: AgentWorkload = serde_json::from_value(manifest.object)
                .map_err(|error| Failure::new(code::MANIFEST_UNREADABLE, format!("{}: {error}", manifest.source)))?;
            let api: Api<AgentWorkload> = Api::namespaced(session.client.clone(), &namespace);
            let made = api.create(&PostParams::default(), &workload).await.map_err(|error| session.failure(error))?;
            tell(&format!("workload {} submitted; follow it with `thane workload watch {0}`", made.name_any()));
        }
        Ok(())
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let session = self.connection.open().await?;
        let api = if self.all_namespaces { Api::all(session.client.clone()) } else { workloads(&session) };
        let found = api.list(&ListParams::default()).await.map_err(|error| session.failure(error))?;
        rows::show(&json!(found.items), &COLUMNS, self.output, "no workloads; make one with `thane workload submit`")
    }
}

impl Rule {
    async fn run(self, allow: bool) -> Result<(), Failure> {
        let session = self.connection.open().await?;
        let workload = find(&session, &self.name).await?;
        let (workflows, name) = workflows(&session, &workload)?;
        let workflow = workflows.get(&name).await.map_err(|error| session.failure(error))?;
        let view = WorkflowView::read(&json!(workflow));
        let named = |id: &str, shown: &str| self.gate.as_deref().is_none_or(|gate| gate == id || gate == shown);
        let open: Vec<_> = view.gates().filter(|gate| named(&gate.id, &gate.display_name)).collect();
        let gate = match open.as_slice() {
            [gate] => *gate,
            [] => return Err(Failure::new(code::WORKLOAD_ABSENT, format!("no gate of {} waits", self.name))),
            several => {
                let ids: Vec<&str> = several.iter().map(|gate| gate.id.as_str()).collect();
                return Err(Failure::new(
                    code::USAGE,
                    format!("several gates wait: say which with --gate: {}", ids.join(", ")),
                ));
            }
        };
        let by = who(&session).await?;
        let (gate_id, workflow, reason) = (gate.id.clone(), view.uid.clone(), self.reason.clone());
        let answer = GateAnswer { gate: gate_id, workflow, allow, by, reason };
        let answered = controller::answer(&workloads(&session), &workload, answer).await;
        answered.map_err(|error| session.failure(error))?;
        tell(&format!("gate {} of {}: {}", gate.display_name, self.name, if allow { "approved" } else { "denied" }));
        Ok(())
    }
}

/// Who is asking, as the API server sees it.
async fn who(session: &Session) -> Result<String, Failure> {
    let reviews: Api<SelfSubjectReview> = Api::all(session.client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let review = review.map_err(|error| session.failure(error))?;
    let user = review.status.and_then(|status| status.user_info).and_then(|user| user.username);
    Ok(user.unwrap_or_else(|| "somebody".to_owned()))
}

impl Artifacts {
    async fn run(self) -> Result<(), Failure> {
        let session = self.connection.open().await?;
        let workload = find(&session, &self.name).await?;
        let places = workload.status.map(|status| status.workflow_artifacts).unwrap_or_default();
        let places: Vec<Value> =
            places.into_iter().map(|(name, place)| json!({"name": name, "place": place})).collect();
        rows::show(&Value::from(places), &PLACES, self.output, "it has left nothing yet")
    }
}

impl Named {
    /// Ends its Workflow, exit handlers included.
    async fn stop(self) -> Result<(), Failure> {
        let session = self.connection.open().await?;
        let workload = find(&session, &self.name).await?;
        let (workflows, name) = workflows(&session, &workload)?;
        let stop = json!({"spec": {"shutdown": "Stop"}});
        let stopped = workflows.patch(&name, &PatchParams::default(), &Patch::Merge(stop)).await;
        stopped.map_err(|error| session.failure(error))?;
        tell(&format!("workload {} stops", self.name));
        Ok(())
    }

    /// Starts one that has failed from its beginning; agents go on from their checkpoints.
    async fn retry(self) -> Result<(), Failure> {
        let session = self.connection.open().await?;
        let workload = find(&session, &self.name).await?;
        let status = workload.status.clone().unwrap_or_default();
        if !status.phase.ended() {
            let why = format!("workload {} has not ended: it is {:?}", self.name, status.phase);
            return Err(Failure::new(code::REFUSED, why).with_hint("end it first with `thane workload stop`"));
        }
        if let Ok((workflows, name)) = workflows(&session, &workload)
            && let Some(found) = workflows.get_metadata_opt(&name).await.map_err(|error| session.failure(error))?
        {
            let uid = found.uid().unwrap_or_default();
            workflows.delete(&name, &DeleteParams::foreground()).await.map_err(|error| session.failure(error))?;
            let gone = await_condition(workflows, &name, conditions::is_deleted(&uid));
            if !matches!(tokio::time::timeout(GONE, gone).await, Ok(Ok(_))) {
                return Err(Failure::new(code::NOT_GONE, format!("Workflow {name} is still there")));
            }
        }
        let mut next = workload;
        // What was decided before stays to be read, and counts no more.
        next.status = Some(status.anew());
        let reset = workloads(&session).replace_status(&self.name, &PostParams::default(), &next).await;
        reset.map_err(|error| session.failure(error))?;
        tell(&format!("workload {} starts again", self.name));
        Ok(())
    }
}
