//! A workload while it goes on: its steps as a tree, and what they say.

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::Value;
use thane_api::code;
use thane_workload::agent::AgentWorkloadStatus;
use thane_workload::agent::kind::Phase;

use super::super::workflow::follow::Screen;
use super::super::workflow::logs::Said;
use super::super::workflow::{self, value};
use super::{find, workloads};
use crate::failure::Failure;
use crate::kubernetes::connection::Session;

type Words = BoxStream<'static, Result<DynamicObject, watcher::Error>>;

/// Shows a workload and its steps until it has ended; fails if it failed.
pub(super) async fn watch(session: &Session, name: &str) -> Result<(), Failure> {
    find(session, name).await?;
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut changes = watcher(workloads(session), only).default_backoff().applied_objects().boxed();
    let (mut screen, mut line, mut tree) = (Screen::default(), String::new(), None::<Value>);
    let mut steps: Option<((String, String), Words)> = None;
    loop {
        tokio::select! {
            change = changes.next() => {
                let Some(change) = change else { return Ok(()) };
                let unreachable = |error: watcher::Error| Failure::new(code::UNREACHABLE, format!("watch the workload: {error}"));
                let status = change.map_err(unreachable)?.status.unwrap_or_default();
                line = said(&status);
                let place = status.argo_workflow.as_ref().map(|it| (it.namespace.clone(), it.name.clone()));
                if place.as_ref() != steps.as_ref().map(|(place, _)| place) {
                    (tree, steps) = (None, place.map(|place| (place.clone(), words(session, &place))));
                }
                if status.phase.ended() {
                    return ended(session, &status, &line, screen, tree).await;
                }
            }
            word = next(&mut steps) => match word {
                Some(Ok(object)) => tree = Some(value(&object)?),
                Some(Err(_)) => continue,
                None => steps = None,
            },
        }
        if !line.is_empty() {
            screen.show_below(&line, tree.as_ref())?;
        }
    }
}

/// What is told of its Workflow, while it has one.
fn words(session: &Session, (namespace, name): &(String, String)) -> Words {
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    watcher(workflow::workflows(session, namespace), only).default_backoff().applied_objects().boxed()
}

async fn next(steps: &mut Option<((String, String), Words)>) -> Option<Result<DynamicObject, watcher::Error>> {
    match steps {
        Some((_, words)) => words.next().await,
        None => std::future::pending().await,
    }
}

/// Shows how all of it ended.
async fn ended(
    session: &Session,
    status: &AgentWorkloadStatus,
    line: &str,
    mut screen: Screen,
    mut tree: Option<Value>,
) -> Result<(), Failure> {
    if let Some(place) = &status.argo_workflow
        && let Ok(Some(last)) = workflow::workflows(session, &place.namespace).get_opt(&place.name).await
    {
        tree = Some(value(&last)?);
    }
    screen.show_below(line, tree.as_ref())?;
    if status.phase == Phase::Completed {
        return Ok(());
    }
    Err(Failure::new(code::TASK_FAILED, status.message.clone().unwrap_or_default()).told())
}

fn said(status: &AgentWorkloadStatus) -> String {
    let phase = format!("{:?}", status.phase);
    match &status.message {
        Some(message) => format!("{phase}: {message}"),
        None => phase,
    }
}

/// Prints what its steps have said, each line with its step in front.
pub(super) async fn logs(session: &Session, name: &str) -> Result<(), Failure> {
    let workload = find(session, name).await?;
    let (workflows, workflow) = super::workflows(session, &workload)?;
    let found = workflows.get(&workflow).await.map_err(|error| session.failure(error))?;
    let status = workflow::status(&value(&found)?)?;
    let namespace = workload.status.and_then(|status| status.argo_workflow).map(|it| it.namespace).unwrap_or_default();
    Said::of(session, namespace, workflow).so_far(&status).await
}
