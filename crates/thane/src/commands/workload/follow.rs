//! A workload while it goes on: its phases, and what its steps say.

use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use thane_workload::agent::AgentWorkloadStatus;

use super::{find, workflows, workloads};
use crate::failure::Failure;
use crate::kubernetes::connection::Session;
use crate::output::print;

/// Prints each change until it has ended; fails if it failed.
pub(super) async fn watch(session: &Session, name: &str) -> Result<(), Failure> {
    find(session, name).await?;
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut changes = watcher(workloads(session), only).default_backoff().applied_objects().boxed();
    let mut last = String::new();
    while let Some(change) = changes.next().await {
        let workload = change
            .map_err(|error| Failure::new(thane_api::code::UNREACHABLE, format!("watch the workload: {error}")))?;
        let status = workload.status.unwrap_or_default();
        let line = line(&status);
        if line != last {
            print(&format!("{line}\n"))?;
            last = line;
        }
        if status.phase.ended() {
            let well = status.phase == thane_workload::agent::kind::Phase::Completed;
            let why = status.message.unwrap_or_default();
            return if well { Ok(()) } else { Err(Failure::new(thane_api::code::TASK_FAILED, why).told()) };
        }
    }
    Ok(())
}

fn line(status: &AgentWorkloadStatus) -> String {
    let phase = format!("{:?}", status.phase);
    match &status.message {
        Some(message) => format!("{phase}: {message}"),
        None => phase,
    }
}

/// Prints what its steps have said, each line with its step in front.
pub(super) async fn logs(session: &Session, name: &str) -> Result<(), Failure> {
    let workload = find(session, name).await?;
    let (workflows, workflow) = workflows(session, &workload)?;
    let namespace = workload.status.and_then(|status| status.argo_workflow).map(|it| it.namespace).unwrap_or_default();
    drop(workflows);
    let pods: Api<Pod> = Api::namespaced(session.client.clone(), &namespace);
    let of = ListParams::default().labels(&format!("workflows.argoproj.io/workflow={workflow}"));
    let mut found = pods.list(&of).await.map_err(|error| session.failure(error))?.items;
    found.sort_by_key(|pod| pod.creation_timestamp().map(|time| time.0));
    for pod in found {
        let main = LogParams { container: Some("main".to_owned()), ..LogParams::default() };
        let lines = pods.log_stream(&pod.name_any(), &main).await.map_err(|error| session.failure(error))?;
        let mut lines = lines.lines();
        while let Ok(Some(line)) = lines.try_next().await {
            print(&format!("{}: {line}\n", pod.name_any()))?;
        }
    }
    Ok(())
}
