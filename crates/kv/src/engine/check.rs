//! Which requests are refused before anything is touched.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::options::Limits;
use crate::store::{Compare, Error, LeaseId, Mutation, Result, Revision, Txn};

use super::Engine;

impl Engine {
    /// Whether a transaction may be applied: sizes, duplicate keys, leases.
    pub(crate) fn check(&self, txn: &Txn) -> Result<()> {
        for mutation in &txn.mutations {
            if let Mutation::Put { lease: Some(id), .. } = mutation {
                self.check_lease(*id)?;
                within("keys on a lease", self.leases.key_count(*id) + txn.mutations.len(), self.limits.lease_keys)?;
            }
        }
        Ok(())
    }

    pub(crate) fn check_lease(&self, id: LeaseId) -> Result<()> {
        if self.leases.contains(id) { Ok(()) } else { Err(Error::LeaseNotFound(id)) }
    }

    pub(crate) fn check_grant(&self, ttl: Duration) -> Result<()> {
        if ttl.is_zero() {
            return Err(Error::Invalid("a lease needs a time to live".into()));
        }
        within("number of leases", self.leases.len() + 1, self.limits.leases)
    }

    pub(crate) fn check_compact(&self, revision: Revision) -> Result<()> {
        let current = self.numbers.revision;
        if revision > current { Err(Error::Future { requested: revision, current }) } else { Ok(()) }
    }
}

/// Whether a transaction is well formed, apart from the state it meets; tells its size in bytes.
pub(crate) fn check_shape(limits: &Limits, txn: &Txn) -> Result<usize> {
    within("number of compares", txn.compares.len(), limits.txn_operations)?;
    within("number of mutations", txn.mutations.len(), limits.txn_operations)?;
    let mut bytes = 0;
    for key in txn.compares.iter().map(Compare::key).chain(txn.mutations.iter().map(Mutation::key)) {
        if key.is_empty() {
            return Err(Error::Invalid("a key is empty".into()));
        }
        within("key", key.len(), limits.key_bytes)?;
        bytes += key.len();
    }
    for mutation in &txn.mutations {
        if let Mutation::Put { value, .. } = mutation {
            within("value", value.len(), limits.value_bytes)?;
            bytes += value.len();
        }
    }
    within("transaction", bytes, limits.txn_bytes)?;
    if txn.mutations.len() > 1 {
        let mut seen = BTreeSet::new();
        if let Some(twice) = txn.mutations.iter().map(Mutation::key).find(|key| !seen.insert(*key)) {
            let key = String::from_utf8_lossy(twice);
            return Err(Error::Invalid(format!("it writes the key {key:?} twice")));
        }
    }
    Ok(bytes)
}

fn within(what: &'static str, size: usize, limit: usize) -> Result<()> {
    if size > limit { Err(Error::TooLarge { what, size, limit }) } else { Ok(()) }
}
