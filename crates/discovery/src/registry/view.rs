//! What the topics say.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::id::Id;
use super::tables::Tables;
use super::tombs::{INSTANCE, TombKey};
use super::touch::{Touch, What};
use crate::model::{Check, Index, Indexed, KvEntry, Node, RuleSet, Service, Session, Token, UserEvent};
use crate::topic::{Delta, Instance, Row, RowKey, Topic, TopicData};

/// Topics, answered from tables.
pub trait Answers {
    /// A topic's content.
    fn topic(&self, topic: &Topic) -> TopicData;

    /// A topic's content after some of its rows were touched, given what it was before.
    fn refresh(&self, topic: &Topic, before: Arc<TopicData>, touches: &BTreeMap<Touch, Index>) -> Arc<TopicData>;

    /// What changed in a topic since an index, given what it is now.
    fn delta(&self, topic: &Topic, now: &TopicData, since: Index) -> Delta;
}

impl Answers for Tables {
    fn topic(&self, topic: &Topic) -> TopicData {
        let mut rows = self.rows(topic);
        rows.sort_by_cached_key(Row::key);
        let newest = rows.iter().map(Row::modify_index).max().unwrap_or(0);
        let gone = self.tombs.of(topic).map(|(_, index)| index).max().unwrap_or(0);
        TopicData::new(newest.max(gone).max(self.tombs.floor), rows)
    }

    fn refresh(&self, topic: &Topic, before: Arc<TopicData>, touches: &BTreeMap<Touch, Index>) -> Arc<TopicData> {
        let mut index = before.index;
        let mut rows: BTreeMap<RowKey, Option<Row>> = BTreeMap::new();
        for (touch, at) in touches {
            index = index.max(*at);
            rows.insert(touch.row.clone(), self.row(topic, touch));
        }
        let mut delta =
            Delta { topic: topic.clone(), since: Some(before.index), index, changed: Vec::new(), removed: Vec::new() };
        for (key, row) in rows {
            match row {
                Some(row) => delta.changed.push(row),
                None => delta.removed.push(key),
            }
        }
        before.applied(&delta).unwrap_or_else(|| Arc::new(self.topic(topic)))
    }

    fn delta(&self, topic: &Topic, now: &TopicData, since: Index) -> Delta {
        let mut delta = Delta {
            topic: topic.clone(),
            since: Some(since),
            index: now.index,
            changed: Vec::new(),
            removed: Vec::new(),
        };
        if since == now.index && since != 0 {
            return delta;
        }
        if since == 0 || since > now.index || since < self.tombs.floor {
            return Delta { since: None, changed: now.rows.clone(), ..delta };
        }
        delta.changed = now.rows.iter().filter(|row| self.row_index(row) > since).cloned().collect();
        let gone = self.tombs.of(topic).filter(|(_, index)| *index > since).map(|(tomb, _)| tomb.row());
        delta.removed = gone.filter(|key| now.rows.binary_search_by_key(key, Row::key).is_err()).collect();
        delta.removed.sort();
        delta.removed.dedup();
        delta
    }
}

impl Tables {
    fn rows(&self, topic: &Topic) -> Vec<Row> {
        match topic {
            Topic::Service(name) => {
                let instances = self.names.get(name).map(|named| &named.instances);
                instances.into_iter().flatten().filter_map(|(node, id)| self.instance(node, id)).collect()
            }
            Topic::Services => self.names.keys().filter_map(|name| self.name_row(name)).collect(),
            Topic::Instances => self
                .range::<Service>(Id::services_of(""), |id| matches!(id, Id::Service(..)))
                .filter_map(|(id, service)| self.instance(id.node()?, &service.value.id))
                .collect(),
            Topic::Nodes => {
                let nodes = self.range::<Node>(Id::Node(String::new()), |id| matches!(id, Id::Node(_)));
                nodes.map(|(_, node)| Row::Node(node.clone())).collect()
            }
            Topic::Node(node) => self.node_rows(node),
            Topic::Checks => self
                .range::<Check>(Id::checks_of(""), |id| matches!(id, Id::Check(..)))
                .filter_map(|(id, check)| self.check_row(id.node()?, check))
                .collect(),
            Topic::Key(key) => self.key(key).cloned().map(Row::Key).into_iter().collect(),
            Topic::Keys(prefix) => self
                .range::<KvEntry>(
                    Id::Key(prefix.clone()),
                    |id| matches!(id, Id::Key(key) if key.starts_with(prefix.as_str())),
                )
                .map(|(_, entry)| Row::Key(entry.clone()))
                .collect(),
            Topic::Sessions => self
                .range::<Session>(Id::Session(String::new()), |id| matches!(id, Id::Session(_)))
                .map(|(_, session)| Row::Session(session.clone()))
                .collect(),
            Topic::Events => self
                .range::<UserEvent>(Id::Event(0), |id| matches!(id, Id::Event(_)))
                .map(|(_, event)| Row::Event(event.clone()))
                .collect(),
            Topic::Tokens => {
                let tokens = self.range::<Token>(Id::Token(String::new()), |id| matches!(id, Id::Token(_)));
                let sets = self.range::<RuleSet>(Id::RuleSet(String::new()), |id| matches!(id, Id::RuleSet(_)));
                let tokens = tokens.map(|(_, token)| Row::Token(token.clone()));
                tokens.chain(sets.map(|(_, set)| Row::RuleSet(set.clone()))).collect()
            }
        }
    }

    fn node_rows(&self, name: &str) -> Vec<Row> {
        let Some(node) = self.node(name) else { return Vec::new() };
        let mut rows = vec![Row::Node(node.clone())];
        rows.extend(self.services_on(name).filter_map(|(id, _)| self.instance(name, id)));
        rows.extend(self.checks_about(name, "").filter_map(|check| self.check_row(name, check)));
        rows
    }

    /// The row of a topic that was touched, if it is there.
    fn row(&self, topic: &Topic, touch: &Touch) -> Option<Row> {
        match &touch.what {
            What::Node(node) => self.node(node).cloned().map(Row::Node),
            What::Instance(node, id, _) => {
                let name = self.service(node, id)?.value.name.to_lowercase();
                if matches!(topic, Topic::Service(wanted) if *wanted != name) {
                    return None;
                }
                self.instance(node, id)
            }
            What::Check(node, id) => {
                let check = self.check(node, id)?;
                if matches!(topic, Topic::Node(_)) && !check.value.service_id.is_empty() {
                    return None;
                }
                self.check_row(node, check)
            }
            What::Name(name) => self.name_row(name),
            What::Key(key) => self.key(key).cloned().map(Row::Key),
            What::Session(id) => self.session(id).cloned().map(Row::Session),
            What::Event(number) => self.find::<UserEvent>(&Id::Event(*number)).cloned().map(Row::Event),
            What::Token(accessor) => self.find::<Token>(&Id::Token(accessor.clone())).cloned().map(Row::Token),
            What::RuleSet(id) => self.find::<RuleSet>(&Id::RuleSet(id.clone())).cloned().map(Row::RuleSet),
        }
    }

    fn instance(&self, node_name: &str, id: &str) -> Option<Row> {
        let service = self.service(node_name, id)?.clone();
        let node = self.node(node_name)?.clone();
        let mut checks: Vec<Indexed<Check>> = self.checks_about(node_name, "").cloned().collect();
        if !id.is_empty() {
            checks.extend(self.checks_about(node_name, id).cloned());
        }
        Some(Row::Instance(Arc::new(Instance { node, service, checks })))
    }

    fn check_row(&self, node: &str, check: &Indexed<Check>) -> Option<Row> {
        Some(Row::Check(self.node(node)?.value.name.clone(), check.clone()))
    }

    fn name_row(&self, name: &str) -> Option<Row> {
        let row = self.name(name)?;
        Some(Row::Name { name: row.value.name.clone(), tags: row.value.tags.clone(), index: row.modify_index })
    }

    /// When a row last changed, counting what it lost.
    fn row_index(&self, row: &Row) -> Index {
        let lost = match row {
            Row::Instance(it) => {
                let service = it.service.value.name.to_lowercase();
                let key = RowKey(INSTANCE, it.node.value.name.clone(), it.service.value.id.clone());
                self.tombs.get(&TombKey::new(key, &service)).unwrap_or(0)
            }
            _ => 0,
        };
        row.modify_index().max(lost)
    }
}
