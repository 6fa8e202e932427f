//! The table of facts in `facts/merge.txt`.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::schema::node::{ListType, MapType};

/// What is known of a definition or a field beyond its shape.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Fact {
    /// How a list merges.
    pub list_type: ListType,
    /// How a map merges.
    pub map_type: MapType,
    /// Strategic merge patch merges instead of replacing.
    pub merge: bool,
    /// Strategic merge patch tells list items apart by this.
    pub merge_key: Option<String>,
    /// Strategic merge patch drops what a patch does not name.
    pub retain: bool,
    /// What absence means.
    pub default: Option<Value>,
    /// Names of fields that must be present.
    pub required: Vec<String>,
    /// Allowed values, for people to read.
    pub enumeration: Vec<String>,
    /// The Go type of a named string, number or map.
    pub go_type: Option<Arc<str>>,
}

type Table = HashMap<&'static str, (Option<Fact>, HashMap<&'static str, Fact>)>;

static TABLE: LazyLock<Table> = LazyLock::new(|| parse(include_str!("../../../facts/merge.txt")));

pub(super) fn of(definition: &str, field: Option<&str>) -> Option<&'static Fact> {
    let (whole, fields) = TABLE.get(definition)?;
    match field {
        Some(field) => fields.get(field),
        None => whole.as_ref(),
    }
}

fn parse(text: &'static str) -> Table {
    let mut table = Table::new();
    let mut current = "";
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        let fact = fact(words);
        if line.starts_with(' ') {
            table.entry(current).or_default().1.insert(name, fact);
        } else {
            current = name;
            table.entry(current).or_default().0 = Some(fact).filter(|fact| *fact != Fact::default());
        }
    }
    table
}

fn fact<'a>(words: impl Iterator<Item = &'a str>) -> Fact {
    let mut fact = Fact::default();
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("list", "set") => fact.list_type = ListType::Set,
            ("list", keys) => {
                let keys = keys.trim_start_matches("map:").split(',').map(str::to_owned).collect();
                fact.list_type = ListType::Map(keys);
            }
            ("map", "atomic") => fact.map_type = MapType::Atomic,
            ("merge", key) => {
                fact.merge = true;
                fact.merge_key = Some(key).filter(|key| !key.is_empty()).map(str::to_owned);
            }
            ("retain", _) => fact.retain = true,
            ("default", value) => fact.default = serde_json::from_str(value).ok(),
            ("required", names) => fact.required = names.split(',').map(str::to_owned).collect(),
            ("enum", values) => fact.enumeration = values.split('|').map(str::to_owned).collect(),
            ("go", name) => fact.go_type = Some(name.into()),
            _ => {}
        }
    }
    fact
}
