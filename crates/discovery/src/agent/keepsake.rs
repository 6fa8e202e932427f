//! Small things an agent must not forget besides its registrations.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thane_kv::{Error, Mutation, Store, Txn};

/// The node's UUID.
pub(super) const NODE_ID: &str = "m/node-id";
/// Which life of the agent's data this is.
pub(super) const INCARNATION: &str = "m/incarnation";
/// Sequence numbers up to here may have been used.
pub(super) const SEQUENCE: &str = "m/sequence";
/// What was read most.
pub(super) const POPULAR: &str = "m/popular";
/// The tokens last heard of, so that rules hold after a restart without the hub.
pub(super) const TOKENS: &str = "m/tokens";

/// Reads and writes them.
#[derive(Clone)]
pub(super) struct Keepsakes(pub(super) Arc<dyn Store>);

impl Keepsakes {
    /// What was kept, if it can be read.
    pub(super) async fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Error> {
        let entry = self.0.get(key.as_bytes()).await?;
        Ok(entry.and_then(|entry| serde_json::from_slice(&entry.value).ok()))
    }

    /// Keeps it; durable when this resolves.
    pub(super) async fn put<T: Serialize + Sync + ?Sized>(&self, key: &'static str, value: &T) -> Result<(), Error> {
        let value = serde_json::to_vec(value).map_err(|error| Error::Invalid(error.to_string()))?;
        let mutation = Mutation::Put { key: Bytes::from_static(key.as_bytes()), value: value.into(), lease: None };
        self.0.txn(Txn { compares: Vec::new(), mutations: vec![mutation] }).await.map(drop)
    }

    /// What was kept, or what is made now and kept.
    pub(super) async fn get_or(
        &self,
        key: &'static str,
        build: impl FnOnce() -> String + Send,
    ) -> Result<String, Error> {
        if let Some(known) = self.get(key).await? {
            return Ok(known);
        }
        let made = build();
        self.put(key, made.as_str()).await?;
        Ok(made)
    }
}
