//! `thane workflow logs`.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use clap::Args;
use futures::stream::FuturesUnordered;
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::LogParams;
use kube::runtime::wait::await_condition;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use thane_workload::status::{NodePhase, NodeStatus, NodeType, WorkflowStatus};
use thane_workload::steps::names::{MAIN, log_name, pod_name};

use super::{fetch, status, value, workflows};
use crate::failure::Failure;
use crate::kubernetes::connection::{Connection, Session};
use crate::output::{print, tell};

/// How many steps are followed at once; the others come when one of them has ended.
const AT_ONCE: usize = 64;
/// How long after a step's end what it said in a warm sandbox may take to be kept.
const KEPT: Duration = Duration::from_secs(5);

/// Show what the steps of a Workflow printed
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Its name
    name: String,
    /// Only of the step with this name
    #[arg(long, value_name = "NAME")]
    step: Option<String>,
    /// The container
    #[arg(short, long, value_name = "NAME", default_value = MAIN)]
    container: String,
    /// Go on until the Workflow has ended
    #[arg(short, long)]
    follow: bool,
    /// Lines without the name of their step
    #[arg(long)]
    no_prefix: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Logs {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let session = self.connection.open().await?;
        let found = status(&fetch(&session, &self.name).await?)?;
        let said = Said {
            client: session.client.clone(),
            namespace: session.namespace.clone(),
            workflow: self.name,
            container: self.container,
            step: self.step,
            prefix: !self.no_prefix,
        };
        if self.follow { said.follow(&session).await } else { said.so_far(&found).await }
    }
}

/// What is asked for of a Workflow.
pub(in crate::commands) struct Said {
    client: Client,
    namespace: String,
    workflow: String,
    container: String,
    step: Option<String>,
    prefix: bool,
}

impl Said {
    /// All that the steps of a Workflow have said.
    pub(in crate::commands) fn of(session: &Session, namespace: String, workflow: String) -> Self {
        let (client, container) = (session.client.clone(), MAIN.to_owned());
        Self { client, namespace, workflow, container, step: None, prefix: true }
    }

    fn is_wanted(&self, node: &NodeStatus) -> bool {
        let named = self.step.as_ref().is_none_or(|step| node.display_name == *step || node.name == *step);
        node.kind == NodeType::Pod && named
    }

    /// One step after the other, as far as each has come.
    pub(in crate::commands) async fn so_far(&self, status: &WorkflowStatus) -> Result<(), Failure> {
        for node in steps(status).into_iter().filter(|node| self.is_wanted(node)) {
            if !self.of_pod(node, false).await? && !self.kept(node).await? {
                tell(&format!("{}: nothing is kept of what it said", node.display_name));
            }
        }
        Ok(())
    }

    /// All steps side by side, and those that begin later, until the Workflow has ended.
    async fn follow(&self, session: &Session) -> Result<(), Failure> {
        let only = watcher::Config::default().fields(&format!("metadata.name={}", self.workflow));
        let words = watcher(workflows(session, &self.namespace), only).default_backoff();
        let mut words = words.boxed();
        let (mut waiting, mut running) = (VecDeque::new(), FuturesUnordered::new());
        let mut known = BTreeSet::new();
        let mut is_over = false;
        loop {
            while running.len() < AT_ONCE
                && let Some(node) = waiting.pop_front()
            {
                running.push(self.whole(node));
            }
            if is_over && running.is_empty() {
                return Ok(());
            }
            tokio::select! {
                Some(done) = running.next(), if !running.is_empty() => done?,
                word = words.next(), if !is_over => match word {
                    Some(Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object))) => {
                        let status = status(&value(&object)?)?;
                        is_over = status.phase.is_completed();
                        let begun = steps(&status).into_iter().filter(|node| self.is_wanted(node) && is_begun(node));
                        waiting.extend(begun.filter(|node| known.insert(node.id.clone())).cloned());
                    }
                    Some(Ok(watcher::Event::Delete(_))) | None => is_over = true,
                    Some(Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_)) => {}
                },
            }
        }
    }

    /// All that a step says until it has ended.
    async fn whole(&self, node: NodeStatus) -> Result<(), Failure> {
        if self.of_pod(&node, true).await? {
            return Ok(());
        }
        // A step in a warm sandbox has no pod, and what it said is kept once it has ended.
        let kept: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let name = log_name(&node.id);
        let is_there = await_condition(kept, &name, |map: Option<&ConfigMap>| map.is_some());
        let ended = self.ended(&node);
        tokio::select! {
            _ = is_there => {}
            () = ended => {}
        }
        // Or it has a pod that said nothing yet when it was asked.
        if !self.kept(&node).await? && !self.of_pod(&node, false).await? {
            tell(&format!("{}: nothing is kept of what it said", node.display_name));
        }
        Ok(())
    }

    /// Waits until a step has ended, and a little longer.
    async fn ended(&self, node: &NodeStatus) {
        if !node.is_ended() {
            let all = Api::namespaced_with(self.client.clone(), &self.namespace, &super::argo("Workflow"));
            let over = |object: Option<&kube::api::DynamicObject>| {
                let status = object.and_then(|object| status(&value(object).ok()?).ok());
                status.is_none_or(|status| status.nodes.get(&node.id).is_none_or(NodeStatus::is_ended))
            };
            // Where it cannot be known, what is kept by then is shown.
            let _ = await_condition(all, &self.workflow, over).await;
        }
        tokio::time::sleep(KEPT).await;
    }

    /// What the log of its pod has; whether it has one.
    async fn of_pod(&self, node: &NodeStatus, follow: bool) -> Result<bool, Failure> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let pod = pod_name(&self.workflow, node.template(), &node.name);
        let wanted = LogParams { container: Some(self.container.clone()), follow, ..LogParams::default() };
        let log = match pods.log_stream(&pod, &wanted).await {
            Ok(log) => log,
            // It is gone, has not begun, or never was.
            Err(kube::Error::Api(_)) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let mut lines = log.lines();
        let broken = |error: std::io::Error| Failure::from(kube::Error::Service(error.into()));
        while let Some(line) = lines.try_next().await.map_err(broken)? {
            self.show(node, &line)?;
        }
        Ok(true)
    }

    /// What was kept of a step in a warm sandbox; whether anything was.
    async fn kept(&self, node: &NodeStatus) -> Result<bool, Failure> {
        let kept: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let Some(map) = kept.get_opt(&log_name(&node.id)).await? else { return Ok(false) };
        let said = map.data.unwrap_or_default().remove(&self.container).unwrap_or_default();
        said.lines().try_for_each(|line| self.show(node, line))?;
        Ok(true)
    }

    fn show(&self, node: &NodeStatus, line: &str) -> Result<(), Failure> {
        let prefix = if self.prefix { format!("{}: ", node.display_name) } else { String::new() };
        print(&format!("{prefix}{line}\n"))
    }
}

/// A Workflow's nodes in the order in which they began.
fn steps(status: &WorkflowStatus) -> Vec<&NodeStatus> {
    let mut all: Vec<&NodeStatus> = status.nodes.iter().collect();
    all.sort_by_key(|node| (node.started_at, node.name.clone()));
    all
}

/// Whether a step may have said something.
fn is_begun(node: &NodeStatus) -> bool {
    !matches!(node.phase, NodePhase::Unknown | NodePhase::Pending | NodePhase::Skipped | NodePhase::Omitted)
}
