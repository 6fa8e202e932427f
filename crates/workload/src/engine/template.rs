//! Running a template: its arguments, its limits, its attempts, and what its type does.

use super::nodes::as_attempt;
use super::retry::Retry;
use super::scope::Values;
use super::{Call, DEPTH_MAX, Halt, Operation, Place};
use crate::spec::{Arguments, Template, TemplateType};
use crate::status::{NodePhase, NodeType};
use crate::steps::names::pod_name;

/// Attempts that one look makes of one template.
const ATTEMPTS_MAX: usize = 32;

/// A call gets more stack when less than this is left, and so much of it: templates may call each other a hundred deep.
const STACK_LOW: usize = 256 << 10;
const STACK_MORE: usize = 4 << 20;

impl Operation<'_> {
    /// Moves the node of a template on, making it if it is not there.
    pub(super) fn execute_template(&mut self, name: &str, call: &Call<'_>, arguments: &Arguments) -> Result<(), Halt> {
        if self.is_settled(name) {
            return Ok(());
        }
        if self.depth + 1 >= DEPTH_MAX {
            self.make_or_mark_error(name, call, Halt::Depth.words());
            return Err(Halt::Depth);
        }
        self.depth += 1;
        let done = stacker::maybe_grow(STACK_LOW, STACK_MORE, || self.execute_within(name, call, arguments));
        self.depth -= 1;
        done
    }

    /// Whether there is nothing to do for a node until its pod says something.
    fn is_settled(&self, name: &str) -> bool {
        let Some(node) = self.node(name) else { return false };
        let is_known = || {
            let lodged = self.seen.lodged.get(&node.id) == Some(&true);
            lodged || self.has_pod(&node.id) || !node.host_node_name.is_empty()
        };
        // One in a sandbox that a controller before this one began is looked for.
        node.is_ended() || node.kind == NodeType::Pod && node.phase == NodePhase::Running && is_known()
    }

    fn execute_within(&mut self, name: &str, call: &Call<'_>, arguments: &Arguments) -> Result<(), Halt> {
        let (place, template) = match self.ready(name, call, arguments) {
            Ok(prepared) => prepared,
            Err(halt) => {
                self.make_or_mark_error(name, call, halt.words());
                return Err(halt);
            }
        };
        self.rename(name, &template);
        if self.is_timed_out(name, &template) {
            self.mark(name, NodePhase::Failed, Some(Halt::Timeout.words()));
            return Err(Halt::Timeout);
        }
        self.check_parallelism(name, &template, call.boundary)?;
        match self.retry_strategy(&template).map(Box::new) {
            None => self.execute_kind(name, call, &place, &template),
            Some(strategy) => self.execute_attempts(name, call, (&place, &template), &strategy),
        }
    }

    /// The template with its inputs in place. Templates are large and call each other deep: they are kept off the stack.
    #[inline(never)]
    fn ready(&mut self, name: &str, call: &Call<'_>, arguments: &Arguments) -> Result<(Place, Box<Template>), Halt> {
        let (place, template) = self.resolve(call).map_err(Halt::Failed)?;
        let mut locals = Values::default();
        if template.is_pod() && self.retry_strategy(&template).is_none() {
            locals.text("pod.name", pod_name(&self.identity.name, &template.name, name));
        }
        if let Some((variable, step)) = call.caller {
            locals.text(variable, step);
        }
        locals.text("node.name", name);
        Ok((place, Box::new(self.with_arguments(&template, arguments, &locals)?)))
    }

    /// The template of an attempt.
    #[inline(never)]
    fn ready_again(&self, template: &Template, locals: &Values) -> Result<Box<Template>, Halt> {
        self.substituted(template, locals).map(Box::new)
    }

    /// Runs attempts until the retry node has ended or the last one is still running.
    fn execute_attempts(
        &mut self,
        name: &str,
        call: &Call<'_>,
        (place, template): (&Place, &Template),
        strategy: &crate::spec::RetryStrategy,
    ) -> Result<(), Halt> {
        if self.node(name).is_none() {
            self.make_running(name, NodeType::Retry, call, template, NodePhase::Running);
        }
        // An attempt may end on the spot, and there may be no limit: the rest is for the next look.
        for _ in 0..ATTEMPTS_MAX {
            let deadline = match self.next_attempt(name, strategy) {
                Ok(Retry::Wait) => return Ok(()),
                Ok(Retry::Go { deadline }) => deadline,
                Err(message) => {
                    self.mark(name, NodePhase::Error, Some(&message));
                    return Err(Halt::Failed(message));
                }
            };
            let node = self.node(name).ok_or_else(|| Halt::Failed(format!("no node {name}")))?;
            if node.is_fulfilled() {
                return Ok(());
            }
            let made = super::nodes::attempts(&self.status.nodes, node).len();
            let last = self.last_attempt(node);
            let running = last.filter(|last| !last.is_ended()).map(|last| last.name.clone());
            let number = if running.is_some() { made.saturating_sub(1) } else { made };
            let attempt = running.unwrap_or_else(|| format!("{name}({number})"));
            self.follow(name, &attempt);
            let locals = self.attempt_values(name, &attempt, number, template);
            let call = Call { flag: Some(as_attempt(call.flag)), deadline: deadline.or(call.deadline), ..*call };
            let ended = match self.ready_again(template, &locals) {
                Ok(template) => self.execute_kind(&attempt, &call, place, &template),
                Err(halt) => {
                    self.make_or_mark_error(&attempt, &call, halt.words());
                    Err(halt)
                }
            };
            if let Err(halt) = ended {
                let retries = matches!(super::retry::policy(strategy), "Always" | "OnError" | "OnTransientError");
                if !retries || !matches!(halt, Halt::Failed(_)) {
                    return Err(halt);
                }
            }
            self.pass_on_daemon(name, &attempt);
            if !self.node(&attempt).is_some_and(crate::status::NodeStatus::is_ended) {
                return Ok(());
            }
        }
        self.wake(self.now.saturating_add(jiff::SignedDuration::from_secs(1)).unwrap_or(self.now));
        Ok(())
    }

    fn pass_on_daemon(&mut self, name: &str, attempt: &str) {
        let running = self.node(attempt).filter(|attempt| attempt.is_daemoned() && !attempt.is_ended());
        if let Some(phase) = running.map(|attempt| attempt.phase) {
            self.mark(name, phase, None);
            let id = self.id(name);
            if let Some(node) = self.status.nodes.get_mut(&id) {
                node.daemoned = Some(true);
            }
        }
    }

    fn execute_kind(&mut self, name: &str, call: &Call<'_>, place: &Place, template: &Template) -> Result<(), Halt> {
        let done = match template.kind() {
            Some(TemplateType::Steps) => self.execute_steps(name, call, place, template),
            Some(TemplateType::Dag) => self.execute_dag(name, call, place, template),
            Some(TemplateType::Suspend) => self.execute_suspend(name, call, template).map_err(Halt::Failed),
            Some(TemplateType::Container | TemplateType::Script | TemplateType::Resource) => {
                self.execute_pod(name, call, template);
                Ok(())
            }
            Some(other) => Err(Halt::Failed(format!("templates of type {} are not supported", other.name()))),
            None => Err(Halt::Failed(format!("Template '{}' missing specification", template.name))),
        };
        if let Err(Halt::Failed(message)) = &done {
            self.make_or_mark_error(name, call, message);
        }
        done
    }

    /// A template may name its nodes.
    fn rename(&mut self, name: &str, template: &Template) {
        let id = self.id(name);
        if let Some(shown) = template.annotations.get("workflows.argoproj.io/display-name")
            && let Some(node) = self.status.nodes.get_mut(&id)
            && node.display_name != *shown
        {
            node.display_name.clone_from(shown);
            self.changed = true;
        }
    }

    /// Whether a node still waits although its time is over.
    fn is_timed_out(&mut self, name: &str, template: &Template) -> bool {
        let Ok(timeout) = super::duration::parsed(&template.timeout) else { return false };
        let Some(node) = self.node(name).filter(|node| node.phase == NodePhase::Pending) else { return false };
        let Some(deadline) = node.started_at.time().and_then(|start| start.checked_add(timeout).ok()) else {
            return false;
        };
        self.wake(deadline);
        self.now > deadline
    }
}
