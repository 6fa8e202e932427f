//! Changing a stored object from inside.

use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::objects::{Attempts, Created, Home, Swap};
use crate::resource::ResourceType;
use crate::server::Inner;
use crate::verbs::delete;

/// Reads, changes and swaps an object until nobody interferes. `change` says whether it changed anything; an object
/// that then has nothing left to wait for is removed.
pub(super) async fn edit(
    server: &Inner,
    kind: &ResourceType,
    namespace: &str,
    name: &str,
    change: impl Fn(&mut Value) -> bool,
) -> Result<()> {
    let mut attempts = Attempts::new(&server.objects, kind, namespace, name);
    loop {
        let Some(stored) = server.objects.get(kind, namespace, name).await? else { return Ok(()) };
        let mut object = stored.value(kind)?;
        if !change(&mut object) {
            return Ok(());
        }
        let swap = if delete::is_finished(kind, &object) {
            server.objects.delete(kind, namespace, name, &stored).await?
        } else {
            let object = kind.stored_form(&object);
            server.objects.replace(kind, namespace, name, stored.revision, &object).await?
        };
        match swap {
            Swap::Done(_) => return Ok(()),
            Swap::Lost => attempts.again().await?,
        }
    }
}

/// Takes one finalizer away.
pub(super) async fn release(
    server: &Inner,
    kind: &ResourceType,
    namespace: &str,
    name: &str,
    finalizer: &str,
) -> Result<()> {
    edit(server, kind, namespace, name, |object| {
        let Some(list) = object["metadata"]["finalizers"].as_array_mut() else { return false };
        let before = list.len();
        list.retain(|item| item != finalizer);
        let (after, empty) = (list.len(), list.is_empty());
        if empty && let Some(meta) = crate::metadata::metadata_mut(object) {
            meta.remove("finalizers");
        }
        after != before
    })
    .await
}

/// Stores an object that should exist, with the metadata the server sets; one that exists is left alone. Fails if its
/// namespace is no longer the one it was meant for.
pub(super) async fn ensure(
    server: &Inner,
    kind: &ResourceType,
    namespace: &str,
    mut object: Value,
    home: Option<&Home>,
) -> Result<bool> {
    let name = crate::metadata::name(&object).to_owned();
    if server.objects.get(kind, namespace, &name).await?.is_some() {
        return Ok(false);
    }
    complete(server, kind, namespace, &mut object);
    match server.objects.create(kind, namespace, &name, &object, home).await? {
        Created::Done(_) => Ok(true),
        Created::Taken(_) => Ok(false),
        Created::Moved => Err(Failure::modified("", "namespaces", namespace)),
    }
}

/// Gives a new object its defaults and the metadata the server sets.
pub(super) fn complete(server: &Inner, kind: &ResourceType, namespace: &str, object: &mut Value) {
    kind.default(object);
    kind.prepare_create(object);
    object["metadata"]["uid"] = crate::random::uid().into();
    object["metadata"]["creationTimestamp"] = crate::time::seconds(server.clock.now()).into();
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
}
