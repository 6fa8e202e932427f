//! What one side cannot do as things are, told in few words to whoever can put it right.

use serde::{Deserialize, Serialize};

use crate::object::Key;

/// Capability of a peer that is told what an agent cannot do.
pub const TROUBLES: &str = "troubles";

/// Objects that are named; there may be thousands.
pub(super) const ITEMS_MAX: usize = 20;
/// Characters of a message that are told.
const WORDS_MAX: usize = 500;

/// What cannot be done before somebody puts it right.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// How much it is.
    pub count: usize,
    /// The first of it.
    #[serde(default)]
    pub items: Vec<Item>,
}

/// One object in trouble.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Its kind.
    pub kind: String,
    /// Its namespace, where it is or should be.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What the matter is.
    pub message: String,
}

/// Whose troubles they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The agent's, in its cluster.
    Agent,
    /// The hub's, with what concerns that agent.
    Hub,
}

impl Item {
    pub(super) fn new(key: &Key, message: &str) -> Self {
        Self {
            kind: key.kind.name().to_owned(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            message: shortened(message, WORDS_MAX),
        }
    }
}

impl Report {
    /// The same within our bounds, whatever a peer has sent.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.items.truncate(ITEMS_MAX);
        for item in &mut self.items {
            for (text, most) in [
                (&mut item.kind, 63),
                (&mut item.namespace, 253),
                (&mut item.name, 253),
                (&mut item.message, WORDS_MAX),
            ] {
                *text = shortened(text, most);
            }
        }
        self.count = self.count.max(self.items.len());
        self
    }
}

fn shortened(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_cut_to_our_bounds() {
        let long = "ä".repeat(10_000);
        let item = Item { kind: long.clone(), namespace: long.clone(), name: long.clone(), message: long };
        let bounded = Report { count: 3, items: vec![item; 100] }.bounded();
        assert_eq!((bounded.count, bounded.items.len()), (ITEMS_MAX, ITEMS_MAX));
        let first = &bounded.items[0];
        let lengths = [&first.kind, &first.namespace, &first.name, &first.message].map(|text| text.chars().count());
        assert_eq!(lengths, [63, 253, 253, WORDS_MAX]);
        assert_eq!(Report::default().bounded(), Report::default());
    }
}
