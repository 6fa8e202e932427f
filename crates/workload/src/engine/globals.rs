//! What is known everywhere in a Workflow, and its spec with that in place.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::fmt::strtime;
use serde_json::Value;

use super::resolve::{Known, merged, value};
use super::scope::{Values, evaluated, replaced};
use super::{Operation, Place};
use crate::spec::{Arguments, WorkflowSpec};
use crate::status::Phase;
use crate::validate;

impl Operation<'_> {
    /// Brings the spec together, checks it once, and puts what is known in place.
    pub(super) fn prepare(&mut self) -> Result<(), (Phase, String)> {
        self.spec = Arc::new(self.whole_spec().map_err(|message| (Phase::Error, message))?);
        if self.status.phase == Phase::Unknown {
            let checked = validate::workflow(self.workflow, &Known(self.seen.sources));
            checked.map_err(|error| (Phase::Failed, format!("invalid spec: {error}")))?;
        }
        let set = self.set_globals();
        set.map_err(|message| (Phase::Failed, format!("failed to set global parameters: {message}")))?;
        self.substitute().map_err(|message| (Phase::Error, message))?;
        if self.status.phase == Phase::Unknown {
            self.label().map_err(|message| (Phase::Error, message))?;
        }
        let duration = self.duration();
        self.globals.text("workflow.status", self.status.phase.word());
        self.globals.text("workflow.duration", format!("{duration:.6}"));
        Ok(())
    }

    /// Where the search for templates starts.
    pub(super) fn place(&self) -> Place {
        Place::Local(self.identity.name.clone())
    }

    /// Seconds since the start.
    fn duration(&self) -> f64 {
        let Some(start) = self.status.started_at.time() else { return 0.0 };
        let end = self.status.finished_at.time().unwrap_or(self.now);
        end.duration_since(start).as_secs_f64()
    }

    /// The Workflow's spec over that of the template it refers to.
    fn whole_spec(&mut self) -> Result<WorkflowSpec, String> {
        let own = &self.workflow.spec;
        let Some(reference) = &own.workflow_template_ref else { return Ok(own.clone()) };
        let mut whole = match self.status.stored_spec.take() {
            Some(stored) => *stored,
            None => {
                let sources = self.seen.sources;
                let found = if reference.cluster_scope {
                    sources.cluster_template(&reference.name)
                } else {
                    sources.workflow_template(&reference.name)
                };
                let Some(found) = found else {
                    let kind = if reference.cluster_scope { "clusterworkflowtemplates" } else { "workflowtemplates" };
                    return Err(format!("{kind}.argoproj.io \"{}\" not found", reference.name));
                };
                self.changed = true;
                let whole = merged(value(found.as_ref())?, value(own)?);
                serde_json::from_value(whole).map_err(|error| format!("merge the workflow template: {error}"))?
            }
        };
        // These may change while it runs.
        (whole.suspend, whole.shutdown) = (own.suspend, own.shutdown.clone());
        self.status.stored_spec = Some(Box::new(whole.clone()));
        Ok(whole)
    }

    fn set_globals(&mut self) -> Result<(), String> {
        let mut globals = Values::default();
        let (spec, metadata) = (&self.spec, &self.workflow.metadata);
        globals.text("workflow.name", &*self.identity.name);
        globals.text("workflow.namespace", &*self.identity.namespace);
        globals.text("workflow.uid", &*self.identity.uid);
        globals.text("workflow.mainEntrypoint", &*spec.entrypoint);
        globals.text("workflow.serviceAccountName", &*spec.service_account_name);
        if let Some(priority) = spec.priority {
            globals.text("workflow.priority", priority.to_string());
        }
        if let Some(created) = &metadata.creation_timestamp {
            creation(&mut globals, created.0);
        }
        let scheduled = self.annotations.get("workflows.argoproj.io/scheduled-time");
        if let Some(scheduled) = scheduled {
            globals.text("workflow.scheduledTime", &**scheduled);
        }
        self.set_parameters(&mut globals, &spec.arguments)?;
        for (kind, own) in [("annotations", &self.annotations), ("labels", &self.labels)] {
            let text = serde_json::to_string(own).unwrap_or_default();
            globals.text(format!("workflow.{kind}"), text.clone());
            globals.text(format!("workflow.{kind}.json"), text);
            for (name, value) in own {
                globals.text(format!("workflow.{kind}.{name}"), &**value);
            }
        }
        if let Some(more) = &spec.workflow_metadata {
            for (name, value) in more.labels.iter().filter(|(name, _)| !more.labels_from.contains_key(*name)) {
                globals.text(format!("workflow.labels.{name}"), &**value);
            }
            for (name, value) in &more.annotations {
                globals.text(format!("workflow.annotations.{name}"), &**value);
            }
        }
        for parameter in self.status.outputs.iter().flat_map(|outputs| &outputs.parameters) {
            if let Some(value) = &parameter.value {
                globals.text(format!("workflow.outputs.parameters.{}", parameter.name), value.as_str());
            }
        }
        self.globals = globals;
        Ok(())
    }

    fn set_parameters(&self, globals: &mut Values, arguments: &Arguments) -> Result<(), String> {
        let all = serde_json::to_string(&arguments.parameters).unwrap_or_default();
        globals.text("workflow.parameters", all.clone());
        globals.text("workflow.parameters.json", all);
        for parameter in &arguments.parameters {
            let name = format!("workflow.parameters.{}", parameter.name);
            if let Some(value) = &parameter.value {
                globals.text(name, value.as_str());
                continue;
            }
            let from = parameter.value_from.as_ref();
            let Some(reference) = from.and_then(|from| from.config_map_key_ref.as_ref()) else {
                return Err(format!(
                    "either value or valueFrom must be specified in order to set global parameter {}",
                    parameter.name
                ));
            };
            match (self.config_value(&reference.name, &reference.key), from.and_then(|from| from.default.as_ref())) {
                (Ok(value), _) => globals.text(name, value),
                (Err(_), Some(default)) => globals.text(name, default.as_str()),
                (Err(error), None) => {
                    return Err(format!(
                        "failed to set global parameter {} from configmap with name {} and key {}: {error}",
                        parameter.name, reference.name, reference.key
                    ));
                }
            }
        }
        Ok(())
    }

    /// Puts globals into the spec; templates get them when they run, as they may change.
    fn substitute(&mut self) -> Result<(), String> {
        let mut spec = (*self.spec).clone();
        let templates = std::mem::take(&mut spec.templates);
        let scope = Values::default().over(&self.globals);
        let mut spec: WorkflowSpec = replaced(&spec, &scope).map_err(|halt| halt.words().to_owned())?;
        self.spec_value = Arc::new(value(&spec)?);
        spec.templates = templates;
        self.spec = Arc::new(spec);
        Ok(())
    }

    /// Labels and annotations that the spec wants the Workflow itself to have.
    fn label(&mut self) -> Result<(), String> {
        let spec = Arc::clone(&self.spec);
        let Some(wanted) = &spec.workflow_metadata else { return Ok(()) };
        self.labels.extend(wanted.labels.clone());
        self.annotations.extend(wanted.annotations.clone());
        for (name, from) in &wanted.labels_from {
            let scope = Values::default().over(&self.globals);
            let text = evaluated(&from.expression, &scope).map_err(|error| {
                format!("failed to evaluate label {name:?} expression {:?}: {error}", from.expression)
            })?;
            let Value::String(text) = text else {
                return Err(format!(
                    "failed to evaluate label {name:?} expression {:?} evaluted to {text} but must be a string",
                    from.expression
                ));
            };
            self.globals.text(format!("workflow.labels.{name}"), text.clone());
            self.labels.insert(name.clone(), text);
        }
        self.changed = true;
        self.substitute()
    }
}

/// The time of creation, whole and by each of strftime's letters.
fn creation(globals: &mut Values, created: Timestamp) {
    const NAME: &str = "workflow.creationTimestamp";
    let whole = Timestamp::from_second(created.as_second()).unwrap_or(created);
    globals.text(NAME, whole.to_string());
    globals.text(format!("{NAME}.RFC3339"), whole.to_string());
    globals.text(format!("{NAME}.s"), whole.as_second().to_string());
    let zoned = whole.to_zoned(jiff::tz::TimeZone::UTC);
    for letter in "aAbBcdHIjmMpSUwWxXyYZ".chars() {
        // Those that the library writes otherwise than C.
        let format = match letter {
            'c' => "%a %b %e %H:%M:%S %Y".to_owned(),
            'x' => "%m/%d/%y".to_owned(),
            'X' => "%H:%M:%S".to_owned(),
            letter => format!("%{letter}"),
        };
        if let Ok(text) = strtime::format(&format, &zoned) {
            globals.text(format!("{NAME}.{letter}"), text);
        }
    }
}
