//! What the minder of sandboxes writes.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Api, Client, Resource};
use serde_json::json;

use crate::conditions::{self, READY, Said};
use crate::kinds::{Phase, Sandbox, SandboxStatus};
use crate::{names, pods};

/// Writes to the API, each for a sandbox as it was seen.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) client: Client,
    pub(crate) recorder: Recorder,
}

type Written = Result<(), kube::Error>;

impl Writer {
    fn sandboxes(&self, sandbox: &Sandbox) -> Api<Sandbox> {
        Api::namespaced(self.client.clone(), pods::namespace(sandbox))
    }

    fn pods(&self, sandbox: &Sandbox) -> Api<Pod> {
        Api::namespaced(self.client.clone(), pods::namespace(sandbox))
    }

    pub(crate) async fn finalizer(&self, sandbox: &Sandbox, wanted: bool) -> Written {
        let mut finalizers = sandbox.metadata.finalizers.clone().unwrap_or_default();
        finalizers.retain(|finalizer| finalizer != names::FINALIZER);
        if wanted {
            finalizers.push(names::FINALIZER.to_owned());
        }
        let meta = &sandbox.metadata;
        let change = json!({"metadata": {
            "resourceVersion": meta.resource_version, "uid": meta.uid, "finalizers": finalizers,
        }});
        let patch = Patch::Merge(&change);
        gone_is_fine(self.sandboxes(sandbox).patch(pods::name(sandbox), &PatchParams::default(), &patch).await)
    }

    pub(crate) async fn status(&self, sandbox: &Sandbox, status: SandboxStatus) -> Written {
        let meta = &sandbox.metadata;
        let change = json!({
            "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid},
            "status": status,
        });
        let patch = Patch::Merge(&change);
        gone_is_fine(self.sandboxes(sandbox).patch_status(pods::name(sandbox), &PatchParams::default(), &patch).await)
    }

    /// Says that it is over, and why, also to whoever describes it.
    pub(crate) async fn fail(&self, sandbox: &Sandbox, said: Said, now: Timestamp) -> Written {
        let event = Event {
            type_: if said.reason == "Released" { EventType::Normal } else { EventType::Warning },
            reason: said.reason.to_owned(),
            note: Some(said.message.clone()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        self.status(sandbox, failed(sandbox, said, now)).await?;
        if let Err(error) = self.recorder.publish(&event, &sandbox.object_ref(&())).await {
            tracing::debug!(%error, "an event was not written");
        }
        Ok(())
    }

    pub(crate) async fn delete_pods(&self, sandbox: &Sandbox, doomed: Vec<(String, String)>) -> Written {
        for (name, uid) in doomed {
            let only = Preconditions { uid: Some(uid), resource_version: None };
            let options = DeleteParams { preconditions: Some(only), ..DeleteParams::default().grace_period(1) };
            match self.pods(sandbox).delete(&name, &options).await {
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
                answer => drop(answer?),
            }
        }
        Ok(())
    }

    pub(crate) async fn delete(&self, sandbox: &Sandbox) -> Written {
        let only = Preconditions { uid: sandbox.metadata.uid.clone(), resource_version: None };
        let options = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
        match self.sandboxes(sandbox).delete(pods::name(sandbox), &options).await {
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
            answer => answer.map(|_| ()),
        }
    }

    /// Whether a pod is really not there.
    pub(crate) async fn look_for(&self, sandbox: &Sandbox, pod: &str) -> Result<Option<Pod>, kube::Error> {
        self.pods(sandbox).get_opt(pod).await
    }
}

/// A status that says where a sandbox waits.
pub(crate) fn waiting(sandbox: &Sandbox, said: Said, now: Timestamp) -> SandboxStatus {
    let mut status = sandbox.status.clone().unwrap_or_default();
    status.phase = Some(Phase::Pending);
    conditions::say(&mut status.conditions, said, sandbox.metadata.generation, now);
    status
}

/// A status that says that its pod has come up.
pub(crate) fn ready(sandbox: &Sandbox, ip: String, now: Timestamp) -> SandboxStatus {
    let mut status = sandbox.status.clone().unwrap_or_default();
    (status.phase, status.pod_ip) = (Some(Phase::Ready), Some(ip));
    status.last_task_time = Some(now.to_string());
    let said = Said { kind: READY, holds: true, reason: "PodReady", message: String::new() };
    conditions::say(&mut status.conditions, said, sandbox.metadata.generation, now);
    status
}

fn failed(sandbox: &Sandbox, said: Said, now: Timestamp) -> SandboxStatus {
    let mut status = sandbox.status.clone().unwrap_or_default();
    status.phase = Some(Phase::Failed);
    // It may have been waiting before, which is no reason to count its end from then.
    status.conditions.retain(|condition| condition.type_ != READY);
    conditions::say(&mut status.conditions, said, sandbox.metadata.generation, now);
    status
}

/// What is gone needs nothing.
fn gone_is_fine<T>(answer: Result<T, kube::Error>) -> Written {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        answer => answer.map(|_| ()),
    }
}
