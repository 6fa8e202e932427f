//! A pod's status, as a kubelet would report it.

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState as StateObject, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::decide::Verdict;
use crate::pod::{PodExt, RestartPolicy, is_sidecar};
use crate::state::{ContainerState, Containers, Ended, Now};

/// What is reported of a pod besides its containers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// Its address, once it has one.
    pub(crate) address: Option<String>,
    /// The machine's address.
    pub(crate) host: String,
    /// Why it has to end although nobody deletes it.
    pub(crate) verdict: Option<Verdict>,
    /// Nothing will run in it again.
    pub(crate) finished: bool,
}

/// The status, keeping what is in the pod's present one.
pub(crate) fn status(pod: &Pod, containers: &Containers, facts: &Facts, now: Timestamp) -> PodStatus {
    let before = pod.status.clone().unwrap_or_default();
    let phase = phase(pod, containers, facts);
    let each = |list: &[Container]| -> Option<Vec<ContainerStatus>> {
        let all: Vec<_> = list.iter().map(|one| container(pod, one, containers.get(&one.name), facts)).collect();
        Some(all).filter(|all| !all.is_empty())
    };
    let address = facts.address.clone().or_else(|| before.pod_ip.clone());
    let mut status = PodStatus {
        phase: Some(phase.to_owned()),
        host_ip: Some(facts.host.clone()),
        host_ips: Some(vec![HostIP { ip: facts.host.clone() }]),
        pod_ips: address.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip: address,
        start_time: before.start_time.clone().or(Some(Time(whole(now)))),
        container_statuses: each(pod.containers()),
        init_container_statuses: each(pod.init_containers()),
        qos_class: before.qos_class.clone(),
        observed_generation: pod.metadata.generation,
        ..PodStatus::default()
    };
    if let Some(verdict) = &facts.verdict {
        status.reason = Some(verdict.reason.clone());
        status.message = Some(verdict.message.clone());
    }
    status.conditions = Some(conditions(pod, &before, &status, facts, now));
    status
}

/// Kubernetes keeps seconds.
pub(crate) fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn phase(pod: &Pod, containers: &Containers, facts: &Facts) -> &'static str {
    if facts.verdict.is_some() && (facts.finished || containers.is_empty()) {
        return "Failed";
    }
    let state = |container: &Container| containers.get(&container.name);
    let has_run = |container: &Container| {
        state(container).is_some_and(|state| !matches!(state.now, Now::Waiting { .. }) || state.last.is_some())
    };
    let failed_init = pod
        .init_containers()
        .iter()
        .filter(|one| !is_sidecar(one))
        .any(|one| state(one).and_then(ContainerState::ended).is_some_and(|ended| ended.code != 0));
    if failed_init && pod.restart_policy() == RestartPolicy::Never && !pod.containers().iter().any(has_run) {
        return "Failed";
    }
    let ended = |container: &Container| state(container).and_then(ContainerState::ended);
    let codes: Option<Vec<i32>> = pod.containers().iter().map(|one| ended(one).map(|ended| ended.code)).collect();
    if let Some(codes) = codes
        && (facts.finished || pod.is_deleting())
        && !codes.is_empty()
    {
        return if codes.iter().all(|code| *code == 0) { "Succeeded" } else { "Failed" };
    }
    if pod.containers().iter().any(has_run) { "Running" } else { "Pending" }
}

fn container(pod: &Pod, container: &Container, state: Option<&ContainerState>, facts: &Facts) -> ContainerStatus {
    let unknown = ContainerState::default();
    let is_init = pod.init_containers().iter().any(|one| one.name == container.name);
    let state = state.unwrap_or(&unknown);
    let mut status = ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        image_id: state.image_id.clone(),
        restart_count: i32::try_from(state.restarts).unwrap_or(i32::MAX),
        last_state: state.last.as_ref().map(terminated),
        ..ContainerStatus::default()
    };
    match &state.now {
        Now::Running(running) => {
            status.container_id = Some(running.id.clone());
            status.ready = running.started && running.ready && (!is_init || is_sidecar(container));
            status.started = Some(running.started);
            let running = ContainerStateRunning { started_at: Some(Time(whole(running.since))) };
            status.state = Some(StateObject { running: Some(running), ..StateObject::default() });
        }
        Now::Ended(ended) => {
            status.container_id = Some(ended.id.clone());
            status.started = Some(false);
            status.ready = is_init && !is_sidecar(container) && ended.code == 0;
            status.state = Some(terminated(ended));
        }
        Now::Waiting { reason, message } => {
            status.started = Some(false);
            // What waits behind init containers has not been tried yet.
            let initialising = reason == "ContainerCreating" && !pod.init_containers().is_empty();
            let reason = if initialising { "PodInitializing".to_owned() } else { reason.clone() };
            let message = Some(message.clone()).filter(|message| !message.is_empty());
            let waiting = ContainerStateWaiting { reason: Some(reason), message };
            status.state = Some(StateObject { waiting: Some(waiting), ..StateObject::default() });
            status.container_id =
                status.last_state.as_ref().and_then(|last| last.terminated.as_ref()?.container_id.clone());
        }
    }
    if facts.finished
        && status.state.as_ref().is_some_and(|state| state.terminated.is_none())
        && facts.verdict.is_some()
    {
        status.ready = false;
    }
    status
}

fn terminated(ended: &Ended) -> StateObject {
    let terminated = ContainerStateTerminated {
        container_id: Some(ended.id.clone()),
        exit_code: ended.code,
        signal: ended.signal,
        reason: Some(ended.reason.clone()),
        message: Some(ended.message.clone()).filter(|message| !message.is_empty()),
        started_at: Some(Time(whole(ended.started))),
        finished_at: Some(Time(whole(ended.finished))),
    };
    StateObject { terminated: Some(terminated), ..StateObject::default() }
}

/// A condition's status with its reason and words.
type Verdicts = (bool, Option<(&'static str, String)>);

fn conditions(pod: &Pod, before: &PodStatus, status: &PodStatus, facts: &Facts, now: Timestamp) -> Vec<PodCondition> {
    let inits = status.init_container_statuses.as_deref().unwrap_or_default();
    let mains = status.container_statuses.as_deref().unwrap_or_default();
    let completed = status.phase.as_deref() == Some("Succeeded");
    let names = |list: Vec<&ContainerStatus>| {
        let names: Vec<&str> = list.into_iter().map(|one| one.name.as_str()).collect();
        format!("[{}]", names.join(" "))
    };
    let begun = mains.iter().any(|one| one.container_id.is_some());
    let waiting: Vec<&ContainerStatus> = inits.iter().filter(|one| !is_done(pod, one)).collect();
    let initialised: Verdicts = if waiting.is_empty() || begun {
        (true, completed.then(|| ("PodCompleted", String::new())))
    } else {
        let message = format!("containers with incomplete status: {}", names(waiting));
        (false, Some(("ContainersNotInitialized", message)))
    };
    let unready: Vec<&ContainerStatus> =
        mains.iter().chain(inits.iter().filter(|one| sidecar(pod, one))).filter(|one| !one.ready).collect();
    let ready: Verdicts = if completed {
        (false, Some(("PodCompleted", String::new())))
    } else if status.phase.as_deref() == Some("Failed") {
        (false, Some(("PodFailed", String::new())))
    } else if unready.is_empty() {
        (true, None)
    } else {
        (false, Some(("ContainersNotReady", format!("containers with unready status: {}", names(unready)))))
    };
    let own: [(&str, Verdicts); 4] = [
        ("PodReadyToStartContainers", (facts.address.is_some() && !facts.finished, None)),
        ("Initialized", initialised),
        ("Ready", ready.clone()),
        ("ContainersReady", ready),
    ];
    let known = before.conditions.as_deref().unwrap_or_default();
    let mut all: Vec<PodCondition> = own.into_iter().map(|(kind, one)| condition(kind, one, known, pod, now)).collect();
    // Those of others stay, and who schedules says so.
    let others = known.iter().filter(|one| !all.iter().any(|own| own.type_ == one.type_)).cloned();
    let others: Vec<PodCondition> = others.collect();
    all.extend(others);
    if !all.iter().any(|one| one.type_ == "PodScheduled") {
        all.push(condition("PodScheduled", (true, None), known, pod, now));
    }
    all
}

fn sidecar(pod: &Pod, status: &ContainerStatus) -> bool {
    pod.container(&status.name).is_some_and(is_sidecar)
}

fn is_done(pod: &Pod, status: &ContainerStatus) -> bool {
    if sidecar(pod, status) { status.started == Some(true) } else { status.ready }
}

fn condition(kind: &str, verdict: Verdicts, known: &[PodCondition], pod: &Pod, now: Timestamp) -> PodCondition {
    let (holds, why) = verdict;
    let status = if holds { "True" } else { "False" };
    let same = known.iter().find(|one| one.type_ == kind && one.status == status);
    let changed = same.and_then(|one| one.last_transition_time.clone());
    PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: why.as_ref().map(|(reason, _)| (*reason).to_owned()),
        message: why.map(|(_, message)| message).filter(|message| !message.is_empty()),
        last_transition_time: changed.or(Some(Time(whole(now)))),
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    }
}
