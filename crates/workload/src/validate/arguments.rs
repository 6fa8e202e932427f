//! What a call passes.

use super::names;
use crate::spec::{Arguments, Parameter};

/// Whether arguments are sound; those of a workflow that is still a file need no values.
pub(super) fn check(prefix: &str, arguments: &Arguments, allow_empty: bool) -> Result<(), String> {
    names::fields(arguments.parameters.iter().map(|parameter| parameter.name.as_str()), names::parameter)
        .map_err(|error| format!("{prefix}parameters{error}"))?;
    names::fields(arguments.artifacts.iter().map(|artifact| artifact.name.as_str()), names::parameter)
        .map_err(|error| format!("{prefix}artifacts{error}"))?;
    for parameter in &arguments.parameters {
        let at = format!("{prefix}{}", parameter.name);
        if parameter.value.is_none() && parameter.value_from.is_none() && !allow_empty {
            return Err(format!("{at}.value or {at}.valueFrom is required"));
        }
        check_source(&at, parameter)?;
        if let Some(choices) = &parameter.choices {
            if choices.is_empty() {
                return Err(format!("{at}.enum should contain at least one value"));
            }
            let Some(value) = &parameter.value else {
                // as in Argo, whatever follows is not looked at
                return if allow_empty { Ok(()) } else { Err(format!("{at}.value is required")) };
            };
            if !choices.contains(value) {
                return Err(format!("{at}.value should be present in {at}.enum list"));
            }
        }
    }
    for artifact in &arguments.artifacts {
        let at = format!("{prefix}{}", artifact.name);
        if artifact.from.is_empty() && !artifact.location.is_complete() && artifact.location.key().is_none() {
            return Err(format!("{at}.from, artifact location, or key is required"));
        }
        if !artifact.from.is_empty() && !artifact.from_expression.is_empty() {
            return Err(format!("{at} shouldn't have both `from` and `fromExpression` in Artifact"));
        }
    }
    Ok(())
}

fn check_source(at: &str, parameter: &Parameter) -> Result<(), String> {
    let Some(from) = &parameter.value_from else { return Ok(()) };
    let allowed = from.config_map_key_ref.is_some() || !from.event.is_empty() || from.supplied.is_some();
    let refused =
        [&from.path, &from.json_path, &from.parameter, &from.expression].iter().any(|field| !field.is_empty());
    if !allowed || refused {
        return Err(format!("{at}.valueFrom only allows: default, configMapKeyRef and supplied"));
    }
    Ok(())
}
