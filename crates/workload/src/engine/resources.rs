//! What steps have used: for each resource, seconds of one unit of it, as Argo counts.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::Operation;
use crate::status::{NodeType, Nodes};

/// Seconds by resource.
type Used = BTreeMap<String, i64>;

/// What a container counts as using where it says nothing.
const DEFAULTS: [(&str, &str); 2] = [("cpu", "100m"), ("memory", "100Mi")];

impl Operation<'_> {
    /// Sums up what all steps have used, in every node around them and in the Workflow.
    pub(super) fn sum_resources(&mut self) {
        let mut whole = Used::new();
        let mut sums = Vec::new();
        for node in self.status.nodes.iter() {
            if node.kind == NodeType::Pod {
                add(&mut whole, &node.resources_duration);
            } else if node.is_fulfilled() {
                sums.push((node.id.clone(), below(&self.status.nodes, &node.id)));
            }
        }
        for (id, used) in sums {
            if let Some(node) = self.status.nodes.get_mut(&id) {
                node.resources_duration = used;
            }
        }
        self.status.resources_duration = whole;
    }
}

/// What the pods below a node have used.
fn below(nodes: &Nodes, id: &str) -> Used {
    let mut used = Used::new();
    let (mut seen, mut waiting) = (BTreeSet::new(), vec![id]);
    while let Some(node) = waiting.pop().and_then(|id| nodes.get(id)) {
        for child in node.children.iter().filter_map(|child| nodes.get(child)) {
            if seen.insert(child.id.as_str()) {
                if child.kind == NodeType::Pod {
                    add(&mut used, &child.resources_duration);
                }
                waiting.push(&child.id);
            }
        }
    }
    used
}

fn add(sum: &mut Used, used: &Used) {
    for (name, seconds) in used {
        let place = sum.entry(name.clone()).or_default();
        *place = place.saturating_add(*seconds);
    }
}

/// What a pod has used.
pub(super) fn used(pod: &Pod) -> Used {
    let spec = pod.spec.as_ref();
    let containers = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let seen: Vec<&ContainerStatus> = pod
        .status
        .iter()
        .flat_map(|status| {
            status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
        })
        .collect();
    let mut sum = Used::new();
    for container in containers {
        let ended = seen
            .iter()
            .find(|state| state.name == container.name)
            .and_then(|state| state.state.as_ref()?.terminated.as_ref());
        let age =
            ended.and_then(|ended| Some(ended.finished_at.as_ref()?.0.duration_since(ended.started_at.as_ref()?.0)));
        let age = age.map_or(0, |age| age.as_secs().max(0));
        let mut wanted: BTreeMap<&str, &str> = DEFAULTS.into();
        let said = container.resources.as_ref();
        for list in [said.and_then(|said| said.limits.as_ref()), said.and_then(|said| said.requests.as_ref())] {
            wanted.extend(list.into_iter().flatten().map(|(name, quantity)| (name.as_str(), quantity.0.as_str())));
        }
        for (name, quantity) in wanted {
            let unit = milli(unit(name)).unwrap_or(1000).max(1);
            let seconds = milli(quantity).unwrap_or_default().saturating_mul(age.into()) / unit;
            add(&mut sum, &Used::from([(name.to_owned(), i64::try_from(seconds).unwrap_or(i64::MAX))]));
        }
    }
    sum
}

/// How much of a resource counts as one.
fn unit(resource: &str) -> &'static str {
    match resource {
        "memory" => "100Mi",
        "storage" | "ephemeral-storage" => "10Gi",
        _ => "1",
    }
}

/// Thousandths of a quantity.
fn milli(quantity: &str) -> Option<i128> {
    let (number, factor) = split(quantity)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut sum = whole.checked_mul(factor)?;
    let mut scale = factor;
    for digit in part.chars() {
        scale /= 10;
        sum = sum.checked_add(i128::from(digit.to_digit(10)?).checked_mul(scale)?)?;
    }
    Some(sum)
}

/// The number and how many thousandths one of its units is.
fn split(quantity: &str) -> Option<(&str, i128)> {
    const THOUSAND: i128 = 1000;
    let at = quantity.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '+' | '-')).unwrap_or(quantity.len());
    let (number, suffix) = quantity.split_at(at);
    let powers = ["k", "M", "G", "T", "P", "E"];
    let factor = match suffix {
        "" => THOUSAND,
        "m" => 1,
        suffix => {
            let binary = suffix.strip_suffix('i');
            let letter = binary.map_or(suffix, |letter| if letter == "K" { "k" } else { letter });
            let power = u32::try_from(powers.iter().position(|one| *one == letter)?).ok()? + 1;
            let base: i128 = if binary.is_some() { 1024 } else { 1000 };
            base.checked_pow(power)?.checked_mul(THOUSAND)?
        }
    };
    Some((number, factor))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_read() {
        let cases = [
            ("1", Some(1000)),
            ("100m", Some(100)),
            ("0.5", Some(500)),
            ("1.5Gi", Some(1_610_612_736_000)),
            ("2k", Some(2_000_000)),
            ("1Ki", Some(1_024_000)),
            ("x", None),
            ("1Zi", None),
        ];
        for (text, expected) in cases {
            assert_eq!(milli(text), expected, "{text}");
        }
    }

    #[test]
    fn pods_count_as_argo_counts_them() {
        let state = |name: &str, seconds: u32| {
            json!({"name": name, "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": {"terminated": {"exitCode": 0,
                "startedAt": "2026-01-02T03:04:00Z", "finishedAt": format!("2026-01-02T03:04:{seconds:02}Z")}}})
        };
        let pod = json!({"spec": {"initContainers": [{"name": "init"}], "containers": [
                {"name": "main", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "4", "nvidia.com/gpu": "1"}}}, {"name": "wait"}]},
            "status": {"initContainerStatuses": [state("init", 10)], "containerStatuses": [state("main", 30), state("wait", 9)]}});
        let expected = [("cpu", 1 + 60), ("memory", 10 + 30 + 9), ("nvidia.com/gpu", 30)];
        let expected: Used = expected.into_iter().map(|(name, seconds)| (name.to_owned(), seconds)).collect();
        assert_eq!(used(&serde_json::from_value(pod).unwrap()), expected);
        assert_eq!(used(&Pod::default()), Used::new());
    }
}
