//! What comes out of a template.

use std::collections::BTreeSet;

use super::scope::{Known, Names};
use super::template::{as_json, path};
use super::{Validator, names};
use crate::spec::{Parameter, Template, TemplateType, ValueFrom};

impl Validator<'_> {
    pub(super) fn outputs(&self, known: &Known, template: &Template) -> Result<(), String> {
        let at = format!("templates.{}.outputs", template.name);
        let outputs = &template.outputs;
        names::fields(outputs.parameters.iter().map(|parameter| parameter.name.as_str()), names::parameter)
            .map_err(|error| format!("{at}.parameters {error}"))?;
        names::fields(outputs.artifacts.iter().map(|artifact| artifact.name.as_str()), names::parameter)
            .map_err(|error| format!("{at}.artifacts {error}"))?;
        let names = Names { known, own: &Known::new(), ancestors: &BTreeSet::new() };
        self.resolve(&names, &as_json(outputs)?).map_err(|error| format!("{at} {error}"))?;
        for artifact in &outputs.artifacts {
            let at = format!("{at}.artifacts.{}", artifact.name);
            if template.is_leaf() {
                path(artifact).map_err(|error| format!("error in {at}: {error}"))?;
            } else if !artifact.path.is_empty() {
                return Err(format!("{at}.path only valid in container/script templates"));
            }
            check_global(&at, &artifact.global_name)?;
        }
        for parameter in &outputs.parameters {
            let at = format!("{at}.parameters.{}", parameter.name);
            check_parameter(&at, parameter)?;
            if let (Some(from), Some(kind)) = (&parameter.value_from, template.kind()) {
                check_source(&at, from, kind)?;
            }
            check_global(&at, &parameter.global_name)?;
        }
        Ok(())
    }
}

fn check_global(at: &str, name: &str) -> Result<(), String> {
    if name.is_empty() || names::is_variable(name) {
        return Ok(());
    }
    match names::parameter(name).first() {
        Some(error) => Err(format!("{at}.globalName: {error}")),
        None => Ok(()),
    }
}

fn check_parameter(at: &str, parameter: &Parameter) -> Result<(), String> {
    let from = match (&parameter.value, &parameter.value_from) {
        (Some(_), Some(_)) => return Err(format!("{at} has both valueFrom and value specified. Choose one.")),
        (Some(_), None) => return Ok(()),
        (None, None) => return Err(format!("{at} does not have valueFrom or value specified")),
        (None, Some(from)) => from,
    };
    let texts = [&from.path, &from.jq_filter, &from.json_path, &from.parameter, &from.expression];
    let given = texts.iter().filter(|text| !text.is_empty()).count() + usize::from(from.supplied.is_some());
    match given {
        0 => Err("valueFrom type unspecified. choose one of: path, jqFilter, jsonPath, parameter, raw, expression"
            .to_owned()),
        1 => Ok(()),
        _ => {
            Err("multiple valueFrom types specified. choose one of: path, jqFilter, jsonPath, parameter, raw"
                .to_owned())
        }
    }
}

fn check_source(at: &str, from: &ValueFrom, kind: TemplateType) -> Result<(), String> {
    let name = kind.name();
    match kind {
        TemplateType::Container | TemplateType::ContainerSet | TemplateType::Script if from.path.is_empty() => {
            Err(format!("{at}.path must be specified for {name} templates"))
        }
        TemplateType::Resource if from.jq_filter.is_empty() && from.json_path.is_empty() => {
            Err(format!("{at} .jqFilter or jsonPath must be specified for {name} templates"))
        }
        TemplateType::Dag | TemplateType::Steps if from.parameter.is_empty() && from.expression.is_empty() => {
            Err(format!("{at}.parameter or expression must be specified for {name} templates"))
        }
        _ => Ok(()),
    }
}

/// Whether metrics are named and have what they need.
pub(super) fn metrics(template: &Template) -> Result<(), String> {
    let name = &template.name;
    let list = template.metrics.as_ref().and_then(|metrics| metrics["prometheus"].as_array());
    for metric in list.into_iter().flatten() {
        let metric_name = metric["name"].as_str().unwrap_or_default();
        if !is_metric(metric_name) {
            return Err(format!(
                "templates.{name} metric name '{metric_name}' is invalid. Metric names must contain alphanumeric characters or '_'"
            ));
        }
        for label in metric["labels"].as_array().into_iter().flatten() {
            let key = label["key"].as_str().unwrap_or_default();
            if !is_metric(key) {
                return Err(format!(
                    "metric label '{key}' is invalid: keys may only contain alphanumeric characters, '_', or ':'"
                ));
            }
        }
        if metric["help"].as_str().unwrap_or_default().is_empty() {
            return Err(format!(
                "templates.{name} metric '{metric_name}' must contain a help string under 'help: ' field"
            ));
        }
        for kind in ["gauge", "counter", "histogram"] {
            let value = metric.get(kind).map(|kind| kind["value"].as_str().unwrap_or_default());
            if value == Some("") {
                return Err(format!("templates.{name} metric '{metric_name}' error: missing {kind}.value"));
            }
            if value.is_some_and(|value| value.contains("resourcesDuration.")) && metric[kind]["realtime"] == true {
                return Err(format!(
                    "templates.{name} metric '{metric_name}' error: 'resourcesDuration.*' metrics cannot be used in real-time"
                ));
            }
        }
    }
    Ok(())
}

fn is_metric(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
