//! The Workflow as a whole: its entry point, its end, its sums.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::hooks::{Parent, hook_call};
use super::outputs::call_of;
use super::{COMPLETED_LABEL, Call, Halt, Operation, PHASE_LABEL};
use crate::spec::Step;
use crate::status::{Moment, NodePhase, NodeStatus, NodeType, Phase};
use crate::steps::names::pod_name;

impl Operation<'_> {
    /// Runs the entry point, then what runs at the end.
    pub(super) fn execute(&mut self) {
        let (place, spec, name) = (self.place(), Arc::clone(&self.spec), self.identity.name.clone());
        let entry = Step { template: spec.entrypoint.clone(), ..Step::default() };
        let call = Call { caller: None, ..call_of(&entry, &place) };
        match self.execute_template(&name, &call, &spec.arguments) {
            Ok(()) => {}
            Err(Halt::Parallelism | Halt::Later) => return,
            Err(halt) => {
                self.end(Phase::Error, &format!("error in entry template execution: {}", halt.words()));
                return;
            }
        }
        let Some(node) = self.node(&name).cloned() else { return };
        let phase = workflow_phase(node.phase);
        self.globals.text("workflow.status", phase.word());
        let failures = self.failures();
        self.globals.text("workflow.failures", failures);
        let hooks = self.run_workflow_hooks(&place);
        match hooks {
            Ok(true) => {}
            Ok(false) => return,
            Err(halt) => self.mark(&name, NodePhase::Error, Some(halt.words())),
        }
        if !node.is_fulfilled() || !self.run_exit(&place) {
            return;
        }
        let exit = self.node(&format!("{name}.onExit")).cloned();
        self.conclude(&node, phase, exit.as_ref());
    }

    /// Runs the exit handler; whether it has ended or there is none.
    fn run_exit(&mut self, place: &super::Place) -> bool {
        let spec = Arc::clone(&self.spec);
        let Some(hook) = spec.exit_hook() else { return true };
        let name = format!("{}.onExit", self.identity.name);
        if self.node(&name).is_none() && !self.may_exit() {
            return true;
        }
        let parent = Parent { name: "", boundary: "", place, prefix: "", on_exit: true };
        let arguments = if hook.arguments.is_empty() { spec.arguments.clone() } else { hook.arguments.clone() };
        match self.execute_template(&name, &hook_call(&hook, &parent, true), &arguments) {
            Ok(()) => self.node(&name).is_some_and(NodeStatus::is_fulfilled),
            Err(Halt::Parallelism | Halt::Later) => false,
            Err(halt) => {
                self.end(Phase::Error, &format!("error in exit template execution : {}", halt.words()));
                false
            }
        }
    }

    fn conclude(&mut self, node: &NodeStatus, phase: Phase, exit: Option<&NodeStatus>) {
        let shutdown = &self.spec.shutdown;
        let message = if node.phase.is_failure() && !shutdown.is_empty() {
            format!("Stopped with strategy '{shutdown}'")
        } else {
            node.message.clone()
        };
        match (phase, exit.filter(|exit| exit.phase.is_failure())) {
            (Phase::Succeeded, Some(exit)) if exit.phase == NodePhase::Failed => self.end(Phase::Failed, &exit.message),
            (Phase::Succeeded, Some(exit)) => self.end(Phase::Error, &exit.message),
            (Phase::Succeeded, None) => self.end(Phase::Succeeded, ""),
            (phase, _) => self.end(phase, &message),
        }
    }

    /// Ends the Workflow, once everything has been reported and no daemon runs.
    pub(super) fn end(&mut self, phase: Phase, message: &str) {
        let boundaries: Vec<String> =
            self.status.nodes.iter().filter(|node| node.is_daemoned()).map(|node| node.boundary_id.clone()).collect();
        for boundary in boundaries {
            self.end_daemons(&boundary);
        }
        if self.status.nodes.iter().any(|node| node.task_result_synced == Some(false)) {
            return;
        }
        self.move_to(phase, message);
        if phase == Phase::Error {
            let (id, now) = (self.identity.name.clone(), Moment::of(self.now));
            if let Some(entry) = self.status.nodes.get_mut(&id)
                && entry.phase == NodePhase::Running
            {
                (entry.phase, entry.finished_at) = (NodePhase::Error, now);
                "Workflow operation error".clone_into(&mut entry.message);
            }
        }
        self.status.finished_at = Moment::of(self.now);
        self.labels.insert(COMPLETED_LABEL.to_owned(), "true".to_owned());
        self.status.observe("PodRunning", false);
        self.status.observe("Completed", true);
        self.sum_resources();
        self.unclaim();
        self.wake_at = None;
    }

    /// Moves the Workflow itself on.
    pub(super) fn move_to(&mut self, phase: Phase, message: &str) {
        self.changed = true;
        self.status.phase = phase;
        message.clone_into(&mut self.status.message);
        self.labels.insert(PHASE_LABEL.to_owned(), phase.word().to_owned());
        self.labels.entry(COMPLETED_LABEL.to_owned()).or_insert_with(|| "false".to_owned());
        if self.status.started_at.is_none() && phase != Phase::Pending {
            self.status.started_at = Moment::of(self.now);
        }
    }

    /// The nodes that failed, as an exit handler sees them.
    fn failures(&self) -> String {
        let failed = self.status.nodes.iter().filter(|node| node.phase.is_failure());
        let all: Vec<_> = failed
            .map(|node| {
                json!({
                    "displayName": node.display_name,
                    "message": node.message,
                    "templateName": node.template(),
                    "phase": node.phase,
                    "podName": pod_name(&self.identity.name, node.template(), &node.name),
                    "finishedAt": node.finished_at,
                })
            })
            .collect();
        let text = if all.is_empty() { "null".to_owned() } else { serde_json::Value::from(all).to_string() };
        // Quoted once more: whoever uses it writes it into a program or a document.
        serde_json::Value::from(text).to_string()
    }

    /// Progress of groups and of the whole.
    pub(super) fn summed_up(&mut self) {
        if !self.changed {
            return;
        }
        let pods = || self.status.nodes.iter().filter(|node| node.kind == NodeType::Pod);
        let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut whole = (0, 0);
        for pod in pods() {
            let (done, all) = parts(&pod.progress);
            whole = (whole.0 + done, whole.1 + all);
            let mut boundary = pod.boundary_id.clone();
            for _ in 0..=self.status.nodes.len() {
                let Some(node) = self.status.nodes.get(&boundary) else { break };
                let sum = sums.entry(boundary.clone()).or_default();
                *sum = (sum.0 + done, sum.1 + all);
                boundary = node.boundary_id.clone();
            }
        }
        for (id, (done, all)) in sums {
            if let Some(node) = self.status.nodes.get_mut(&id) {
                node.progress = format!("{done}/{all}");
            }
        }
        self.status.progress = format!("{}/{}", whole.0, whole.1);
    }
}

fn parts(progress: &str) -> (u64, u64) {
    let parsed = progress.split_once('/').and_then(|(done, all)| Some((done.parse().ok()?, all.parse().ok()?)));
    parsed.unwrap_or((0, 1))
}

fn workflow_phase(phase: NodePhase) -> Phase {
    match phase {
        NodePhase::Pending => Phase::Pending,
        NodePhase::Unknown | NodePhase::Running => Phase::Running,
        NodePhase::Succeeded | NodePhase::Skipped | NodePhase::Omitted => Phase::Succeeded,
        NodePhase::Failed => Phase::Failed,
        NodePhase::Error => Phase::Error,
    }
}
