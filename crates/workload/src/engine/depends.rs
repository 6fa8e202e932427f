//! What a task of a DAG waits for.

use std::collections::{BTreeMap, BTreeSet};

use crate::spec::{Dag, Step};

/// What each task waits for, worked out once.
pub(super) struct Dependencies<'d> {
    tasks: BTreeMap<&'d str, &'d Step>,
    of: BTreeMap<&'d str, Needs>,
}

/// What one task waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// The tasks.
    pub(super) tasks: Vec<String>,
    /// The condition over their ends, empty for none.
    pub(super) logic: String,
}

impl<'d> Dependencies<'d> {
    pub(super) fn of(dag: &'d Dag) -> Self {
        let tasks: BTreeMap<&str, &Step> = dag.tasks.iter().map(|task| (task.name.as_str(), task)).collect();
        let of = tasks.iter().map(|(name, task)| (*name, needs(task, &tasks))).collect();
        Self { tasks, of }
    }

    pub(super) fn task(&self, name: &str) -> Option<&'d Step> {
        self.tasks.get(name).copied()
    }

    pub(super) fn needs(&self, name: &str) -> Option<&Needs> {
        self.of.get(name)
    }

    /// The tasks that decide how the DAG ends: those named, or those nobody waits for.
    pub(super) fn targets(&self, dag: &Dag) -> Vec<String> {
        if !dag.target.is_empty() {
            return dag.target.split(' ').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        }
        let needed: BTreeSet<&str> = self.of.values().flat_map(|needs| &needs.tasks).map(String::as_str).collect();
        self.tasks.keys().filter(|name| !needed.contains(**name)).map(|name| (*name).to_owned()).collect()
    }

    /// These tasks and all they wait for, each after what it waits for.
    pub(super) fn ordered(&self, targets: &[String]) -> Vec<String> {
        let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
        for target in targets {
            if !seen.insert(target.as_str()) {
                continue;
            }
            let mut stack = vec![(target.as_str(), 0)];
            while let Some((name, next)) = stack.pop() {
                let needs = self.of.get(name).map(|needs| needs.tasks.as_slice()).unwrap_or_default();
                match needs.get(next) {
                    Some(need) => {
                        stack.push((name, next + 1));
                        if seen.insert(need) {
                            stack.push((need, 0));
                        }
                    }
                    None if self.tasks.contains_key(name) => order.push(name.to_owned()),
                    None => {}
                }
            }
        }
        order
    }

    /// All tasks that a task waits for, directly or not.
    pub(super) fn ancestors(&self, name: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut queue: Vec<&str> = vec![];
        queue.extend(self.of.get(name).iter().flat_map(|needs| &needs.tasks).map(String::as_str));
        while let Some(next) = queue.pop() {
            if next != name && found.insert(next) {
                queue.extend(self.of.get(next).iter().flat_map(|needs| &needs.tasks).map(String::as_str));
            }
        }
        found
    }
}

fn needs(task: &Step, tasks: &BTreeMap<&str, &Step>) -> Needs {
    if task.depends.is_empty() {
        let logic: Vec<String> = task.dependencies.iter().map(|name| spelled(name, tasks)).collect();
        return Needs { tasks: task.dependencies.clone(), logic: logic.join(" && ") };
    }
    let (mut found, mut logic) = (Vec::new(), String::new());
    for token in tokens(&task.depends) {
        match token {
            Token::Other(text) => logic.push_str(text),
            Token::Task(name) => {
                logic.push_str(&spelled(name, tasks));
                found.push(name.to_owned());
            }
            Token::Result(name, text) => {
                logic.push_str(text);
                found.push(name.to_owned());
            }
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|name| seen.insert(name.clone()));
    Needs { tasks: found, logic }
}

/// What a bare name means.
fn spelled(name: &str, tasks: &BTreeMap<&str, &Step>) -> String {
    let mut results = vec!["Succeeded", "Skipped", "Daemoned"];
    if let Some(on) = tasks.get(name).and_then(|task| task.continue_on.as_ref()) {
        results.extend(on.error.then_some("Errored"));
        results.extend(on.failed.then_some("Failed"));
    }
    let all: Vec<String> = results.iter().map(|result| format!("{name}.{result}")).collect();
    format!("({})", all.join(" || "))
}

enum Token<'t> {
    Task(&'t str),
    Result(&'t str, &'t str),
    Other(&'t str),
}

/// Names, names with a result, and what is between them.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let (mut all, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let start = rest.find(|c: char| c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        if start > 0 {
            all.push(Token::Other(&rest[..start]));
            rest = &rest[start..];
            continue;
        }
        let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        let after = rest[end..]
            .strip_prefix('.')
            .map(|after| after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len()));
        let length = match after {
            Some(length) if length > 0 => end + 1 + length,
            _ => end,
        };
        all.push(if length > end { Token::Result(name, &rest[..length]) } else { Token::Task(name) });
        rest = &rest[length..];
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "it reads better where it is called")]
    fn dag(tasks: serde_json::Value) -> Dag {
        serde_json::from_value(serde_json::json!({"tasks": tasks})).expect("a dag")
    }

    #[test]
    fn logic_is_spelled_out() {
        let dag = dag(serde_json::json!([
            {"name": "a"},
            {"name": "b-1", "continueOn": {"failed": true}},
            {"name": "c", "depends": "a && (b-1.Failed || !b-1)"},
            {"name": "d", "dependencies": ["a", "c"]},
        ]));
        let all = Dependencies::of(&dag);
        let c = all.needs("c").expect("c");
        assert_eq!(c.tasks, ["a", "b-1"]);
        assert_eq!(
            c.logic,
            "(a.Succeeded || a.Skipped || a.Daemoned) && (b-1.Failed || !(b-1.Succeeded || b-1.Skipped || b-1.Daemoned || b-1.Failed))"
        );
        assert_eq!(all.targets(&dag), ["d"]);
        assert_eq!(all.ordered(&["d".to_owned()]), ["a", "b-1", "c", "d"]);
        assert_eq!(all.ancestors("d").into_iter().collect::<Vec<_>>(), ["a", "b-1", "c"]);
    }

    #[test]
    fn circles_and_long_chains_do_not_hang() {
        let circle = dag(serde_json::json!([{"name": "a", "depends": "b"}, {"name": "b", "depends": "a"}]));
        let all = Dependencies::of(&circle);
        assert_eq!(all.ordered(&["a".to_owned()]).len(), 2);
        assert_eq!(all.ancestors("a").len(), 1);
        let long: Vec<_> =
            (0..5000).map(|n| serde_json::json!({"name": format!("t{n}"), "dependencies": if n > 0 { vec![format!("t{}", n - 1)] } else { vec![] }})).collect();
        let long = dag(serde_json::Value::from(long));
        let all = Dependencies::of(&long);
        assert_eq!(all.ordered(&all.targets(&long)).len(), 5000);
    }
}
