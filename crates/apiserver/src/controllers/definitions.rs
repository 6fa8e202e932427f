//! `CustomResourceDefinitions`: names are accepted, types come into the catalog, and go with their objects.

mod since;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use thane_kv::Query;

use super::change::Change;
use super::edit::{edit, release};
use super::queue::{Queue, Work};
use crate::catalog::Types;
use crate::crd::{self, CustomKind, Names};
use crate::failure::{Failure, Result};
use crate::metadata;
use crate::objects::storage_failure;
use crate::options::DeleteOptions;
use crate::resource::ResourceType;
use crate::server::Inner;
use crate::verbs::delete::{CUSTOM_CLEANUP, remove_object};
use since::Since;

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
/// How long writes by types that were replaced are waited for. Beyond it every read looks into its objects.
const WRITES_MAX: Duration = Duration::from_secs(5);

/// The definitions as they were last seen. Compiling one is much work, so it is done once for each change of its spec.
#[derive(Default)]
pub(super) struct Definitions {
    compiled: BTreeMap<String, Compiled>,
    /// Those that are going away with their objects.
    going: BTreeSet<String>,
    /// Types that were replaced while requests may still have been writing by them.
    replaced: Vec<Arc<Types>>,
}

/// One definition and the types it makes.
struct Compiled {
    /// What it was made from: another uid, spec or set of names makes other types.
    from: (String, i64, Value),
    group: String,
    established: bool,
    types: Vec<Arc<ResourceType>>,
    closing: Closing,
}

/// How far the types of a definition that is going away are from taking nothing new.
#[derive(Default)]
enum Closing {
    #[default]
    Open,
    /// They refuse what is new; requests that looked before they did may still store something.
    Refusing(Arc<Types>),
    Closed,
}

impl Compiled {
    /// `revision` is the newest that may have been written under another spec.
    fn new(definition: &Value, made: u64, revision: &Arc<AtomicU64>) -> Self {
        let kind = CustomKind::new(definition);
        Self {
            from: Self::key(definition),
            group: definition["spec"]["group"].as_str().unwrap_or_default().to_owned(),
            established: kind.as_ref().is_some_and(|kind| kind.established),
            types: kind
                .map(|kind| ResourceType::custom(&kind, made, revision))
                .unwrap_or_default()
                .into_iter()
                .map(Arc::new)
                .collect(),
            closing: Closing::Open,
        }
    }

    fn key(definition: &Value) -> (String, i64, Value) {
        let names = definition["status"]["acceptedNames"].clone();
        (metadata::uid(definition).to_owned(), metadata::generation(definition), names)
    }
}

impl Definitions {
    /// Names the work a change asks for.
    pub(super) fn take(&mut self, change: &Change, queue: &mut Queue) {
        let Some(meta) = change.meta() else { return };
        if change.is(GROUP, PLURAL) {
            match &change.new {
                Some(new) if new.deletion_timestamp.is_some() => self.going.insert(meta.name.clone()),
                _ => self.going.remove(&meta.name),
            };
            queue.push(Work::Definition(meta.name.clone()));
        } else if change.kind.is_custom() && change.new.is_none() && !self.going.is_empty() {
            // the last object of a definition that is going away lets it go
            let name = format!("{}.{}", change.kind.plural, change.kind.group);
            if self.going.contains(&name) {
                queue.push(Work::Definition(name));
            }
        }
    }

    /// Puts all established definitions into the catalog.
    pub(super) async fn load(&mut self, server: &Inner) -> Result<()> {
        let kind = server.catalog.builtin(GROUP, PLURAL);
        let all = Query::prefix(kind.prefix().to_owned());
        let page = server.objects.store().range(all).await.map_err(storage_failure)?;
        self.compiled.clear();
        self.going.clear();
        let (known, revision) = (since::read(server).await?, unknown());
        let mut changed = Vec::new();
        for entry in &page.entries {
            let definition = server.objects.open(&kind, entry)?.value(&kind)?;
            let name = metadata::name(&definition).to_owned();
            let since = known.get(&name).and_then(|since| since.revision_of(&definition));
            let own = since.map_or_else(|| Arc::clone(&revision), |since| Arc::new(AtomicU64::new(since)));
            self.compiled.insert(name.clone(), Compiled::new(&definition, page.revision, &own));
            if since.is_none() {
                changed.push(name);
            }
        }
        self.publish(server, &changed, &revision).await;
        Ok(())
    }

    /// Puts the types into the catalog. Requests may still write by those before them; when none does any more, the
    /// newest revision of theirs is known, and kept for the definitions that changed.
    async fn publish(&mut self, server: &Inner, changed: &[String], revision: &AtomicU64) {
        self.put_in_force(server);
        // Also of those that were not waited for long enough before.
        let written = async {
            while let Some(types) = self.replaced.last() {
                types.written().await;
                self.replaced.pop();
            }
        };
        if tokio::time::timeout(WRITES_MAX, written).await.is_err() {
            tracing::warn!("a write has not ended since definitions changed");
            return;
        }
        let newest = server.objects.store().revision();
        revision.store(newest, Ordering::Release);
        let known = changed.iter().filter_map(|name| {
            let (uid, generation, _) = &self.compiled.get(name)?.from;
            Some((name.as_str(), Since::new(uid, *generation, newest)))
        });
        since::write(server, known).await;
    }

    /// Puts the types into the catalog; those before them.
    fn put_in_force(&mut self, server: &Inner) -> Arc<Types> {
        let live = self.compiled.values().filter(|compiled| compiled.established);
        let before = server.catalog.set_custom(live.flat_map(|compiled| compiled.types.iter().cloned()));
        self.replaced.push(Arc::clone(&before));
        before
    }

    /// Has the types of a definition refuse new objects, and waits for the writes that began before they did: what is
    /// stored afterwards is all there is.
    async fn close(&mut self, server: &Inner, name: &str) -> Result<()> {
        let Some(compiled) = self.compiled.get(name) else { return Ok(()) };
        if matches!(compiled.closing, Closing::Open) {
            compiled.types.iter().for_each(|kind| kind.terminate());
            let before = self.put_in_force(server);
            if let Some(compiled) = self.compiled.get_mut(name) {
                compiled.closing = Closing::Refusing(before);
            }
        }
        let Some(compiled) = self.compiled.get_mut(name) else { return Ok(()) };
        if let Closing::Refusing(before) = &compiled.closing {
            let written = tokio::time::timeout(WRITES_MAX, before.written()).await;
            written
                .map_err(|_| Failure::internal(format!("a write to {name} has not ended since it is going away")))?;
            compiled.closing = Closing::Closed;
        }
        Ok(())
    }

    /// Gives a definition its names and serves it, or takes it away with its objects.
    pub(super) async fn reconcile(&mut self, server: &Inner, name: &str) -> Result<()> {
        let kind = server.catalog.builtin(GROUP, PLURAL);
        let Some(stored) = server.objects.get(&kind, "", name).await? else {
            self.forget(server, name).await;
            return Ok(());
        };
        let definition = stored.value(&kind)?;
        if metadata::deletion_timestamp(&definition).is_some() {
            return self.remove(server, &kind, &definition).await;
        }
        let names = self.names_beside(name, definition["spec"]["group"].as_str().unwrap_or_default());
        let now = server.clock.now();
        edit(server, &kind, "", name, |object| crd::accept(object, &names, now)).await?;
        // served before it says so: a client that sees Established can use it
        if let Some(stored) = server.objects.get(&kind, "", name).await? {
            let mut definition = stored.value(&kind)?;
            crd::establish(&mut definition, now);
            self.serve(server, &definition).await;
        }
        edit(server, &kind, "", name, |object| crd::establish(object, now)).await
    }

    /// The names that other definitions of the group have been given.
    fn names_beside(&self, name: &str, group: &str) -> Names {
        let mut names = Names::default();
        for (other, compiled) in &self.compiled {
            if other != name && compiled.group == group {
                names.add(&compiled.from.2);
            }
        }
        names
    }

    async fn serve(&mut self, server: &Inner, definition: &Value) {
        let name = metadata::name(definition);
        let from = Compiled::key(definition);
        if self.compiled.get(name).is_some_and(|known| known.established && known.from == from) {
            return;
        }
        let revision = unknown();
        let made = server.objects.store().revision();
        self.compiled.insert(name.to_owned(), Compiled::new(definition, made, &revision));
        self.publish(server, &[name.to_owned()], &revision).await;
    }

    async fn forget(&mut self, server: &Inner, name: &str) {
        self.going.remove(name);
        if self.compiled.remove(name).is_some() {
            self.publish(server, &[], &unknown()).await;
            since::forget(server, name).await;
        }
    }

    async fn remove(&mut self, server: &Inner, kind: &ResourceType, definition: &Value) -> Result<()> {
        let name = metadata::name(definition);
        if !metadata::finalizers(definition).contains(&CUSTOM_CLEANUP) {
            return Ok(());
        }
        self.close(server, name).await?;
        if empty(server, definition).await? {
            release(server, kind, "", name, CUSTOM_CLEANUP).await?;
        }
        Ok(())
    }
}

/// A revision that no object is beyond.
fn unknown() -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(u64::MAX))
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
