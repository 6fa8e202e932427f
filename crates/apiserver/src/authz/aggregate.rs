//! Aggregated cluster roles: the rules of all cluster roles whose labels match.

use serde_json::Value;

use super::Rule;

/// The rules an aggregated cluster role should have, or `None` when it has no `aggregationRule`, an invalid selector, or
/// those rules already. `all` are all cluster roles, in any order.
pub fn aggregated_rules(role: &Value, all: &[Value]) -> Option<Vec<Value>> {
    let selectors = role.get("aggregationRule")?.get("clusterRoleSelectors").and_then(Value::as_array);
    let mut sorted = all.iter().filter(|other| name(other) != name(role)).collect::<Vec<_>>();
    sorted.sort_by_key(|other| name(other));
    let mut known: Vec<Rule> = Vec::new();
    for selector in selectors.into_iter().flatten() {
        let selector = Selector::from_value(selector)?;
        for other in sorted.iter().filter(|other| selector.matches(other)) {
            for rule in Rule::list(other) {
                if !known.contains(&rule) {
                    known.push(rule);
                }
            }
        }
    }
    (known != Rule::list(role)).then(|| known.iter().map(Rule::to_value).collect())
}

fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// A `LabelSelector`.
struct Selector<'a>(Vec<Requirement<'a>>);

enum Requirement<'a> {
    In(&'a str, Vec<&'a str>),
    NotIn(&'a str, Vec<&'a str>),
    Exists(&'a str),
    Absent(&'a str),
}

impl<'a> Selector<'a> {
    fn from_value(selector: &'a Value) -> Option<Self> {
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        let mut out = Vec::new();
        for (key, value) in labels.into_iter().flatten() {
            out.push(Requirement::In(key, vec![value.as_str()?]));
        }
        for expression in expressions.into_iter().flatten() {
            let key = expression.get("key")?.as_str()?;
            let values = expression.get("values").and_then(Value::as_array);
            let values = values.into_iter().flatten().filter_map(Value::as_str).collect();
            out.push(match expression.get("operator")?.as_str()? {
                "In" => Requirement::In(key, values),
                "NotIn" => Requirement::NotIn(key, values),
                "Exists" => Requirement::Exists(key),
                "DoesNotExist" => Requirement::Absent(key),
                _ => return None,
            });
        }
        Some(Self(out))
    }

    fn matches(&self, object: &Value) -> bool {
        let label = |key: &str| object.get("metadata")?.get("labels")?.get(key)?.as_str();
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => label(key).is_some_and(|value| values.contains(&value)),
            Requirement::NotIn(key, values) => label(key).is_none_or(|value| !values.contains(&value)),
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Absent(key) => label(key).is_none(),
        })
    }
}
