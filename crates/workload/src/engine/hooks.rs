//! Templates that run when a condition holds, and at the end.

use std::collections::BTreeMap;

use super::scope::{Values, decided, replaced};
use super::{Call, Halt, Operation, Place};
use crate::spec::{Arguments, Hook, Outputs};
use crate::status::NodeFlag;

/// What a hook hangs on.
pub(super) struct Parent<'p> {
    /// The node's name.
    pub(super) name: &'p str,
    /// The id of the node of its template.
    pub(super) boundary: &'p str,
    /// Where templates are searched.
    pub(super) place: &'p Place,
    /// How its outputs are called: `steps.NAME` or `tasks.NAME`.
    pub(super) prefix: &'p str,
    pub(super) on_exit: bool,
}

/// How an exit handler is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// There is none, or it has ended.
    Done,
    /// It runs or will.
    Running,
}

impl Operation<'_> {
    /// Runs the hooks of the Workflow whose conditions hold; whether all that run have ended.
    pub(super) fn run_workflow_hooks(&mut self, place: &Place) -> Result<bool, Halt> {
        let (spec, name) = (std::sync::Arc::clone(&self.spec), self.identity.name.clone());
        let parent = Parent { name: &name, boundary: "", place, prefix: "", on_exit: false };
        self.run_hooks(&spec.hooks, &parent, &Values::default())
    }

    /// Runs the hooks of a step or task whose conditions hold; whether all that run have ended.
    pub(super) fn run_hooks(
        &mut self,
        hooks: &BTreeMap<String, Hook>,
        parent: &Parent<'_>,
        values: &Values,
    ) -> Result<bool, Halt> {
        let mut all_ended = true;
        for (event, hook) in hooks.iter().filter(|(event, _)| *event != "exit") {
            let name = format!("{}.hooks.{event}", parent.name);
            if hook.expression.is_empty() {
                return Err(Halt::Failed(format!("Expression required for hook {name}")));
            }
            let scope = values.over(&self.globals);
            let wanted = decided(&hook.expression, &scope).map_err(Halt::Failed)?;
            if !wanted && self.node(&name).is_none() {
                continue;
            }
            let arguments = self.hook_arguments(&hook.arguments, parent, values)?;
            self.execute_template(&name, &hook_call(hook, parent, false), &arguments)?;
            self.follow(parent.name, &name);
            all_ended &= self.node(&name).is_some_and(crate::status::NodeStatus::is_fulfilled);
        }
        Ok(all_ended)
    }

    /// Runs the exit handler of a step or task that has ended.
    pub(super) fn run_exit_hook(
        &mut self,
        hook: Option<&Hook>,
        parent: &Parent<'_>,
        values: &Values,
    ) -> Result<Exit, Halt> {
        let Some(hook) = hook.filter(|_| self.may_exit()) else { return Ok(Exit::Done) };
        if !hook.expression.is_empty() {
            let scope = values.over(&self.globals);
            if !decided(&hook.expression, &scope).map_err(Halt::Failed)? {
                return Ok(Exit::Done);
            }
        }
        let name = format!("{}.onExit", parent.name);
        let arguments = self.hook_arguments(&hook.arguments, parent, values)?;
        let done = self.execute_template(&name, &hook_call(hook, parent, true), &arguments);
        if self.node(&name).is_some() {
            self.follow(parent.name, &name);
        }
        match done {
            Ok(()) | Err(Halt::Parallelism) => {}
            Err(halt) => return Err(halt),
        }
        let ended = self.node(&name).is_some_and(crate::status::NodeStatus::is_fulfilled);
        Ok(if ended { Exit::Done } else { Exit::Running })
    }

    /// Whether exit handlers run.
    pub(super) fn may_exit(&self) -> bool {
        self.spec.shutdown != "Terminate"
    }

    /// A hook's arguments, which may be outputs of what it hangs on.
    fn hook_arguments(&self, arguments: &Arguments, parent: &Parent<'_>, values: &Values) -> Result<Arguments, Halt> {
        if arguments.is_empty() {
            return Ok(Arguments::default());
        }
        let mut values = values.clone();
        let outputs = self.node(parent.name).and_then(|node| self.effective(node).outputs.clone());
        show(&mut values, parent.prefix, outputs.as_ref());
        let mut arguments = arguments.clone();
        super::arguments::mark_absent(&mut arguments, &values);
        let mut arguments: Arguments = replaced(&arguments, &values.over(&self.globals))?;
        for artifact in &mut arguments.artifacts {
            if artifact.from.is_empty() && artifact.from_expression.is_empty() {
                continue;
            }
            match values.resolve_artifact(artifact) {
                Ok(found) => *artifact = crate::spec::Artifact { name: artifact.name.clone(), ..found },
                Err(_) if artifact.optional => {}
                Err(error) => return Err(Halt::Failed(format!("unable to resolve references: {error}"))),
            }
        }
        Ok(arguments)
    }
}

fn show(values: &mut Values, prefix: &str, outputs: Option<&Outputs>) {
    for parameter in outputs.iter().flat_map(|outputs| &outputs.parameters) {
        let text = parameter.value.as_ref().map(|value| value.as_str().to_owned()).unwrap_or_default();
        values.text(format!("{prefix}.outputs.parameters.{}", parameter.name), text);
    }
    for artifact in outputs.iter().flat_map(|outputs| &outputs.artifacts) {
        values.artifact(format!("{prefix}.outputs.artifacts.{}", artifact.name), artifact);
    }
    if let Some(result) = outputs.and_then(|outputs| outputs.result.as_ref()) {
        values.text(format!("{prefix}.outputs.result"), &**result);
    }
}

/// How a hook calls its template.
pub(super) fn hook_call<'c>(hook: &'c Hook, parent: &Parent<'c>, on_exit: bool) -> Call<'c> {
    Call {
        template_name: &hook.template,
        template_ref: hook.template_ref.as_ref(),
        inline: None,
        scope: parent.place,
        boundary: parent.boundary,
        flag: Some(NodeFlag { hooked: true, retried: false }),
        on_exit: on_exit || parent.on_exit,
        caller: None,
        deadline: None,
    }
}
