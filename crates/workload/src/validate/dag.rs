//! DAG templates.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::scope::{Known, Names, add_items};
use super::steps::{inline_inputs, not_leaf};
use super::template::as_json;
use super::{Base, Called, Validator, arguments, names};
use crate::spec::depends::{self, Dependency};
use crate::spec::{Arguments, Step, Template};
use crate::template::tags;

type Dependencies = BTreeMap<String, Dependency>;

/// The tasks of a DAG and what each depends on.
struct Graph<'a> {
    tasks: HashMap<&'a str, &'a Step>,
    dependencies: HashMap<&'a str, Dependencies>,
}

impl Validator<'_> {
    pub(super) fn dag(&mut self, known: &mut Known, base: &Base, template: &Template) -> Result<(), String> {
        not_leaf(template)?;
        let Some(dag) = &template.dag else { return Ok(()) };
        let at = format!("templates.{}", template.name);
        if dag.tasks.is_empty() {
            return Err(format!("{at} must have at least one task"));
        }
        let tasks: HashMap<&str, &Step> = dag.tasks.iter().map(|task| (task.name.as_str(), task)).collect();
        let dependencies = dag.tasks.iter().map(|task| {
            let find = |name: &str| tasks.get(name).copied();
            (task.name.as_str(), depends::dependencies(task, find).0)
        });
        let graph = Graph { dependencies: dependencies.collect(), tasks };
        let sorted = sorted(&dag.tasks, &graph).map_err(|error| format!("{at} sorting failed: {error}"))?;
        names::fields(sorted.iter().map(|task| task.name.as_str()), names::field)
            .map_err(|error| format!("{at}.tasks{error}"))?;
        let by_depends = dag.tasks.iter().any(|task| !task.depends.is_empty());
        for task in &sorted {
            check_style(&at, task, by_depends)?;
            let path = format!("{at}.tasks.{}", task.name);
            let called = self.holder(task, base, &Called::Anything).map_err(|error| format!("{path} {error}"))?;
            let aggregate =
                task.with_items.as_ref().is_some_and(|items| !items.is_empty()) || !task.with_param.is_empty();
            self.add_outputs(called.as_ref(), &format!("tasks.{}", task.name), known, aggregate);
            depends::check_results(&task.depends).map_err(|error| format!("{path} {error}"))?;
            check_items(&at, task, &graph)?;
        }
        let none = (Known::new(), BTreeSet::new());
        let names = Names { known, own: &none.0, ancestors: &none.1 };
        self.resolve(&names, &Value::String(dag.target.clone())).map_err(|error| format!("{at}.targets {error}"))?;
        for target in dag.target.split(' ').filter(|_| !dag.target.is_empty()) {
            if !names::is_variable(target) && !graph.tasks.contains_key(target) {
                return Err(format!("{at}.targets: target '{target}' is not defined"));
            }
        }
        sorted.iter().try_for_each(|task| self.task(known, base, &at, task, &graph))
    }

    fn task(&mut self, known: &mut Known, base: &Base, at: &str, task: &Step, graph: &Graph<'_>) -> Result<(), String> {
        let path = format!("{at}.tasks.{}", task.name);
        if !task.hooks.is_empty() {
            known.insert(format!("tasks.{}.status", task.name));
        }
        let mut own = inline_inputs(task);
        add_items(task, &mut own).map_err(|error| format!("{path} {error}"))?;
        let json = as_json(task)?;
        let ancestors = if needs_ancestors(&json) { ancestors(&task.name, graph) } else { BTreeSet::new() };
        let names = Names { known, own: &own, ancestors: &ancestors };
        self.resolve(&names, &json).map_err(|error| format!("{path} {error}"))?;
        arguments::check(&format!("{path}.arguments."), &task.arguments, false)?;
        check_order(&task.arguments, &ancestors).map_err(|error| format!("{path} {error}"))?;
        self.holder(task, base, &Called::With(&task.arguments)).map_err(|error| format!("{path} {error}"))?;
        Ok(())
    }
}

fn check_style(at: &str, task: &Step, by_depends: bool) -> Result<(), String> {
    let ordered = by_depends || !task.dependencies.is_empty();
    if ordered && task.name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!(
            "{at}.tasks.{} name cannot begin with a digit when using either 'depends' or 'dependencies'",
            task.name
        ));
    }
    if by_depends && !task.dependencies.is_empty() {
        return Err(format!("{at} cannot use both 'depends' and 'dependencies' in the same DAG template"));
    }
    if by_depends && task.continue_on.is_some() {
        return Err(format!(
            "{at} cannot use 'continueOn' when using 'depends'. Instead use 'dep-task.Failed'/'dep-task.Errored'"
        ));
    }
    Ok(())
}

fn check_items(at: &str, task: &Step, graph: &Graph<'_>) -> Result<(), String> {
    for (name, kind) in &graph.dependencies[task.name.as_str()] {
        let Some(dependency) = graph.tasks.get(name.as_str()) else {
            return Err(format!("{at}.tasks.{} dependency '{name}' not defined", task.name));
        };
        if *kind == Dependency::Items && !dependency.expands() {
            return Err(format!(
                "{at}.tasks.{name} dependency '{name}' uses an items-based condition such as .AnySucceeded or .AllFailed but does not contain any items"
            ));
        }
    }
    Ok(())
}

/// Whether a task's text refers to other tasks at all.
fn needs_ancestors(value: &Value) -> bool {
    match value {
        Value::String(text) => tags(text).any(|tag| tag.trim().starts_with("tasks.")),
        Value::Array(values) => values.iter().any(needs_ancestors),
        Value::Object(fields) => fields.values().any(needs_ancestors),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether what an argument refers to comes before.
fn check_order(arguments: &Arguments, ancestors: &BTreeSet<&str>) -> Result<(), String> {
    let referred =
        |text: &str| text.starts_with("{{tasks.").then(|| text.split('.').nth(1).unwrap_or_default().to_owned());
    for parameter in &arguments.parameters {
        let task = parameter.value.as_ref().and_then(|value| referred(value.as_str()));
        if let Some(task) = task.filter(|task| !ancestors.contains(task.as_str())) {
            return Err(format!("missing dependency '{task}' for parameter '{}'", parameter.name));
        }
    }
    for artifact in &arguments.artifacts {
        if let Some(task) = referred(&artifact.from).filter(|task| !ancestors.contains(task.as_str())) {
            return Err(format!("missing dependency '{task}' for artifact '{}'", artifact.name));
        }
    }
    Ok(())
}

fn ancestors<'a>(task: &str, graph: &'a Graph<'_>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&str> =
        graph.dependencies.get(task).into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    while let Some(name) = waiting.pop() {
        if found.insert(name) {
            waiting.extend(graph.dependencies.get(name).into_iter().flatten().map(|(name, _)| name.as_str()));
        }
    }
    found
}

/// The tasks in an order in which each comes after what it depends on.
fn sorted<'a>(tasks: &'a [Step], graph: &Graph<'_>) -> Result<Vec<&'a Step>, String> {
    let mut seen = HashSet::new();
    let mut waits: HashMap<&str, usize> = HashMap::new();
    let mut next: HashMap<&str, Vec<&'a Step>> = HashMap::new();
    for task in tasks {
        if !seen.insert(task.name.as_str()) {
            return Err(format!("duplicated nodeName {}", task.name));
        }
    }
    for task in tasks {
        let dependencies = &graph.dependencies[task.name.as_str()];
        waits.insert(&task.name, dependencies.len());
        for name in dependencies.keys() {
            let Some(known) = graph.tasks.get(name.as_str()) else { return Err(format!("invalid dependency {name}")) };
            next.entry(known.name.as_str()).or_default().push(task);
        }
    }
    let mut ready: VecDeque<&Step> = tasks.iter().filter(|task| waits[task.name.as_str()] == 0).collect();
    let mut sorted = Vec::with_capacity(tasks.len());
    while let Some(task) = ready.pop_front() {
        sorted.push(task);
        for after in next.get(task.name.as_str()).into_iter().flatten().copied() {
            let waiting = waits.entry(after.name.as_str()).or_default();
            *waiting = waiting.saturating_sub(1);
            if *waiting == 0 {
                ready.push_back(after);
            }
        }
    }
    if sorted.len() < tasks.len() {
        return Err("graph with cycle".to_owned());
    }
    Ok(sorted)
}
