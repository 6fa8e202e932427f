//! Built-in objects before anything is set, as Go writes them.
//!
//! Kubernetes compares a new object with its type's zero value, so that what a zero value already shows is not recorded
//! as set by the creator.

use serde_json::{Value, json};

/// The zero value of a built-in kind.
pub(super) fn zero(api_version: &str, kind: &str) -> Value {
    let lines = include_str!("../../../facts/zero-values.txt").lines();
    let mut found = lines.filter_map(|line| {
        let (version, rest) = line.split_once(' ')?;
        let (name, json) = rest.split_once(' ')?;
        (version == api_version && name == kind).then(|| serde_json::from_str(json).ok())?
    });
    found.next().unwrap_or_else(|| json!({"metadata": {}}))
}

#[cfg(test)]
mod tests {
    use super::zero;

    #[test]
    fn every_line_is_read() {
        for line in include_str!("../../../facts/zero-values.txt").lines() {
            let mut words = line.splitn(3, ' ');
            let (version, kind) = (words.next().unwrap(), words.next().unwrap());
            assert_eq!(zero(version, kind), serde_json::from_str::<serde_json::Value>(words.next().unwrap()).unwrap());
        }
        assert!(zero("v1", "Pod")["spec"]["containers"].is_null());
    }
}
