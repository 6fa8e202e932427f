//! Everything the registry holds, with what is needed to find it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use super::id::Id;
use super::thing::{Kind, NameRow, Thing};
use super::tombs::Tombs;
use crate::model::{Check, Index, Indexed, KvEntry, Node, Service, Session};

/// Tombs kept unless told otherwise.
const TOMBS_MAX: usize = 100_000;

/// Everything the registry holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    pub(super) index: Index,
    pub(super) things: BTreeMap<Id, Thing>,
    pub(super) tombs: Tombs,
    pub(super) tombs_max: usize,
    /// Which life of the data this is, across restarts and restores.
    pub(super) lineage: String,
    pub(super) names: HashMap<String, Named>,
    pub(super) node_ids: HashMap<String, String>,
    pub(super) sessions_of: HashMap<String, BTreeSet<String>>,
    pub(super) held_by: HashMap<String, BTreeSet<String>>,
    /// Ids of checks by node and the service they are about (empty: the node itself).
    pub(super) checks_about: HashMap<(String, String), BTreeSet<String>>,
    /// How services and checks are spelled whose id is not in lower case, by what they would be called then: ids are
    /// compared without case.
    pub(super) spelled: HashMap<Id, String>,
}

/// The instances of one service: node and id, and how many of them have each tag.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) instances: BTreeSet<(String, String)>,
    pub(super) tags: BTreeMap<String, usize>,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            index: 0,
            things: BTreeMap::new(),
            tombs: Tombs::default(),
            tombs_max: TOMBS_MAX,
            lineage: String::new(),
            names: HashMap::new(),
            node_ids: HashMap::new(),
            sessions_of: HashMap::new(),
            held_by: HashMap::new(),
            checks_about: HashMap::new(),
            spelled: HashMap::new(),
        }
    }
}

impl Tables {
    /// Nothing yet, in a life of its own.
    pub fn new(lineage: impl Into<String>) -> Self {
        Self { lineage: lineage.into(), ..Self::default() }
    }

    /// Keeps at most so many tombs.
    #[must_use]
    pub fn with_tombs_max(self, tombs_max: usize) -> Self {
        Self { tombs_max, ..self }
    }

    /// The newest point in history.
    pub fn index(&self) -> Index {
        self.index
    }

    /// Which life of the data this is.
    pub fn lineage(&self) -> &str {
        &self.lineage
    }

    /// How many tombs there are.
    pub fn tombs(&self) -> usize {
        self.tombs.len()
    }

    /// What is stored under an id.
    pub fn get(&self, id: &Id) -> Option<&Thing> {
        self.things.get(id)
    }

    /// Everything stored, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Id, &Thing)> {
        self.things.iter()
    }

    /// A node by its name in lower case.
    pub fn node(&self, node: &str) -> Option<&Indexed<Node>> {
        self.find(&Id::Node(node.to_owned()))
    }

    pub(super) fn service(&self, node: &str, id: &str) -> Option<&Indexed<Service>> {
        self.find(&Id::Service(node.to_owned(), id.to_owned()))
    }

    pub(super) fn check(&self, node: &str, id: &str) -> Option<&Indexed<Check>> {
        self.find(&Id::Check(node.to_owned(), id.to_owned()))
    }

    pub(super) fn name(&self, name: &str) -> Option<&Indexed<NameRow>> {
        self.find(&Id::Name(name.to_owned()))
    }

    /// A session.
    pub fn session(&self, id: &str) -> Option<&Indexed<Session>> {
        self.find(&Id::Session(id.to_owned()))
    }

    pub(super) fn key(&self, key: &str) -> Option<&Indexed<KvEntry>> {
        self.find(&Id::Key(key.to_owned()))
    }

    pub(super) fn find<T: Kind>(&self, id: &Id) -> Option<&Indexed<T>> {
        self.things.get(id).and_then(T::of)
    }

    /// Everything of a kind from an id on, while it belongs.
    pub(super) fn range<'a, T: Kind + 'a>(
        &'a self,
        from: Id,
        belongs: impl Fn(&Id) -> bool + 'a,
    ) -> impl Iterator<Item = (&'a Id, &'a Indexed<T>)> {
        self.things
            .range((Bound::Included(from), Bound::Unbounded))
            .take_while(move |(id, _)| belongs(id))
            .filter_map(|(id, thing)| Some((id, T::of(thing)?)))
    }

    pub(super) fn services_on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (&'a str, &'a Indexed<Service>)> {
        self.range::<Service>(Id::services_of(node), move |id| id.node() == Some(node)).filter_map(|(id, service)| {
            match id {
                Id::Service(_, id) => Some((id.as_str(), service)),
                _ => None,
            }
        })
    }

    /// The checks about a service of a node, or, with an empty id, about the node itself; by id.
    pub(super) fn checks_about<'a>(
        &'a self,
        node: &'a str,
        service: &str,
    ) -> impl Iterator<Item = &'a Indexed<Check>> + use<'a> {
        let ids = self.checks_about.get(&(node.to_owned(), service.to_owned())).into_iter().flatten();
        ids.filter_map(move |id| self.check(node, id))
    }
}
