//! Steps templates.

use std::collections::{BTreeSet, HashSet};

use super::scope::{Known, Names, add_items};
use super::template::as_json;
use super::{Base, Called, Validator, arguments, check_hooks, names};
use crate::spec::{Step, Template};

impl Validator<'_> {
    pub(super) fn steps(&mut self, known: &mut Known, base: &Base, template: &Template) -> Result<(), String> {
        not_leaf(template)?;
        let mut seen = HashSet::new();
        for (index, group) in template.steps.iter().flatten().enumerate() {
            for step in group {
                let at = format!("templates.{}.steps[{index}]", template.name);
                if step.name.is_empty() {
                    return Err(format!("{at}.name is required"));
                }
                if !seen.insert(step.name.as_str()) {
                    return Err(format!("{at}.name '{}' is not unique", step.name));
                }
                let errors = names::step(&step.name);
                if !errors.is_empty() {
                    return Err(format!("{at}.name '{}' is invalid: {}", step.name, errors.join(";")));
                }
                self.step(known, base, template, &format!("{at}.{}", step.name), step)?;
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        known: &mut Known,
        base: &Base,
        template: &Template,
        at: &str,
        step: &Step,
    ) -> Result<(), String> {
        let prefix = format!("steps.{}", step.name);
        known.insert(format!("{prefix}.status"));
        add_items(step, known).map_err(|error| format!("{at} {error}"))?;
        arguments::check(&format!("{at}.arguments."), &step.arguments, false)?;
        let called = self.holder(step, base, &Called::Anything).map_err(|error| format!("{at} {error}"))?;
        if step.exit_hook().is_some() {
            self.add_outputs(called.as_ref(), &prefix, known, false);
        }
        check_hooks(&step.hooks, at)?;
        let own = inline_inputs(step);
        let names = Names { known, own: &own, ancestors: &BTreeSet::new() };
        self.resolve(&names, &as_json(step)?).map_err(|error| format!("templates.{}.steps {error}", template.name))?;
        let aggregate = step.with_items.as_ref().is_some_and(|items| !items.is_empty()) || !step.with_param.is_empty();
        self.add_outputs(called.as_ref(), &prefix, known, aggregate);
        self.holder(step, base, &Called::With(&step.arguments)).map_err(|error| format!("{at} {error}"))?;
        Ok(())
    }
}

/// The inputs of a template written in place, which its step may use, too.
pub(super) fn inline_inputs(step: &Step) -> Known {
    let inputs = step.inline.iter().flat_map(|inline| &inline.inputs.parameters);
    inputs.map(|input| format!("inputs.parameters.{}", input.name)).collect()
}

pub(super) fn not_leaf(template: &Template) -> Result<(), String> {
    if template.active_deadline_seconds.is_some() {
        return Err(format!("templates.{}.activeDeadlineSeconds is only valid for leaf templates", template.name));
    }
    Ok(())
}
