//! Namespaces: what is in every one, and how one goes.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use thane_kv::Query;

use super::change::Change;
use super::edit::{edit, ensure};
use super::queue::{Queue, Work};
use super::remains::Remains;
use crate::failure::{Failure, Result};
use crate::metadata;
use crate::objects::storage_failure;
use crate::options::DeleteOptions;
use crate::server::Inner;
use crate::verbs::delete::{Deletion, remove_object};

const ROOT_CA: &str = "kube-root-ca.crt";
const ROOT_CA_NOTE: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                            endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                            guaranteed across distributions of Kubernetes clusters.";

/// Where a server says whose client certificates it believes, and the namespace that has it.
const CLIENT_CA: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

/// Names the work a change asks for; `going` are the namespaces that are going away.
pub(super) fn take(change: &Change, going: &mut BTreeSet<String>, queue: &mut Queue) {
    let Some(meta) = change.meta() else { return };
    if change.is("", "namespaces") {
        match &change.new {
            Some(new) if new.deletion_timestamp.is_some() => {
                going.insert(new.name.clone());
                queue.push(Work::Terminate(new.name.clone()));
            }
            None => {
                going.remove(&meta.name);
            }
            Some(new) if change.old.is_none() => queue.push(Work::Defaults(new.name.clone())),
            _ => {}
        }
        return;
    }
    if change.new.is_none() && !meta.namespace.is_empty() {
        let is_default = change.is("", "serviceaccounts") && meta.name == "default"
            || change.is("", "configmaps")
                && (meta.name == ROOT_CA || (meta.namespace.as_str(), meta.name.as_str()) == CLIENT_CA);
        if is_default {
            queue.push(Work::Defaults(meta.namespace.clone()));
        }
        // the last object of a namespace that is going away lets it go
        if going.contains(&meta.namespace) {
            queue.push(Work::Terminate(meta.namespace.clone()));
        }
    }
}

/// The account pods run as that name none.
pub(super) fn default_account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
}

/// What is published in a namespace: what pods trust this server by and, in one, whom this server believes.
pub(super) fn published(server: &Inner, namespace: &str) -> Vec<Value> {
    let authority = server.authority.borrow().clone();
    let mut maps = vec![json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": ROOT_CA, "annotations": {"kubernetes.io/description": ROOT_CA_NOTE}},
        "data": {"ca.crt": authority},
    })];
    // one that is served in process alone knows no certificates
    if namespace == CLIENT_CA.0 && !authority.is_empty() {
        maps.push(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": CLIENT_CA.1}, "data": {"client-ca-file": authority},
        }));
    }
    maps
}

/// The names of all namespaces.
pub(super) async fn names(server: &Inner) -> Result<Vec<String>> {
    let kind = server.catalog.builtin("", "namespaces");
    let mut query = Query::prefix(kind.prefix().to_owned());
    query.keys_only = true;
    let page = server.objects.store().range(query).await.map_err(storage_failure)?;
    let name = |key: &[u8]| String::from_utf8_lossy(&key[kind.prefix().len().min(key.len())..]).into_owned();
    Ok(page.entries.iter().map(|entry| name(&entry.key)).collect())
}

/// Creates what every namespace has.
pub(super) async fn defaults(server: &Inner, namespace: &str) -> Result<()> {
    let kind = server.catalog.builtin("", "namespaces");
    let Some(stored) = server.objects.get(&kind, "", namespace).await? else { return Ok(()) };
    if metadata::deletion_timestamp(&stored.value(&kind)?).is_some() {
        return Ok(());
    }
    let accounts = server.catalog.builtin("", "serviceaccounts");
    ensure(server, &accounts, namespace, default_account()).await?;
    let maps = server.catalog.builtin("", "configmaps");
    for map in published(server, namespace) {
        if ensure(server, &maps, namespace, map.clone()).await? {
            continue;
        }
        edit(server, &maps, namespace, metadata::name(&map), |object| {
            let stale = object["data"] != map["data"];
            object["data"] = map["data"].clone();
            stale
        })
        .await?;
    }
    Ok(())
}

/// Empties a namespace that is going away and, once it is empty, lets it go.
pub(super) async fn terminate(server: &Inner, namespace: &str) -> Result<()> {
    let kind = server.catalog.builtin("", "namespaces");
    let Some(stored) = server.objects.get(&kind, "", namespace).await? else { return Ok(()) };
    let object = stored.value(&kind)?;
    if metadata::deletion_timestamp(&object).is_none() {
        return Ok(());
    }
    let left = empty(server, namespace).await?;
    if !left.is_nothing() {
        // their deletion wakes this work again
        let now = crate::time::seconds(server.clock.now());
        return edit(server, &kind, "", namespace, |object| left.tell(object, &now)).await;
    }
    edit(server, &kind, "", namespace, |object: &mut Value| {
        let Some(list) = object["spec"]["finalizers"].as_array_mut() else { return false };
        let before = list.len();
        list.retain(|item| item != "kubernetes");
        list.len() != before
    })
    .await
}

/// Deletes everything in the namespace, pods before what protects them; answers what still waits for finalizers or grace.
async fn empty(server: &Inner, namespace: &str) -> Result<Remains> {
    let mut left = Remains::default();
    let mut kinds = server.catalog.types().collections();
    kinds.retain(|kind| kind.namespaced);
    kinds.sort_by_key(|kind| !kind.is("", "pods"));
    for kind in kinds {
        let page =
            server.objects.store().range(Query::prefix(kind.key(namespace, ""))).await.map_err(storage_failure)?;
        for entry in &page.entries {
            let stored = server.objects.open(&kind, entry)?;
            let object = stored.value(&kind)?;
            let (name, now) = (metadata::name(&object), server.clock.now());
            match remove_object(&server.objects, &kind, namespace, name, &DeleteOptions::default(), Some(stored), now)
                .await
            {
                Ok(Deletion::Gone(_)) | Err(Failure { code: 404, .. }) => {}
                Ok(Deletion::Marked(_)) => left.count(&kind, &object),
                Err(failure) => return Err(failure),
            }
        }
        if kind.is("", "pods") && !left.is_nothing() {
            break;
        }
    }
    Ok(left)
}
