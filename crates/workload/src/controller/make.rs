//! Making what a step needs: its pod, scripts too large for that, and claims.

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::Shared;
use super::queue::Key;
use crate::engine::Refused;
use crate::steps::names::WHY_A_POD;
use crate::steps::{self, PodRequest};

/// Makes the pod of a step, or finds the one that was made.
pub(super) async fn make_pod(
    shared: &Shared,
    request: &PodRequest<'_>,
    name: &str,
    why: Option<String>,
) -> Result<Pod, Refused> {
    let identity = request.workflow;
    let mut wanted = steps::pod(request).map_err(|refusal| Refused { message: refusal.0, is_transient: false })?;
    if let Some(why) = why {
        wanted.pod.metadata.annotations.get_or_insert_default().insert(WHY_A_POD.to_owned(), why);
    }
    claim_artifacts(shared, &identity.namespace, &wanted.pod).await.map_err(|error| refused(&error))?;
    if let Some(config) = &wanted.config {
        let api: Api<ConfigMap> = Api::namespaced(shared.client.clone(), &identity.namespace);
        match api.create(&PostParams::default(), config).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => drop(made.map_err(|error| refused(&error))?),
        }
    }
    let api: Api<Pod> = Api::namespaced(shared.client.clone(), &identity.namespace);
    match api.create(&PostParams::default(), &wanted.pod).await {
        Ok(pod) => Ok(pod),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let found = api.get(name).await.map_err(|error| refused(&error))?;
            let owned = found.metadata.owner_references.iter().flatten().any(|owner| owner.uid == identity.uid);
            if owned && found.metadata.deletion_timestamp.is_none() {
                return Ok(found);
            }
            let message = format!("pod {name} exists and is not this workflow's, or is being deleted");
            Err(Refused { message, is_transient: true })
        }
        Err(error) => Err(refused(&error)),
    }
}

/// Whether trying again may help.
fn refused(error: &kube::Error) -> Refused {
    match error {
        kube::Error::Api(status) => {
            let quota = status.code == 403 && status.message.contains("exceeded quota");
            let is_transient = status.code >= 500 || status.code == 429 || status.code == 409 || quota;
            Refused { message: status.message.clone(), is_transient }
        }
        other => Refused { message: other.to_string(), is_transient: true },
    }
}

/// A pod that keeps artifacts in the claim for them needs it in its namespace.
async fn claim_artifacts(shared: &Shared, namespace: &str, pod: &Pod) -> Result<(), kube::Error> {
    let Some(claim) = &shared.options.settings.artifacts else { return Ok(()) };
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let uses = volumes
        .into_iter()
        .any(|volume| volume.persistent_volume_claim.as_ref().is_some_and(|source| source.claim_name == *claim));
    if uses { claim_directory(shared, namespace).await } else { Ok(()) }
}

/// Makes the claim for artifacts of a namespace, unless it has it.
pub(super) async fn claim_directory(shared: &Shared, namespace: &str) -> Result<(), kube::Error> {
    let Some(claim) = &shared.options.settings.artifacts else { return Ok(()) };
    if shared.claimed.lock().contains(namespace) {
        return Ok(());
    }
    let object = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    make_claim(shared, &(namespace.to_owned(), String::new()), &object).await?;
    shared.claimed.lock().insert(namespace.to_owned());
    Ok(())
}

/// Makes a claim, unless it is there.
pub(super) async fn make_claim(shared: &Shared, key: &Key, claim: &Value) -> Result<(), kube::Error> {
    let claim: PersistentVolumeClaim = serde_json::from_value(claim.clone()).map_err(kube::Error::SerdeError)?;
    let api: Api<PersistentVolumeClaim> = Api::namespaced(shared.client.clone(), &key.0);
    match api.create(&PostParams::default(), &claim).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => made.map(drop),
    }
}
