//! Why a pod does not come up, in its own words.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};

/// What a container waits for that will not come by itself.
const HOPELESS: &[&str] = &[
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CrashLoopBackOff",
    "CreateContainerError",
    "CreateContainerConfigError",
    "RunContainerError",
];
/// So often an init container may fail.
const INIT_RESTARTS_MAX: i32 = 2;
/// More of a message nobody reads.
const TEXT_MAX: usize = 1024;

/// What a container waits for when its image cannot be had.
const UNPULLED: [&str; 4] = ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"];

/// In which way an image of a pod cannot be had.
pub(crate) fn pull_error(pod: &Pod) -> Option<&'static str> {
    let status = pod.status.as_ref()?;
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let mut reasons = all.filter_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
    reasons.find_map(|reason| UNPULLED.into_iter().find(|known| *known == reason))
}

/// Why a pod has failed, or will not come up.
pub(crate) fn trouble(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let init = status.init_container_statuses.as_deref().unwrap_or_default();
    let main = status.container_statuses.as_deref().unwrap_or_default();
    let over = super::is_over(pod);
    let cause = init
        .iter()
        .find_map(|container| init_trouble(container, over))
        .or_else(|| main.iter().find_map(|container| waiting(container).or_else(|| ended(container).filter(|_| over))));
    if cause.is_none() && !over {
        return None;
    }
    let said: Vec<String> = [status.reason.clone(), status.message.clone(), cause]
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
        .collect();
    let said = if said.is_empty() { "the pod has ended".to_owned() } else { said.join(": ") };
    Some(bounded(said))
}

/// When a pod that is to come up last came closer to it.
pub(crate) fn last_progress(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let changed = conditions.iter().filter_map(|condition| condition.last_transition_time.as_ref());
    let containers = status
        .into_iter()
        .flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses).flatten());
    let ran = containers.filter_map(|container| container.state.as_ref()).flat_map(|state| {
        let began = state.running.as_ref().and_then(|running| running.started_at.as_ref());
        let ended = state.terminated.as_ref().and_then(|terminated| terminated.finished_at.as_ref());
        [began, ended].into_iter().flatten()
    });
    let made = pod.metadata.creation_timestamp.iter().chain(status.and_then(|status| status.start_time.as_ref()));
    changed.chain(ran).chain(made).map(|time| time.0).max()
}

/// Why a pod that has come no closer for long is not up, as far as it says.
pub(crate) fn stuck(pod: &Pod, minutes: i64) -> String {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let said = conditions.iter().filter(|condition| condition.status != "True");
    let said = said.filter_map(|condition| condition.message.as_deref()).find(|message| !message.is_empty());
    let said = said.map(|message| format!(": {message}")).unwrap_or_default();
    bounded(format!("pod {} has come no closer to being ready for {minutes} minutes{said}", super::name(pod)))
}

fn init_trouble(container: &ContainerStatus, over: bool) -> Option<String> {
    let failed = [container.state.as_ref(), container.last_state.as_ref()].into_iter().flatten().find_map(|state| {
        let terminated = state.terminated.as_ref()?;
        (terminated.exit_code != 0).then(|| described(&container.name, state)).flatten()
    });
    waiting(container).or_else(|| failed.filter(|_| over || container.restart_count > INIT_RESTARTS_MAX))
}

fn waiting(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().filter(|reason| HOPELESS.contains(reason))?;
    let message = waiting.message.as_deref().filter(|message| !message.is_empty());
    Some(match message {
        Some(message) => format!("container {}: {reason}: {message}", container.name),
        None => format!("container {}: {reason}", container.name),
    })
}

fn ended(container: &ContainerStatus) -> Option<String> {
    described(&container.name, container.state.as_ref()?)
}

fn described(name: &str, state: &ContainerState) -> Option<String> {
    let terminated = state.terminated.as_ref()?;
    let reason = terminated.reason.as_deref().unwrap_or("Error");
    let message = terminated.message.as_deref().map(|message| format!(": {}", message.trim())).unwrap_or_default();
    Some(format!("container {name}: {reason}, exit code {}{message}", terminated.exit_code))
}

fn bounded(mut text: String) -> String {
    if text.len() > TEXT_MAX {
        let end = (0..=TEXT_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap()
    }

    #[test]
    fn a_pod_says_why_it_does_not_come_up() {
        let waits = |reason: &str, message: &str| {
            json!({"phase": "Pending", "containerStatuses": [{
                "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": reason, "message": message}},
            }]})
        };
        let init = |restarts: i32, phase: &str| {
            json!({"phase": phase, "initContainerStatuses": [{
                "name": "tools", "image": "", "imageID": "", "ready": false, "restartCount": restarts,
                "state": {"terminated": {"exitCode": 127, "reason": "Error", "message": "cp: not found"}},
            }]})
        };
        let cases = [
            (waits("ContainerCreating", ""), None),
            (waits("ErrImagePull", "no such image"), Some("container main: ErrImagePull: no such image")),
            (init(0, "Pending"), None),
            (init(3, "Pending"), Some("container tools: Error, exit code 127: cp: not found")),
            (init(0, "Failed"), Some("container tools: Error, exit code 127: cp: not found")),
            (json!({"phase": "Running"}), None),
            (json!({"phase": "Failed", "reason": "Evicted", "message": "disk"}), Some("Evicted: disk")),
            (json!({"phase": "Failed"}), Some("the pod has ended")),
        ];
        for (status, expected) in cases {
            assert_eq!(trouble(&pod(&status)).as_deref(), expected, "{status}");
        }
        let long = pod(&json!({"phase": "Failed", "message": "é".repeat(4000)}));
        assert!(trouble(&long).unwrap().len() <= TEXT_MAX);
    }

    #[test]
    fn the_last_that_happened_counts() {
        let container = |state: &Value| json!([{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state}]);
        let status = json!({
            "phase": "Pending", "startTime": "1970-01-01T00:00:01Z",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:02Z"}],
            "initContainerStatuses": container(&json!({"terminated": {"exitCode": 0, "finishedAt": "1970-01-01T00:00:04Z"}})),
            "containerStatuses": container(&json!({"running": {"startedAt": "1970-01-01T00:00:03Z"}})),
        });
        assert_eq!(last_progress(&pod(&status)), Timestamp::from_second(4).ok());
        assert_eq!(last_progress(&pod(&json!({}))), None);
        let waits = json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "no node"}]});
        assert_eq!(stuck(&pod(&waits), 10), "pod p has come no closer to being ready for 10 minutes: no node");
    }
}
