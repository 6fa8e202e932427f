//! Steps that are pods: starting them, and what became of them.

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;

use super::resolve::value;
use super::{Call, Effect, Operation, Start};
use crate::spec::{Outputs, Template, integer};
use crate::status::{Moment, NodePhase, NodeStatus, NodeType};
use crate::steps::names::{POOL, WAIT, pod_name};
use crate::steps::{Outcome, Phase, TaskResult, outcome};

impl Operation<'_> {
    /// Makes the node of a step, and has it started unless it was.
    pub(super) fn execute_pod(&mut self, name: &str, call: &Call<'_>, template: &Template) {
        if self.node(name).is_none() {
            let daemon = template.daemon == Some(true);
            let node = self.make_running(name, NodeType::Pod, call, template, NodePhase::Pending);
            node.task_result_synced = (!daemon).then_some(true);
            let id = self.id(name);
            // Whoever forgot the node may find its pod or its result.
            self.look(&id);
        }
        let Some(node) = self.node(name) else { return };
        let id = node.id.clone();
        let is_due = node.phase == NodePhase::Pending || self.is_lodged(node, template);
        if !is_due || self.has_pod(&id) || self.is_recorded(&id) {
            return;
        }
        if self.seen.lodged.get(&id) == Some(&true) {
            self.mark(name, NodePhase::Running, Some(""));
            return;
        }
        if let Some(refused) = self.seen.refused.get(&id) {
            // What runs may not become what has not begun: that would be begun again.
            let phase = if refused.is_transient { node.phase } else { NodePhase::Error };
            self.mark(name, phase, Some(&refused.message));
            if !refused.is_transient {
                return;
            }
        }
        let stops = match self.spec.shutdown.as_str() {
            "" => false,
            "Stop" => !call.on_exit,
            _ => true,
        };
        if stops {
            let message = format!("workflow shutdown with strategy: {}", self.spec.shutdown);
            self.mark(name, NodePhase::Failed, Some(&message));
        } else if self.is_past_deadline() && !call.on_exit {
            self.mark(name, NodePhase::Failed, Some("Step exceeded its deadline"));
        } else {
            self.start(name, &id, call, template);
        }
    }

    /// Whether a step runs in a sandbox, of which a controller that has just started may know nothing yet.
    fn is_lodged(&self, node: &NodeStatus, template: &Template) -> bool {
        let warm = || {
            let own = template.metadata.annotations.get(POOL).or_else(|| self.annotations.get(POOL));
            own.is_some_and(|pool| !pool.is_empty())
        };
        node.phase == NodePhase::Running && node.host_node_name.is_empty() && warm()
    }

    fn start(&mut self, name: &str, id: &str, call: &Call<'_>, template: &Template) {
        let around = self.around(call.boundary);
        let wants_result = around.as_ref().is_some_and(|around| around.reads(name));
        let mut deadline = call.deadline;
        let timeout = super::duration::parsed(&template.timeout).ok();
        let begun = self.node(name).and_then(|node| node.started_at.time()).unwrap_or(self.now);
        let was_running = self.node(name).is_some_and(|node| node.phase == NodePhase::Running);
        let until = timeout.and_then(|timeout| begun.checked_add(timeout).ok());
        let workflow = self.deadline.filter(|_| !call.on_exit);
        for other in [until, workflow].into_iter().flatten() {
            deadline = Some(deadline.map_or(other, |deadline| deadline.min(other)));
        }
        let own = template.active_deadline_seconds.as_ref().and_then(integer);
        let left = deadline
            .map(|deadline| deadline.duration_since(self.now).max(SignedDuration::from_secs(1)).as_secs().max(1));
        let active_seconds = match (own, left) {
            (Some(own), Some(left)) => Some(own.min(left)),
            (own, left) => own.or(left),
        };
        let Ok(template_value) = value(template) else { return };
        self.started.insert(id.to_owned());
        self.effects.push(Effect::Start(Box::new(Start {
            node_id: id.to_owned(),
            node_name: name.to_owned(),
            pod: pod_name(&self.identity.name, &template.name, name),
            template: template_value,
            boundary: around.map(|around| Arc::clone(&around.placement)),
            spec: Arc::clone(&self.spec_value),
            active_seconds,
            deadline,
            wants_result,
            on_exit: call.on_exit,
            was_running,
        })));
    }

    /// Whether the step's end was recorded, even though its pod is gone.
    pub(super) fn is_recorded(&self, id: &str) -> bool {
        self.seen.results.get(id).is_some_and(|result| result.is_complete())
    }

    /// Takes what pods and results say over to all nodes.
    pub(super) fn reconcile(&mut self) {
        self.end_leftovers();
        let open: Vec<String> = self
            .status
            .nodes
            .iter()
            .filter(|node| node.kind == NodeType::Pod && !node.is_ended())
            .map(|node| node.id.clone())
            .collect();
        let mut running = false;
        for id in open {
            self.look(&id);
            running |= self.status.nodes.get(&id).is_some_and(|node| node.phase == NodePhase::Running);
        }
        let before = self.status.conditions.clone();
        self.status.observe("PodRunning", running);
        self.changed |= before != self.status.conditions;
    }

    /// Takes what is known of one step over to its node.
    fn look(&mut self, id: &str) {
        let (pod, result) = (self.seen.pods.get(id), self.seen.results.get(id));
        let Some(template) = self.template_of(id) else { return };
        let Some(before) = self.status.nodes.get(id).cloned() else { return };
        let known = match (pod, result) {
            (Some(pod), result) => {
                let Ok(template) = value(&template) else { return };
                let mut known = outcome(pod, result.map(AsRef::as_ref), &template);
                let is_over = !matches!(known.phase, Phase::Pending | Phase::Running);
                if is_over && is_underway(pod, result.map(AsRef::as_ref)) {
                    (known.phase, known.message) = (Phase::Running, String::new());
                }
                known
            }
            (None, Some(result)) if result.is_complete() => recorded(result),
            (None, _) if self.is_lodged(&before, &template) => return,
            (None, _) if before.phase == NodePhase::Running => lost(),
            (None, _) => return,
        };
        let mut node = before.clone();
        apply(&mut node, &known, Moment::of(self.now));
        if let Some(pod) = pod.filter(|_| node.is_fulfilled() && before.finished_at.is_none()) {
            node.resources_duration = super::resources::used(pod);
        }
        if node != before {
            self.changed = true;
        }
        let outputs = node.outputs.clone();
        self.status.nodes.set(node);
        self.publish(outputs.as_ref());
    }

    /// Ends what must not go on because of a shutdown or the deadline.
    pub(super) fn give_up(&mut self) {
        let shutdown = self.spec.shutdown.clone();
        let late = self.is_past_deadline();
        if shutdown.is_empty() && !late {
            return;
        }
        let open: Vec<NodeStatus> = self.status.nodes.iter().filter(|node| !node.is_fulfilled()).cloned().collect();
        for node in open {
            let exit = self.status.nodes.is_of_exit_handler(&node);
            let stops = shutdown == "Terminate" || shutdown == "Stop" && !exit;
            let has_pod =
                node.kind == NodeType::Pod && (self.has_pod(&node.id) || self.seen.lodged.contains_key(&node.id));
            if stops && has_pod {
                self.end_pod(&node);
                self.mark(
                    &node.name,
                    NodePhase::Failed,
                    Some(&format!("workflow shutdown with strategy:  {shutdown}")),
                );
            } else if stops && (node.is_waiting() || node.kind == NodeType::Pod) {
                self.mark(&node.name, NodePhase::Failed, Some(&format!("Stopped with strategy '{shutdown}'")));
            } else if late && !exit && (has_pod || node.phase == NodePhase::Pending || node.is_waiting()) {
                if has_pod {
                    self.end_pod(&node);
                }
                self.mark(&node.name, NodePhase::Failed, Some("Step exceeded its deadline"));
            }
        }
    }

    /// Ends the daemons of a template that has ended.
    pub(super) fn end_daemons(&mut self, boundary: &str) {
        let daemons = self.status.nodes.iter().filter(|node| node.is_daemoned() && node.boundary_id == boundary);
        for node in daemons.cloned().collect::<Vec<_>>() {
            if node.kind == NodeType::Pod {
                self.end_pod(&node);
            }
            if let Some(node) = self.status.nodes.get_mut(&node.id) {
                (node.phase, node.daemoned) = (NodePhase::Succeeded, None);
                if node.finished_at.is_none() {
                    node.finished_at = Moment::of(self.now);
                }
            }
            self.changed = true;
        }
    }

    fn end_pod(&mut self, node: &NodeStatus) {
        let template = self.template_of(&node.id).map(|template| template.name).unwrap_or_default();
        let pod = pod_name(&self.identity.name, &template, &node.name);
        self.effects.push(Effect::End { pod });
    }
}

/// Moves a node to where its step is.
fn apply(node: &mut NodeStatus, known: &Outcome, now: Moment) {
    let was_pending = node.phase == NodePhase::Pending;
    let phase = match known.phase {
        Phase::Pending => NodePhase::Pending,
        Phase::Running => NodePhase::Running,
        Phase::Succeeded => NodePhase::Succeeded,
        Phase::Failed => NodePhase::Failed,
        Phase::Error => NodePhase::Error,
    };
    if was_pending || !known.message.is_empty() || phase.is_completed() {
        node.message.clone_from(&known.message);
    }
    node.phase = phase;
    node.daemoned = known.is_daemoned.then_some(true);
    if let Some(outputs) =
        known.outputs.as_ref().and_then(|outputs| serde_json::from_value::<Outputs>(outputs.clone()).ok())
    {
        node.outputs = Some(outputs);
    }
    node.pod_ip = known.pod_ip.clone().unwrap_or_default();
    if let Some(host) = &known.host {
        node.host_node_name.clone_from(host);
    }
    if let Some(progress) = &known.progress {
        node.progress.clone_from(progress);
    } else if node.progress.is_empty() {
        "0/1".clone_into(&mut node.progress);
    }
    if phase == NodePhase::Succeeded && node.progress == "0/1" {
        "1/1".clone_into(&mut node.progress);
    }
    if node.task_result_synced.is_some() {
        node.task_result_synced = Some(!phase.is_completed() || known.is_synced);
    }
    if node.is_fulfilled() && node.finished_at.is_none() {
        node.finished_at = known.finished_at.map_or(now, Moment::of);
    }
}

/// Whether a result was written that has not been seen yet: watches of pods and of results do not keep pace.
fn is_underway(pod: &Pod, result: Option<&TaskResult>) -> bool {
    let mut all = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let wait = all.find(|one| one.name == WAIT).and_then(|one| one.state.as_ref()?.terminated.as_ref());
    wait.is_some_and(|ended| ended.exit_code == 0) && !result.is_some_and(TaskResult::is_complete)
}

/// What a result says whose pod is gone.
fn recorded(result: &TaskResult) -> Outcome {
    let code =
        result.outputs.as_ref().and_then(|outputs| outputs["exitCode"].as_str()).and_then(|code| code.parse().ok());
    let phase = result.phase.unwrap_or(match code {
        Some(0) => Phase::Succeeded,
        Some(_) => Phase::Failed,
        None => Phase::Error,
    });
    let unknown = result.phase.is_none() && code.is_none();
    let message = if unknown { "pod deleted".to_owned() } else { result.message.clone().unwrap_or_default() };
    Outcome { phase, message, outputs: result.outputs.clone(), exit_code: code, ..lost() }
}

/// What is known of a step that ran, and of which nothing is left.
fn lost() -> Outcome {
    Outcome {
        phase: Phase::Error,
        message: "pod deleted".to_owned(),
        outputs: None,
        exit_code: None,
        is_synced: true,
        is_daemoned: false,
        pod_ip: None,
        host: None,
        finished_at: None,
        progress: None,
    }
}
