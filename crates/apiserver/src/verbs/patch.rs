//! PATCH in its four forms.

use serde_json::Value;

use super::Call;
use super::create;
use super::update::{Change, Part, change};
use crate::failure::{Failure, Result};
use crate::field::{FieldError, Path};
use crate::media::{self, Content};
use crate::options::{FieldValidation, WriteOptions};
use crate::response::Answer;
use crate::{body, metadata, patch};

/// Handles PATCH.
pub async fn patch(call: &Call<'_>, part: Part) -> Result<Answer> {
    let options = WriteOptions::parse(call.query, "PatchOptions")?;
    let content = content(call)?;
    check_force(&options, content)?;
    if content == Content::Apply {
        return apply(call, part, &options).await;
    }
    let decoded = body::json(&call.body).map_err(|failure| malformed(&failure, content))?;
    let schema = call.kind.schema();
    let checked = options.field_validation != FieldValidation::Ignore;
    change(call, part, &options, |old| {
        let Some(old) = old else { return Err(call.not_found()) };
        let mut object = match content {
            Content::JsonPatch => patch::json::apply(old, &decoded.value, checked)?,
            Content::MergePatch => patch::merge::apply(old, &decoded.value, checked)?,
            _ => patch::strategic::apply(&schema, old, &decoded.value)?,
        };
        check_identity(call, &object)?;
        create::known_fields(call, &options, &mut object, decoded.duplicates.clone())?;
        call.kind.default(&mut object);
        Ok(Change { object, applied: false })
    })
    .await
}

fn content(call: &Call<'_>) -> Result<Content> {
    let mut accepted = vec!["application/json-patch+json", "application/merge-patch+json"];
    if !call.kind.is_custom() {
        accepted.push("application/strategic-merge-patch+json");
    }
    accepted.push("application/apply-patch+yaml");
    match Content::of(call.headers) {
        Ok(content @ (Content::JsonPatch | Content::MergePatch | Content::Apply)) => Ok(content),
        Ok(Content::StrategicPatch) if !call.kind.is_custom() => Ok(Content::StrategicPatch),
        _ => Err(media::unsupported(&accepted)),
    }
}

fn check_force(options: &WriteOptions, content: Content) -> Result<()> {
    let mut errors = Vec::new();
    if content == Content::Apply {
        if options.field_manager.is_empty() {
            errors.push(FieldError::required(&Path::new("fieldManager"), "is required for apply patch"));
        }
    } else if options.force.is_some() {
        errors.push(FieldError::forbidden(&Path::new("force"), "may not be specified for non-apply patch"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Failure::invalid("meta.k8s.io", "PatchOptions", "", &errors)) }
}

fn malformed(failure: &Failure, content: Content) -> Failure {
    let why = failure.message.trim_start_matches("couldn't get version/kind; json parse error: ").to_owned();
    match content {
        Content::JsonPatch => Failure::bad_request(format!("error decoding patch: {why}")),
        _ => Failure::bad_request(why),
    }
}

/// A patch may not turn an object into another.
fn check_identity(call: &Call<'_>, object: &Value) -> Result<()> {
    let name = metadata::name(object);
    if name != call.info.name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.info.name
        )));
    }
    let namespace = metadata::namespace(object);
    if namespace != call.namespace() {
        return Err(Failure::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the URL ({})",
            call.namespace()
        )));
    }
    Ok(())
}

/// Server-side apply.
async fn apply(call: &Call<'_>, part: Part, options: &WriteOptions) -> Result<Answer> {
    let decoded = body::yaml(&call.body)?;
    let mut applied = decoded.value;
    check_applied(call, &applied)?;
    create::known_fields(call, options, &mut applied, decoded.duplicates)?;
    if !call.namespace().is_empty() && metadata::namespace(&applied).is_empty() {
        applied["metadata"]["namespace"] = call.namespace().into();
    }
    check_identity(call, &applied)?;
    let force = options.force.unwrap_or(false);
    change(call, part, options, |old| {
        let mut object = call.kind.with_target(&call.info.subresource, |target| {
            patch::apply::apply(target, old, &applied, &options.field_manager, force, call.now)
        })?;
        call.kind.default(&mut object);
        Ok(Change { object, applied: true })
    })
    .await
}

fn check_applied(call: &Call<'_>, applied: &Value) -> Result<()> {
    let kind = applied["kind"].as_str().unwrap_or_default();
    let version = applied["apiVersion"].as_str().unwrap_or_default();
    if kind.is_empty() {
        let text = String::from_utf8_lossy(&call.body);
        return Err(Failure::bad_request(format!("Object 'Kind' is missing in '{text}'")));
    }
    if version != call.kind.api_version() {
        return Err(Failure::bad_request(format!(
            "Incorrect version specified in apply patch. Specified patch version: {version}, expected: {}",
            call.kind.api_version()
        )));
    }
    if kind != call.kind.kind {
        return Err(Failure::bad_request(format!(
            "Incorrect kind specified in apply patch. Specified patch kind: {kind}, expected: {}",
            call.kind.kind
        )));
    }
    Ok(())
}
