//! The current rules, swapped whole so that a decision never waits.

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde_json::Value;

use super::RuleBook;

/// The rules in force. A watcher of the four RBAC kinds feeds it; requests read it.
#[derive(Debug, Default)]
pub struct Rules {
    current: ArcSwap<RuleBook>,
    /// Writers take turns: each change starts from the last.
    writing: Mutex<()>,
}

impl Rules {
    /// Starts from a snapshot.
    pub fn new(book: RuleBook) -> Self {
        Self { current: ArcSwap::from_pointee(book), writing: Mutex::new(()) }
    }

    /// The rules at this moment.
    pub fn current(&self) -> Arc<RuleBook> {
        self.current.load_full()
    }

    /// Replaces everything, after a list.
    pub fn replace(&self, book: RuleBook) {
        let _turn = self.writing.lock();
        self.current.store(Arc::new(book));
    }

    /// Adds or changes one object, after an event.
    pub fn apply(&self, object: &Value) {
        self.change(|book| book.apply(object));
    }

    /// Removes one object; kind, namespace and name suffice.
    pub fn delete(&self, object: &Value) {
        self.change(|book| book.delete(object));
    }

    fn change(&self, edit: impl FnOnce(&mut RuleBook)) {
        let _turn = self.writing.lock();
        let mut book = RuleBook::clone(&self.current.load());
        edit(&mut book);
        self.current.store(Arc::new(book));
    }
}
