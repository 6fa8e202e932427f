//! `thane workflow`.

mod edit;
pub(super) mod follow;
mod lint;
pub(super) mod logs;
mod submit;
mod tree;

use clap::{Args, Subcommand};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use serde_json::Value;
use thane_api::code;
use thane_runtime::{Clock, SystemClock};
use thane_workload::controller::argo;
use thane_workload::status::packed::unpacked;
use thane_workload::status::{Moment, WorkflowStatus};

use super::rows::{self, Column, Form, text};
use crate::failure::Failure;
use crate::kubernetes::connection::{Connection, Session, check_segment};
use crate::output::{Structured, print, print_structured, tell};

/// Workflows: check, submit, watch, resume, stop and retry them
#[derive(Debug, Subcommand)]
pub(crate) enum Workflow {
    Lint(lint::Lint),
    Submit(submit::Submit),
    List(List),
    Get(Get),
    Watch(Watch),
    Logs(logs::Logs),
    Suspend(edit::Suspend),
    Resume(edit::Resume),
    Stop(edit::Stop),
    Terminate(edit::Terminate),
    Retry(edit::Retry),
    Resubmit(edit::Resubmit),
    Set(edit::Set),
    Delete(Delete),
}

/// List Workflows
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only those with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "")]
    selector: String,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Form>,
    #[command(flatten)]
    connection: Connection,
}

/// Show a Workflow and its steps
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Its name
    name: String,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
    #[command(flatten)]
    connection: Connection,
}

/// Follow a Workflow until it ends
///
/// On a terminal the tree of steps is redrawn; else every change of a step is a line.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Its name
    name: String,
    #[command(flatten)]
    connection: Connection,
}

/// Delete Workflows; what they run ends
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Their names
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    connection: Connection,
}

const COLUMNS: [Column; 6] = [
    Column { heading: "NAME", wide: false, cell: |row| text(row, "/metadata/name") },
    Column { heading: "NAMESPACE", wide: true, cell: |row| text(row, "/metadata/namespace") },
    Column { heading: "STATUS", wide: false, cell: |row| text(row, "/status/phase") },
    Column { heading: "STARTED", wide: false, cell: |row| text(row, "/status/startedAt") },
    Column { heading: "PROGRESS", wide: false, cell: |row| text(row, "/status/progress") },
    Column { heading: "MESSAGE", wide: false, cell: |row| text(row, "/status/message") },
];

impl Workflow {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Lint(command) => command.run().await,
            Self::Submit(command) => command.run().await,
            Self::List(command) => command.run().await,
            Self::Get(command) => command.run().await,
            Self::Watch(command) => command.run().await,
            Self::Logs(command) => command.run().await,
            Self::Suspend(command) => command.run().await,
            Self::Resume(command) => command.run().await,
            Self::Stop(command) => command.run().await,
            Self::Terminate(command) => command.run().await,
            Self::Retry(command) => command.run().await,
            Self::Resubmit(command) => command.run().await,
            Self::Set(command) => command.run().await,
            Self::Delete(command) => command.run().await,
        }
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let session = self.connection.open().await?;
        let kind = argo("Workflow");
        let api: Api<DynamicObject> = if self.all_namespaces {
            Api::all_with(session.client.clone(), &kind)
        } else {
            workflows(&session, &session.namespace)
        };
        let found = api.list(&ListParams::default().labels(&self.selector)).await?;
        let rows: Vec<Value> = found.items.iter().filter_map(|item| serde_json::to_value(item).ok()).collect();
        let none = "no workflows; submit one with `thane workflow submit FILE`";
        rows::show(&Value::Array(rows), &COLUMNS, self.output, none)
    }
}

impl Get {
    async fn run(self) -> Result<(), Failure> {
        let session = self.connection.open().await?;
        let object = fetch(&session, &self.name).await?;
        match self.output {
            Some(form) => print_structured(&object, form),
            None => print(&tree::shown(&object, &status(&object)?, now())),
        }
    }
}

impl Watch {
    async fn run(self) -> Result<(), Failure> {
        let session = self.connection.open().await?;
        follow::follow(&session, &session.namespace, &self.name).await
    }
}

impl Delete {
    async fn run(self) -> Result<(), Failure> {
        let session = self.connection.open().await?;
        for name in &self.names {
            check_segment("name", name)?;
            workflows(&session, &session.namespace).delete(name, &DeleteParams::background()).await?;
            tell(&format!("workflow {name} deleted"));
        }
        Ok(())
    }
}

/// Workflows of a namespace.
pub(super) fn workflows(session: &Session, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(session.client.clone(), namespace, &argo("Workflow"))
}

async fn fetch(session: &Session, name: &str) -> Result<Value, Failure> {
    check_segment("name", name)?;
    value(&workflows(session, &session.namespace).get(name).await?)
}

pub(super) fn value(object: &DynamicObject) -> Result<Value, Failure> {
    serde_json::to_value(object).map_err(|error| Failure::new(code::BUG, format!("read a workflow: {error}")))
}

/// A Workflow's status with all its nodes.
pub(super) fn status(object: &Value) -> Result<WorkflowStatus, Failure> {
    let unreadable = |error: String| Failure::new(code::REFUSED, format!("the workflow's status: {error}"));
    match &object["status"] {
        Value::Null => Ok(WorkflowStatus::default()),
        status => {
            let status = serde_json::from_value(status.clone()).map_err(|error| unreadable(error.to_string()))?;
            unpacked(status).map_err(|error| unreadable(error.to_string()))
        }
    }
}

fn now() -> Moment {
    Moment::of(SystemClock::new().now())
}
