//! A change as the deciders see it: which object, and the metadata before and after.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use thane_kv::{Entry, Event};

use crate::resource::ResourceType;
use crate::server::Inner;

/// The parts of an object that decide about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub finalizers: Vec<String>,
    pub owner_references: Vec<OwnerReference>,
    pub deletion_timestamp: Option<String>,
}

/// An owner as an object names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub block_owner_deletion: bool,
}

#[derive(Deserialize)]
struct Partial {
    #[serde(default)]
    metadata: Meta,
}

/// One object's change; `old` and `new` are both absent never, and `old` is absent when it was only learned.
pub(super) struct Change {
    pub key: Bytes,
    pub kind: Arc<ResourceType>,
    pub old: Option<Meta>,
    pub new: Option<Meta>,
}

impl Change {
    /// An object that was there when the server started.
    pub(super) fn learned(server: &Inner, entry: &Entry) -> Option<Self> {
        let kind = kind_of(server, &entry.key)?;
        let new = meta(server, &kind, entry);
        Some(Self { key: entry.key.clone(), kind, old: None, new })
    }

    /// An object that changed.
    pub(super) fn observed(server: &Inner, event: &Event) -> Option<Self> {
        let kind = kind_of(server, &event.key)?;
        if is_plain(&kind, event) {
            return None;
        }
        let read = |entry: &Option<Entry>| entry.as_ref().and_then(|entry| meta(server, &kind, entry));
        let (old, new) = (read(&event.previous), read(&event.entry));
        Some(Self { key: event.key.clone(), kind: Arc::clone(&kind), old, new })
    }

    /// The metadata after the change, or before it if the object is gone.
    pub(super) fn meta(&self) -> Option<&Meta> {
        self.new.as_ref().or(self.old.as_ref())
    }

    /// Whether it is of the built-in type.
    pub(super) fn is(&self, group: &str, plural: &str) -> bool {
        self.kind.is(group, plural)
    }
}

/// A write that no controller looks at: most of them. Told by a search instead of by parsing.
fn is_plain(kind: &ResourceType, event: &Event) -> bool {
    const TELLING: [&[u8]; 2] = [b"\"ownerReferences\"", b"\"deletionTimestamp\""];
    let Some(new) = &event.entry else { return false };
    let watched = kind.is("", "namespaces") || kind.is_definition() || kind.group == crate::authz::RBAC_GROUP;
    let tells = |value: &Bytes| TELLING.iter().any(|word| memchr::memmem::find(value, word).is_some());
    !watched && !kind.is_secret() && !tells(&new.value) && !event.previous.as_ref().is_some_and(|old| tells(&old.value))
}

/// The type a key belongs to, if it is served.
pub(super) fn kind_of(server: &Inner, key: &[u8]) -> Option<Arc<ResourceType>> {
    let text = std::str::from_utf8(key).ok()?;
    let mut parts = text.strip_prefix("/registry/")?.splitn(3, '/');
    let (group, plural) = (parts.next()?, parts.next()?);
    let group = if group == "core" { "" } else { group };
    server.catalog.types().collection(group, plural).cloned()
}

fn meta(server: &Inner, kind: &ResourceType, entry: &Entry) -> Option<Meta> {
    let stored =
        server.objects.open(kind, entry).inspect_err(|failure| tracing::error!(%failure, "unreadable object")).ok()?;
    serde_json::from_slice::<Partial>(stored.bytes()).ok().map(|partial| partial.metadata)
}
