//! What many rows say alike is held once: the node of every instance on it, and that node's own checks.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{Check, Node};
use crate::topic::{Instance, Row};

/// Above this, what nobody else holds any more is forgotten.
const SWEEP_ABOVE: usize = 1024;

/// Nodes and their checks as they were last seen.
#[derive(Default)]
pub(super) struct Commons {
    nodes: HashMap<String, Arc<Node>>,
    checks: HashMap<(String, String), Arc<Check>>,
    sweep_above: usize,
}

impl Commons {
    /// Lets rows that nobody else has share what they have in common with those before.
    pub(super) fn share(&mut self, rows: &mut [Row]) {
        for row in rows {
            match row {
                Row::Instance(it) => {
                    if let Some(it) = Arc::get_mut(it) {
                        self.instance(it);
                    }
                }
                Row::Node(node) => common(&mut self.nodes, node.value.name.clone(), &mut node.value),
                _ => {}
            }
        }
        if self.nodes.len() + self.checks.len() > self.sweep_above.max(SWEEP_ABOVE) {
            self.nodes.retain(|_, node| Arc::strong_count(node) > 1);
            self.checks.retain(|_, check| Arc::strong_count(check) > 1);
            self.sweep_above = 2 * (self.nodes.len() + self.checks.len());
        }
    }

    fn instance(&mut self, it: &mut Instance) {
        let node = it.node.value.name.clone();
        common(&mut self.nodes, node.clone(), &mut it.node.value);
        for check in it.checks.iter_mut().filter(|check| check.value.service_id.is_empty()) {
            common(&mut self.checks, (node.clone(), check.value.id.clone()), &mut check.value);
        }
        it.checks.shrink_to_fit();
    }
}

fn common<K: std::hash::Hash + Eq, T: PartialEq>(known: &mut HashMap<K, Arc<T>>, key: K, value: &mut Arc<T>) {
    let first = known.entry(key).or_insert_with(|| Arc::clone(value));
    if **first == **value {
        *value = Arc::clone(first);
    } else {
        *first = Arc::clone(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Indexed, Service};

    fn row(id: &str, address: &str) -> Row {
        fn indexed<T>(value: T) -> Indexed<T> {
            Indexed { create_index: 1, modify_index: 1, value: Arc::new(value) }
        }
        let node = Node { name: "n1".to_owned(), address: address.to_owned(), ..Node::default() };
        let service = Service { id: id.to_owned(), name: "web".to_owned(), ..Service::default() };
        Row::Instance(Arc::new(Instance { node: indexed(node), service: indexed(service), checks: Vec::new() }))
    }

    fn node(row: &Row) -> &Arc<Node> {
        match row {
            Row::Instance(it) => &it.node.value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_equal_is_held_once_and_what_is_not_is_kept_as_it_is() {
        let mut commons = Commons::default();
        let mut rows = [row("a", "10.0.0.1"), row("b", "10.0.0.1"), row("c", "10.0.0.2")];
        let before = format!("{rows:?}");
        for row in &mut rows {
            commons.share(std::slice::from_mut(row));
        }
        assert_eq!(format!("{rows:?}"), before);
        assert!(Arc::ptr_eq(node(&rows[0]), node(&rows[1])));
        assert!(!Arc::ptr_eq(node(&rows[0]), node(&rows[2])));
    }
}
