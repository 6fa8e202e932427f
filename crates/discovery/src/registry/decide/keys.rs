//! Keys: set, compare, lock, delete.

use bytes::Bytes;

use crate::command::{KvOp, KvVerb, Refusal};
use crate::model::{Indexed, KvEntry};
use crate::registry::draft::Draft;
use crate::registry::id::Id;
use crate::registry::thing::Delay;

/// Bytes a value may have.
pub const VALUE_BYTES_MAX: usize = 512 * 1024;
/// Bytes a key may have.
const KEY_BYTES_MAX: usize = 3 * 1024;

impl Draft<'_> {
    /// One operation by itself.
    pub(super) fn kv(&mut self, op: &KvOp) -> Result<bool, Refusal> {
        check_kv(op)?;
        match op.verb {
            KvVerb::Set => {
                self.set_key(op);
                Ok(true)
            }
            KvVerb::Cas => Ok(self.cas_key(op).is_some()),
            KvVerb::Lock if self.is_delayed(&op.key) => Ok(false),
            KvVerb::Lock => Ok(self.lock_key(op)?.is_some()),
            KvVerb::Unlock => Ok(self.unlock_key(op)?.is_some()),
            KvVerb::Delete => {
                self.remove(Id::Key(op.key.clone()));
                Ok(true)
            }
            KvVerb::DeleteTree => {
                self.delete_tree(&op.key);
                Ok(true)
            }
            KvVerb::DeleteCas => Ok(self.delete_cas(op)),
            KvVerb::Get
            | KvVerb::GetOrEmpty
            | KvVerb::GetTree
            | KvVerb::CheckIndex
            | KvVerb::CheckSession
            | KvVerb::CheckNotExists => Err(Refusal::Invalid("Invalid KVS operation".to_owned())),
        }
    }

    /// Sets a value; whoever holds the key goes on holding it, but its count of locks starts again.
    pub(super) fn set_key(&mut self, op: &KvOp) -> Indexed<KvEntry> {
        let session = self.key(&op.key).and_then(|old| old.value.session.clone());
        self.put(Id::Key(op.key.clone()), KvEntry { session, ..written(op) })
    }

    pub(super) fn cas_key(&mut self, op: &KvOp) -> Option<Indexed<KvEntry>> {
        let current = self.key(&op.key).map_or(0, |old| old.modify_index);
        (op.index == current).then(|| self.set_key(op))
    }

    pub(super) fn is_delayed(&self, key: &str) -> bool {
        let delay = self.find::<Delay>(&Id::Delay(key.to_owned()));
        delay.is_some_and(|delay| delay.value.until > self.asker.now)
    }

    pub(super) fn lock_key(&mut self, op: &KvOp) -> Result<Option<Indexed<KvEntry>>, Refusal> {
        if op.session.is_empty() {
            return Err(Refusal::Failed("missing session".to_owned()));
        }
        if self.session(&op.session).is_none() {
            return Err(Refusal::Failed(format!("invalid session {:?}", op.session)));
        }
        let lock_index = match self.key(&op.key).map(|old| &old.value) {
            Some(old) if old.session.as_deref() == Some(&op.session) => old.lock_index,
            Some(old) if old.session.is_some() => return Ok(None),
            Some(old) => old.lock_index + 1,
            None => 1,
        };
        let entry = KvEntry { session: Some(op.session.clone()), lock_index, ..written(op) };
        self.remove(Id::Delay(op.key.clone()));
        Ok(Some(self.put(Id::Key(op.key.clone()), entry)))
    }

    pub(super) fn unlock_key(&mut self, op: &KvOp) -> Result<Option<Indexed<KvEntry>>, Refusal> {
        if op.session.is_empty() {
            return Err(Refusal::Failed("missing session".to_owned()));
        }
        let Some(old) = self.key(&op.key) else { return Ok(None) };
        if old.value.session.as_deref() != Some(&op.session) {
            return Ok(None);
        }
        let lock_index = old.value.lock_index;
        Ok(Some(self.put(Id::Key(op.key.clone()), KvEntry { lock_index, ..written(op) })))
    }

    pub(super) fn delete_tree(&mut self, prefix: &str) {
        for entry in self.keys_under(prefix) {
            self.remove(Id::Key(entry.value.key.clone()));
        }
    }

    /// Deletes a key as it was seen; one that is gone counts as deleted.
    pub(super) fn delete_cas(&mut self, op: &KvOp) -> bool {
        match self.key(&op.key).map(|old| old.modify_index) {
            Some(current) if current != op.index => return false,
            Some(_) => self.remove(Id::Key(op.key.clone())),
            None => {}
        }
        true
    }
}

/// Refuses an operation that makes no sense, whatever is stored.
pub(super) fn check_kv(op: &KvOp) -> Result<(), Refusal> {
    if op.key.is_empty() && op.verb != KvVerb::DeleteTree {
        return Err(Refusal::Failed("Must provide key".to_owned()));
    }
    if op.key.len() > KEY_BYTES_MAX {
        return Err(Refusal::TooLarge(format!("the key is longer than {KEY_BYTES_MAX} bytes")));
    }
    if op.value.len() > VALUE_BYTES_MAX {
        let (key, size) = (&op.key, op.value.len());
        return Err(Refusal::TooLarge(format!(
            "Value for key {key:?} is too large ({size} > {VALUE_BYTES_MAX} bytes)"
        )));
    }
    Ok(())
}

fn written(op: &KvOp) -> KvEntry {
    let value = if op.value.is_empty() { Bytes::new() } else { op.value.clone() };
    KvEntry { key: op.key.clone(), value, flags: op.flags, lock_index: 0, session: None }
}
