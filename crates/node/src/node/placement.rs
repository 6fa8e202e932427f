//! Whether a pod may come to a node, by what both say: labels, affinity, taints, and whether the node takes new ones.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration};

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// What a node says about which pods it takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Place {
    name: String,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    is_cordoned: bool,
}

impl Place {
    pub(super) fn of(node: &Node) -> Self {
        let spec = node.spec.as_ref();
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: spec.and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            is_cordoned: spec.and_then(|spec| spec.unschedulable).unwrap_or_default(),
        }
    }

    /// Why a pod cannot be here, in the scheduler's words and then in ours: what would have to change.
    pub(super) fn obstacle(&self, spec: &PodSpec) -> Option<String> {
        let (said, more) = self.refusal(spec)?;
        Some(format!("0/1 nodes are available: 1 node(s) {said}. {more}"))
    }

    fn refusal(&self, spec: &PodSpec) -> Option<(String, String)> {
        let name = &self.name;
        let tolerations = spec.tolerations.as_deref().unwrap_or_default();
        if self.is_cordoned && !tolerations.iter().any(|one| tolerates(one, UNSCHEDULABLE, "", NO_SCHEDULE)) {
            let more = format!("Node {name:?} takes no new pods: kubectl uncordon {name}");
            return Some(("were unschedulable".to_owned(), more));
        }
        let mut binding = self.taints.iter().filter(|taint| matches!(&*taint.effect, NO_SCHEDULE | NO_EXECUTE));
        let untolerated = binding.find(|taint| {
            let value = taint.value.as_deref().unwrap_or_default();
            !tolerations.iter().any(|one| tolerates(one, &taint.key, value, &taint.effect))
        });
        if let Some(Taint { key, value, effect, .. }) = untolerated {
            let value = value.as_deref().unwrap_or_default();
            let more = format!("Node {name:?} has the taint {key}={value}:{effect}, which the pod does not tolerate");
            return Some((format!("had untolerated taint {{{key}: {value}}}"), more));
        }
        self.unmatched(spec).map(|more| ("didn't match Pod's node affinity/selector".to_owned(), more))
    }

    /// What the pod asks of its node and this one has not.
    fn unmatched(&self, spec: &PodSpec) -> Option<String> {
        let name = &self.name;
        for (key, value) in spec.node_selector.iter().flatten() {
            match self.labels.get(key) {
                Some(own) if own == value => {}
                Some(own) => return Some(format!("The pod asks for {key}={value}, node {name:?} has {key}={own}")),
                None => {
                    return Some(format!(
                        "Node {name:?} lacks what the pod asks for: kubectl label node {name} {key}={value}"
                    ));
                }
            }
        }
        let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let terms = &affinity?.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
        let fits = terms.iter().any(|term| self.matches(term));
        (!fits).then(|| format!("No term of the pod's required node affinity holds for node {name:?}"))
    }

    fn matches(&self, term: &NodeSelectorTerm) -> bool {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        let fields = term.match_fields.as_deref().unwrap_or_default();
        // A term that asks for nothing matches nothing.
        (!expressions.is_empty() || !fields.is_empty())
            && expressions.iter().all(|one| holds(one, self.labels.get(&one.key).map(String::as_str)))
            && fields.iter().all(|one| one.key == "metadata.name" && holds(one, Some(&self.name)))
    }
}

fn holds(requirement: &NodeSelectorRequirement, own: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_in = || own.is_some_and(|own| values.iter().any(|value| value == own));
    let number = |text: &str| text.parse::<i64>().ok();
    let numbers = || Some((number(own?)?, number(values.first()?)?));
    match requirement.operator.as_str() {
        "In" => is_in(),
        "NotIn" => !is_in(),
        "Exists" => own.is_some(),
        "DoesNotExist" => own.is_none(),
        "Gt" => numbers().is_some_and(|(own, than)| own > than),
        "Lt" => numbers().is_some_and(|(own, than)| own < than),
        _ => false,
    }
}

fn tolerates(toleration: &Toleration, key: &str, value: &str, effect: &str) -> bool {
    let says = |said: &Option<String>| said.clone().unwrap_or_default();
    let (wanted, operator, of) = (says(&toleration.key), says(&toleration.operator), says(&toleration.effect));
    let is_any = operator == "Exists";
    (of.is_empty() || of == effect)
        && (wanted == key || (wanted.is_empty() && is_any))
        && (is_any || says(&toleration.value) == value)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn place() -> Place {
        let node = json!({
            "metadata": {"name": "here", "labels": {"disk": "ssd", "cores": "8"}},
            "spec": {"taints": [
                {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
                {"key": "soft", "effect": "PreferNoSchedule"},
            ]},
        });
        Place::of(&serde_json::from_value(node).unwrap())
    }

    fn obstacle(place: &Place, mut spec: Value) -> Option<String> {
        spec["containers"] = json!([]);
        if spec["tolerations"].is_null() {
            spec["tolerations"] = json!([{"key": "gpu", "operator": "Exists"}]);
        }
        place.obstacle(&serde_json::from_value(spec).unwrap())
    }

    fn required(expression: &Value) -> Value {
        let terms = json!([{"matchExpressions": [{"key": "absent", "operator": "Exists"}]}, {"matchExpressions": [expression]}]);
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }}})
    }

    #[test]
    fn selectors_and_affinity_are_held_against_labels() {
        for (spec, expected) in [
            (json!({}), true),
            (json!({"nodeSelector": {"disk": "ssd"}}), true),
            (json!({"nodeSelector": {"disk": "hdd"}}), false),
            (json!({"nodeSelector": {"zone": "a"}}), false),
            (required(&json!({"key": "disk", "operator": "In", "values": ["nvme", "ssd"]})), true),
            (required(&json!({"key": "disk", "operator": "NotIn", "values": ["ssd"]})), false),
            (required(&json!({"key": "zone", "operator": "NotIn", "values": ["a"]})), true),
            (required(&json!({"key": "zone", "operator": "DoesNotExist"})), true),
            (required(&json!({"key": "zone", "operator": "Exists"})), false),
            (required(&json!({"key": "cores", "operator": "Gt", "values": ["7"]})), true),
            (required(&json!({"key": "cores", "operator": "Lt", "values": ["8"]})), false),
            (required(&json!({"key": "disk", "operator": "Gt", "values": ["1"]})), false),
        ] {
            assert_eq!(obstacle(&place(), spec.clone()).is_none(), expected, "{spec}");
        }
    }

    #[test]
    fn terms_without_requirements_match_nothing_and_fields_match_the_name() {
        let with = |terms: Value| {
            let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
            obstacle(&place(), json!({"affinity": {"nodeAffinity": required}})).is_none()
        };
        assert!(!with(json!([{}])));
        assert!(with(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["here"]}]}])));
        assert!(!with(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["there"]}]}])));
    }

    #[test]
    fn taints_have_to_be_tolerated() {
        for (toleration, expected) in [
            (json!({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}), true),
            (json!({"key": "gpu", "value": "yes"}), true),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "gpu", "value": "no"}), false),
            (json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
        ] {
            let spec = json!({"tolerations": [toleration]});
            assert_eq!(obstacle(&place(), spec).is_none(), expected, "{toleration}");
        }
        let told = obstacle(&place(), json!({"tolerations": []})).unwrap();
        assert!(told.starts_with("0/1 nodes are available: 1 node(s) had untolerated taint {gpu: yes}."), "{told}");
    }

    #[test]
    fn a_cordoned_node_takes_only_what_tolerates_that() {
        let cordoned = Place { is_cordoned: true, ..place() };
        let told = obstacle(&cordoned, json!({})).unwrap();
        assert!(told.contains("were unschedulable") && told.ends_with("kubectl uncordon here"), "{told}");
        let everything = json!([{"operator": "Exists"}]);
        assert_eq!(obstacle(&cordoned, json!({"tolerations": everything})), None);
    }
}
