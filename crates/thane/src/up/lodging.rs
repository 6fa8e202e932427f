//! Warm sandboxes for steps of Workflows: what `workload` asks for, by what `sandbox` has.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use thane_api::wire::sandbox::step_failure::Kind;
use thane_sandbox::claims::PoolAt;
use thane_sandbox::direct::{Direct, Finished, Guest, Wanted as Sandboxed};
use thane_workload::steps::Identity;
use thane_workload::steps::names::{MAIN, WORKFLOW, log_name};
use thane_workload::steps::runner::{Command, Ended, Found, Room, Staged, StepRunner, Wanted};

/// How long a step waits for a sandbox before it says why it has none.
const WAIT: Duration = Duration::from_secs(20);
/// How long the claim for artifacts may take to be bound.
const BOUND_MAX: Duration = Duration::from_secs(30);
/// The one command of a step.
const OPERATION: &str = "main";
/// Who keeps what steps said.
const KEEPER: &str = "thane-workflows";
/// What a command that did not end by itself is told to have ended with.
const KILLED: i32 = 137;

/// Sandboxes of one API whose pods run here.
pub(super) struct Lodging {
    pub(super) direct: Arc<Direct>,
    pub(super) client: Client,
    /// The claims' directories, one for each namespace.
    pub(super) claims: PathBuf,
    /// The claim for artifacts.
    pub(super) artifacts: &'static str,
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A name that follows from the step, so that whoever starts next finds what it has.
fn name(wanted: &Wanted) -> String {
    let uid: String = wanted.workflow.uid.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
    let node = wanted.node_id.strip_prefix(&wanted.workflow.name).unwrap_or_default().trim_start_matches('-');
    format!("step-{uid}-{}", if node.is_empty() { "0" } else { node })
}

impl StepRunner for Lodging {
    fn image<'a>(&'a self, namespace: &'a str, pool: &'a str) -> BoxFuture<'a, Result<String, String>> {
        let at = PoolAt { namespace: namespace.to_owned(), name: pool.to_owned() };
        Box::pin(async move { self.direct.image(&at).await.map_err(words) })
    }

    fn claim<'a>(&'a self, wanted: &'a Wanted) -> BoxFuture<'a, Result<Option<Box<dyn Room>>, String>> {
        Box::pin(async move {
            let workflow = &wanted.workflow;
            let asked = Sandboxed {
                pool: PoolAt { namespace: workflow.namespace.clone(), name: wanted.pool.clone() },
                name: name(wanted),
                labels: vec![(WORKFLOW.to_owned(), workflow.name.clone())],
                owner: owner(workflow),
                wait: WAIT,
            };
            let guest = if wanted.was_running {
                let found = self.direct.find(&workflow.namespace, &asked.name).await.map_err(words)?;
                let Some(guest) = found else { return Ok(None) };
                guest
            } else {
                Box::pin(self.direct.enter(&asked)).await.map_err(words)?
            };
            let (direct, client, wanted) = (Arc::clone(&self.direct), self.client.clone(), wanted.clone());
            Ok(Some(Box::new(Lodged { direct, client, guest, wanted }) as Box<dyn Room>))
        })
    }

    fn artifacts<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Option<PathBuf>, String>> {
        Box::pin(async move {
            let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
            let is_bound = |claim: Option<&PersistentVolumeClaim>| {
                claim.and_then(|claim| claim.status.as_ref()?.phase.as_deref()) == Some("Bound")
            };
            let bound = tokio::time::timeout(BOUND_MAX, await_condition(api, self.artifacts, is_bound)).await;
            bound.map_err(|_| "the claim for artifacts is not bound".to_owned())?.map_err(words)?;
            Ok(Some(self.claims.join(namespace).join(self.artifacts)))
        })
    }

    fn sweep<'a>(&'a self, namespace: &'a str, workflow: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { self.direct.sweep(namespace, &format!("{WORKFLOW}={workflow}")).await.map_err(words) })
    }
}

struct Lodged {
    direct: Arc<Direct>,
    client: Client,
    guest: Guest,
    wanted: Wanted,
}

fn owner(workflow: &Identity) -> OwnerReference {
    OwnerReference {
        api_version: "argoproj.io/v1alpha1".to_owned(),
        kind: "Workflow".to_owned(),
        name: workflow.name.clone(),
        uid: workflow.uid.clone(),
        ..OwnerReference::default()
    }
}

impl Room for Lodged {
    fn stage(&self, files: Vec<Staged>) -> BoxFuture<'_, Result<(), String>> {
        let files = files.into_iter().map(|file| (file.path, file.content, file.mode)).collect();
        Box::pin(async move { self.guest.stage(files).await.map_err(words) })
    }

    fn run<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, Result<Ended, String>> {
        let mut request = self.guest.request(OPERATION, command.words.clone(), command.env.iter().cloned().collect());
        request.working_dir = command.directory.clone().unwrap_or_default();
        Box::pin(async move {
            let Finished { record, stdout, log } = self.direct.run(&self.guest, request).await.map_err(words)?;
            let failure = record.failure.unwrap_or_default();
            match failure.kind() {
                Kind::Unspecified => Ok(Ended { code: record.exit_code, stdout, log }),
                Kind::Oom => Ok(Ended { code: KILLED, stdout, log }),
                Kind::User | Kind::Timeout | Kind::Infra => Err(failure.message),
            }
        })
    }

    fn read<'a>(&'a self, path: &'a str, max: u64) -> BoxFuture<'a, Result<Option<Vec<u8>>, String>> {
        Box::pin(async move { self.guest.read(path, max).await.map_err(words) })
    }

    fn find<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Found, String>> {
        Box::pin(async move {
            match self.guest.stat(path).await.map_err(words)? {
                None => Ok(Found::Absent),
                Some(false) => Ok(Found::File),
                Some(true) => Ok(Found::Directory(self.guest.list(path).await.map_err(words)?)),
            }
        })
    }

    fn keep<'a>(&'a self, log: &'a [u8]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let (workflow, name) = (&self.wanted.workflow, log_name(&self.wanted.node_id));
            let map = ConfigMap {
                metadata: ObjectMeta {
                    name: Some(name.clone()),
                    labels: Some([(WORKFLOW.to_owned(), workflow.name.clone())].into()),
                    owner_references: Some(vec![owner(workflow)]),
                    ..ObjectMeta::default()
                },
                data: Some([(MAIN.to_owned(), String::from_utf8_lossy(log).into_owned())].into()),
                ..ConfigMap::default()
            };
            let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &workflow.namespace);
            let kept = api.patch(&name, &PatchParams::apply(KEEPER).force(), &Patch::Apply(&map)).await;
            if let Err(error) = kept {
                tracing::warn!(%error, step = self.wanted.node_id, "what a step said was not kept");
            }
        })
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.direct.leave(&self.guest).await })
    }
}

#[cfg(test)]
mod tests {
    use thane_workload::steps::Identity;

    use super::*;

    #[test]
    fn a_steps_sandbox_has_one_name() {
        let workflow = |name: &str| Identity {
            name: name.to_owned(),
            namespace: "n".to_owned(),
            uid: "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9".to_owned(),
            instance: None,
        };
        for (wf, node, expected) in
            [("w", "w", "step-0a1b2c3d4e5f6071-0"), ("w", "w-4294967295", "step-0a1b2c3d4e5f6071-4294967295")]
        {
            let wanted =
                Wanted { workflow: workflow(wf), node_id: node.to_owned(), pool: "p".to_owned(), was_running: false };
            assert_eq!(name(&wanted), expected);
            assert!(expected.len() <= 63, "it is a label's value");
        }
    }
}
