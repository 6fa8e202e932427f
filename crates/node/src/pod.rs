//! A pod as the runner reads it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

const GRACE: u64 = 30;

/// When an ended container is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    /// Always.
    Always,
    /// When it failed.
    OnFailure,
    /// Never.
    Never,
}

/// What is asked of pods all the time.
pub(crate) trait PodExt {
    /// Its unique id.
    fn uid(&self) -> &str;
    /// Where it lives.
    fn namespace(&self) -> &str;
    /// What it is called.
    fn name(&self) -> &str;
    /// What it asks for.
    fn spec(&self) -> Option<&PodSpec>;
    /// Containers that run one after the other before the others, or beside them.
    fn init_containers(&self) -> &[Container];
    /// Its containers.
    fn containers(&self) -> &[Container];
    /// A container of either sort.
    fn container(&self, name: &str) -> Option<&Container> {
        self.init_containers().iter().chain(self.containers()).find(|container| container.name == name)
    }
    /// When an ended container is started again.
    fn restart_policy(&self) -> RestartPolicy;
    /// Whether it is to go.
    fn is_deleting(&self) -> bool;
    /// How long its containers may take to end.
    fn grace(&self) -> Duration;
    /// Whether it uses the machine's network.
    fn host_network(&self) -> bool;
    /// Whether it has ended for good.
    fn is_finished(&self) -> bool;
}

impl PodExt for Pod {
    fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    fn spec(&self) -> Option<&PodSpec> {
        self.spec.as_ref()
    }

    fn init_containers(&self) -> &[Container] {
        self.spec().and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default()
    }

    fn containers(&self) -> &[Container] {
        self.spec().map(|spec| spec.containers.as_slice()).unwrap_or_default()
    }

    fn restart_policy(&self) -> RestartPolicy {
        match self.spec().and_then(|spec| spec.restart_policy.as_deref()) {
            Some("Never") => RestartPolicy::Never,
            Some("OnFailure") => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        }
    }

    fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    fn grace(&self) -> Duration {
        let asked = self.metadata.deletion_grace_period_seconds;
        let own = self.spec().and_then(|spec| spec.termination_grace_period_seconds);
        let seconds = asked.or(own).and_then(|seconds| u64::try_from(seconds).ok());
        Duration::from_secs(seconds.unwrap_or(GRACE))
    }

    fn host_network(&self) -> bool {
        self.spec().and_then(|spec| spec.host_network).unwrap_or_default()
    }

    fn is_finished(&self) -> bool {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    }
}

/// Whether an init container stays beside the others.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}
