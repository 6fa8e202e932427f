//! Built-in objects before anything is set, as Go writes them.
//!
//! Kubernetes compares a new object with its type's zero value, so that what a zero value already shows is not recorded
//! as set by the creator.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

/// The zero values by apiVersion and kind.
static ZEROS: LazyLock<HashMap<&str, HashMap<&str, Value>>> = LazyLock::new(|| {
    let lines = include_str!("../../../facts/zero-values.txt").lines();
    let read = lines.filter_map(|line| {
        let (version, rest) = line.split_once(' ')?;
        let (kind, json) = rest.split_once(' ')?;
        Some((version, kind, serde_json::from_str(json).ok()?))
    });
    let mut all: HashMap<_, HashMap<_, _>> = HashMap::new();
    for (version, kind, zero) in read {
        all.entry(version).or_default().insert(kind, zero);
    }
    all
});

/// What any other kind shows.
static PLAIN: LazyLock<Value> = LazyLock::new(|| json!({"metadata": {}}));

/// The zero value of a built-in kind.
pub(super) fn zero(api_version: &str, kind: &str) -> &'static Value {
    ZEROS.get(api_version).and_then(|kinds| kinds.get(kind)).unwrap_or(&PLAIN)
}

#[cfg(test)]
mod tests {
    use super::zero;

    #[test]
    fn every_line_is_read() {
        for line in include_str!("../../../facts/zero-values.txt").lines() {
            let mut words = line.splitn(3, ' ');
            let (version, kind) = (words.next().unwrap(), words.next().unwrap());
            assert_eq!(*zero(version, kind), serde_json::from_str::<serde_json::Value>(words.next().unwrap()).unwrap());
        }
        assert!(zero("v1", "Pod")["spec"]["containers"].is_null());
    }
}
