//! Tasks, each when what it waits for has ended.

use super::depends::Dependencies;
use super::expand::{expanded, with_references};
use super::hooks::{Exit, Parent};
use super::outputs::call_of;
use super::scope::{Values, decided, holds};
use super::{Call, Halt, Operation, Place};
use crate::spec::{Dag, Step, Template};
use crate::status::{NodeFlag, NodePhase, NodeStatus, NodeType};

/// A DAG that runs.
struct Running<'g> {
    name: &'g str,
    id: &'g str,
    template: &'g Template,
    dag: &'g Dag,
    tasks: Dependencies<'g>,
    place: &'g Place,
    on_exit: bool,
}

impl Running<'_> {
    fn node_name(&self, task: &str) -> String {
        format!("{}.{task}", self.name)
    }

    fn call<'c>(&'c self, task: &'c Step) -> Call<'c> {
        let caller = Some(("tasks.name", task.name.as_str()));
        Call { boundary: self.id, on_exit: self.on_exit, caller, ..call_of(task, self.place) }
    }
}

impl Operation<'_> {
    pub(super) fn execute_dag(
        &mut self,
        name: &str,
        call: &Call<'_>,
        place: &Place,
        template: &Template,
    ) -> Result<(), Halt> {
        if self.node(name).is_none() {
            self.make_running(name, NodeType::Dag, call, template, NodePhase::Running);
        }
        let Some(dag) = &template.dag else { return Ok(()) };
        let id = self.id(name);
        let running =
            Running { name, id: &id, template, dag, tasks: Dependencies::of(dag), place, on_exit: call.on_exit };
        let done = self.run_tasks(&running);
        if self.node(name).is_some_and(NodeStatus::is_ended) {
            self.end_daemons(&id);
        }
        done
    }

    fn run_tasks(&mut self, running: &Running<'_>) -> Result<(), Halt> {
        let targets = running.tasks.targets(running.dag);
        let daemons: Vec<String> = running.dag.tasks.iter().map(|task| task.name.clone()).collect();
        let daemons =
            daemons.into_iter().filter(|task| self.node(&running.node_name(task)).is_some_and(NodeStatus::is_daemoned));
        let mut order = running.tasks.ordered(&targets);
        for daemon in daemons.collect::<Vec<_>>() {
            if !order.contains(&daemon) {
                order.insert(0, daemon);
            }
        }
        for task in &order {
            if let Some(task) = running.tasks.task(task) {
                self.run_task(running, task);
            }
        }
        let exits = targets.iter().all(|task| {
            let exit = self.node(&format!("{}.onExit", running.node_name(task)));
            exit.is_none_or(NodeStatus::is_fulfilled)
        });
        let phase = if !self.spec.shutdown.is_empty() && exits {
            if self.is_all_fulfilled(running.id) { NodePhase::Failed } else { NodePhase::Running }
        } else {
            self.dag_phase(running.id, running.name, running.dag, &running.tasks, &targets)
        };
        if phase == NodePhase::Running || !exits {
            return Ok(());
        }
        if phase.is_failure() {
            self.tie_targets(running, &targets);
            self.mark(running.name, phase, None);
            return Ok(());
        }
        self.give(running)?;
        self.tie_targets(running, &targets);
        self.mark(running.name, NodePhase::Succeeded, None);
        Ok(())
    }

    /// Whether everything that was started in a template has ended.
    fn is_all_fulfilled(&self, boundary: &str) -> bool {
        self.status.nodes.iter().all(|node| node.boundary_id != boundary || node.is_fulfilled())
    }

    fn run_task(&mut self, running: &Running<'_>, task: &Step) {
        let name = running.node_name(&task.name);
        if let Some(node) = self.node(&name).cloned()
            && (node.is_fulfilled() || node.phase == NodePhase::Running)
        {
            match self.run_task_hooks(running, task, &node) {
                Ok(true) => {}
                Ok(false) => return,
                Err(halt) => {
                    self.mark(&name, NodePhase::Error, Some(halt.words()));
                    return;
                }
            }
            if node.is_ended() {
                self.exit_task(running, task, &name);
                return;
            }
        }
        let needs = running.tasks.needs(&task.name).cloned().unwrap_or_default();
        if self.node(&name).is_none() && !needs.logic.is_empty() {
            match self.is_due(running, &needs.tasks, &needs.logic) {
                Ok(None) => return,
                Ok(Some(true)) => {}
                Ok(Some(false)) => {
                    self.leave_out(
                        running,
                        task,
                        &needs.tasks,
                        NodePhase::Omitted,
                        "omitted: depends condition not met",
                    );
                    return;
                }
                Err(message) => {
                    self.leave_out(running, task, &needs.tasks, NodePhase::Error, &message);
                    return;
                }
            }
        }
        match self.run_due(running, task, &needs.tasks) {
            Ok(()) | Err(Halt::Later) => {}
            Err(halt) => self.leave_out(running, task, &needs.tasks, NodePhase::Error, halt.words()),
        }
    }

    /// Runs a task whose turn it is, once or for each of its items.
    fn run_due(&mut self, running: &Running<'_>, task: &Step, needs: &[String]) -> Result<(), Halt> {
        let name = running.node_name(&task.name);
        let values = self.task_values(running, task)?;
        let referred = with_references(task, &values, &self.globals)?;
        let all = expanded(&referred, &values.over(&self.globals))?;
        let mut group = None;
        if task.expands() {
            if all.is_empty() {
                self.leave_out(running, task, needs, NodePhase::Skipped, "Skipped, empty params");
                return Ok(());
            }
            if self.node(&name).is_none() {
                self.tie_task(running, &name, needs, None);
                let call = Call { flag: Some(NodeFlag::default()), ..running.call(task) };
                self.make(&name, NodeType::TaskGroup, &call, NodePhase::Running);
            }
            group = Some(name.clone());
        }
        for one in &all {
            if !self.run_one(running, task, one, needs, group.as_deref())? {
                break;
            }
        }
        if let Some(group) = group {
            self.close_tasks(running, &group, &all);
        }
        Ok(())
    }

    /// Runs a task, or one of those it became; whether the next may run, too.
    #[expect(clippy::unnecessary_wraps, reason = "as the others of its kind")]
    fn run_one(
        &mut self,
        running: &Running<'_>,
        task: &Step,
        one: &Step,
        needs: &[String],
        group: Option<&str>,
    ) -> Result<bool, Halt> {
        let name = running.node_name(&one.name);
        let call = running.call(one);
        if self.node(&name).is_none() {
            let skip = match holds(&one.when) {
                Ok(true) => None,
                Ok(false) => Some((NodePhase::Skipped, format!("when '{}' evaluated false", one.when))),
                Err(message) => Some((NodePhase::Error, message)),
            };
            if let Some((phase, message)) = skip {
                self.tie_task(running, &name, needs, group);
                self.make_skipped(&name, &call, phase, &message);
                return Ok(true);
            }
        }
        let done = self.execute_template(&name, &call, &one.arguments);
        if self.node(&name).is_some() {
            self.tie_task(running, &name, needs, group);
        }
        match done {
            Ok(()) | Err(Halt::Depth | Halt::Parallelism | Halt::Later) => {}
            Err(Halt::Timeout) => {
                self.mark(&name, NodePhase::Failed, Some(Halt::Timeout.words()));
                return Ok(false);
            }
            Err(Halt::Failed(message)) => {
                self.mark(&name, NodePhase::Error, Some(&format!("task '{name}' errored: {message}")));
                return Ok(false);
            }
        }
        let Some(node) = self.node(&name) else { return Ok(false) };
        if node.is_completed() {
            self.exit_task(running, task, &name);
        }
        Ok(true)
    }

    /// Ends a group of tasks once all of them have ended.
    fn close_tasks(&mut self, running: &Running<'_>, group: &str, all: &[Step]) {
        let mut phase = NodePhase::Succeeded;
        for one in all {
            let name = running.node_name(&one.name);
            let Some(node) = self.node(&name).filter(|node| node.is_fulfilled()) else { return };
            let exit = self.node(&format!("{name}.onExit"));
            if exit.is_some_and(|exit| !exit.is_fulfilled()) {
                return;
            }
            if node.phase.is_failure() {
                phase = node.phase;
            }
        }
        self.mark(group, phase, None);
    }

    fn run_task_hooks(&mut self, running: &Running<'_>, task: &Step, node: &NodeStatus) -> Result<bool, Halt> {
        if task.hooks.is_empty() {
            return Ok(true);
        }
        let mut values = self.task_values(running, task)?;
        let prefix = format!("tasks.{}", task.name);
        self.show_node(&mut values, &prefix, node);
        let parent = Parent {
            name: &node.name,
            boundary: running.id,
            place: running.place,
            prefix: &prefix,
            on_exit: running.on_exit,
        };
        self.run_hooks(&task.hooks, &parent, &values)
    }

    /// Runs the exit handler of a task that has ended.
    fn exit_task(&mut self, running: &Running<'_>, task: &Step, name: &str) {
        let Some(hook) = task.exit_hook() else { return };
        let Some(node) = self.node(name).filter(|node| node.is_completed()).cloned() else { return };
        let prefix = format!("tasks.{}", task.name);
        let ran = self.task_values(running, task).and_then(|mut values| {
            self.show_node(&mut values, &prefix, &node);
            let parent =
                Parent { name, boundary: running.id, place: running.place, prefix: &prefix, on_exit: running.on_exit };
            self.run_exit_hook(Some(&hook), &parent, &values)
        });
        match ran {
            Ok(Exit::Done | Exit::Running) => {}
            Err(halt) => self.mark(&format!("{name}.onExit"), NodePhase::Error, Some(halt.words())),
        }
    }

    /// Whether a task should run by how those it waits for ended; none while they have not.
    fn is_due(&self, running: &Running<'_>, needs: &[String], logic: &str) -> Result<Option<bool>, String> {
        let mut values = Values::default();
        for need in needs {
            let name = running.node_name(need);
            let Some(node) = self.node(&name).filter(|node| node.is_fulfilled() && self.are_hooks_fulfilled(node))
            else {
                return Ok(None);
            };
            let children: Vec<NodePhase> = if node.kind == NodeType::TaskGroup {
                node.children.iter().filter_map(|id| self.status.nodes.get(id)).map(|child| child.phase).collect()
            } else {
                Vec::new()
            };
            let result = need.replace('-', "_");
            for (word, truth) in [
                ("Succeeded", node.phase == NodePhase::Succeeded),
                ("Failed", node.phase == NodePhase::Failed),
                ("Errored", node.phase == NodePhase::Error),
                ("Skipped", node.phase == NodePhase::Skipped),
                ("Omitted", node.phase == NodePhase::Omitted),
                ("Daemoned", node.is_daemoned() && node.phase != NodePhase::Pending),
                ("AnySucceeded", children.contains(&NodePhase::Succeeded)),
                ("AllFailed", !children.is_empty() && children.iter().all(|phase| *phase == NodePhase::Failed)),
            ] {
                values.truth(format!("{result}.{word}"), truth);
            }
        }
        let logic = logic.replace('-', "_");
        let due = decided(&logic, &values.whole());
        due.map(Some).map_err(|error| format!("unable to evaluate expression '{logic}': {error}"))
    }

    /// What a task sees of those it waits for.
    fn task_values(&mut self, running: &Running<'_>, task: &Step) -> Result<Values, Halt> {
        let mut values = Values::of(running.template);
        self.show_workflow(&mut values);
        let mut before: Vec<String> = running.tasks.ancestors(&task.name).into_iter().map(str::to_owned).collect();
        before.sort_by_key(|name| self.node(&running.node_name(name)).map(|node| node.finished_at));
        for name in before {
            if !self.show_task(running, &mut values, &name)? {
                return Err(Halt::Failed(format!("Ancestor task node {name} not found")));
            }
        }
        Ok(values)
    }

    /// What others see of a task, if it has a node.
    fn show_task(&mut self, running: &Running<'_>, values: &mut Values, task: &str) -> Result<bool, Halt> {
        let Some(node) = self.node(&running.node_name(task)).cloned() else { return Ok(false) };
        let prefix = format!("tasks.{task}");
        if node.kind == NodeType::TaskGroup {
            self.show_all(values, &prefix, running.id, &node.name).map_err(Halt::Failed)?;
        }
        self.show_node(values, &prefix, &node);
        if let Some(step) = running.tasks.task(task) {
            self.show_skipped(values, &prefix, &node.id, step, running.place, false);
        }
        Ok(true)
    }

    /// What the DAG gives.
    fn give(&mut self, running: &Running<'_>) -> Result<(), Halt> {
        let mut values = Values::of(running.template);
        self.show_workflow(&mut values);
        for task in &running.dag.tasks {
            self.show_task(running, &mut values, &task.name)?;
        }
        if let Some(outputs) = self.template_outputs(running.template, &values).map_err(Halt::Failed)? {
            self.publish(Some(&outputs));
            let id = running.id.to_owned();
            if let Some(node) = self.status.nodes.get_mut(&id) {
                node.outputs = Some(outputs);
            }
        }
        Ok(())
    }

    /// Makes a node for a task that does not run.
    fn leave_out(&mut self, running: &Running<'_>, task: &Step, needs: &[String], phase: NodePhase, message: &str) {
        let name = running.node_name(&task.name);
        if self.node(&name).is_some() {
            if phase.is_failure() {
                self.mark(&name, phase, Some(message));
            }
            return;
        }
        self.make_skipped(&name, &running.call(task), phase, message);
        self.tie_task(running, &name, needs, None);
    }

    /// Ties a task's node to what it waited for, or to its group.
    fn tie_task(&mut self, running: &Running<'_>, name: &str, needs: &[String], group: Option<&str>) {
        if let Some(group) = group {
            self.follow(group, name);
            return;
        }
        if needs.is_empty() {
            self.follow(running.name, name);
        }
        let id = self.id(name);
        for need in needs {
            let need = self.id(&running.node_name(need));
            for last in self.outbound(&need) {
                self.follow_id(&last, id.clone());
            }
        }
    }

    /// Says which nodes are the last ones of the DAG.
    fn tie_targets(&mut self, running: &Running<'_>, targets: &[String]) {
        let mut outbound = Vec::new();
        for target in targets {
            let id = self.id(&running.node_name(target));
            outbound.extend(self.outbound(&id));
        }
        if let Some(node) = self.status.nodes.get_mut(running.id) {
            node.outbound_nodes = outbound;
        }
    }
}
