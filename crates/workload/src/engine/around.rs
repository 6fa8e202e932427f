//! The template around a step, as far as its steps need it: looked at once, however many they are.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Operation;
use super::resolve::value;
use crate::spec::{Template, TemplateType};
use crate::steps::SCHEDULING;

/// What steps need of the template they are in.
#[derive(Debug)]
pub(super) struct Around {
    /// Where its pods may be.
    pub(super) placement: Arc<Value>,
    /// Steps whose result it reads.
    readers: BTreeSet<String>,
}

impl Around {
    fn of(template: &Template) -> Self {
        let whole = value(template).unwrap_or_default();
        let fields = SCHEDULING.into_iter().filter_map(|name| Some((name.to_owned(), whole.get(name)?.clone())));
        let kind = if template.kind() == Some(TemplateType::Dag) { "tasks." } else { "steps." };
        Self {
            placement: Arc::new(Value::Object(fields.collect::<Map<_, _>>())),
            readers: readers(&whole.to_string(), kind),
        }
    }

    /// Whether it reads what a step of it prints.
    pub(super) fn reads(&self, node: &str) -> bool {
        self.readers.contains(step_name(node))
    }
}

impl Operation<'_> {
    /// What is around the steps of a node.
    pub(super) fn around(&mut self, boundary: &str) -> Option<Arc<Around>> {
        if let Some(known) = self.arounds.get(boundary) {
            return Some(Arc::clone(known));
        }
        let around = Arc::new(Around::of(&self.template_of(boundary)?));
        self.arounds.insert(boundary.to_owned(), Arc::clone(&around));
        Some(around)
    }
}

/// The steps whose `outputs.result` a template as JSON speaks of, in any of the forms that expressions have for it.
fn readers(text: &str, kind: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices(".outputs.result") {
        let before = &text[..at];
        let quoted = [("[\\\"", "\\\"]"), ("['", "']")];
        let name = quoted.into_iter().find_map(|(open, close)| {
            let inside = before.strip_suffix(close)?;
            Some(&inside[inside.rfind(open)? + open.len()..])
        });
        let plain = || Some(&before[before.rfind(kind)? + kind.len()..]);
        if let Some(name) = name.or_else(plain) {
            found.insert(name.to_owned());
        }
    }
    found
}

/// The step's or task's name in `wf[0].name(0:item)(1)`.
fn step_name(node: &str) -> &str {
    let mut rest = node;
    loop {
        let open = match rest.chars().last() {
            Some(')') => '(',
            Some(']') => '[',
            _ => break,
        };
        let Some(at) = rest.rfind(open) else { break };
        rest = &rest[..at];
    }
    rest.rsplit('.').next().unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_steps_name_is_found_in_its_nodes() {
        for (node, name) in
            [("wf[0].gen", "gen"), ("wf.gen(0:a.b)(2)", "gen"), ("wf", "wf"), ("wf[0].a(0:x)[1].b", "b")]
        {
            assert_eq!(step_name(node), name, "{node}");
        }
    }

    #[test]
    fn whoever_is_read_is_found_in_every_form() {
        let texts = json!([
            "{{tasks.a.outputs.result}}",
            "{{=tasks['b-b'].outputs.result}}",
            "{{=tasks[\"c\"].outputs.result}}",
            "{{steps.d.outputs.result}}",
            "{{tasks.e.outputs.parameters.result}}",
            "{{tasks.my-tasks.outputs.result}}x.outputs.result"
        ]);
        let found = readers(&texts.to_string(), "tasks.");
        for (name, is_read) in [("a", true), ("b-b", true), ("c", true), ("d", false), ("e", false), ("my-tasks", true)]
        {
            assert_eq!(found.contains(name), is_read, "{name} of {found:?}");
        }
    }

    #[test]
    fn only_where_pods_may_be_is_kept() {
        let template = json!({"name": "main", "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}],
            "dag": {"tasks": [{"name": "a", "template": "t"}]}});
        let around = Around::of(&serde_json::from_value(template).unwrap());
        assert_eq!(*around.placement, json!({"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}));
    }
}
