//! One step or task for each of its items.

use super::Halt;
use super::scope::{Values, holds, replaced};
use crate::spec::{Step, display_item, item_name, items};
use crate::template::Scope;

/// The steps that one with items becomes; one without stays as it is.
pub(super) fn expanded(step: &Step, scope: &Scope) -> Result<Vec<Step>, Halt> {
    if !step.expands() {
        return Ok(vec![step.clone()]);
    }
    let items = match items(step) {
        Ok(items) => items.unwrap_or_default(),
        // What would not run anyway may have what cannot be expanded.
        Err(_) if holds(&step.when) == Ok(false) => Vec::new(),
        Err(error) => return Err(Halt::Failed(error.to_string())),
    };
    let single = Step { with_items: None, with_param: String::new(), with_sequence: None, ..step.clone() };
    let below = std::sync::Arc::new(scope.clone());
    let mut all = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let mut scope = Scope::over(&below);
        scope.insert("item", display_item(item));
        if let Some(fields) = item.as_object() {
            for (name, value) in fields {
                scope.insert(format!("item.{name}"), display_item(value));
            }
        }
        let mut one = replaced(&single, &scope)?;
        one.name = item_name(&step.name, index, item);
        one.template.clone_from(&step.template);
        all.push(one);
    }
    Ok(all)
}

/// A step with all that is known in place, but for its hooks, which see what it gives.
pub(super) fn with_references(step: &Step, values: &Values, globals: &Values) -> Result<Step, Halt> {
    let scope = values.over(globals);
    let mut step = step.clone();
    let hooks = std::mem::take(&mut step.hooks);
    if !step.when.is_empty() {
        let when = super::scope::resolved(&step.when, &scope)?;
        match holds(&when) {
            Ok(true) => {}
            Ok(false) => return Ok(Step { when, hooks, ..step }),
            // It may be about an item.
            Err(_) if step.expands() => {}
            Err(message) => return Err(Halt::Failed(message)),
        }
    }
    super::arguments::mark_absent(&mut step.arguments, values);
    let mut step: Step = super::scope::resolved(&step, &scope)?;
    step.hooks = hooks;
    let mut artifacts = Vec::new();
    for artifact in std::mem::take(&mut step.arguments.artifacts) {
        if artifact.from.is_empty() && artifact.from_expression.is_empty() {
            artifacts.push(artifact);
            continue;
        }
        match values.resolve_artifact(&artifact) {
            Ok(mut found) => {
                found.name = artifact.name;
                artifacts.push(found);
            }
            Err(_) if artifact.optional => {}
            Err(message) => return Err(Halt::Failed(format!("unable to resolve references: {message}"))),
        }
    }
    step.arguments.artifacts = artifacts;
    Ok(step)
}
