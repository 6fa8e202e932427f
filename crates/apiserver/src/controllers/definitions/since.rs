//! Since when objects of a definition are stored as its spec has them. Kept beside the objects, so that a server that
//! starts again reads them as they are, instead of looking into each until it is written again.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thane_kv::{Mutation, Query, Txn};

use crate::failure::{Failure, Result};
use crate::metadata;
use crate::objects::storage_failure;
use crate::server::Inner;

/// Beside what the API shows.
const PREFIX: &str = "/thane/definitions/";
/// Raised when pruning or defaulting changes: what was stored before is then looked into.
const RULES: u32 = 1;
/// Records in one transaction.
const CHUNK: usize = 256;

/// Which spec of a definition objects were written under, by which program, and the newest revision before that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Since {
    uid: String,
    generation: i64,
    version: String,
    rules: u32,
    revision: u64,
}

impl Since {
    /// Objects written after `revision` are as this state of a definition has them.
    pub(super) fn new(uid: &str, generation: i64, revision: u64) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { uid: uid.to_owned(), generation, version, rules: RULES, revision }
    }

    /// The revision, if it is this state of the definition, and this program, that it tells about.
    pub(super) fn revision_of(&self, definition: &Value) -> Option<u64> {
        let now = Self::new(metadata::uid(definition), metadata::generation(definition), self.revision);
        (now == *self).then_some(self.revision)
    }
}

fn key(name: &str) -> Bytes {
    format!("{PREFIX}{name}").into()
}

/// What is known of all definitions. What cannot be read is not known.
pub(super) async fn read(server: &Inner) -> Result<BTreeMap<String, Since>> {
    let page = server.objects.store().range(Query::prefix(PREFIX)).await.map_err(storage_failure)?;
    let known = page.entries.iter().filter_map(|entry| {
        let name = std::str::from_utf8(&entry.key[PREFIX.len()..]).ok()?;
        Some((name.to_owned(), serde_json::from_slice(&entry.value).ok()?))
    });
    Ok(known.collect())
}

/// Keeps it. Without it, reading costs more after the next start.
pub(super) async fn write(server: &Inner, known: impl Iterator<Item = (&str, Since)>) {
    let put = |(name, since): (&str, Since)| {
        let value = serde_json::to_vec(&since).map_err(Failure::internal)?;
        Ok(Mutation::Put { key: key(name), value: value.into(), lease: None })
    };
    match known.map(put).collect::<Result<Vec<_>>>() {
        Ok(mutations) => commit(server, mutations).await,
        Err(failure) => tracing::warn!(%failure, "cannot keep how objects are stored"),
    }
}

/// A definition is gone.
pub(super) async fn forget(server: &Inner, name: &str) {
    commit(server, vec![Mutation::Delete { key: key(name) }]).await;
}

async fn commit(server: &Inner, mutations: Vec<Mutation>) {
    for mutations in mutations.chunks(CHUNK) {
        let txn = Txn { compares: Vec::new(), mutations: mutations.to_vec() };
        if let Err(error) = server.objects.store().txn(txn).await {
            tracing::warn!(%error, "cannot keep how objects are stored");
        }
    }
}
