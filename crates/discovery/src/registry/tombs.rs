//! Where rows were: what keeps an index from going back when something goes, and lets a delta name what went.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::model::Index;
use crate::topic::{RowKey, Topic};

/// Names a row that went, or of which a part went.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TombKey {
    /// The first part of its [`RowKey`].
    pub kind: u8,
    /// For instances the service (lower case), else empty.
    pub scope: String,
    /// The second part of its [`RowKey`].
    pub first: String,
    /// The third.
    pub second: String,
}

impl TombKey {
    pub(super) fn new(row: RowKey, scope: &str) -> Self {
        Self { kind: row.0, scope: scope.to_owned(), first: row.1, second: row.2 }
    }

    /// The row.
    pub fn row(&self) -> RowKey {
        RowKey(self.kind, self.first.clone(), self.second.clone())
    }

    /// The node it is about, in lower case.
    fn node(&self) -> Option<String> {
        matches!(self.kind, NODE | INSTANCE | CHECK).then(|| self.first.to_lowercase())
    }

    fn first_of(kind: u8, scope: &str, first: &str) -> Self {
        Self { kind, scope: scope.to_owned(), first: first.to_owned(), second: String::new() }
    }
}

pub(super) const NAME: u8 = 0;
pub(super) const NODE: u8 = 1;
pub(super) const INSTANCE: u8 = 2;
pub(super) const CHECK: u8 = 3;
pub(super) const KEY: u8 = 4;
pub(super) const SESSION: u8 = 5;
pub(super) const EVENT: u8 = 6;
pub(super) const TOKEN: u8 = 7;
pub(super) const RULE_SET: u8 = 8;

/// A bounded number of them; of those dropped only the newest index is remembered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tombs {
    by_key: BTreeMap<TombKey, Index>,
    by_index: BTreeSet<(Index, TombKey)>,
    by_node: HashMap<String, BTreeSet<TombKey>>,
    /// Up to this index tombs may be missing.
    pub(super) floor: Index,
}

impl Tombs {
    /// None, with all up to an index missing.
    pub(super) fn above(floor: Index) -> Self {
        Self { floor, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &TombKey> {
        self.by_key.keys()
    }

    pub(super) fn get(&self, key: &TombKey) -> Option<Index> {
        self.by_key.get(key).copied()
    }

    pub(super) fn put(&mut self, key: TombKey, index: Index) {
        if let Some(node) = key.node() {
            self.by_node.entry(node).or_default().insert(key.clone());
        }
        if let Some(old) = self.by_key.insert(key.clone(), index) {
            self.by_index.remove(&(old, key.clone()));
        }
        self.by_index.insert((index, key));
    }

    /// Drops the oldest.
    pub(super) fn drop_oldest(&mut self) -> Option<TombKey> {
        let (index, key) = self.by_index.pop_first()?;
        self.by_key.remove(&key);
        if let Some(node) = key.node()
            && let Some(keys) = self.by_node.get_mut(&node)
        {
            keys.remove(&key);
            if keys.is_empty() {
                self.by_node.remove(&node);
            }
        }
        self.floor = self.floor.max(index);
        Some(key)
    }

    /// All that belong to a topic, in order of their rows.
    pub(super) fn of<'a>(&'a self, topic: &'a Topic) -> Box<dyn Iterator<Item = (&'a TombKey, Index)> + 'a> {
        let kind = |kind| self.scan(TombKey::first_of(kind, "", ""), move |key| key.kind == kind);
        match topic {
            Topic::Service(name) => {
                self.scan(TombKey::first_of(INSTANCE, name, ""), move |key| key.kind == INSTANCE && key.scope == *name)
            }
            Topic::Services => kind(NAME),
            Topic::Instances => kind(INSTANCE),
            Topic::Nodes => kind(NODE),
            Topic::Node(node) => {
                let keys = self.by_node.get(node).into_iter().flatten();
                Box::new(keys.filter_map(|key| Some((key, self.get(key)?))))
            }
            Topic::Checks => kind(CHECK),
            Topic::Key(name) => {
                self.scan(TombKey::first_of(KEY, "", name), move |key| key.kind == KEY && key.first == *name)
            }
            Topic::Keys(prefix) => self.scan(TombKey::first_of(KEY, "", prefix), move |key| {
                key.kind == KEY && key.first.starts_with(prefix.as_str())
            }),
            Topic::Sessions => kind(SESSION),
            Topic::Events => kind(EVENT),
            Topic::Tokens => Box::new(kind(TOKEN).chain(kind(RULE_SET))),
        }
    }

    fn scan<'a>(
        &'a self,
        from: TombKey,
        belongs: impl Fn(&TombKey) -> bool + 'a,
    ) -> Box<dyn Iterator<Item = (&'a TombKey, Index)> + 'a> {
        let found = self.by_key.range(from..).take_while(move |(key, _)| belongs(key));
        Box::new(found.map(|(key, index)| (key, *index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tomb(kind: u8, scope: &str, first: &str, second: &str) -> TombKey {
        TombKey { kind, scope: scope.to_owned(), first: first.to_owned(), second: second.to_owned() }
    }

    #[test]
    fn a_topic_finds_its_own_and_the_oldest_go_first() {
        let mut tombs = Tombs::default();
        tombs.put(tomb(INSTANCE, "web", "N1", "w"), 1);
        tombs.put(tomb(INSTANCE, "webx", "n2", "w"), 2);
        tombs.put(tomb(CHECK, "", "N1", "c"), 3);
        tombs.put(tomb(KEY, "", "a/b", ""), 4);
        tombs.put(tomb(KEY, "", "a", ""), 5);
        tombs.put(tomb(INSTANCE, "web", "N1", "w"), 6);
        let indexes = |topic: Topic| tombs.of(&topic).map(|(_, index)| index).collect::<Vec<_>>();
        let own = |text: &str| text.to_owned();
        assert_eq!(indexes(Topic::Service(own("web"))), [6]);
        assert_eq!(indexes(Topic::Service(own("we"))), [] as [Index; 0]);
        assert_eq!(indexes(Topic::Instances), [6, 2]);
        assert_eq!(indexes(Topic::Node(own("n1"))), [6, 3]);
        assert_eq!(indexes(Topic::Keys(own("a"))), [5, 4]);
        assert_eq!(indexes(Topic::Keys(own("a/"))), [4]);
        assert_eq!(indexes(Topic::Key(own("a"))), [5]);
        assert_eq!(indexes(Topic::Sessions), [] as [Index; 0]);
        assert_eq!(tombs.drop_oldest(), Some(tomb(INSTANCE, "webx", "n2", "w")));
        assert_eq!((tombs.floor, tombs.len()), (2, 4));
    }
}
