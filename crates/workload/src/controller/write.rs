//! Writing statuses: at most every so often, always at the end, and never over what somebody else wrote.

use std::time::Duration;

use kube::Api;
use kube::api::{DynamicObject, PostParams};
use serde_json::Value;

use super::queue::Key;
use super::store::{Memory, Stored, View};
use super::{Shared, argo};
use crate::engine::{Operated, abandoned};
use crate::status::packed::{PLAIN_MAX, packed};

/// The least time between two writes of one Workflow.
const PAUSE: Duration = Duration::from_millis(100);
/// How long to wait after a write that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// Writes what a look came to if it is time to; whether it is stored.
pub(super) async fn due(
    shared: &Shared,
    key: &Key,
    view: &View,
    operated: &Operated,
    memory: &mut Memory,
    urgent: bool,
) -> bool {
    if !is_different(&view.stored, operated) {
        return true;
    }
    let since = memory.written_at.map(|at| shared.clock.monotonic().saturating_sub(at));
    if let Some(left) = since.and_then(|since| PAUSE.checked_sub(since)).filter(|left| !urgent && !left.is_zero()) {
        shared.queue.push_after(key.clone(), left);
        return false;
    }
    match replace(shared, key, &view.stored, operated).await {
        Ok(stored) => {
            shared.metrics.writes.inc();
            if operated.status.phase.is_completed() {
                shared.metrics.ended.inc();
            }
            memory.based_on.clone_from(&stored.version);
            memory.written_at = Some(shared.clock.monotonic());
            shared.store.put(stored);
            true
        }
        Err(kube::Error::Api(status)) if status.code == 404 => {
            shared.store.remove(key);
            false
        }
        Err(kube::Error::Api(status)) if status.code == 409 => {
            shared.metrics.conflicts.inc();
            reread(shared, key).await;
            false
        }
        Err(error) if is_too_large(&error) => abandon(shared, key, view, operated, memory, &error).await,
        Err(error) => {
            tracing::warn!(namespace = key.0, workflow = key.1, %error, "a status could not be written, trying again");
            shared.queue.push_after(key.clone(), AGAIN);
            false
        }
    }
}

/// Whether something is refused since it is larger than the API or what is behind it takes.
pub(crate) fn is_too_large(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let of_etcd = ["request is too large", "trying to send message larger than max"];
    status.code == 413 || status.code >= 500 && of_etcd.iter().any(|words| status.message.contains(words))
}

/// Ends a Workflow whose status can no longer be stored: without what its steps left, or, where that is still too much,
/// without its steps.
async fn abandon(
    shared: &Shared,
    key: &Key,
    view: &View,
    operated: &Operated,
    memory: &mut Memory,
    error: &kube::Error,
) -> bool {
    tracing::warn!(namespace = key.0, workflow = key.1, %error, "a status is too large, ending the workflow");
    let why = format!(
        "the status of the workflow is too large to be stored: {}; what its steps left is not kept",
        said(error)
    );
    for keeps_nodes in [true, false] {
        let ended = abandoned(operated, &why, keeps_nodes, shared.clock.now());
        match replace(shared, key, &view.stored, &ended).await {
            Ok(stored) => {
                shared.metrics.writes.inc();
                shared.metrics.ended.inc();
                shared.lodging.end_all(key);
                memory.based_on.clone_from(&stored.version);
                memory.status = ended.status;
                shared.store.put(stored);
                // Pods that still run are ended by the next look.
                shared.queue.push(key.clone());
                return true;
            }
            Err(error) if is_too_large(&error) => {}
            Err(_) => break,
        }
    }
    shared.queue.push_after(key.clone(), AGAIN);
    false
}

fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

fn is_different(stored: &Stored, operated: &Operated) -> bool {
    let same = |name: &str, wanted: &std::collections::BTreeMap<String, String>| {
        let now = stored.object.pointer(&format!("/metadata/{name}")).and_then(Value::as_object);
        wanted
            .iter()
            .all(|(key, value)| now.and_then(|now| now.get(key)).and_then(Value::as_str) == Some(value.as_str()))
    };
    stored.status.as_ref().ok() != Some(&operated.status)
        || !same("labels", &operated.labels)
        || !same("annotations", &operated.annotations)
}

async fn replace(shared: &Shared, key: &Key, stored: &Stored, operated: &Operated) -> Result<Stored, kube::Error> {
    let mut object = stored.object.clone();
    for (name, wanted) in [("labels", &operated.labels), ("annotations", &operated.annotations)] {
        for (label, value) in wanted {
            object["metadata"][name][label] = Value::from(value.as_str());
        }
    }
    let status = packed(&operated.status, PLAIN_MAX).map_err(|error| kube::Error::Service(error.into()))?;
    object["status"] = serde_json::to_value(status).map_err(kube::Error::SerdeError)?;
    let object: DynamicObject = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
    let api: Api<DynamicObject> = Api::namespaced_with(shared.client.clone(), &key.0, &argo("Workflow"));
    let written = api.replace(&key.1, &PostParams::default(), &object).await?;
    serde_json::to_value(written).map(Stored::read).map_err(kube::Error::SerdeError)
}

/// Somebody else changed it: what they wrote counts, and what we know is derived from it anew.
async fn reread(shared: &Shared, key: &Key) {
    let api: Api<DynamicObject> = Api::namespaced_with(shared.client.clone(), &key.0, &argo("Workflow"));
    match api.get(&key.1).await.map(serde_json::to_value) {
        Ok(Ok(object)) => {
            shared.store.put(Stored::read(object));
            shared.queue.push(key.clone());
        }
        _ => shared.queue.push_after(key.clone(), AGAIN),
    }
}
