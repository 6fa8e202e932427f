//! What people do to Workflows that run or have ended.

use clap::{Args, ValueEnum};
use kube::api::{DynamicObject, PostParams};
use thane_api::code;
use thane_runtime::{Clock, SystemClock};
use thane_workload::controller::actions::{self, Action, Selector, memoized, resubmitted};
use thane_workload::status::NodePhase;

use super::submit::pair;
use super::{fetch, follow, workflows};
use crate::failure::Failure;
use crate::kubernetes::connection::{Connection, Session, check_segment};
use crate::output::{print, tell};

/// Letters that tell a Workflow that is made again from the one it was.
const SUFFIX: usize = 5;

/// Start nothing more of Workflows; what runs goes on
#[derive(Debug, Args)]
pub(crate) struct Suspend {
    #[command(flatten)]
    which: Which,
}

/// Go on with Workflows that wait
#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    nodes: Nodes,
}

/// End Workflows, and run their exit handlers; or end waits as failed
#[derive(Debug, Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    nodes: Nodes,
}

/// End Workflows at once, without exit handlers
#[derive(Debug, Args)]
pub(crate) struct Terminate {
    #[command(flatten)]
    which: Which,
}

/// Run what failed in Workflows again
#[derive(Debug, Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    which: Which,
    /// Follow it until it ends
    #[arg(short, long)]
    watch: bool,
}

/// Submit Workflows that were once more
#[derive(Debug, Args)]
pub(crate) struct Resubmit {
    #[command(flatten)]
    which: Which,
    /// Do not run again what succeeded
    #[arg(long)]
    memoized: bool,
}

/// Set outputs, phase or message of waits
#[derive(Debug, Args)]
pub(crate) struct Set {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    nodes: Nodes,
    /// An output that was promised, as NAME=VALUE
    #[arg(short = 'p', long = "output-parameter", value_name = "NAME=VALUE", value_parser = pair)]
    outputs: Vec<(String, String)>,
    /// The phase they get
    #[arg(long, value_name = "PHASE")]
    phase: Option<End>,
}

/// How a wait can end.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum End {
    #[value(name = "Succeeded")]
    Succeeded,
    #[value(name = "Failed")]
    Failed,
    #[value(name = "Error")]
    Error,
    #[value(name = "Skipped")]
    Skipped,
}

/// Which Workflows.
#[derive(Debug, Args)]
struct Which {
    /// Their names
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    connection: Connection,
}

/// Which waits.
#[derive(Debug, Args)]
struct Nodes {
    /// Only these, as displayName=NAME, templateName=NAME, id=ID …; may be joined by commas
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    node_field_selector: String,
    /// What to say about it
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    message: String,
}

impl Nodes {
    fn selector(&self) -> Result<Selector, Failure> {
        self.node_field_selector.parse().map_err(|error: String| Failure::new(code::USAGE, error))
    }
}

impl Which {
    async fn act(&self, action: &Action, said: &str) -> Result<Session, Failure> {
        let session = self.connection.open().await?;
        let clock = SystemClock::new();
        for name in &self.names {
            check_segment("name", name)?;
            let done = actions::act(&session.client, &session.namespace, name, action, || clock.now()).await;
            done.map_err(|error| refused(error).about(name))?;
            tell(&format!("workflow {name} {said}"));
        }
        Ok(session)
    }
}

fn refused(error: actions::Error) -> Failure {
    match error {
        actions::Error::Api(error) => error.into(),
        other => Failure::new(code::REFUSED, other.to_string()),
    }
}

impl Suspend {
    pub(super) async fn run(self) -> Result<(), Failure> {
        self.which.act(&Action::Suspend, "suspended").await.map(drop)
    }
}

impl Resume {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let action = Action::Resume { nodes: self.nodes.selector()?, message: self.nodes.message.clone() };
        self.which.act(&action, "resumed").await.map(drop)
    }
}

impl Stop {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let action = Action::Stop { nodes: self.nodes.selector()?, message: self.nodes.message.clone() };
        self.which.act(&action, "stopped").await.map(drop)
    }
}

impl Terminate {
    pub(super) async fn run(self) -> Result<(), Failure> {
        self.which.act(&Action::Terminate, "terminated").await.map(drop)
    }
}

impl Retry {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let session = self.which.act(&Action::Retry, "goes on").await?;
        if self.watch {
            for name in &self.which.names {
                follow::follow(&session, &session.namespace, name).await?;
            }
        }
        Ok(())
    }
}

impl Resubmit {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let session = self.which.connection.open().await?;
        let clock = SystemClock::new();
        for name in &self.which.names {
            let old = fetch(&session, name).await?;
            let object = if self.memoized {
                let suffix: String = uuid::Uuid::new_v4().simple().to_string().chars().take(SUFFIX).collect();
                memoized(&old, &suffix, clock.now()).map_err(|why| Failure::new(code::REFUSED, why))?
            } else {
                resubmitted(&old)
            };
            let object: DynamicObject = serde_json::from_value(object)
                .map_err(|error| Failure::new(code::BUG, format!("make a workflow again: {error}")))?;
            let made = workflows(&session, &session.namespace).create(&PostParams::default(), &object).await?;
            print(&format!("{}\n", made.metadata.name.unwrap_or_default()))?;
        }
        Ok(())
    }
}

impl Set {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let phase = self.phase.map(|phase| match phase {
            End::Succeeded => NodePhase::Succeeded,
            End::Failed => NodePhase::Failed,
            End::Error => NodePhase::Error,
            End::Skipped => NodePhase::Skipped,
        });
        let (nodes, message) = (self.nodes.selector()?, self.nodes.message.clone());
        let action = Action::Set { nodes, outputs: self.outputs.clone(), phase, message };
        self.which.act(&action, "set").await.map(drop)
    }
}
