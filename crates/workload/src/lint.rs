//! Files of workflows: read as Argo reads them, and checked as a whole.

mod shape;
#[cfg(test)]
mod tests;
mod yaml;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub use self::yaml::{YamlError, documents};
use crate::spec::{self, CronWorkflow, Workflow, WorkflowTemplate};
use crate::validate::{self, Templates};

/// The kinds that are looked at.
const KINDS: [&str; 4] = ["Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow"];

/// A file.
#[derive(Debug, Clone)]
pub struct Source {
    /// What it is called in messages.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// The object: `"name" (Kind)`, or empty where none could be read.
    pub object: String,
    /// The part of the object, as far as it is known.
    pub path: String,
    /// What is wrong, with the path.
    pub message: String,
}

/// What came of looking at files.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// How many objects were looked at.
    pub objects: usize,
    /// Everything that is wrong, in the order of the files.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether there was something to look at, and nothing is wrong.
    pub fn is_valid(&self) -> bool {
        self.objects > 0 && self.findings.is_empty()
    }
}

/// Checks files. What they refer to is looked up among them first, then in `others`, by namespace.
pub fn check(sources: &[Source], others: &dyn Others) -> Report {
    let mut report = Report::default();
    let mut objects = Vec::new();
    for source in sources {
        match documents(&source.text) {
            Ok(documents) => {
                let ours = documents
                    .into_iter()
                    .filter(|value| value["kind"].as_str().is_some_and(|kind| KINDS.contains(&kind)));
                objects.extend(ours.enumerate().map(|(index, value)| (source, index, value)));
            }
            Err(error) => report.findings.push(finding(source, String::new(), String::new(), error.to_string())),
        }
    }
    let library = Library::of(objects.iter().map(|(_, _, value)| value));
    for (source, index, value) in &objects {
        report.objects += 1;
        if let Err((path, message)) = check_object(value, &library, others) {
            report.findings.push(finding(source, object_name(value, *index), path, message));
        }
    }
    report
}

/// Templates besides those of the files.
pub trait Others {
    /// The `WorkflowTemplate` of a namespace, or the `ClusterWorkflowTemplate`.
    fn find(&self, namespace: Option<&str>, name: &str) -> Option<Arc<WorkflowTemplate>>;
}

/// No templates besides.
#[derive(Debug, Clone, Copy)]
pub struct Offline;

impl Others for Offline {
    fn find(&self, _: Option<&str>, _: &str) -> Option<Arc<WorkflowTemplate>> {
        None
    }
}

fn finding(source: &Source, object: String, path: String, message: String) -> Finding {
    Finding { file: source.name.clone(), object, path, message }
}

fn object_name(value: &Value, index: usize) -> String {
    let text = |field: &str| value["metadata"][field].as_str().filter(|text| !text.is_empty());
    let name =
        text("name").or_else(|| text("generateName")).map_or_else(|| format!("object #{}", index + 1), str::to_owned);
    format!("\"{name}\" ({})", value["kind"].as_str().unwrap_or_default())
}

/// The templates of the files, by namespace; none for those of the cluster.
struct Library(BTreeMap<(Option<String>, String), Arc<WorkflowTemplate>>);

impl Library {
    fn of<'a>(objects: impl Iterator<Item = &'a Value>) -> Self {
        let mut known = BTreeMap::new();
        for value in objects {
            let namespace = match value["kind"].as_str() {
                Some("WorkflowTemplate") => Some(namespace(value)),
                Some("ClusterWorkflowTemplate") => None,
                _ => continue,
            };
            if let Ok(template) = spec::from_value::<WorkflowTemplate>(value.clone()) {
                let name = template.metadata.name.clone().unwrap_or_default();
                known.insert((namespace, name), Arc::new(template));
            }
        }
        Self(known)
    }
}

fn namespace(value: &Value) -> String {
    value["metadata"]["namespace"].as_str().unwrap_or_default().to_owned()
}

struct Lookup<'a> {
    library: &'a Library,
    others: &'a dyn Others,
    namespace: String,
}

impl Templates for Lookup<'_> {
    fn find(&self, name: &str, cluster_scope: bool) -> Result<Arc<WorkflowTemplate>, String> {
        let namespace = (!cluster_scope).then(|| self.namespace.clone());
        let known = self.library.0.get(&(namespace.clone(), name.to_owned())).cloned();
        known.or_else(|| self.others.find(namespace.as_deref(), name)).ok_or_else(|| match &namespace {
            Some(namespace) => format!("couldn't find workflow template {name:?} in namespace {namespace:?}"),
            None => format!("couldn't find cluster workflow template {name:?}"),
        })
    }
}

fn check_object(value: &Value, library: &Library, others: &dyn Others) -> Result<(), (String, String)> {
    let templates = Lookup { library, others, namespace: namespace(value) };
    let unreadable = |error: spec::ParseError| (error.path.clone(), error.to_string());
    let kind = value["kind"].as_str().unwrap_or_default();
    let checked = if kind == "CronWorkflow" {
        let cron: CronWorkflow = spec::from_value(value.clone()).map_err(unreadable)?;
        shape::check(kind, value)?;
        validate::cron_workflow(&cron, &templates)
    } else {
        let workflow: Workflow = spec::from_value(value.clone()).map_err(unreadable)?;
        shape::check(kind, value)?;
        if kind == "Workflow" {
            validate::workflow_file(&workflow, &templates)
        } else {
            validate::workflow_template(&workflow, &templates)
        }
    };
    checked.map_err(|invalid| (invalid.path, invalid.message))
}
