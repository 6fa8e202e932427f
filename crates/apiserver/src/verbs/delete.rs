//! Deleting: at once, after a grace period, or when the last finalizer goes.

use serde_json::{Value, json};

use super::Call;
use super::list::{self, Filter};
use crate::failure::{Failure, Result};
use crate::metadata;
use crate::objects::{Attempts, Stored, Swap};
use crate::options::{DeleteOptions, ListOptions, Propagation};
use crate::resource::ResourceType;
use crate::response::{self, Answer};
use crate::{body, time};

/// Dependents lose this owner before it goes.
pub(crate) const ORPHAN: &str = "orphan";
/// Dependents go before this owner.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Custom resources go before their definition.
pub(crate) const CUSTOM_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What became of an object that was asked to go.
pub(crate) enum Deletion {
    /// It is gone.
    Gone(Stored),
    /// It is marked and waits for its finalizers or its grace period.
    Marked(Stored),
}

/// Handles DELETE of one object.
pub(crate) async fn delete(call: &Call<'_>) -> Result<Answer> {
    let options = options(call)?;
    let current = call.current().await?;
    if options.dry_run {
        check_preconditions(&call.kind, &options, &current.value(&call.kind)?)?;
        return answer(call, &current);
    }
    match remove(call, &call.info.name, &options, Some(current)).await? {
        Deletion::Gone(stored) => answer(call, &stored),
        Deletion::Marked(stored) => call.present(200, &stored),
    }
}

/// The options, from the body if it has any.
fn options(call: &Call<'_>) -> Result<DeleteOptions> {
    if call.body.is_empty() {
        return DeleteOptions::parse(call.query, None);
    }
    let decoded = body::decode(call.headers, &call.body, "v1", "DeleteOptions").map_err(|failure| {
        let message = failure.message.split_once("DeleteOptions): ").and_then(|(_, why)| why.rsplit_once(" ("));
        let plain = message.map_or(failure.message.as_str(), |(why, _)| why).to_owned();
        if failure.code == 400 { Failure::new(500, "", plain) } else { failure }
    })?;
    let kind = decoded.value["kind"].as_str().unwrap_or("DeleteOptions");
    if kind != "DeleteOptions" {
        let version = decoded.value["apiVersion"].as_str().unwrap_or_default();
        return Err(Failure::new(
            500,
            "",
            format!("no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:110\""),
        ));
    }
    DeleteOptions::parse(call.query, Some(&decoded.value))
}

fn answer(call: &Call<'_>, gone: &Stored) -> Result<Answer> {
    let object = gone.value(&call.kind)?;
    if call.kind.returns_deleted() {
        return call.present_value(200, object);
    }
    let mut details = json!({
        "name": metadata::name(&object),
        "kind": call.kind.plural,
        "uid": metadata::uid(&object),
    });
    if !call.kind.group.is_empty() {
        details["group"] = call.kind.group.as_str().into();
    }
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
    Ok(response::value(200, &status, call.accepted.encoding))
}

/// Handles DELETE of a collection.
pub(crate) async fn collection(call: &Call<'_>) -> Result<Answer> {
    let options = options(call)?;
    let mut list_options = ListOptions::parse(call.query, false)?;
    list_options.resource_version = None;
    let filter = Filter::parse(call, &list_options)?;
    let page = list::page(call, &list_options, &filter).await?;
    let revision = page.revision.to_string();
    let mut items = Vec::with_capacity(page.items.len());
    for item in page.items {
        let object = item.value(&call.kind)?;
        if options.dry_run {
            items.push(object);
            continue;
        }
        let name = metadata::name(&object).to_owned();
        let namespace = metadata::namespace(&object).to_owned();
        match remove_in(call, &namespace, &name, &options, Some(item)).await {
            Ok(Deletion::Gone(_)) => items.push(object),
            Ok(Deletion::Marked(stored)) => items.push(stored.value(&call.kind)?),
            Err(failure) if failure.code == 404 => {}
            Err(failure) => return Err(failure),
        }
    }
    if !call.kind.is_custom() {
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.remove("apiVersion");
            item.remove("kind");
        }
    }
    let list = json!({
        "kind": call.kind.list_kind, "apiVersion": call.kind.api_version(),
        "metadata": {"resourceVersion": revision}, "items": items,
    });
    Ok(response::value(200, &list, call.accepted.encoding))
}

/// Removes the named object of the call's namespace.
pub(crate) async fn remove(
    call: &Call<'_>,
    name: &str,
    options: &DeleteOptions,
    known: Option<Stored>,
) -> Result<Deletion> {
    remove_in(call, call.namespace(), name, options, known).await
}

async fn remove_in(
    call: &Call<'_>,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
    known: Option<Stored>,
) -> Result<Deletion> {
    remove_object(call.objects(), &call.kind, namespace, name, options, known, call.now).await
}

/// Removes an object: the path of every deletion, by clients and by controllers.
pub(crate) async fn remove_object(
    objects: &crate::objects::Objects,
    kind: &ResourceType,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
    known: Option<Stored>,
    now: jiff::Timestamp,
) -> Result<Deletion> {
    let missing = || Failure::not_found(&kind.group, &kind.plural, name);
    let mut current = match known {
        Some(stored) => Some(stored),
        None => objects.get(kind, namespace, name).await?,
    };
    let mut announced = None;
    let mut attempts = Attempts::new(objects, kind, namespace, name);
    loop {
        let Some(stored) = current.take() else {
            // A node that saw the mark may be faster: what was to go is gone.
            return announced.map(Deletion::Gone).ok_or_else(missing);
        };
        let object = stored.value(kind)?;
        // What was announced has another version than the one that was asked for, by that alone.
        if announced.is_none() {
            check_preconditions(kind, options, &object)?;
        }
        match mark(kind, &object, options, now) {
            // watchers of a pod see that it goes before it is gone, as on a cluster
            Plan::Remove if kind.is("", "pods") && metadata::deletion_timestamp(&object).is_none() => {
                let mut marked = object;
                set_deleted(&mut marked["metadata"], 0, now);
                match objects.replace(kind, namespace, name, stored.revision, &marked).await? {
                    Swap::Done(marked) => {
                        announced = Some(marked.clone());
                        current = Some(marked);
                        continue;
                    }
                    Swap::Lost => {}
                }
            }
            Plan::Remove => match objects.delete(kind, namespace, name, &stored).await? {
                Swap::Done(gone) => return Ok(Deletion::Gone(gone)),
                Swap::Lost => {}
            },
            Plan::Leave => return Ok(Deletion::Marked(stored)),
            Plan::Mark(marked) => {
                let marked = kind.stored_form(&marked);
                match objects.replace(kind, namespace, name, stored.revision, &marked).await? {
                    Swap::Done(now) => return Ok(Deletion::Marked(now)),
                    Swap::Lost => {}
                }
            }
        }
        attempts.again().await?;
        current = objects.get(kind, namespace, name).await?;
    }
}

fn check_preconditions(kind: &ResourceType, options: &DeleteOptions, object: &Value) -> Result<()> {
    let name = metadata::name(object);
    let uid = metadata::uid(object);
    let version = metadata::resource_version(object);
    let why = match (&options.uid, &options.resource_version) {
        (Some(wanted), _) if wanted != uid => {
            format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have \
                 been deleted and then recreated"
            )
        }
        (_, Some(wanted)) if wanted != version => format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). \
             The object might have been modified"
        ),
        _ => return Ok(()),
    };
    Err(Failure::conflict(&kind.group, &kind.kind, name, &why))
}

/// What deleting an object comes to.
enum Plan {
    Remove,
    Mark(Value),
    Leave,
}

/// Decides what deleting `object` means now.
fn mark(kind: &ResourceType, object: &Value, options: &DeleteOptions, now: jiff::Timestamp) -> Plan {
    let grace = grace_seconds(kind, object, options);
    let finalizers = finalizers_after(kind, object, options);
    let keeps = !finalizers.is_empty() || (kind.is("", "namespaces") && has_namespace_finalizers(object));
    let marked_grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let is_marked = metadata::deletion_timestamp(object).is_some();
    if !keeps && grace == 0 {
        return Plan::Remove;
    }
    if is_marked && marked_grace.unwrap_or(0) <= grace && finalizers == metadata::finalizers(object) {
        return Plan::Leave;
    }
    let mut next = object.clone();
    let meta = &mut next["metadata"];
    if finalizers.is_empty() {
        if let Some(fields) = meta.as_object_mut() {
            fields.remove("finalizers");
        }
    } else {
        meta["finalizers"] = finalizers.into();
    }
    if !is_marked || marked_grace.unwrap_or(0) > grace {
        set_deleted(meta, grace, now);
    }
    if kind.is("", "namespaces") {
        next["status"]["phase"] = "Terminating".into();
    }
    if kind.is_definition() && !is_marked {
        crate::crd::terminate(&mut next, now);
    }
    Plan::Mark(next)
}

/// Marks an object: when it will be gone, and that it changed by that.
fn set_deleted(meta: &mut Value, grace: i64, now: jiff::Timestamp) {
    let is_marked = meta.get("deletionTimestamp").is_some();
    let end = now.checked_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(now);
    meta["deletionTimestamp"] = time::seconds(end).into();
    meta["deletionGracePeriodSeconds"] = grace.into();
    if let Some(generation) = meta["generation"].as_i64().filter(|generation| *generation > 0 && !is_marked) {
        meta["generation"] = (generation + 1).into();
    }
}

/// Only a pod on a node is given time to end.
fn grace_seconds(kind: &ResourceType, object: &Value, options: &DeleteOptions) -> i64 {
    if !kind.is("", "pods") || object["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        return 0;
    }
    if matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return 0;
    }
    let default = object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    match options.grace_seconds {
        Some(seconds) if seconds < 0 => 1,
        Some(seconds) => seconds,
        None => default,
    }
}

fn finalizers_after(kind: &ResourceType, object: &Value, options: &DeleteOptions) -> Vec<String> {
    let mut finalizers: Vec<String> = metadata::finalizers(object).into_iter().map(str::to_owned).collect();
    if metadata::deletion_timestamp(object).is_none() || options.propagation.is_some() {
        let wanted = match options.propagation {
            Some(Propagation::Orphan) => Some(ORPHAN),
            Some(Propagation::Foreground) => Some(FOREGROUND),
            Some(Propagation::Background) => None,
            // without a policy what the object carries decides
            None => finalizers
                .iter()
                .map(String::as_str)
                .find(|name| matches!(*name, ORPHAN | FOREGROUND))
                .map(|name| if name == ORPHAN { ORPHAN } else { FOREGROUND }),
        };
        finalizers.retain(|name| !matches!(name.as_str(), ORPHAN | FOREGROUND));
        finalizers.extend(wanted.map(str::to_owned));
    }
    if kind.is_definition()
        && metadata::deletion_timestamp(object).is_none()
        && !finalizers.iter().any(|name| name == CUSTOM_CLEANUP)
    {
        finalizers.push(CUSTOM_CLEANUP.to_owned());
    }
    finalizers
}

fn has_namespace_finalizers(object: &Value) -> bool {
    object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}

/// Whether an object that is marked has nothing left to wait for.
pub(crate) fn is_finished(kind: &ResourceType, object: &Value) -> bool {
    metadata::deletion_timestamp(object).is_some()
        && metadata::finalizers(object).is_empty()
        && object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && !(kind.is("", "namespaces") && has_namespace_finalizers(object))
}
