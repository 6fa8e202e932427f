//! `depends` and `dependencies` of a DAG's tasks.

use std::collections::BTreeMap;

use super::task::Step;

/// How a task depends on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependency {
    /// On how it ended.
    Task,
    /// On how its items ended.
    Items,
}

const RESULTS: [&str; 8] =
    ["Succeeded", "Failed", "Errored", "Skipped", "Omitted", "Daemoned", "AnySucceeded", "AllFailed"];

/// What a task depends on, and its whole condition: a bare name stands for every end that lets it start.
pub fn dependencies<'a>(
    task: &Step,
    find: impl Fn(&str) -> Option<&'a Step>,
) -> (BTreeMap<String, Dependency>, String) {
    if task.depends.is_empty() {
        let condition: Vec<String> = task.dependencies.iter().map(|name| expanded(name, find(name))).collect();
        let names = task.dependencies.iter().map(|name| (name.clone(), Dependency::Task));
        return (names.collect(), condition.join(" && "));
    }
    let (mut found, mut condition) = (BTreeMap::new(), String::new());
    let mut at = 0;
    for (start, name, result) in mentions(&task.depends) {
        condition.push_str(&task.depends[at..start]);
        at = start + name.len();
        let kind = match result {
            Some("AnySucceeded" | "AllFailed") => Dependency::Items,
            _ => Dependency::Task,
        };
        let known = found.entry(name.to_owned()).or_insert(kind);
        if kind == Dependency::Items || result.is_none() {
            *known = kind;
        }
        match result {
            Some(_) => condition.push_str(name),
            None => condition.push_str(&expanded(name, find(name))),
        }
    }
    condition.push_str(&task.depends[at..]);
    (found, condition)
}

/// Whether every result that a condition asks for exists.
pub fn check_results(depends: &str) -> Result<(), String> {
    for (_, name, result) in mentions(depends) {
        if let Some(result) = result.filter(|result| !RESULTS.contains(result)) {
            return Err(format!("task result '{result}' for task '{name}' is invalid"));
        }
    }
    Ok(())
}

fn expanded(name: &str, task: Option<&Step>) -> String {
    let mut results = vec!["Succeeded", "Skipped", "Daemoned"];
    if let Some(on) = task.and_then(|task| task.continue_on.as_ref()) {
        results.extend(on.error.then_some("Errored"));
        results.extend(on.failed.then_some("Failed"));
    }
    let results: Vec<String> = results.into_iter().map(|result| format!("{name}.{result}")).collect();
    format!("({})", results.join(" || "))
}

/// Every name in a condition: where it starts, and the result that is asked for.
fn mentions(depends: &str) -> Vec<(usize, &str, Option<&str>)> {
    let mut mentions = Vec::new();
    let mut at = 0;
    while let Some(offset) = depends[at..].find(|c: char| c.is_ascii_alphanumeric()) {
        let start = at + offset;
        let rest = &depends[start..];
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
        let letters = |text: &str| text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
        let result =
            rest[length..].strip_prefix('.').filter(|after| after.starts_with(|c: char| c.is_ascii_uppercase()));
        let result = result.map(|after| &after[..letters(after)]).filter(|result| result.len() > 1);
        mentions.push((start, &rest[..length], result));
        at = start + length + result.map_or(0, |result| result.len() + 1);
    }
    mentions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ContinueOn;

    #[test]
    fn conditions() {
        let on = ContinueOn { failed: true, ..ContinueOn::default() };
        let lenient = Step { name: "b".to_owned(), continue_on: Some(on), ..Step::default() };
        let find = |name: &str| (name == "b").then_some(&lenient);
        let task = Step { depends: "(a.Succeeded || my-b) && c.AnySucceeded && !b".to_owned(), ..Step::default() };
        let (names, condition) = dependencies(&task, find);
        assert_eq!(names.keys().collect::<Vec<_>>(), ["a", "b", "c", "my-b"]);
        assert_eq!(names["c"], Dependency::Items);
        assert_eq!(
            condition,
            "(a.Succeeded || (my-b.Succeeded || my-b.Skipped || my-b.Daemoned)) && c.AnySucceeded && !(b.Succeeded || b.Skipped || b.Daemoned || b.Failed)"
        );
        let task = Step { dependencies: vec!["a".to_owned(), "b".to_owned()], ..Step::default() };
        assert_eq!(
            dependencies(&task, find).1,
            "(a.Succeeded || a.Skipped || a.Daemoned) && (b.Succeeded || b.Skipped || b.Daemoned || b.Failed)"
        );
        assert!(check_results("a.Succeeded && b").is_ok());
        assert_eq!(check_results("a.Done").unwrap_err(), "task result 'Done' for task 'a' is invalid");
    }
}
