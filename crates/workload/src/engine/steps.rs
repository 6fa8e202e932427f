//! Groups of steps, one after another.

use std::collections::BTreeMap;

use super::expand::{expanded, with_references};
use super::hooks::{Exit, Parent};
use super::outputs::call_of;
use super::scope::{Values, holds};
use super::{Call, Halt, Operation, Place};
use crate::spec::{Step, Template};
use crate::status::{NodePhase, NodeStatus, NodeType};

/// The template whose groups run.
struct Around<'g> {
    id: &'g str,
    place: &'g Place,
    on_exit: bool,
}

impl Operation<'_> {
    pub(super) fn execute_steps(
        &mut self,
        name: &str,
        call: &Call<'_>,
        place: &Place,
        template: &Template,
    ) -> Result<(), Halt> {
        if self.node(name).is_none() {
            self.make_running(name, NodeType::Steps, call, template, NodePhase::Running);
        }
        let id = self.id(name);
        let around = Around { id: &id, place, on_exit: call.on_exit };
        let done = self.run_groups(name, &around, template);
        if self.node(name).is_some_and(NodeStatus::is_ended) {
            self.end_daemons(&id);
        }
        done
    }

    fn run_groups(&mut self, name: &str, around: &Around<'_>, template: &Template) -> Result<(), Halt> {
        let groups = template.steps.as_deref().unwrap_or_default();
        let mut values = Values::of(template);
        self.show_workflow(&mut values);
        for (index, steps) in groups.iter().enumerate() {
            let group = format!("{name}[{index}]");
            self.open_group(name, &group, index, around);
            match self.run_group(&group, steps, around, &mut values) {
                Ok(()) => {}
                Err(Halt::Later) => return Ok(()),
                Err(halt) => {
                    self.mark(&group, NodePhase::Error, Some(halt.words()));
                }
            }
            let node = self.node(&group).ok_or_else(|| Halt::Failed(format!("no node {group}")))?;
            if !node.is_fulfilled() {
                return Ok(());
            }
            if node.phase.is_failure() {
                let message = node.message.clone();
                self.tie_groups(name, groups.len());
                self.mark(name, NodePhase::Failed, Some(&message));
                return Ok(());
            }
            for step in steps {
                self.show_step(&mut values, &group, step, around)?;
            }
        }
        self.tie_groups(name, groups.len());
        if let Some(outputs) = self.template_outputs(template, &values).map_err(Halt::Failed)? {
            self.publish(Some(&outputs));
            let id = around.id.to_owned();
            if let Some(node) = self.status.nodes.get_mut(&id) {
                node.outputs = Some(outputs);
            }
        }
        self.mark(name, NodePhase::Succeeded, None);
        Ok(())
    }

    /// Makes a group's node, and ties it to what ran before.
    fn open_group(&mut self, name: &str, group: &str, index: usize, around: &Around<'_>) {
        let empty = Step::default();
        let call = Call {
            boundary: around.id,
            caller: None,
            flag: Some(crate::status::NodeFlag::default()),
            ..call_of(&empty, around.place)
        };
        if self.node(group).is_none() {
            self.make(group, NodeType::StepGroup, &call, NodePhase::Running);
        }
        if index == 0 {
            self.follow(name, group);
            return;
        }
        let before = format!("{name}[{}]", index - 1);
        let children = self.node(&before).map(|node| node.children.clone()).unwrap_or_default();
        if children.is_empty() {
            self.follow(&before, group);
        }
        let id = self.id(group);
        for child in children {
            for last in self.outbound(&child) {
                self.follow_id(&last, id.clone());
            }
        }
    }

    fn run_group(&mut self, group: &str, steps: &[Step], around: &Around<'_>, values: &mut Values) -> Result<(), Halt> {
        if self.is_group_fulfilled(group) {
            return Ok(());
        }
        let all = self.unfold(group, steps, around, values)?;
        let mut by_name = BTreeMap::new();
        for step in &all {
            let child = format!("{group}.{}", step.name);
            self.run_step(group, &child, step, around)?;
            by_name.insert(child, step);
        }
        self.close_group(group, &by_name, around, values)
    }

    /// The steps of a group with what is known in place, one for each item.
    #[inline(never)]
    fn unfold(&mut self, group: &str, steps: &[Step], around: &Around<'_>, values: &Values) -> Result<Vec<Step>, Halt> {
        let mut all = Vec::new();
        for step in steps {
            let referred = with_references(step, values, &self.globals).map_err(|halt| match halt {
                Halt::Failed(message) => Halt::Failed(format!("failed to resolve references: {message}")),
                other => other,
            })?;
            let expanded = expanded(&referred, &values.over(&self.globals))?;
            if expanded.is_empty() {
                self.skip(group, &referred, around, NodePhase::Skipped, "Skipped, empty params");
            }
            all.extend(expanded);
        }
        Ok(all)
    }

    fn skip(&mut self, group: &str, step: &Step, around: &Around<'_>, phase: NodePhase, message: &str) {
        let child = format!("{group}.{}", step.name);
        if self.node(&child).is_none() {
            let call = Call { boundary: around.id, ..call_of(step, around.place) };
            self.make_skipped(&child, &call, phase, message);
            self.follow(group, &child);
        }
    }

    fn run_step(&mut self, group: &str, child: &str, step: &Step, around: &Around<'_>) -> Result<(), Halt> {
        match holds(&step.when) {
            Ok(true) => {}
            Ok(false) => {
                self.skip(group, step, around, NodePhase::Skipped, &format!("when '{}' evaluated false", step.when));
                return Ok(());
            }
            Err(message) => {
                self.skip(group, step, around, NodePhase::Error, &message);
                return Err(Halt::Failed(message));
            }
        }
        let call = Call { boundary: around.id, on_exit: around.on_exit, ..call_of(step, around.place) };
        let done = self.execute_template(child, &call, &step.arguments);
        if self.node(child).is_some() {
            self.follow(group, child);
        }
        match done {
            Ok(()) | Err(Halt::Parallelism | Halt::Depth | Halt::Later) => Ok(()),
            Err(Halt::Timeout) => {
                self.mark(group, NodePhase::Failed, Some(Halt::Timeout.words()));
                Ok(())
            }
            Err(Halt::Failed(message)) => {
                Err(Halt::Failed(format!("step group deemed errored due to child {child} error: {message}")))
            }
        }
    }

    /// Ends the group once all its steps and their hooks have ended.
    fn close_group(
        &mut self,
        group: &str,
        steps: &BTreeMap<String, &Step>,
        around: &Around<'_>,
        values: &mut Values,
    ) -> Result<(), Halt> {
        let children = self.node(group).map(|node| node.children.clone()).unwrap_or_default();
        // Those that may not start yet have no node, unless none will start any more.
        let failed = self.node(group).is_some_and(|node| node.phase.is_failure());
        let mut completed = failed || steps.keys().all(|name| self.node(name).is_some());
        for id in &children {
            let Some(node) = self.status.nodes.get(id).cloned() else { continue };
            let Some(step) = steps.get(&node.name) else { continue };
            values.text(format!("steps.{}.status", node.display_name), node.phase.word());
            let prefix = format!("steps.{}", step.name);
            let parent = Parent {
                name: &node.name,
                boundary: around.id,
                place: around.place,
                prefix: &prefix,
                on_exit: around.on_exit,
            };
            let mut seen = values.clone();
            self.show_node(&mut seen, &prefix, &node);
            if !self.run_hooks(&step.hooks, &parent, &seen)? {
                return Ok(());
            }
            if !node.is_fulfilled() {
                completed = false;
            } else if node.is_completed() {
                let exit = self.run_exit_hook(step.exit_hook().as_ref(), &parent, &seen)?;
                completed &= exit == Exit::Done;
            }
        }
        if !completed {
            if self.node(group).is_some_and(NodeStatus::is_fulfilled) {
                self.mark(group, NodePhase::Running, None);
            }
            return Ok(());
        }
        for id in &children {
            let Some(node) = self.status.nodes.get(id) else { continue };
            let continues = steps.get(&node.name).is_some_and(|step| continues_on(step, node.phase));
            if node.phase.is_failure() && !continues {
                self.mark(group, NodePhase::Failed, Some(&format!("child '{id}' failed")));
                return Ok(());
            }
        }
        self.mark(group, NodePhase::Succeeded, None);
        Ok(())
    }

    /// What later groups see of a step.
    fn show_step(&mut self, values: &mut Values, group: &str, step: &Step, around: &Around<'_>) -> Result<(), Halt> {
        let child = format!("{group}.{}", step.name);
        let prefix = format!("steps.{}", step.name);
        match self.node(&child).cloned() {
            Some(node) => {
                self.show_node(values, &prefix, &node);
                self.show_skipped(values, &prefix, &node.id, step, around.place, true);
            }
            None => {
                self.show_all(values, &prefix, around.id, &child).map_err(Halt::Failed)?;
                if let Some(node) = self.node(group).cloned() {
                    self.show_node(values, &prefix, &node);
                }
            }
        }
        Ok(())
    }

    /// Says which nodes are the last ones of the template.
    fn tie_groups(&mut self, name: &str, groups: usize) {
        let last = (0..groups).rev().find_map(|index| self.node(&format!("{name}[{index}]")));
        let children = last.map(|node| node.children.clone()).unwrap_or_default();
        let outbound: Vec<String> = children.iter().flat_map(|child| self.outbound(child)).collect();
        let id = self.id(name);
        if let Some(node) = self.status.nodes.get_mut(&id) {
            node.outbound_nodes = outbound;
        }
    }
}

/// Whether a step's failure does not fail what it is in.
pub(super) fn continues_on(step: &Step, phase: NodePhase) -> bool {
    step.continue_on
        .as_ref()
        .is_some_and(|on| on.failed && phase == NodePhase::Failed || on.error && phase == NodePhase::Error)
}
