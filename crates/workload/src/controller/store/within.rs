//! Templates and settings as one namespace sees them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::Store;
use crate::engine::Sources;
use crate::spec::WorkflowSpec;

/// An object that a Workflow names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::controller) enum Elsewhere {
    Template(String),
    ClusterTemplate(String),
    Settings(String),
}

/// Templates and settings of one namespace, and which of them were asked for.
pub(in crate::controller) struct Within<'s> {
    store: &'s Store,
    namespace: &'s str,
    asked: RefCell<BTreeSet<Elsewhere>>,
}

impl<'s> Within<'s> {
    pub(in crate::controller) fn new(store: &'s Store, namespace: &'s str) -> Self {
        Self { store, namespace, asked: RefCell::default() }
    }

    /// What was asked for, whether there is such a thing or not.
    pub(in crate::controller) fn asked(self) -> BTreeSet<Elsewhere> {
        self.asked.into_inner()
    }

    fn template(&self, namespace: &str, name: &str) -> Option<Arc<WorkflowSpec>> {
        let key = (namespace.to_owned(), name.to_owned());
        self.store.inner.lock().templates.get(&key).map(|known| Arc::clone(&known.what))
    }
}

impl Sources for Within<'_> {
    fn workflow_template(&self, name: &str) -> Option<Arc<WorkflowSpec>> {
        self.asked.borrow_mut().insert(Elsewhere::Template(name.to_owned()));
        self.template(self.namespace, name)
    }

    fn cluster_template(&self, name: &str) -> Option<Arc<WorkflowSpec>> {
        self.asked.borrow_mut().insert(Elsewhere::ClusterTemplate(name.to_owned()));
        self.template("", name)
    }

    fn config_value(&self, name: &str, key: &str) -> Option<String> {
        self.asked.borrow_mut().insert(Elsewhere::Settings(name.to_owned()));
        let at = (self.namespace.to_owned(), name.to_owned());
        let map = self.store.inner.lock().settings.get(&at).map(|known| Arc::clone(&known.what))?;
        map.get(key).cloned()
    }
}
