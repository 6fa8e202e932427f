//! Claims for volumes: each is a directory here, bound at once.

use std::sync::Arc;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use thane_runtime::Tasks;

use crate::files;
use crate::shared::Shared;

/// Binds every claim there is and removes the directories of those that go.
pub(super) async fn bind(shared: Arc<Shared>, tasks: Tasks) {
    let api: Api<PersistentVolumeClaim> = Api::all(shared.client.clone());
    let stream = watcher(api, watcher::Config::default()).default_backoff();
    let mut stream = std::pin::pin!(stream);
    loop {
        let event = tokio::select! {
            () = tasks.cancelled() => return,
            event = stream.try_next() => event,
        };
        match event {
            Ok(Some(watcher::Event::Apply(claim) | watcher::Event::InitApply(claim))) => apply(&shared, &claim).await,
            Ok(Some(watcher::Event::Delete(claim))) => remove(&shared, &claim),
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => tracing::warn!(%error, "the watch of claims failed, trying again"),
        }
    }
}

fn names(claim: &PersistentVolumeClaim) -> Option<(&str, &str)> {
    Some((claim.metadata.namespace.as_deref()?, claim.metadata.name.as_deref()?))
}

async fn apply(shared: &Shared, claim: &PersistentVolumeClaim) {
    let Some((namespace, name)) = names(claim) else { return };
    let bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
    if bound || claim.metadata.deletion_timestamp.is_some() {
        return;
    }
    let parent = shared.claims().join(namespace);
    let made = files::private_directory(&parent).and_then(|()| files::mapped_directory(&parent.join(name), 0o777));
    if let Err(error) = made {
        tracing::warn!(%error, namespace, name, "a claim got no directory");
        return;
    }
    let spec = claim.spec.clone().unwrap_or_default();
    let status = json!({
        "phase": "Bound",
        "accessModes": spec.access_modes,
        "capacity": spec.resources.and_then(|resources| resources.requests),
    });
    let api: Api<PersistentVolumeClaim> = Api::namespaced(shared.client.clone(), namespace);
    let patch = Patch::Merge(json!({"metadata": {"uid": claim.metadata.uid}, "status": status}));
    if let Err(error) = api.patch_status(name, &PatchParams::default(), &patch).await {
        tracing::warn!(%error, namespace, name, "a claim was not bound");
    }
}

fn remove(shared: &Shared, claim: &PersistentVolumeClaim) {
    let Some((namespace, name)) = names(claim) else { return };
    if let Err(error) = files::remove_tree(&shared.claims().join(namespace).join(name)) {
        tracing::warn!(%error, namespace, name, "the directory of a claim was not removed");
    }
}
