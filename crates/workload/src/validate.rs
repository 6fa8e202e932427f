//! Whether a workflow can run: Argo's rules, in Argo's words.

mod arguments;
mod cron;
mod dag;
mod leaf;
mod names;
mod outputs;
mod scope;
mod steps;
mod template;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use self::scope::Names;
use crate::spec::{Arguments, CronWorkflow, Hook, Step, TemplateRef, Workflow, WorkflowSpec, WorkflowTemplate};

/// The longest name of a workflow or template.
const NAME_MAX: usize = 63;
/// The longest name of a `CronWorkflow`: its workflows' names are longer.
const CRON_NAME_MAX: usize = 52;

/// Where `WorkflowTemplates` and `ClusterWorkflowTemplates` come from.
pub trait Templates {
    /// The object of that name, or why there is none.
    fn find(&self, name: &str, cluster_scope: bool) -> Result<Arc<WorkflowTemplate>, String>;
}

/// No templates but the workflow's own.
#[derive(Debug, Clone, Copy)]
pub struct NoTemplates;

impl Templates for NoTemplates {
    fn find(&self, name: &str, cluster_scope: bool) -> Result<Arc<WorkflowTemplate>, String> {
        let kind = if cluster_scope { "cluster workflow template" } else { "workflow template" };
        Err(format!("couldn't find {kind} {name:?}"))
    }
}

/// What makes a workflow invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// The part of the object, as far as it is known: `templates.main.steps[0].a`.
    pub path: String,
    /// Everything, with the path.
    pub message: String,
}

impl From<String> for Invalid {
    fn from(message: String) -> Self {
        let first = message.split([' ', ':']).next().unwrap_or_default();
        let known = ["templates.", "spec.", "hooks.", "podGC."].iter().any(|start| first.starts_with(start));
        Self { path: if known { first.to_owned() } else { String::new() }, message }
    }
}

/// How strictly.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    /// The workflow's own arguments may still lack values.
    lint: bool,
    /// It is a template: its entrypoint and arguments come from whoever uses it.
    template: bool,
}

/// Whether a workflow that was submitted can run.
pub fn workflow(workflow: &Workflow, templates: &dyn Templates) -> Result<(), Invalid> {
    check_workflow(workflow, templates, Options::default()).map_err(Invalid::from)
}

/// Whether a workflow that is still a file is sound.
pub fn workflow_file(workflow: &Workflow, templates: &dyn Templates) -> Result<(), Invalid> {
    check_workflow(workflow, templates, Options { lint: true, template: false }).map_err(Invalid::from)
}

/// Whether a `WorkflowTemplate` or `ClusterWorkflowTemplate` is sound.
pub fn workflow_template(template: &WorkflowTemplate, templates: &dyn Templates) -> Result<(), Invalid> {
    let name = template.metadata.name.as_deref().unwrap_or_default();
    let kind =
        if template.kind == "ClusterWorkflowTemplate" { "cluster workflow template" } else { "workflow template" };
    check_name(kind, name, NAME_MAX)?;
    let mut unnamed = template.clone();
    unnamed.metadata.name = None;
    check_workflow(&unnamed, templates, Options { lint: true, template: true }).map_err(Invalid::from)
}

/// Whether a `CronWorkflow` is sound.
pub fn cron_workflow(cron: &CronWorkflow, templates: &dyn Templates) -> Result<(), Invalid> {
    check_name("cron workflow", cron.metadata.name.as_deref().unwrap_or_default(), CRON_NAME_MAX)?;
    cron::check(&cron.spec)?;
    let mut workflow = Workflow { spec: cron.spec.workflow_spec.clone(), ..Workflow::default() };
    if let Some(metadata) = &cron.spec.workflow_metadata {
        workflow.metadata.labels.clone_from(&metadata.labels);
        workflow.metadata.annotations.clone_from(&metadata.annotations);
    }
    check_workflow(&workflow, templates, Options::default())
        .map_err(|message| Invalid::from(format!("cannot validate Workflow: {message}")))
}

fn check_name(kind: &str, name: &str, max: usize) -> Result<(), String> {
    if name.len() > max {
        return Err(format!(
            "{kind} name {name:?} must not be more than {max} characters long (currently {})",
            name.len()
        ));
    }
    Ok(())
}

/// What is known while an object is checked.
struct Validator<'a> {
    templates: &'a dyn Templates,
    options: Options,
    /// Variables of the whole workflow, with a value to check with.
    globals: BTreeMap<String, String>,
    /// Templates that need no second look.
    seen: HashSet<String>,
    placeholders: u64,
}

/// The object that names of templates are looked up in.
#[derive(Clone)]
struct Base {
    scope: String,
    spec: Arc<WorkflowSpec>,
    /// Argo forgets the defaults of a `ClusterWorkflowTemplate` here.
    has_defaults: bool,
}

/// What a template is called with.
enum Called<'a> {
    /// Whatever it needs.
    Anything,
    With(&'a Arguments),
}

fn check_workflow(workflow: &Workflow, templates: &dyn Templates, options: Options) -> Result<(), String> {
    let name = workflow.metadata.name.as_deref().unwrap_or_default();
    check_name("workflow", name, NAME_MAX)?;
    let spec = &workflow.spec;
    let mut validator =
        Validator { templates, options, globals: BTreeMap::new(), seen: HashSet::new(), placeholders: 0 };
    let base = Base { scope: format!("local/{name}"), spec: Arc::new(spec.clone()), has_defaults: true };
    let referred = match &spec.workflow_template_ref {
        None => None,
        Some(_) if !spec.templates.is_empty() => {
            return Err("Templates is invalid field in spec if workflow referred WorkflowTemplate reference".to_owned());
        }
        Some(reference) => Some((reference, templates.find(&reference.name, reference.cluster_scope)?)),
    };
    let referred_spec = referred.as_ref().map(|(_, template)| &template.spec);
    let entrypoint = match referred_spec {
        Some(referred) if spec.entrypoint.is_empty() => &referred.entrypoint,
        _ => &spec.entrypoint,
    };
    names::fields(spec.templates.iter().map(|template| template.name.as_str()), names::field)
        .map_err(|error| format!("spec.templates{error}"))?;
    let arguments = merged(&spec.arguments, referred_spec.map(|referred| &referred.arguments));
    arguments::check("spec.arguments.", &arguments, options.lint || options.template)?;
    validator.add_globals(workflow, referred_spec, &arguments);
    let ignore_entrypoint = options.template && spec.entrypoint.is_empty();
    if !ignore_entrypoint && entrypoint.is_empty() {
        return Err("spec.entrypoint is required".to_owned());
    }
    // a template by its name, in the workflow or in what it refers to
    let call = |name: &str| match &referred {
        Some((reference, _)) => called(String::new(), Some(reference.template(name))),
        None => called(name.to_owned(), None),
    };
    if !ignore_entrypoint {
        let with = if options.template { Called::Anything } else { Called::With(&arguments) };
        validator.holder(&call(entrypoint), &base, &with)?;
    }
    let on_exit = match referred_spec {
        Some(referred) if spec.on_exit.is_empty() => &referred.on_exit,
        _ => &spec.on_exit,
    };
    if !on_exit.is_empty() {
        validator.add_global("workflow.failures");
        let all = spec.templates.iter().chain(referred_spec.iter().flat_map(|referred| &referred.templates));
        if all
            .flat_map(|template| &template.outputs.artifacts)
            .any(|artifact| names::is_variable(&artifact.global_name))
        {
            validator.add_global(scope::ANY_OUTPUT_ARTIFACT);
        }
        validator.holder(&call(on_exit), &base, &Called::With(&spec.arguments))?;
    }
    check_hooks(&spec.hooks, "hooks")?;
    check_pod_gc(spec)?;
    let all = referred_spec.map_or(&spec.templates, |referred| &referred.templates);
    for template in all {
        validator
            .holder(&call(&template.name), &base, &Called::Anything)
            .map_err(|error| format!("templates.{} {error}", template.name))?;
    }
    Ok(())
}

fn called(template: String, template_ref: Option<TemplateRef>) -> Step {
    Step { template, template_ref, ..Step::default() }
}

/// Arguments of a workflow over those of what it refers to.
fn merged(own: &Arguments, referred: Option<&Arguments>) -> Arguments {
    let mut merged = own.clone();
    for parameter in referred.iter().flat_map(|referred| &referred.parameters) {
        if merged.parameter(&parameter.name).is_none() {
            merged.parameters.push(parameter.clone());
        }
    }
    for artifact in referred.iter().flat_map(|referred| &referred.artifacts) {
        if merged.artifact(&artifact.name).is_none() {
            merged.artifacts.push(artifact.clone());
        }
    }
    merged
}

fn check_hooks(hooks: &BTreeMap<String, Hook>, path: &str) -> Result<(), String> {
    match hooks.iter().find(|(name, hook)| *name != "exit" && hook.expression.is_empty()) {
        Some((name, _)) => Err(format!("{path}.{name} Expression required")),
        None => Ok(()),
    }
}

fn check_pod_gc(spec: &WorkflowSpec) -> Result<(), String> {
    const STRATEGIES: [&str; 5] = ["", "OnPodCompletion", "OnPodSuccess", "OnWorkflowCompletion", "OnWorkflowSuccess"];
    let Some(gc) = &spec.pod_gc else { return Ok(()) };
    if !STRATEGIES.contains(&gc.strategy.as_str()) {
        return Err(format!("podGC.strategy unknown strategy '{}'", gc.strategy));
    }
    for requirement in gc.label_selector.iter().flat_map(|selector| selector.match_expressions.iter().flatten()) {
        let values = requirement.values.as_ref().is_some_and(|values| !values.is_empty());
        let valid = match requirement.operator.as_str() {
            "In" | "NotIn" => values,
            "Exists" | "DoesNotExist" => !values,
            _ => false,
        };
        if !valid {
            return Err(format!(
                "podGC.labelSelector invalid: {:?} is not a valid label selector operator",
                requirement.operator
            ));
        }
    }
    Ok(())
}

impl Validator<'_> {
    fn placeholder(&mut self) -> String {
        self.placeholders += 1;
        format!("{}{}", names::PLACEHOLDER, self.placeholders)
    }

    fn add_global(&mut self, name: &str) {
        let value = self.placeholder();
        self.globals.insert(name.to_owned(), value);
    }

    fn add_globals(&mut self, workflow: &Workflow, referred: Option<&WorkflowSpec>, arguments: &Arguments) {
        for name in ["name", "namespace", "mainEntrypoint", "serviceAccountName", "uid", "status"] {
            self.add_global(&format!("workflow.{name}"));
        }
        for name in ["annotations", "annotations.json", "labels", "labels.json"] {
            self.add_global(&format!("workflow.{name}"));
        }
        if !arguments.parameters.is_empty() {
            self.add_global("workflow.parameters");
            self.add_global("workflow.parameters.json");
        }
        for parameter in &arguments.parameters {
            let value = parameter.value.as_ref().map_or_else(|| self.placeholder(), |value| value.0.clone());
            self.globals.insert(format!("workflow.parameters.{}", parameter.name), value);
        }
        let metadata = &workflow.metadata;
        for (name, _) in metadata.labels.iter().flatten() {
            self.add_global(&format!("workflow.labels.{name}"));
        }
        for (name, _) in metadata.annotations.iter().flatten() {
            self.add_global(&format!("workflow.annotations.{name}"));
        }
        let specs = [Some(&workflow.spec), referred].into_iter().flatten();
        for metadata in specs.filter_map(|spec| spec.workflow_metadata.as_ref()) {
            for name in metadata.labels.keys().chain(metadata.labels_from.keys()) {
                self.add_global(&format!("workflow.labels.{name}"));
            }
            for name in metadata.annotations.keys() {
                self.add_global(&format!("workflow.annotations.{name}"));
            }
        }
        if let Some(priority) = workflow.spec.priority {
            self.globals.insert("workflow.priority".to_owned(), priority.to_string());
        }
    }

    /// Whether every variable in a value is known.
    fn resolve(&self, names: &Names<'_>, value: &serde_json::Value) -> Result<(), String> {
        scope::resolve(names, &self.globals, value, self.options.template)
    }
}
