//! What a container may use, in the kernel's terms.

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::pod::PodExt;
use crate::quantity;

/// Processes and threads of a container if nothing else is said.
pub(crate) const PIDS: u64 = 512;
/// Of these, what is kept for the executor and the next step.
pub(crate) const PIDS_KEPT: u64 = 32;

/// Bounds of one container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Its part of the processor when others want it too, in thousandths of one.
    pub(crate) cpu_request: u64,
    /// At most so many thousandths of a processor.
    pub(crate) cpu: Option<u64>,
    /// At most so many bytes of memory.
    pub(crate) memory: Option<u64>,
    /// At most so many processes and threads.
    pub(crate) pids: u64,
}

/// The bounds a container asks for.
pub(crate) fn bounds(container: &Container) -> Bounds {
    let resources = container.resources.clone().unwrap_or_default();
    let read = |list: &Option<std::collections::BTreeMap<String, _>>, name: &str| -> Option<String> {
        let amount: &k8s_openapi::apimachinery::pkg::api::resource::Quantity = list.as_ref()?.get(name)?;
        Some(amount.0.clone())
    };
    let cpu = read(&resources.limits, "cpu").and_then(|text| quantity::millis(&text));
    let request = read(&resources.requests, "cpu").and_then(|text| quantity::millis(&text));
    let memory = read(&resources.limits, "memory").and_then(|text| quantity::units(&text));
    Bounds { cpu_request: request.or(cpu).unwrap_or_default(), cpu: cpu.filter(|cpu| *cpu > 0), memory, pids: PIDS }
}

/// Bytes the pod may write outside of volumes, if it says so.
pub(crate) fn disk(pod: &Pod) -> Option<u64> {
    let limit = |container: &Container| {
        let amount = container.resources.as_ref()?.limits.as_ref()?.get("ephemeral-storage")?;
        quantity::units(&amount.0)
    };
    let limits: Vec<u64> = pod.containers().iter().filter_map(limit).collect();
    if limits.is_empty() { None } else { Some(limits.iter().sum()) }
}

/// How soon the kernel ends a container's processes for want of memory, as kubelets choose it.
pub(crate) fn oom_score(pod: &Pod, container: &Container, machine_bytes: u64) -> i32 {
    let class = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
    match class {
        // Nobody but the machine's own processes may be lower than this.
        Some("Guaranteed") => 0,
        Some("BestEffort") => 1000,
        _ => {
            let resources = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
            let asked = resources.and_then(|requests| quantity::units(&requests.get("memory")?.0)).unwrap_or_default();
            let part = i32::try_from(asked.saturating_mul(1000) / machine_bytes.max(1)).unwrap_or(1000);
            (1000 - part).clamp(3, 999)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bounds_are_read() {
        for (resources, expected) in [
            (json!({}), Bounds { cpu_request: 0, cpu: None, memory: None, pids: PIDS }),
            (
                json!({"limits": {"cpu": "500m", "memory": "32Mi"}}),
                Bounds { cpu_request: 500, cpu: Some(500), memory: Some(32 << 20), pids: PIDS },
            ),
            (json!({"requests": {"cpu": "2"}}), Bounds { cpu_request: 2000, cpu: None, memory: None, pids: PIDS }),
        ] {
            let container: Container = serde_json::from_value(json!({"name": "a", "resources": resources})).unwrap();
            assert_eq!(bounds(&container), expected);
        }
    }

    #[test]
    fn the_less_was_asked_for_the_sooner_it_ends() {
        let container = |memory: &str| -> Container {
            serde_json::from_value(json!({"name": "a", "resources": {"requests": {"memory": memory}}})).unwrap()
        };
        let pod = |class: &str| -> Pod {
            serde_json::from_value(json!({"metadata": {}, "status": {"qosClass": class}})).unwrap()
        };
        for (class, memory, expected) in
            [("Guaranteed", "1Gi", 0), ("BestEffort", "0", 1000), ("Burstable", "1Gi", 900), ("Burstable", "99Gi", 3)]
        {
            assert_eq!(oom_score(&pod(class), &container(memory), 10 << 30), expected, "{class} {memory}");
        }
    }
}
