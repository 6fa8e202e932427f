//! What a sandbox's status says about its pod.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{ClaimError, Claimed, Claims, claimed};
use crate::conditions::{self, READY, Said};
use crate::kinds::{Phase, Sandbox, SandboxStatus, WarmPool};
use crate::pods;

/// So often a sandbox may be changed by others while its status is written.
const ATTEMPTS_MAX: usize = 8;

/// Why a pool fills no further, if it says so.
pub(super) fn why(pool: &WarmPool) -> Option<String> {
    let conditions = &pool.status.as_ref()?.conditions;
    let failing = conditions::find(conditions, "PodsFailing").filter(|failing| failing.status == "True")?;
    Some(failing.message.clone())
}

impl Claims {
    /// Writes that a pod is the sandbox's. If another is already, that one is told and this one goes.
    pub(super) async fn point(&self, sandbox: &Sandbox, pod: &Pod, phase: Phase) -> Result<Claimed, ClaimError> {
        let ours = claimed(pod);
        let written = self.write_status(sandbox, &ours, phase, false).await;
        if !matches!(&written, Ok(theirs) if theirs.pod == ours.pod)
            && let Err(error) = self.release(pods::namespace(sandbox), &ours).await
        {
            tracing::warn!(pod = ours.pod, %error, "a pod that nobody got was not deleted; it goes with its sandbox");
        }
        written
    }

    pub(super) async fn write_status(
        &self,
        sandbox: &Sandbox,
        claimed: &Claimed,
        phase: Phase,
        replace: bool,
    ) -> Result<Claimed, ClaimError> {
        let (name, gone) = (pods::name(sandbox), || ClaimError::Gone(pods::name(sandbox).to_owned()));
        let api: Api<Sandbox> = Api::namespaced(self.client.clone(), pods::namespace(sandbox));
        let mut current = sandbox.clone();
        for _ in 0..ATTEMPTS_MAX {
            let status = current.status.clone().unwrap_or_default();
            let other = status.pod_name.as_deref().filter(|other| *other != claimed.pod && !replace);
            if let Some(other) = other {
                return self.theirs(&current, other).await;
            }
            if pods::is_deleting(&current) || status.phase == Some(Phase::Failed) {
                return Err(gone());
            }
            let change = json!({
                "metadata": {"resourceVersion": current.metadata.resource_version, "uid": current.metadata.uid},
                "status": self.pointed(&current, status, claimed, phase),
            });
            match api.patch_status(name, &PatchParams::default(), &Patch::Merge(&change)).await {
                Ok(_) => return Ok(claimed.clone()),
                Err(kube::Error::Api(status)) if status.code == 404 => return Err(gone()),
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(error.into()),
            }
            let found = api.get_opt(name).await?;
            current = found.filter(|found| pods::uid(found) == pods::uid(sandbox)).ok_or_else(gone)?;
        }
        Err(gone())
    }

    fn pointed(&self, sandbox: &Sandbox, mut status: SandboxStatus, claimed: &Claimed, phase: Phase) -> SandboxStatus {
        let now = self.clock.now();
        let said = match phase {
            Phase::Ready => Said { kind: READY, holds: true, reason: "PodReady", message: String::new() },
            _ => Said { kind: READY, holds: false, reason: "PodStarting", message: "its pod is starting".to_owned() },
        };
        conditions::say(&mut status.conditions, said, sandbox.metadata.generation, now);
        status.phase = Some(phase);
        status.pod_name = Some(claimed.pod.clone());
        status.pod_ip = Some(claimed.pod_ip.clone()).filter(|ip| !ip.is_empty());
        status.work_dir = Some(claimed.work_dir.clone());
        status.last_task_time = Some(now.to_string());
        status
    }

    /// The pod that somebody else gave the sandbox.
    async fn theirs(&self, sandbox: &Sandbox, pod: &str) -> Result<Claimed, ClaimError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), pods::namespace(sandbox));
        let found = api.get_opt(pod).await?.filter(pods::is_ready);
        found.map(|pod| claimed(&pod)).ok_or_else(|| ClaimError::Gone(pods::name(sandbox).to_owned()))
    }
}
