//! Aggregated cluster roles: the rules of all cluster roles whose labels match.

use serde_json::Value;

use super::Rule;
use crate::metadata::{self, name};
use crate::selector::Labels;

/// The rules an aggregated cluster role should have, or `None` when it has no `aggregationRule`, an invalid selector, or
/// those rules already. `all` are all cluster roles, in any order.
pub fn aggregated_rules(role: &Value, all: &[Value]) -> Option<Vec<Value>> {
    let selectors = role.get("aggregationRule")?.get("clusterRoleSelectors").and_then(Value::as_array);
    let mut sorted = all.iter().filter(|other| name(other) != name(role)).collect::<Vec<_>>();
    sorted.sort_by_key(|other| name(other));
    let mut known: Vec<Rule> = Vec::new();
    for selector in selectors.into_iter().flatten() {
        let selector = Labels::from_object(Some(selector)).ok()?;
        for other in sorted.iter().filter(|other| selector.matches(metadata::labels(other))) {
            for rule in Rule::list(other) {
                if !known.contains(&rule) {
                    known.push(rule);
                }
            }
        }
    }
    (known != Rule::list(role)).then(|| known.iter().map(Rule::to_value).collect())
}
