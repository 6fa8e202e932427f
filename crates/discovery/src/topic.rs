//! What is read, blocked on, cached, pushed and resumed.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::model::{Check, Index, Indexed, KvEntry, Node, RuleSet, Service, Session, Token, UserEvent};

/// One readable thing. Names of services and nodes are in lower case here: they are compared without case.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Topic {
    /// The instances of one service with their nodes and checks: [`Row::Instance`].
    Service(String),
    /// The names of all services with the union of their instances' tags: [`Row::Name`].
    Services,
    /// Every instance of every service: [`Row::Instance`]. Large; only for what no other topic answers.
    Instances,
    /// All nodes: [`Row::Node`].
    Nodes,
    /// One node, the instances on it and the checks of the node itself: [`Row::Node`], [`Row::Instance`], [`Row::Check`].
    Node(String),
    /// All checks: [`Row::Check`].
    Checks,
    /// One key, or nothing: [`Row::Key`].
    Key(String),
    /// All keys that begin so: [`Row::Key`].
    Keys(String),
    /// All sessions: [`Row::Session`].
    Sessions,
    /// The newest events of users: [`Row::Event`].
    Events,
    /// All tokens and the rules they share: [`Row::Token`], [`Row::RuleSet`].
    Tokens,
}

/// The content of a topic at an index: rows in order of their keys. Never changed once made.
#[derive(Debug, Default)]
pub struct TopicData {
    /// Grows when, and only when, the content changes; 0 is answered as 1.
    pub index: Index,
    /// What there is, sorted by [`Row::key`].
    pub rows: Vec<Row>,
    /// Rows were left out that whoever asked may not see; such content is nobody else's.
    pub hidden: bool,
    memos: [Kept; 4],
}

/// An answer, kept once it was asked for twice: what is asked for once costs no memory.
#[derive(Debug, Default)]
struct Kept {
    asked: AtomicBool,
    answer: OnceLock<Bytes>,
}

/// An answer that all who ask for a topic's content share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memo {
    /// `health/service` without parameters.
    Health,
    /// `health/service?passing`.
    Passing,
    /// `catalog/service`, `catalog/services`, `catalog/nodes`.
    Catalog,
    /// `kv`, and the native API's lists.
    Plain,
}

/// One row of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Row {
    /// A service's name and the union of its instances' tags, sorted.
    Name {
        /// The service.
        name: String,
        /// Tags of all its instances.
        tags: Vec<String>,
        /// When that last changed.
        index: Index,
    },
    /// An instance of a service.
    Instance(#[serde(with = "crate::model::shared")] Arc<Instance>),
    /// A node.
    Node(Indexed<Node>),
    /// A check, with the node it is on.
    Check(String, Indexed<Check>),
    /// A key.
    Key(Indexed<KvEntry>),
    /// A session.
    Session(Indexed<Session>),
    /// A user's event.
    Event(Indexed<UserEvent>),
    /// A token.
    Token(Indexed<Token>),
    /// Rules that tokens share.
    RuleSet(Indexed<RuleSet>),
}

/// An instance of a service with what is needed to judge and reach it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Where it runs.
    pub node: Indexed<Node>,
    /// The instance.
    pub service: Indexed<Service>,
    /// The node's own checks, then the instance's, each by id.
    pub checks: Vec<Indexed<Check>>,
}

/// What orders rows and says which one a delta means.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RowKey(pub u8, pub String, pub String);

/// What changed in a topic between two indexes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// The topic.
    pub topic: Topic,
    /// The content this applies to; `None`: everything follows, whatever was known is replaced.
    pub since: Option<Index>,
    /// The index it leads to.
    pub index: Index,
    /// Rows that are new or changed, in order.
    pub changed: Vec<Row>,
    /// Rows that are gone, in order.
    pub removed: Vec<RowKey>,
}

/// A row's key, borrowed.
type Order<'a> = (u8, Cow<'a, str>, &'a str);

impl RowKey {
    fn order(&self) -> Order<'_> {
        (self.0, Cow::Borrowed(&self.1), &self.2)
    }
}

impl Row {
    /// What orders rows and says which one a delta means.
    pub fn key(&self) -> RowKey {
        let (sort, name, id) = self.order();
        RowKey(sort, name.into_owned(), id.to_owned())
    }

    fn order(&self) -> Order<'_> {
        let (sort, name, id) = match self {
            Self::Name { name, .. } => (0, name, ""),
            Self::Node(node) => (1, &node.value.name, ""),
            Self::Instance(it) => (2, &it.node.value.name, it.service.value.id.as_str()),
            Self::Check(node, check) => (3, node, check.value.id.as_str()),
            Self::Key(entry) => (4, &entry.value.key, ""),
            Self::Session(session) => (5, &session.value.id, ""),
            Self::Event(event) => return (6, format!("{:020}", event.value.ltime).into(), &event.value.id),
            Self::Token(token) => (7, &token.value.accessor, ""),
            Self::RuleSet(set) => (8, &set.value.id, ""),
        };
        (sort, Cow::Borrowed(name), id)
    }

    /// When it last changed.
    pub fn modify_index(&self) -> Index {
        match self {
            Self::Name { index, .. } => *index,
            Self::Node(node) => node.modify_index,
            Self::Instance(it) => {
                let checks = it.checks.iter().map(|check| check.modify_index).max().unwrap_or(0);
                it.node.modify_index.max(it.service.modify_index).max(checks)
            }
            Self::Check(_, check) => check.modify_index,
            Self::Key(entry) => entry.modify_index,
            Self::Session(session) => session.modify_index,
            Self::Event(event) => event.modify_index,
            Self::Token(token) => token.modify_index,
            Self::RuleSet(set) => set.modify_index,
        }
    }
}

impl TopicData {
    /// Content at an index; rows must be in order.
    pub fn new(index: Index, rows: Vec<Row>) -> Self {
        debug_assert!(is_sorted(&rows), "rows out of order");
        Self { index, rows, hidden: false, memos: Default::default() }
    }

    /// An answer made from this content; from the second time on it is made no more.
    pub fn memo(&self, memo: Memo, make: impl FnOnce() -> Bytes) -> Bytes {
        let kept = &self.memos[memo as usize];
        if let Some(answer) = kept.answer.get() {
            return answer.clone();
        }
        if kept.asked.swap(true, Ordering::Relaxed) { kept.answer.get_or_init(make).clone() } else { make() }
    }

    /// The content after a change. `None`: the change is for other content, and the topic has to be asked for again.
    pub fn apply(&self, delta: &Delta) -> Option<Self> {
        if delta.since.is_some_and(|since| since > self.index) {
            return None;
        }
        let rows = match delta.since {
            None => delta.changed.clone(),
            Some(_) if is_small(delta) => {
                let mut rows = self.rows.clone();
                splice(&mut rows, delta);
                rows
            }
            Some(_) => merge(&self.rows, delta),
        };
        Some(Self::new(delta.index, rows))
    }

    /// The same; content that nobody else has is changed where it is.
    pub fn applied(self: Arc<Self>, delta: &Delta) -> Option<Arc<Self>> {
        let mut own = self;
        let is_next = delta.since.is_some_and(|since| since <= own.index) && is_small(delta);
        match Arc::get_mut(&mut own) {
            Some(data) if is_next => {
                splice(&mut data.rows, delta);
                *data = Self::new(delta.index, std::mem::take(&mut data.rows));
                Some(own)
            }
            _ => own.apply(delta).map(Arc::new),
        }
    }
}

/// So many rows are put in one by one; with more, all rows are gone through once.
const SPLICED_MAX: usize = 64;

fn is_small(delta: &Delta) -> bool {
    delta.changed.len() + delta.removed.len() <= SPLICED_MAX
}

fn is_sorted(rows: &[Row]) -> bool {
    rows.is_sorted_by(|one, next| one.order() <= next.order())
}

fn splice(rows: &mut Vec<Row>, delta: &Delta) {
    for gone in &delta.removed {
        if let Ok(place) = rows.binary_search_by(|row| row.order().cmp(&gone.order())) {
            rows.remove(place);
        }
    }
    for new in &delta.changed {
        match rows.binary_search_by(|row| row.order().cmp(&new.order())) {
            Ok(place) => rows[place] = new.clone(),
            Err(place) => rows.insert(place, new.clone()),
        }
    }
}

fn merge(before: &[Row], delta: &Delta) -> Vec<Row> {
    let mut rows = Vec::with_capacity(before.len() + delta.changed.len());
    let mut changed = delta.changed.iter().peekable();
    for row in before {
        let order = row.order();
        while let Some(new) = changed.next_if(|new| new.order() < order) {
            rows.push(new.clone());
        }
        if let Some(new) = changed.next_if(|new| new.order() == order) {
            rows.push(new.clone());
        } else if delta.removed.binary_search_by(|gone| gone.order().cmp(&order)).is_err() {
            rows.push(row.clone());
        }
    }
    rows.extend(changed.cloned());
    rows
}

impl PartialEq for TopicData {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.rows == other.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, index: Index) -> Row {
        let value = Arc::new(KvEntry { key: name.to_owned(), ..KvEntry::default() });
        Row::Key(Indexed { create_index: index, modify_index: index, value })
    }

    #[test]
    fn a_delta_puts_in_replaces_and_removes_in_order() {
        let before = TopicData::new(3, vec![key("a", 1), key("c", 2), key("d", 3)]);
        let delta = Delta {
            topic: Topic::Keys(String::new()),
            since: Some(3),
            index: 6,
            changed: vec![key("b", 4), key("c", 5), key("e", 6)],
            removed: vec![key("d", 0).key()],
        };
        let after = before.apply(&delta).expect("it fits");
        assert_eq!(after, TopicData::new(6, vec![key("a", 1), key("b", 4), key("c", 5), key("e", 6)]));
        assert_eq!(after.apply(&Delta { since: Some(9), ..delta.clone() }), None, "something between was missed");
        let all = after.apply(&Delta { since: None, ..delta }).expect("everything");
        assert_eq!(all.rows.len(), 3);
    }

    #[test]
    fn however_many_rows_a_delta_has_it_comes_to_the_same() {
        let mut data = Arc::new(TopicData::new(1, (0..200).map(|n| key(&format!("{:03}", 2 * n), 1)).collect()));
        for (round, count) in [0, 1, 3, 63, 64, 65, 150].into_iter().enumerate() {
            let index = u64::try_from(round).expect("small") + 2;
            let name = |n: usize| format!("{:03}", (n * 7 + round * 31) % 400);
            let mut changed: Vec<Row> = (0..count).map(|n| key(&name(n), index)).collect();
            let mut removed: Vec<RowKey> = (0..count / 3).map(|n| key(&name(n + 200), 0).key()).collect();
            changed.sort_by_key(Row::key);
            changed.dedup();
            removed.sort();
            let delta = Delta { topic: Topic::Keys(String::new()), since: Some(index - 1), index, changed, removed };
            let merged = TopicData::new(index, merge(&data.rows, &delta));
            let shared = Arc::clone(&data);
            assert_eq!(Arc::clone(&data).applied(&delta).as_deref(), Some(&merged), "{count} shared");
            drop(shared);
            let before = Arc::as_ptr(&data);
            data = data.applied(&delta).expect("it fits");
            assert_eq!((&*data, is_small(&delta)), (&merged, Arc::as_ptr(&data) == before), "{count}");
        }
    }
}
