//! Namespaces: what is in every one, and how one goes.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use thane_kv::Query;

use super::change::Change;
use super::edit::{edit, ensure};
use super::queue::{Queue, Work};
use super::sweep::Sweep;
use crate::failure::Result;
use crate::metadata;
use crate::objects::{Home, storage_failure};
use crate::server::Inner;

const ROOT_CA: &str = "kube-root-ca.crt";
const ROOT_CA_NOTE: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                            endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                            guaranteed across distributions of Kubernetes clusters.";

/// Where a server says whose client certificates it believes, and the namespace that has it.
const CLIENT_CA: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

/// Names the work a change asks for; `going` are the namespaces that are going away.
pub(super) fn take(change: &Change, going: &mut BTreeMap<String, Going>, queue: &mut Queue) {
    let Some(meta) = change.meta() else { return };
    if change.is("", "namespaces") {
        match &change.new {
            Some(new) if new.deletion_timestamp.is_some() => {
                going.entry(new.name.clone()).or_default();
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
        if let Some(going) = going.get_mut(&meta.namespace) {
            going.is_stirred = true;
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
    let home = Home::new(&kind, namespace, &stored);
    let accounts = server.catalog.builtin("", "serviceaccounts");
    ensure(server, &accounts, namespace, default_account(), Some(&home)).await?;
    let maps = server.catalog.builtin("", "configmaps");
    for map in published(server, namespace) {
        if ensure(server, &maps, namespace, map.clone(), Some(&home)).await? {
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

/// A namespace that is going away.
#[derive(Default)]
pub(super) struct Going {
    /// How far it has been emptied.
    sweep: Option<Sweep>,
    /// Something of it went since that began, so that what it left may be gone by now.
    is_stirred: bool,
}

/// Empties a part of a namespace that is going away and, once it is empty, lets it go. Whether there is more to do now.
pub(super) async fn terminate(server: &Inner, namespace: &str, going: &mut Going) -> Result<bool> {
    let kind = server.catalog.builtin("", "namespaces");
    let Some(stored) = server.objects.get(&kind, "", namespace).await? else { return Ok(false) };
    let object = stored.value(&kind)?;
    if metadata::deletion_timestamp(&object).is_none() {
        return Ok(false);
    }
    let mut sweep = going.sweep.take().unwrap_or_else(|| {
        going.is_stirred = false;
        Sweep::new(server)
    });
    if !sweep.step(server, namespace).await? {
        going.sweep = Some(sweep);
        return Ok(true);
    }
    let left = sweep.left();
    if !left.is_nothing() {
        // their deletion wakes this work again
        let now = crate::time::seconds(server.clock.now());
        edit(server, &kind, "", namespace, |object| left.tell(object, &now)).await?;
        return Ok(going.is_stirred);
    }
    edit(server, &kind, "", namespace, |object: &mut Value| {
        let Some(list) = object["spec"]["finalizers"].as_array_mut() else { return false };
        let before = list.len();
        list.retain(|item| item != "kubernetes");
        list.len() != before
    })
    .await?;
    Ok(false)
}
