//! Garbage collection: what its owners leave behind goes, what must go first goes first.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::change::kind_of;
use super::edit::{edit, release};
use super::graph::Graph;
use crate::failure::{Failure, Result};
use crate::metadata;
use crate::objects::Stored;
use crate::options::{DeleteOptions, Propagation};
use crate::resource::ResourceType;
use crate::server::Inner;
use crate::verbs::delete::{FOREGROUND, ORPHAN, remove_object};

/// What an owner reference points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// It is there.
    Solid,
    /// It is gone, or another object has its name.
    Gone,
    /// It waits for its dependents to go first.
    Waiting,
}

/// Looks at an object whose owners may be gone.
pub(super) async fn dependent(server: &Inner, graph: &Graph, key: &Bytes) -> Result<()> {
    let Some((kind, namespace, stored)) = find(server, key).await? else { return Ok(()) };
    let object = stored.value(&kind)?;
    let references = metadata::owner_references(&object);
    let mut verdicts = Vec::with_capacity(references.len());
    for reference in references {
        verdicts.push(owner_of(server, &namespace, reference).await?);
    }
    if verdicts.is_empty() || verdicts.iter().all(|owner| *owner == Owner::Solid) {
        return Ok(());
    }
    let name = metadata::name(&object).to_owned();
    if verdicts.contains(&Owner::Solid) {
        let lost: Vec<&str> = references
            .iter()
            .zip(&verdicts)
            .filter(|(_, owner)| **owner != Owner::Solid)
            .filter_map(|(reference, _)| reference["uid"].as_str())
            .collect();
        return edit(server, &kind, &namespace, &name, |object| drop_owners(object, &lost)).await;
    }
    if metadata::deletion_timestamp(&object).is_some() {
        return Ok(());
    }
    let has_dependents = !graph.dependents(metadata::uid(&object)).is_empty();
    let finalizers = metadata::finalizers(&object);
    let propagation = if finalizers.contains(&ORPHAN) {
        Propagation::Orphan
    } else if finalizers.contains(&FOREGROUND) || verdicts.contains(&Owner::Waiting) && has_dependents {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    take_away(server, &kind, &namespace, stored, propagation).await
}

/// Deletes an object as it was looked at. One that was changed since, and perhaps adopted, is looked at again.
async fn take_away(
    server: &Inner,
    kind: &ResourceType,
    namespace: &str,
    stored: Stored,
    propagation: Propagation,
) -> Result<()> {
    let object = stored.value(kind)?;
    let options = DeleteOptions {
        uid: Some(metadata::uid(&object).to_owned()),
        resource_version: Some(metadata::resource_version(&object).to_owned()),
        propagation: Some(propagation),
        ..DeleteOptions::default()
    };
    let (name, now) = (metadata::name(&object), server.clock.now());
    match remove_object(&server.objects, kind, namespace, name, &options, Some(stored), now).await {
        Ok(_) | Err(Failure { code: 404, .. }) => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// Looks at an object that waits for its dependents.
pub(super) async fn owner(server: &Inner, graph: &Graph, key: &Bytes) -> Result<()> {
    let Some((kind, namespace, stored)) = find(server, key).await? else { return Ok(()) };
    let object = stored.value(&kind)?;
    if metadata::deletion_timestamp(&object).is_none() {
        return Ok(());
    }
    let uid = metadata::uid(&object).to_owned();
    let name = metadata::name(&object).to_owned();
    let finalizers = metadata::finalizers(&object);
    if finalizers.contains(&ORPHAN) {
        for dependent in graph.dependents(&uid) {
            if let Some((kind, namespace, stored)) = find(server, &dependent).await? {
                let name = metadata::name(&stored.value(&kind)?).to_owned();
                edit(server, &kind, &namespace, &name, |object| drop_owners(object, &[&uid])).await?;
            }
        }
        return release(server, &kind, &namespace, &name, ORPHAN).await;
    }
    if !finalizers.contains(&FOREGROUND) {
        return Ok(());
    }
    let mut blocked = false;
    for key in graph.dependents(&uid) {
        if let Some((kind, _, stored)) = find(server, &key).await? {
            let object = stored.value(&kind)?;
            blocked |= metadata::owner_references(&object)
                .iter()
                .any(|owner| owner["uid"] == uid.as_str() && owner["blockOwnerDeletion"] == true);
            dependent(server, graph, &key).await?;
        }
    }
    if blocked { Ok(()) } else { release(server, &kind, &namespace, &name, FOREGROUND).await }
}

/// The object under a key, its type and namespace.
async fn find(server: &Inner, key: &Bytes) -> Result<Option<(Arc<ResourceType>, String, Stored)>> {
    let Some(kind) = kind_of(server, key) else { return Ok(None) };
    let rest = String::from_utf8_lossy(&key[kind.prefix().len()..]).into_owned();
    let (namespace, name) = rest.split_once('/').unwrap_or(("", &rest));
    let stored = server.objects.get(&kind, namespace, name).await?;
    Ok(stored.map(|stored| (Arc::clone(&kind), namespace.to_owned(), stored)))
}

async fn owner_of(server: &Inner, namespace: &str, reference: &Value) -> Result<Owner> {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let version = text("apiVersion");
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    let types = server.catalog.types();
    // a type that is not served tells nothing about its objects
    let Some(kind) = types.of_kind(group, version, text("kind")) else { return Ok(Owner::Solid) };
    let namespace = if kind.namespaced { namespace } else { "" };
    let Some(stored) = server.objects.get(kind, namespace, text("name")).await? else { return Ok(Owner::Gone) };
    let object = stored.value(kind)?;
    if metadata::uid(&object) != text("uid") {
        return Ok(Owner::Gone);
    }
    let waits = metadata::deletion_timestamp(&object).is_some() && metadata::finalizers(&object).contains(&FOREGROUND);
    Ok(if waits { Owner::Waiting } else { Owner::Solid })
}

fn drop_owners(object: &mut Value, uids: &[&str]) -> bool {
    let Some(list) = object["metadata"]["ownerReferences"].as_array_mut() else { return false };
    let before = list.len();
    list.retain(|reference| !reference["uid"].as_str().is_some_and(|uid| uids.contains(&uid)));
    let (changed, empty) = (list.len() != before, list.is_empty());
    if empty && let Some(meta) = metadata::metadata_mut(object) {
        meta.remove("ownerReferences");
    }
    changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controllers::testing;
    use crate::objects::Created;

    #[tokio::test]
    async fn what_was_adopted_since_it_was_looked_at_stays_and_is_looked_at_again() {
        let server = testing::server();
        let inner = server.inner();
        let kind = inner.catalog.builtin("", "configmaps");
        let object = json!({"metadata": {"name": "a", "namespace": "n", "uid": "1"}});
        let created = inner.objects.create(&kind, "n", "a", &object, None).await.unwrap();
        let Created::Done(stored) = created else { panic!("{created:?}") };
        edit(inner, &kind, "n", "a", |object| {
            object["metadata"]["ownerReferences"] = json!([{"uid": "2"}]);
            true
        })
        .await
        .unwrap();
        let failure = take_away(inner, &kind, "n", stored, Propagation::Background).await.unwrap_err();
        assert_eq!(failure.code, 409);
        let adopted = inner.objects.get(&kind, "n", "a").await.unwrap().expect("it is still there");
        take_away(inner, &kind, "n", adopted, Propagation::Background).await.unwrap();
        assert!(inner.objects.get(&kind, "n", "a").await.unwrap().is_none());
    }
}
