//! The registry in its store.
//!
//! Everything is under the number of a generation; one entry beside them says which generation counts and holds the
//! index. A restore writes the next generation piece by piece and then, in one step, makes it the one that counts.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thane_kv::{Compare, Mutation, Query, Revision, Store, Txn, TxnOutcome};

use super::error::Error;
use crate::registry::{Damaged, State, Tables};

/// Where it says which generation counts.
const HEAD: &str = "m/state";
/// The form of what is stored.
const FORMAT: u32 = 1;
/// Entries of one transaction, well below what stores accept.
const CHUNK_ENTRIES: usize = 500;
/// Bytes of one transaction (exceeded by at most one entry).
const CHUNK_BYTES: usize = 4 * 1024 * 1024;
/// Entries read at once.
const PAGE: usize = 1000;

/// An entry: its key and what it says now, if it is there.
pub(super) type Record = (String, Option<Bytes>);

pub(super) struct Storage {
    store: Arc<dyn Store>,
    generation: u64,
    head: Revision,
}

#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
    generation: u64,
    state: State,
}

impl Storage {
    /// Reads everything.
    pub(super) async fn load(store: Arc<dyn Store>, tombs: usize) -> Result<(Self, Tables), Error> {
        let mut tables = Tables::new(uuid::Uuid::new_v4().to_string()).with_tombs_max(tombs);
        let mut storage = Self { store, generation: 0, head: 0 };
        let Some(entry) = storage.store.get(HEAD.as_bytes()).await? else { return Ok((storage, tables)) };
        let damaged = |reason: String| Damaged { key: HEAD.to_owned(), reason };
        let head: Head = serde_json::from_slice(&entry.value).map_err(|error| damaged(error.to_string()))?;
        if head.format != FORMAT {
            return Err(damaged(format!("written in form {}, known is {FORMAT}", head.format)).into());
        }
        storage.generation = head.generation;
        storage.head = entry.mod_revision;
        tables.load_state(head.state);
        let prefix = storage.key("");
        let mut query = Query { limit: Some(PAGE), ..Query::prefix(Bytes::from(prefix.clone())) };
        loop {
            let page = storage.store.range(query.clone()).await?;
            for entry in &page.entries {
                let text = String::from_utf8_lossy(&entry.key);
                let key = text.strip_prefix(prefix.as_str()).unwrap_or_default();
                tables.load(key, &entry.value)?;
            }
            let Some(last) = page.entries.last().filter(|_| page.more) else { break };
            query.start = after(&last.key);
        }
        Ok((storage, tables))
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Stores what changed. Whole if it is small enough for one transaction; if not, in an order that leaves nothing
    /// without what it hangs on.
    pub(super) async fn commit(&mut self, state: State, mut records: Vec<Record>) -> Result<(), Error> {
        if records.len() > CHUNK_ENTRIES {
            records.sort_by_key(|(key, value)| rank(key, value.is_some()));
        }
        let mut records = records.into_iter().peekable();
        while records.peek().is_some() {
            let mut bytes = 0;
            let mut mutations = Vec::new();
            while mutations.len() < CHUNK_ENTRIES
                && bytes < CHUNK_BYTES
                && let Some((key, value)) = records.next()
            {
                bytes += value.as_ref().map_or(0, Bytes::len);
                mutations.push(self.mutation(&key, value));
            }
            self.advance(self.generation, &state, mutations).await?;
        }
        Ok(())
    }

    /// Puts other tables in the place of what is stored: all of them or none.
    pub(super) async fn replace(&mut self, tables: &Tables) -> Result<(), Error> {
        let next = Self { store: Arc::clone(&self.store), generation: self.generation + 1, head: self.head };
        next.clear().await?;
        let mut mutations = Vec::new();
        let mut bytes = 0;
        for (key, value) in tables.dump() {
            bytes += value.len();
            mutations.push(next.mutation(&key, Some(value)));
            if mutations.len() >= CHUNK_ENTRIES || bytes >= CHUNK_BYTES {
                bytes = 0;
                next.store.txn(Txn { compares: Vec::new(), mutations: std::mem::take(&mut mutations) }).await?;
            }
        }
        self.advance(next.generation, &tables.state(), mutations).await?;
        let old = Self { store: Arc::clone(&self.store), generation: self.generation, head: self.head };
        self.generation = next.generation;
        old.clear().await
    }

    /// Removes what an interrupted restore left behind.
    pub(super) async fn tidy(&self) -> Result<(), Error> {
        for generation in [self.generation.checked_sub(1), Some(self.generation + 1)].into_iter().flatten() {
            Self { store: Arc::clone(&self.store), generation, head: self.head }.clear().await?;
        }
        Ok(())
    }

    async fn advance(&mut self, generation: u64, state: &State, mut mutations: Vec<Mutation>) -> Result<(), Error> {
        let head = Head { format: FORMAT, generation, state: state.clone() };
        let value = serde_json::to_vec(&head).expect("numbers and a text have a JSON form").into();
        mutations.push(Mutation::Put { key: HEAD.into(), value, lease: None });
        // Only one writes here; should another, it shows before anything is lost.
        let compares = vec![Compare::ModRevision(HEAD.into(), self.head)];
        match self.store.txn(Txn { compares, mutations }).await? {
            TxnOutcome::Committed { revision, .. } => self.head = revision,
            TxnOutcome::Conflict { .. } => return Err(Error::Conflict),
        }
        Ok(())
    }

    async fn clear(&self) -> Result<(), Error> {
        let query = Query { limit: Some(CHUNK_ENTRIES), keys_only: true, ..Query::prefix(Bytes::from(self.key(""))) };
        loop {
            let page = self.store.range(query.clone()).await?;
            if page.entries.is_empty() {
                return Ok(());
            }
            let mutations = page.entries.into_iter().map(|entry| Mutation::Delete { key: entry.key }).collect();
            self.store.txn(Txn { compares: Vec::new(), mutations }).await?;
        }
    }

    fn key(&self, key: &str) -> String {
        format!("{}/{key}", self.generation)
    }

    fn mutation(&self, key: &str, value: Option<Bytes>) -> Mutation {
        let key = Bytes::from(self.key(key));
        match value {
            Some(value) => Mutation::Put { key, value, lease: None },
            None => Mutation::Delete { key },
        }
    }
}

/// Nodes come before what is on them and go after it; what an agent said last is noted when all of it is there.
fn rank(key: &str, there: bool) -> u8 {
    match (key.as_bytes().first(), there) {
        (Some(b'n'), true) => 0,
        (Some(b's'), true) => 1,
        (Some(b'c'), true) => 2,
        (Some(b'c'), false) => 4,
        (Some(b's'), false) => 5,
        (Some(b'n'), false) => 6,
        (Some(b'a'), _) => 7,
        _ => 3,
    }
}

fn after(key: &[u8]) -> Bytes {
    let mut next = key.to_vec();
    next.push(0);
    next.into()
}
