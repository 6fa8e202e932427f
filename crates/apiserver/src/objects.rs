//! Objects in the key-value store.
//!
//! A stored object is its JSON without `apiVersion`, `kind` and `metadata.resourceVersion`, and always begins with
//! `{"metadata":{`. The missing parts are known from the key and the entry's revision, so an answer is made by
//! writing them in front: reading, listing and watching parse nothing.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use thane_kv::{Compare, Entry, Mutation, Store, Txn, TxnOutcome};

use crate::encryption::Encryption;
use crate::failure::{Failure, Result};
use crate::resource::ResourceType;

const HEAD: &[u8] = b"{\"metadata\":{";

/// The objects of one API server.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn Store>,
    encryption: Arc<Encryption>,
    object_bytes_max: usize,
}

/// One object as stored, at one revision.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its resource version.
    pub revision: u64,
    json: Bytes,
}

/// An object to be stored.
pub struct New {
    /// Its type.
    pub kind: Arc<ResourceType>,
    /// Where; empty for cluster-wide objects.
    pub namespace: String,
    /// The object itself, complete.
    pub object: Value,
}

/// What became of a compare-and-swap.
#[derive(Debug)]
pub enum Swap {
    /// Done; the new state.
    Done(Stored),
    /// Somebody else was there first; what is there now.
    Lost(Option<Stored>),
}

impl Objects {
    /// Objects in `store`; Secrets pass through `encryption`.
    pub fn new(store: Arc<dyn Store>, encryption: Arc<Encryption>, object_bytes_max: usize) -> Self {
        Self { store, encryption, object_bytes_max }
    }

    /// The store below.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The present state of an object.
    pub async fn get(&self, kind: &ResourceType, namespace: &str, name: &str) -> Result<Option<Stored>> {
        let key = kind.key(namespace, name);
        let entry = self.store.get(&key).await.map_err(storage_failure)?;
        entry.map(|entry| self.open(kind, &entry)).transpose()
    }

    /// Takes an entry of the store as an object.
    pub fn open(&self, kind: &ResourceType, entry: &Entry) -> Result<Stored> {
        self.open_at(kind, entry, entry.mod_revision)
    }

    /// As [`Objects::open`], under another resource version (a deleted object carries that of its deletion).
    pub fn open_at(&self, kind: &ResourceType, entry: &Entry, revision: u64) -> Result<Stored> {
        let json = if kind.is_secret() {
            self.encryption.open(&entry.key, entry.value.clone()).map_err(Failure::internal)?
        } else {
            entry.value.clone()
        };
        if json.starts_with(HEAD) {
            Ok(Stored { revision, json })
        } else {
            Err(Failure::internal(format!("stored object {} is damaged", String::from_utf8_lossy(&entry.key))))
        }
    }

    /// Stores a new object; `Lost` if the name is taken.
    pub async fn create(&self, kind: &ResourceType, namespace: &str, name: &str, object: &Value) -> Result<Swap> {
        self.write(kind, namespace, name, 0, object).await
    }

    /// Replaces the state at `revision`; `Lost` if that is no longer the present one.
    pub async fn replace(
        &self,
        kind: &ResourceType,
        namespace: &str,
        name: &str,
        revision: u64,
        object: &Value,
    ) -> Result<Swap> {
        self.write(kind, namespace, name, revision, object).await
    }

    async fn write(
        &self,
        kind: &ResourceType,
        namespace: &str,
        name: &str,
        revision: u64,
        object: &Value,
    ) -> Result<Swap> {
        let key = kind.key(namespace, name);
        let json = encode(object);
        let put = self.put(kind, &key, &json)?;
        match self.swap(kind, key, revision, put).await? {
            Ok(revision) => Ok(Swap::Done(Stored { revision, json })),
            Err(current) => Ok(Swap::Lost(current)),
        }
    }

    /// Stores several new objects at one revision; none of them, and `false`, if a name is taken.
    pub async fn create_all(&self, objects: &[New]) -> Result<bool> {
        let (mut compares, mut mutations) = (Vec::new(), Vec::new());
        for New { kind, namespace, object } in objects {
            let key = kind.key(namespace, crate::metadata::name(object));
            mutations.push(self.put(kind, &key, &encode(&kind.stored_form(object)))?);
            compares.push(Compare::ModRevision(key, 0));
        }
        let outcome = self.store.txn(Txn { compares, mutations }).await.map_err(storage_failure)?;
        Ok(matches!(outcome, TxnOutcome::Committed { .. }))
    }

    fn put(&self, kind: &ResourceType, key: &Bytes, json: &Bytes) -> Result<Mutation> {
        if json.len() > self.object_bytes_max {
            return Err(Failure::new(
                413,
                "RequestEntityTooLarge",
                format!("the object is {} bytes and may be at most {}", json.len(), self.object_bytes_max),
            ));
        }
        let value = if kind.is_secret() {
            self.encryption.seal(key, json.clone()).map_err(Failure::internal)?
        } else {
            json.clone()
        };
        Ok(Mutation::Put { key: key.clone(), value, lease: None })
    }

    /// Removes the state at `revision`.
    pub async fn delete(&self, kind: &ResourceType, namespace: &str, name: &str, gone: &Stored) -> Result<Swap> {
        let key = kind.key(namespace, name);
        let mutation = Mutation::Delete { key: key.clone() };
        match self.swap(kind, key, gone.revision, mutation).await? {
            Ok(revision) => Ok(Swap::Done(Stored { revision, json: gone.json.clone() })),
            Err(current) => Ok(Swap::Lost(current)),
        }
    }

    async fn swap(
        &self,
        kind: &ResourceType,
        key: Bytes,
        revision: u64,
        mutation: Mutation,
    ) -> Result<Result<u64, Option<Stored>>> {
        let txn = Txn { compares: vec![Compare::ModRevision(key, revision)], mutations: vec![mutation] };
        match self.store.txn(txn).await.map_err(storage_failure)? {
            TxnOutcome::Committed { revision, .. } => Ok(Ok(revision)),
            TxnOutcome::Conflict { current, .. } => {
                let entry = current.into_iter().next().flatten();
                Ok(Err(entry.map(|entry| self.open(kind, &entry)).transpose()?))
            }
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
pub fn append_json<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("writing strings and values to memory cannot fail");
}

impl Stored {
    /// The object with its type, as clients see it.
    pub fn value(&self, kind: &ResourceType) -> Result<Value> {
        let mut object: Value = serde_json::from_slice(&self.json).map_err(Failure::internal)?;
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.as_str().into();
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        if kind.changes_on_read(self.revision) {
            kind.on_read(&mut object);
        }
        Ok(object)
    }

    /// Appends the object as JSON; items of a built-in list carry no type of their own.
    pub fn render(&self, kind: &ResourceType, typed: bool, out: &mut Vec<u8>) -> Result<()> {
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
    pub fn to_json(&self, kind: &ResourceType) -> Result<Bytes> {
        let mut out = Vec::with_capacity(self.json.len() + 128);
        self.render(kind, true, &mut out)?;
        Ok(out.into())
    }

    /// The stored form.
    pub fn bytes(&self) -> &[u8] {
        &self.json
    }

    /// Whether storing `object` would change nothing.
    pub fn holds(&self, object: &Value) -> bool {
        self.json == encode(object)
    }
}

/// What a client is told when the store fails.
pub fn storage_failure(error: thane_kv::Error) -> Failure {
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
