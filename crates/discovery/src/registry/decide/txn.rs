//! Several operations at once: all of them, or none.

use std::sync::Arc;

use bytes::Bytes;

use super::catalog::check_service;
use super::keys::check_kv;
use super::node::check_node_id;
use crate::command::{CatalogVerb, KvOp, KvVerb, Refusal, TxnError, TxnOp, TxnResult};
use crate::model::{Check, Index, Indexed, KvEntry, Node, Service};
use crate::registry::draft::Draft;
use crate::registry::id::Id;

/// Operations a transaction may have.
const OPS_MAX: usize = 128;
/// Things a transaction may change, deleted trees included: it is one transaction of the store as well.
const CHANGES_MAX: usize = 512;

type Found = Result<Vec<TxnResult>, Refusal>;

impl Draft<'_> {
    pub(super) fn txn(&mut self, ops: &[TxnOp]) -> Result<Result<Vec<TxnResult>, Vec<TxnError>>, Refusal> {
        if ops.len() > OPS_MAX {
            let count = ops.len();
            return Err(Refusal::TooLarge(format!("Transaction contains too many operations ({count} > {OPS_MAX})")));
        }
        let mut errors = Vec::new();
        for (op, operation) in ops.iter().enumerate() {
            match self.check_op_before(operation) {
                Err(Refusal::Failed(what)) => errors.push(TxnError { op, what }),
                Err(refusal) => return Err(refusal),
                Ok(()) => {}
            }
        }
        if !errors.is_empty() {
            return Ok(Err(errors));
        }
        let mut results = Vec::new();
        for (op, operation) in ops.iter().enumerate() {
            match self.operate(operation) {
                Ok(found) => results.extend(found),
                Err(Refusal::Failed(what) | Refusal::Invalid(what)) => errors.push(TxnError { op, what }),
                Err(refusal) => return Err(refusal),
            }
        }
        if self.changed() > CHANGES_MAX {
            return Err(Refusal::TooLarge(format!("Transaction changes too much at once (more than {CHANGES_MAX})")));
        }
        Ok(if errors.is_empty() { Ok(results) } else { Err(errors) })
    }

    /// Refuses what makes no sense or comes too soon, before anything is tried.
    fn check_op_before(&self, operation: &TxnOp) -> Result<(), Refusal> {
        match operation {
            TxnOp::Kv(kv) => {
                check_kv(kv)?;
                if kv.verb == KvVerb::Lock && self.is_delayed(&kv.key) {
                    return Err(failed(format!("failed to lock key {:?} due to lock delay", kv.key)));
                }
                Ok(())
            }
            TxnOp::Node(_, node, _) if node.name.is_empty() => Err(failed("Must provide node".to_owned())),
            TxnOp::Node(_, node, _) => check_node_id(node),
            TxnOp::Service(CatalogVerb::Get, ..) | TxnOp::Check(..) => Ok(()),
            TxnOp::Service(_, _, service, _) => check_service(service),
        }
    }

    fn operate(&mut self, operation: &TxnOp) -> Found {
        match operation {
            TxnOp::Kv(op) => self.kv_op(op),
            TxnOp::Node(verb, node, index) => self.node_op(*verb, node, *index),
            TxnOp::Service(verb, node, service, index) => self.service_op(*verb, node, service, *index),
            TxnOp::Check(verb, node, check, index) => self.check_op(*verb, node, check, *index),
        }
    }

    fn kv_op(&mut self, op: &KvOp) -> Found {
        let key = &op.key;
        let entry = match op.verb {
            KvVerb::Set => self.set_key(op),
            KvVerb::Cas => {
                self.cas_key(op).ok_or_else(|| failed(format!("failed to set key {key:?}, index is stale")))?
            }
            KvVerb::Lock => {
                self.lock_key(op)?.ok_or_else(|| failed(format!("failed to lock key {key:?}, lock is already held")))?
            }
            KvVerb::Unlock => self.unlock_key(op)?.ok_or_else(|| {
                failed(format!("failed to unlock key {key:?}, lock isn't held, or is held by another session"))
            })?,
            KvVerb::Get => {
                let entry = self.key(key).ok_or_else(|| failed(format!("key {key:?} doesn't exist")))?;
                return Ok(vec![TxnResult::Kv(entry.clone())]);
            }
            KvVerb::GetOrEmpty => {
                let empty = || KvEntry { key: key.clone(), flags: op.flags, ..KvEntry::default() };
                let none = || Indexed { create_index: 0, modify_index: 0, value: Arc::new(empty()) };
                return Ok(vec![TxnResult::Kv(self.key(key).cloned().unwrap_or_else(none))]);
            }
            KvVerb::GetTree => return Ok(self.keys_under(key).into_iter().map(TxnResult::Kv).collect()),
            KvVerb::CheckIndex => self.check_index(op)?,
            KvVerb::CheckSession => self.check_session(op)?,
            KvVerb::CheckNotExists if self.key(key).is_some() => return Err(failed(format!("key {key:?} exists"))),
            KvVerb::CheckNotExists => return Ok(Vec::new()),
            KvVerb::Delete => {
                self.remove(Id::Key(key.clone()));
                return Ok(Vec::new());
            }
            KvVerb::DeleteTree => {
                self.delete_tree(key);
                return Ok(Vec::new());
            }
            KvVerb::DeleteCas if self.delete_cas(op) => return Ok(Vec::new()),
            KvVerb::DeleteCas => return Err(failed(format!("failed to delete key {key:?}, index is stale"))),
        };
        let value = Arc::new(KvEntry { value: Bytes::new(), ..KvEntry::clone(&entry.value) });
        Ok(vec![TxnResult::Kv(Indexed { value, ..entry })])
    }

    fn check_index(&self, op: &KvOp) -> Result<Indexed<KvEntry>, Refusal> {
        let (key, index) = (&op.key, op.index);
        let entry = self.key(key).ok_or_else(|| failed(format!("failed to check index, key {key:?} doesn't exist")))?;
        let current = entry.modify_index;
        if current != index {
            let what = format!("failed index check for key {key:?}, current modify index {current} != {index}");
            return Err(failed(what));
        }
        Ok(entry.clone())
    }

    fn check_session(&self, op: &KvOp) -> Result<Indexed<KvEntry>, Refusal> {
        let (key, session) = (&op.key, &op.session);
        let entry =
            self.key(key).ok_or_else(|| failed(format!("failed to check session, key {key:?} doesn't exist")))?;
        let current = entry.value.session.as_deref().unwrap_or("");
        if current != session {
            let what = format!("failed session check for key {key:?}, current session {current:?} != {session:?}");
            return Err(failed(what));
        }
        Ok(entry.clone())
    }

    fn node_op(&mut self, verb: CatalogVerb, node: &Node, index: Index) -> Found {
        let shown = &node.name;
        let name = shown.to_lowercase();
        let found = if node.id.is_empty() { self.node(&name) } else { self.node_by_id(&node.id) };
        if verb == CatalogVerb::Get {
            let found = found.ok_or_else(|| failed(format!("node {shown:?} doesn't exist")))?;
            return Ok(vec![TxnResult::Node(found.clone())]);
        }
        self.check_owner(&name)?;
        let owner = self.node(&name).and_then(|node| node.value.owner.clone());
        let current = self.node(&name).map(|node| node.modify_index);
        match verb {
            CatalogVerb::Cas if current.unwrap_or(0) != index => {
                Err(failed(format!("failed to set node {shown:?}, index is stale")))
            }
            CatalogVerb::Get | CatalogVerb::Set | CatalogVerb::Cas => {
                Ok(vec![TxnResult::Node(self.put_node(&Node { owner, ..node.clone() })?)])
            }
            CatalogVerb::DeleteCas if current != Some(index) => {
                Err(failed(format!("failed to delete node {shown:?}, index is stale")))
            }
            CatalogVerb::Delete | CatalogVerb::DeleteCas => {
                self.remove_node(&name);
                Ok(Vec::new())
            }
        }
    }

    fn service_op(&mut self, verb: CatalogVerb, node: &str, service: &Service, index: Index) -> Found {
        let name = node.to_lowercase();
        let id = if service.id.is_empty() { &service.name } else { &service.id };
        let current = self.service(&name, id).cloned();
        if verb == CatalogVerb::Get {
            let found = current.ok_or_else(|| failed(format!("service {id:?} on node {node:?} doesn't exist")))?;
            return Ok(vec![TxnResult::Service(found)]);
        }
        self.check_owner(&name)?;
        let current = current.map(|service| service.modify_index);
        match verb {
            CatalogVerb::Cas if current.unwrap_or(0) != index => {
                Err(failed(format!("failed to set service {id:?} on node {node:?}, index is stale")))
            }
            CatalogVerb::Get | CatalogVerb::Set | CatalogVerb::Cas => {
                Ok(vec![TxnResult::Service(self.put_service(&name, service)?)])
            }
            CatalogVerb::DeleteCas if current != Some(index) => {
                Err(failed(format!("failed to delete service {id:?} on node {node:?}, index is stale")))
            }
            CatalogVerb::Delete | CatalogVerb::DeleteCas => {
                self.remove_service(&name, id);
                Ok(Vec::new())
            }
        }
    }

    fn check_op(&mut self, verb: CatalogVerb, node: &str, check: &Check, index: Index) -> Found {
        let name = node.to_lowercase();
        let id = if check.id.is_empty() { &check.name } else { &check.id };
        let current = self.check(&name, id).cloned();
        let shown = |draft: &Self| draft.node(&name).map_or_else(|| node.to_owned(), |node| node.value.name.clone());
        if verb == CatalogVerb::Get {
            let found = current.ok_or_else(|| failed(format!("check {id:?} on node {node:?} doesn't exist")))?;
            return Ok(vec![TxnResult::Check(shown(self), found)]);
        }
        self.check_owner(&name)?;
        let current = current.map(|check| check.modify_index);
        match verb {
            CatalogVerb::Cas if current.unwrap_or(0) != index => {
                Err(failed(format!("failed to set check {id:?} on node {node:?}, index is stale")))
            }
            CatalogVerb::Get | CatalogVerb::Set | CatalogVerb::Cas => {
                let new = self.put_check(&name, check)?;
                Ok(vec![TxnResult::Check(shown(self), new)])
            }
            CatalogVerb::DeleteCas if current != Some(index) => {
                Err(failed(format!("failed to delete check {id:?} on node {node:?}, index is stale")))
            }
            CatalogVerb::Delete | CatalogVerb::DeleteCas => {
                self.remove_check(&name, id);
                Ok(Vec::new())
            }
        }
    }
}

fn failed(what: String) -> Refusal {
    Refusal::Failed(what)
}
