//! Finding templates, here and in other objects.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Call, Operation};
use crate::spec::{Template, WorkflowSpec, WorkflowTemplate};
use crate::validate::Templates;

/// Templates and settings that are elsewhere.
pub trait Sources {
    /// The spec of a `WorkflowTemplate` in the Workflow's namespace.
    fn workflow_template(&self, name: &str) -> Option<Arc<WorkflowSpec>>;
    /// The spec of a `ClusterWorkflowTemplate`.
    fn cluster_template(&self, name: &str) -> Option<Arc<WorkflowSpec>>;
    /// A value of a `ConfigMap` in the Workflow's namespace.
    fn config_value(&self, name: &str, key: &str) -> Option<String>;
}

/// The same, for those who check a Workflow.
pub(super) struct Known<'s>(pub(super) &'s dyn Sources);

impl Templates for Known<'_> {
    fn find(&self, name: &str, cluster_scope: bool) -> Result<Arc<WorkflowTemplate>, String> {
        let (found, kind) = if cluster_scope {
            (self.0.cluster_template(name), "clusterworkflowtemplates")
        } else {
            (self.0.workflow_template(name), "workflowtemplates")
        };
        let spec = found.ok_or_else(|| format!("{kind}.argoproj.io {name:?} not found"))?;
        let mut template = WorkflowTemplate { spec: (*spec).clone(), ..WorkflowTemplate::default() };
        template.metadata.name = Some(name.to_owned());
        Ok(Arc::new(template))
    }
}

/// Where the search for a template starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The Workflow itself.
    Local(String),
    /// A `WorkflowTemplate`.
    Namespaced(String),
    /// A `ClusterWorkflowTemplate`.
    Cluster(String),
}

impl Place {
    /// As nodes show it.
    pub fn text(&self) -> String {
        match self {
            Self::Local(name) => format!("local/{name}"),
            Self::Namespaced(name) => format!("namespaced/{name}"),
            Self::Cluster(name) => format!("cluster/{name}"),
        }
    }

    /// From how nodes show it.
    pub(super) fn parsed(text: &str, workflow: &str) -> Self {
        match text.split_once('/') {
            Some(("cluster", name)) => Self::Cluster(name.to_owned()),
            Some(("namespaced", name)) => Self::Namespaced(name.to_owned()),
            None if !text.is_empty() => Self::Namespaced(text.to_owned()),
            _ => Self::Local(workflow.to_owned()),
        }
    }
}

impl Operation<'_> {
    /// The template that is called, and where what it calls is searched.
    pub(super) fn resolve(&mut self, call: &Call<'_>) -> Result<(Place, Template), String> {
        let place = match call.template_ref {
            Some(other) if other.cluster_scope => Place::Cluster(other.name.clone()),
            Some(other) => Place::Namespaced(other.name.clone()),
            None => call.scope.clone(),
        };
        let key = self.key(call, &place);
        let stored = key.as_ref().and_then(|key| self.status.stored_templates.get(key)).cloned();
        let template = match stored {
            Some(template) => template,
            None => {
                let found = self.find(call, &place)?;
                if let Some(key) = key {
                    self.status.stored_templates.insert(key, found.clone());
                    self.changed = true;
                }
                found
            }
        };
        if template.kind().is_none() {
            return Err(format!("template '{}' type is unknown", template.name));
        }
        Ok((place, self.with_defaults(template)?))
    }

    /// The template of a node that exists.
    pub(super) fn template_of(&mut self, id: &str) -> Option<Template> {
        let node = self.status.nodes.get(id)?;
        let (name, other) = (node.template_name.clone(), node.template_ref.clone());
        let place = Place::parsed(&node.template_scope, &self.identity.name);
        if name.is_empty() && other.is_none() {
            return self.inline_of(id);
        }
        let call = Call {
            template_name: &name,
            template_ref: other.as_ref(),
            inline: None,
            scope: &place,
            boundary: "",
            flag: None,
            on_exit: false,
            caller: None,
            deadline: None,
        };
        self.resolve(&call).ok().map(|(_, template)| template)
    }

    /// The template written in the step or task that made a node.
    fn inline_of(&mut self, id: &str) -> Option<Template> {
        let (boundary, shown) = {
            let node = self.status.nodes.get(id)?;
            (node.boundary_id.clone(), node.display_name.clone())
        };
        let name = shown.split(['(', '.']).next().unwrap_or_default().to_owned();
        let around = self.template_of(&boundary)?;
        let tasks = around.dag.iter().flat_map(|dag| &dag.tasks);
        let mut all = around.steps.iter().flatten().flatten().chain(tasks);
        let inline = all.find(|step| step.name == name)?.inline.as_deref().cloned()?;
        self.with_defaults(inline).ok()
    }

    /// Under which name the template is kept, if it is from elsewhere.
    #[expect(clippy::unused_self, reason = "it reads as one of the steps of an operation")]
    fn key(&self, call: &Call<'_>, place: &Place) -> Option<String> {
        if let Some(other) = call.template_ref {
            return Some(format!("{}/{}", place.text(), other.template));
        }
        match place {
            Place::Local(_) => None,
            _ if call.inline.is_some() => call.caller.map(|(_, name)| format!("{}/inline/{name}", place.text())),
            _ => Some(format!("{}/{}", place.text(), call.template_name)),
        }
    }

    fn find(&self, call: &Call<'_>, place: &Place) -> Result<Template, String> {
        if let Some(inline) = call.inline {
            return Ok(inline.clone());
        }
        let name = call.template_ref.map_or(call.template_name, |other| &other.template);
        let (holder, spec) = match place {
            Place::Local(_) => {
                return self.spec.template(name).cloned().map_or_else(
                    || Err(format!("template {name} not found")),
                    |template| Ok(with_metadata(template, &self.spec)),
                );
            }
            Place::Namespaced(holder) => (holder, self.seen.sources.workflow_template(holder)),
            Place::Cluster(holder) => (holder, self.seen.sources.cluster_template(holder)),
        };
        let Some(spec) = spec else { return Err(format!("workflow template {holder} not found")) };
        match spec.template(name) {
            Some(template) => Ok(with_metadata(template.clone(), &spec)),
            None => Err(format!("template {name} not found in workflow template {holder}")),
        }
    }

    /// A template over the defaults of all templates.
    fn with_defaults(&self, template: Template) -> Result<Template, String> {
        let (Some(defaults), Some(kind)) = (&self.spec.template_defaults, template.kind()) else { return Ok(template) };
        let kinds =
            ["container", "containerSet", "steps", "script", "resource", "dag", "suspend", "data", "http", "plugin"];
        let own = kinds.into_iter().find(|name| name.eq_ignore_ascii_case(kind.name()));
        let mut base = value(defaults.as_ref())?;
        if let Some(fields) = base.as_object_mut() {
            fields.retain(|name, _| !kinds.contains(&name.as_str()) || Some(name.as_str()) == own);
        }
        let over = value(&template)?;
        serde_json::from_value(merged(base, over)).map_err(|error| format!("merge template defaults: {error}"))
    }
}

/// A template with the pod metadata of what it is in.
fn with_metadata(mut template: Template, spec: &WorkflowSpec) -> Template {
    if let Some(metadata) = &spec.pod_metadata {
        for (name, value) in &metadata.annotations {
            template.metadata.annotations.entry(name.clone()).or_insert_with(|| value.clone());
        }
        for (name, value) in &metadata.labels {
            template.metadata.labels.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    template
}

/// As JSON.
pub(super) fn value<T: serde::Serialize>(of: &T) -> Result<Value, String> {
    serde_json::to_value(of).map_err(|error| error.to_string())
}

/// `over` on top of `base`: objects by field, lists of named things by name, all else as a whole.
pub(super) fn merged(base: Value, over: Value) -> Value {
    match (base, over) {
        (Value::Object(mut base), Value::Object(over)) => {
            for (name, value) in over {
                let below = base.remove(&name);
                base.insert(name, below.map_or_else(|| value.clone(), |below| merged(below, value.clone())));
            }
            Value::Object(base)
        }
        (Value::Array(base), Value::Array(over)) if are_named(&base) && are_named(&over) => {
            let mut all = base;
            for value in over {
                match all.iter_mut().find(|one| one["name"] == value["name"]) {
                    Some(found) => *found = merged(found.take(), value),
                    None => all.push(value),
                }
            }
            Value::Array(all)
        }
        (base, Value::Null) => base,
        (_, over) => over,
    }
}

fn are_named(list: &[Value]) -> bool {
    let name = |one: &Value| one.as_object().and_then(|fields: &Map<String, Value>| fields.get("name")).is_some();
    list.iter().all(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_win_and_named_lists_join() {
        let base = json!({"a": 1, "p": [{"name": "x", "value": 1}, {"name": "y"}], "l": [1, 2]});
        let over = json!({"b": 2, "p": [{"name": "x", "value": 3}, {"name": "z"}], "l": [9]});
        let expected =
            json!({"a": 1, "b": 2, "p": [{"name": "x", "value": 3}, {"name": "y"}, {"name": "z"}], "l": [9]});
        assert_eq!(merged(base, over), expected);
    }

    #[test]
    fn places_come_back_from_text() {
        for place in [Place::Local("w".into()), Place::Namespaced("t".into()), Place::Cluster("c".into())] {
            assert_eq!(Place::parsed(&place.text(), "w"), place);
        }
        assert_eq!(Place::parsed("", "w"), Place::Local("w".into()));
    }
}
