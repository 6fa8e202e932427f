//! `CustomResourceDefinitions`: names are accepted, types come into the catalog, and go with their objects.

use std::sync::Arc;

use serde_json::Value;
use thane_kv::Query;

use super::change::Change;
use super::edit::{edit, release};
use super::queue::{Queue, Work};
use crate::crd::{self, CustomKind, Names};
use crate::failure::{Failure, Result};
use crate::metadata;
use crate::objects::storage_failure;
use crate::options::DeleteOptions;
use crate::resource::ResourceType;
use crate::server::Inner;
use crate::verbs::delete::{CUSTOM_CLEANUP, remove_object};

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";

/// Names the work a change asks for.
pub(super) fn take(change: &Change, queue: &mut Queue) {
    let Some(meta) = change.meta() else { return };
    if change.is(GROUP, PLURAL) {
        queue.push(Work::Definition(meta.name.clone()));
    } else if change.kind.is_custom() && change.new.is_none() {
        // the last object of a definition that is going away lets it go
        queue.push(Work::Definition(format!("{}.{}", change.kind.plural, change.kind.group)));
    }
}

/// Puts all established definitions into the catalog.
pub(super) async fn load(server: &Inner) -> Result<()> {
    serve(server, "").await
}

async fn all(server: &Inner) -> Result<Vec<Value>> {
    let kind = server.catalog.builtin(GROUP, PLURAL);
    let page = server.objects.store().range(Query::prefix(kind.prefix().to_owned())).await.map_err(storage_failure)?;
    page.entries.iter().map(|entry| server.objects.open(&kind, entry)?.value(&kind)).collect()
}

/// Gives a definition its names and serves it, or takes it away with its objects.
pub(super) async fn reconcile(server: &Inner, name: &str) -> Result<()> {
    let kind = server.catalog.builtin(GROUP, PLURAL);
    let Some(stored) = server.objects.get(&kind, "", name).await? else { return load(server).await };
    let definition = stored.value(&kind)?;
    if metadata::deletion_timestamp(&definition).is_some() {
        return remove(server, &kind, &definition).await;
    }
    let mut names = Names::default();
    let group = &definition["spec"]["group"];
    for other in all(server).await?.iter().filter(|other| other["spec"]["group"] == *group) {
        if metadata::name(other) != name {
            names.add(other);
        }
    }
    let now = server.clock.now();
    edit(server, &kind, "", name, |object| crd::accept(object, &names, now)).await?;
    // served before it says so: a client that sees Established can use it
    serve(server, name).await?;
    edit(server, &kind, "", name, |object| crd::establish(object, now)).await
}

/// Puts the definitions into the catalog, with `name` as if it were established already.
async fn serve(server: &Inner, name: &str) -> Result<()> {
    let now = server.clock.now();
    let mut definitions = all(server).await?;
    for definition in definitions.iter_mut().filter(|definition| metadata::name(definition) == name) {
        crd::establish(definition, now);
    }
    let types = definitions.iter().flat_map(|definition| {
        let revision = metadata::resource_version(definition).parse().unwrap_or(u64::MAX);
        let kind = CustomKind::new(definition).filter(|kind| kind.established);
        kind.map(|kind| ResourceType::custom(&kind, revision)).unwrap_or_default()
    });
    server.catalog.set_custom(types.map(Arc::new));
    Ok(())
}

async fn remove(server: &Inner, kind: &ResourceType, definition: &Value) -> Result<()> {
    let name = metadata::name(definition);
    if !metadata::finalizers(definition).contains(&CUSTOM_CLEANUP) {
        return load(server).await;
    }
    if empty(server, definition).await? {
        release(server, kind, "", name, CUSTOM_CLEANUP).await?;
        return load(server).await;
    }
    Ok(())
}

/// Deletes all objects of a definition; answers whether none is left.
async fn empty(server: &Inner, definition: &Value) -> Result<bool> {
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
    let types = server.catalog.types();
    let Some(kind) = types.collection(group, plural) else { return Ok(true) };
    let page = server.objects.store().range(Query::prefix(kind.prefix().to_owned())).await.map_err(storage_failure)?;
    let mut none_left = true;
    for entry in &page.entries {
        let stored = server.objects.open(kind, entry)?;
        let object = stored.value(kind)?;
        let (namespace, name) = (metadata::namespace(&object).to_owned(), metadata::name(&object).to_owned());
        let now = server.clock.now();
        let options = DeleteOptions::default();
        match remove_object(&server.objects, kind, &namespace, &name, &options, Some(stored), now).await {
            Ok(crate::verbs::delete::Deletion::Gone(_)) | Err(Failure { code: 404, .. }) => {}
            Ok(_) => none_left = false,
            Err(failure) => return Err(failure),
        }
    }
    Ok(none_left)
}
