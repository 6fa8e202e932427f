//! Objects in the key-value store.
//!
//! A stored object is its JSON without `apiVersion`, `kind` and `metadata.resourceVersion`, and always begins with
//! `{"metadata":{`. The missing parts are known from the key and the entry's revision, so an answer is made by
//! writing them in front: reading, listing and watching parse nothing.

pub(crate) mod depth;
mod lease;
#[cfg(test)]
mod tests;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};
use thane_kv::{Compare, Entry, LeaseId, Mutation, Store, Txn, TxnOutcome};

use crate::encryption::Encryption;
use crate::failure::{Failure, Result};
use crate::resource::ResourceType;
use lease::EventLease;
pub(crate) use turns::Attempts;
use turns::Turns;

/// What the store calls the bound of a lease.
const LEASE_KEYS: &str = "keys on a lease";

const HEAD: &[u8] = b"{\"metadata\":{";

/// The objects of one API server.
#[derive(Clone)]
pub(crate) struct Objects {
    store: Arc<dyn Store>,
    encryption: Arc<Encryption>,
    object_bytes_max: usize,
    event_lease: Arc<EventLease>,
    turns: Arc<Turns>,
}

/// One object as stored, at one revision.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// Its resource version.
    pub revision: u64,
    json: Bytes,
    /// Whether storing it again would store other bytes: its key is no longer the one that seals.
    stale: bool,
}

/// An object to be stored.
pub(crate) struct New {
    /// Its type.
    pub kind: Arc<ResourceType>,
    /// Where; empty for cluster-wide objects.
    pub namespace: String,
    /// The object itself, complete.
    pub object: Value,
}

/// A namespace at the revision at which something new was let into it.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    key: Bytes,
    revision: u64,
}

impl Home {
    /// The namespace `name` as it was read.
    pub(crate) fn new(namespaces: &ResourceType, name: &str, stored: &Stored) -> Self {
        Self { key: namespaces.key("", name), revision: stored.revision }
    }
}

/// What became of a new object.
#[derive(Debug)]
pub(crate) enum Created {
    /// It is stored.
    Done(Stored),
    /// The name is taken; what has it.
    Taken(Stored),
    /// Its namespace is no longer what it was; nothing was stored.
    Moved,
}

/// What became of a compare-and-swap.
#[derive(Debug)]
pub(crate) enum Swap {
    /// Done; the new state.
    Done(Stored),
    /// Somebody else was there first.
    Lost,
}

impl Objects {
    /// Objects in `store`; Secrets pass through `encryption`.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        encryption: Arc<Encryption>,
        object_bytes_max: usize,
        event_ttl: Duration,
    ) -> Self {
        let event_lease = Arc::new(EventLease::new(event_ttl));
        Self { store, encryption, object_bytes_max, event_lease, turns: Arc::default() }
    }

    /// The lease a new object hangs on, if it is of a kind that goes away by itself.
    async fn lease(&self, kind: &ResourceType) -> Result<Option<LeaseId>> {
        if !kind.is_event() {
            return Ok(None);
        }
        self.event_lease.get(&*self.store).await.map(Some).map_err(storage_failure)
    }

    /// The store below.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The present state of an object.
    pub(crate) async fn get(&self, kind: &ResourceType, namespace: &str, name: &str) -> Result<Option<Stored>> {
        let key = kind.key(namespace, name);
        let entry = self.store.get(&key).await.map_err(storage_failure)?;
        entry.map(|entry| self.open(kind, &entry)).transpose()
    }

    /// Takes an entry of the store as an object.
    pub(crate) fn open(&self, kind: &ResourceType, entry: &Entry) -> Result<Stored> {
        self.open_at(kind, entry, entry.mod_revision)
    }

    /// As [`Objects::open`], under another resource version (a deleted object carries that of its deletion).
    pub(crate) fn open_at(&self, kind: &ResourceType, entry: &Entry, revision: u64) -> Result<Stored> {
        let (json, stale) = if kind.is_secret() {
            let opened = self.encryption.open(&entry.key, entry.value.clone()).map_err(Failure::internal)?;
            (opened, !self.encryption.is_current(&entry.value))
        } else {
            (entry.value.clone(), false)
        };
        if json.starts_with(HEAD) {
            Ok(Stored { revision, json, stale })
        } else {
            Err(Failure::internal(format!("stored object {} is damaged", String::from_utf8_lossy(&entry.key))))
        }
    }

    /// Stores a new object, if its namespace is still as it was when it was let in.
    pub(crate) async fn create(
        &self,
        kind: &ResourceType,
        namespace: &str,
        name: &str,
        object: &Value,
        home: Option<&Home>,
    ) -> Result<Created> {
        let (key, json) = (kind.key(namespace, name), encode(object));
        let mut compares = vec![Compare::ModRevision(key.clone(), 0)];
        compares.extend(home.map(|home| Compare::ModRevision(home.key.clone(), home.revision)));
        match self.commit(kind, &key, &json, compares).await? {
            TxnOutcome::Committed { revision, .. } => Ok(Created::Done(Stored { revision, json, stale: false })),
            TxnOutcome::Conflict { current, .. } => match current.into_iter().next().flatten() {
                Some(entry) => Ok(Created::Taken(self.open(kind, &entry)?)),
                None => Ok(Created::Moved),
            },
        }
    }

    /// Replaces the state at `revision`; `Lost` if that is no longer the present one.
    pub(crate) async fn replace(
        &self,
        kind: &ResourceType,
        namespace: &str,
        name: &str,
        revision: u64,
        object: &Value,
    ) -> Result<Swap> {
        let (key, json) = (kind.key(namespace, name), encode(object));
        let compares = vec![Compare::ModRevision(key.clone(), revision)];
        match self.commit(kind, &key, &json, compares).await? {
            TxnOutcome::Committed { revision, .. } => Ok(Swap::Done(Stored { revision, json, stale: false })),
            TxnOutcome::Conflict { .. } => Ok(Swap::Lost),
        }
    }

    /// Stores the JSON of an object, on a lease if it is of a kind that goes away by itself.
    async fn commit(
        &self,
        kind: &ResourceType,
        key: &Bytes,
        json: &Bytes,
        compares: Vec<Compare>,
    ) -> Result<TxnOutcome> {
        let Some(lease) = self.lease(kind).await? else {
            let mutations = vec![self.put(kind, key, json, None)?];
            return self.store.txn(Txn { compares, mutations }).await.map_err(storage_failure);
        };
        let mutations = vec![self.put(kind, key, json, Some(lease))?];
        match self.store.txn(Txn { compares: compares.clone(), mutations }).await {
            // It went, or others filled it, since it was looked up: another one will do.
            Err(thane_kv::Error::LeaseNotFound(_) | thane_kv::Error::TooLarge { what: LEASE_KEYS, .. }) => {
                self.event_lease.give_up(lease).await;
                let mutations = vec![self.put(kind, key, json, self.lease(kind).await?)?];
                self.store.txn(Txn { compares, mutations }).await.map_err(storage_failure)
            }
            outcome => outcome.map_err(storage_failure),
        }
    }

    /// Stores several new objects at one revision; none of them, and `false`, if a name is taken.
    pub(crate) async fn create_all(&self, objects: &[New]) -> Result<bool> {
        let (mut compares, mut mutations) = (Vec::new(), Vec::new());
        for New { kind, namespace, object } in objects {
            let key = kind.key(namespace, crate::metadata::name(object));
            mutations.push(self.put(kind, &key, &encode(&kind.stored_form(object)), None)?);
            compares.push(Compare::ModRevision(key, 0));
        }
        let outcome = self.store.txn(Txn { compares, mutations }).await.map_err(storage_failure)?;
        Ok(matches!(outcome, TxnOutcome::Committed { .. }))
    }

    fn put(&self, kind: &ResourceType, key: &Bytes, json: &Bytes, lease: Option<LeaseId>) -> Result<Mutation> {
        if json.len() > self.object_bytes_max {
            return Err(Failure::new(
                413,
                "RequestEntityTooLarge",
                format!("the object is {} bytes and may be at most {}", json.len(), self.object_bytes_max),
            ));
        }
        let levels = depth::nesting(json);
        if levels > depth::STORED_MAX {
            return Err(Failure::bad_request(format!(
                "the object nests {levels} levels deep with its managed fields and may at most {}",
                depth::STORED_MAX
            )));
        }
        let value = if kind.is_secret() {
            self.encryption.seal(key, json.clone()).map_err(Failure::internal)?
        } else {
            json.clone()
        };
        Ok(Mutation::Put { key: key.clone(), value, lease })
    }

    /// Removes the state at `revision`.
    pub(crate) async fn delete(&self, kind: &ResourceType, namespace: &str, name: &str, gone: &Stored) -> Result<Swap> {
        let key = kind.key(namespace, name);
        let compares = vec![Compare::ModRevision(key.clone(), gone.revision)];
        let txn = Txn { compares, mutations: vec![Mutation::Delete { key }] };
        match self.store.txn(txn).await.map_err(storage_failure)? {
            TxnOutcome::Committed { revision, .. } => Ok(Swap::Done(Stored { revision, ..gone.clone() })),
            TxnOutcome::Conflict { .. } => Ok(Swap::Lost),
        }
    }
}

/// The stored form of an object.
fn encode(object: &Value) -> Bytes {
    let empty = Map::new();
    let fields = object.as_object().unwrap_or(&empty);
    let metadata = fields.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(HEAD);
    append_fields(&mut out, metadata, &["resourceVersion"]);
    out.push(b'}');
    if fields.keys().any(|key| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata")) {
        out.push(b',');
        append_fields(&mut out, fields, &["apiVersion", "kind", "metadata"]);
    }
    out.push(b'}');
    out.into()
}

fn append_fields(out: &mut Vec<u8>, fields: &Map<String, Value>, skipped: &[&str]) {
    let mut first = true;
    for (key, value) in fields.iter().filter(|(key, _)| !skipped.contains(&key.as_str())) {
        if !first {
            out.push(b',');
        }
        first = false;
        append_json(out, key);
        out.push(b':');
        append_json(out, value);
    }
}

/// Appends a value as JSON.
pub(crate) fn append_json<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("writing strings and values to memory cannot fail");
}

/// What selectors mostly ask for, read without the rest of the object.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Marks {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) labels: Option<Map<String, Value>>,
}

impl Stored {
    /// Its name, namespace and labels. A watcher with a selector looks at every change, and most are not for it.
    pub(crate) fn marks(&self) -> Result<Marks> {
        // the metadata comes first, and what follows it is not looked at
        let metadata = &self.json[HEAD.len() - 1..];
        let mut read = serde_json::Deserializer::from_slice(metadata).into_iter::<Marks>();
        read.next().unwrap_or_else(|| Ok(Marks::default())).map_err(Failure::internal)
    }

    /// The object with its type, as clients see it.
    pub(crate) fn value(&self, kind: &ResourceType) -> Result<Value> {
        let read = serde_json::from_slice(&self.json).or_else(|_| depth::without_managers(&self.json));
        let mut object: Value = read.map_err(Failure::internal)?;
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.as_str().into();
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        if kind.changes_on_read(self.revision) {
            kind.on_read(&mut object);
        }
        Ok(object)
    }

    /// Appends the object as JSON; items of a built-in list carry no type of their own.
    pub(crate) fn render(&self, kind: &ResourceType, typed: bool, out: &mut Vec<u8>) -> Result<()> {
        if kind.changes_on_read(self.revision) {
            let mut object = self.value(kind)?;
            if !typed && let Some(fields) = object.as_object_mut() {
                fields.remove("apiVersion");
                fields.remove("kind");
            }
            append_json(out, &object);
            return Ok(());
        }
        out.push(b'{');
        if typed {
            out.extend_from_slice(b"\"kind\":");
            append_json(out, kind.kind.as_str());
            out.extend_from_slice(b",\"apiVersion\":");
            append_json(out, kind.api_version());
            out.push(b',');
        }
        out.extend_from_slice(b"\"metadata\":{\"resourceVersion\":\"");
        out.extend_from_slice(self.revision.to_string().as_bytes());
        out.push(b'"');
        let rest = &self.json[HEAD.len()..];
        if rest.first() != Some(&b'}') {
            out.push(b',');
        }
        out.extend_from_slice(rest);
        Ok(())
    }

    /// The bytes [`Stored::render`] appends, with the type.
    pub(crate) fn to_json(&self, kind: &ResourceType) -> Result<Bytes> {
        let mut out = Vec::with_capacity(self.json.len() + 128);
        self.render(kind, true, &mut out)?;
        Ok(out.into())
    }

    /// The stored form.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.json
    }

    /// Whether storing `object` would change nothing.
    pub(crate) fn holds(&self, object: &Value) -> bool {
        !self.stale && self.json == encode(object)
    }
}

/// What a client is told when the store fails.
pub(crate) fn storage_failure(error: thane_kv::Error) -> Failure {
    match error {
        thane_kv::Error::Busy => {
            let mut failure = Failure::new(429, "TooManyRequests", "the write queue is full, please try again later");
            failure.details =
                Some(Box::new(crate::failure::Details { retry_after_seconds: Some(1), ..Default::default() }));
            failure
        }
        thane_kv::Error::Compacted { .. } => Failure::expired("The resourceVersion for the provided list is too old."),
        error => Failure::internal(error),
    }
}
