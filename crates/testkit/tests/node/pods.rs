//! Pods as the node runs them.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};

/// The longest pods may take to be as wanted.
const PATIENCE: Duration = Duration::from_mins(2);

/// The pods of an Application's namespace.
pub(crate) struct Pods {
    api: Api<Pod>,
    application: String,
}

impl Pods {
    pub(crate) fn of(client: kube::Client, application: &str) -> Self {
        Self { api: Api::namespaced(client, application), application: application.to_owned() }
    }

    /// Waits until exactly one pod is there, runs, and is of this version.
    pub(crate) async fn until_version(&self, version: &str) -> Result<()> {
        self.until(
            &format!("one of version {version}, running"),
            |pods| matches!(pods, [pod] if runs(pod) && label(pod, "version") == Some(version)),
        )
        .await
    }

    /// Waits until one pod runs.
    pub(crate) async fn until_one(&self) -> Result<()> {
        self.until("one, running", |pods| matches!(pods, [pod] if runs(pod))).await
    }

    /// Waits until there is none.
    pub(crate) async fn until_gone(&self) -> Result<()> {
        self.until("gone", <[Pod]>::is_empty).await
    }

    async fn until(&self, what: &str, wanted: impl Fn(&[Pod]) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.api.list(&ListParams::default()).await?.items;
            if wanted(&found) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let told: Vec<_> = found.iter().map(|pod| (&pod.metadata.name, &pod.status)).collect();
                bail!("the pods of {} are not {what} within {PATIENCE:?}: {told:?}", self.application);
            }
            // A condition on several objects at once can only be asked for.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// On the node, with a container that was started and is not leaving.
fn runs(pod: &Pod) -> bool {
    let on_node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some("node");
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let running = containers.iter().any(|it| it.state.as_ref().is_some_and(|state| state.running.is_some()));
    on_node && running && pod.metadata.deletion_timestamp.is_none()
}

fn label<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.labels.as_ref()?.get(name).map(String::as_str)
}
