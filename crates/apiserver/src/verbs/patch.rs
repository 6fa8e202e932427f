//! PATCH in its four forms.

use serde_json::Value;

use super::update::{Change, Part, change};
use super::{Call, decode};
use crate::body::Decoded;
use crate::failure::{Failure, Result};
use crate::field::{FieldError, Path};
use crate::media::{self, Content};
use crate::options::{FieldValidation, WriteOptions};
use crate::response::Answer;
use crate::{body, metadata, patch};

/// Handles PATCH.
pub(crate) async fn patch(call: &Call<'_>, part: Part) -> Result<Answer> {
    let options = WriteOptions::parse(call.query, "PatchOptions")?;
    let content = content(call)?;
    check_force(&options, content)?;
    if content == Content::Apply {
        return apply(call, part, &options).await;
    }
    let decoded = body::json(&call.body).map_err(|why| malformed(&why, content))?;
    let schema = call.kind.schema();
    let checked = options.field_validation != FieldValidation::Ignore;
    change(call, part, &options, |old| {
        let Some(old) = old else { return Err(call.not_found()) };
        let object = match content {
            Content::JsonPatch => patch::json::apply(old, &decoded.value, checked)?,
            Content::MergePatch => patch::merge::apply(old, &decoded.value, checked)?,
            _ => patch::strategic::apply(&schema, old, &decoded.value)?,
        };
        let refused = |object: &Value, why: &str| match content {
            Content::StrategicPatch => patch::undecodable_strategic(&decoded.value, &converter_words(why)),
            _ => patch::undecodable(object, why),
        };
        let mut noted = decoded.duplicates.clone();
        if content == Content::JsonPatch {
            noted.extend(patch::json::unknown_fields(&decoded.value));
        }
        let object = decode::patched(call, &options, object, noted, refused)?;
        check_identity(call, &object)?;
        Ok(Change { object, applied: false })
    })
    .await
}

pub(super) fn content(call: &Call<'_>) -> Result<Content> {
    let mut accepted = vec!["application/json-patch+json", "application/merge-patch+json"];
    if !call.kind.is_custom() {
        accepted.push("application/strategic-merge-patch+json");
    }
    accepted.push("application/apply-patch+yaml");
    match Content::of(call.headers) {
        Ok(content @ (Content::JsonPatch | Content::MergePatch | Content::Apply)) => Ok(content),
        Ok(Content::StrategicPatch) if !call.kind.is_custom() => Ok(Content::StrategicPatch),
        Ok(Content::Yaml | Content::Protobuf | Content::Json) | Err(_) if !call.kind.is_custom() => {
            Err(media::unroutable(415, "UnsupportedMediaType", "415: Unsupported Media Type"))
        }
        _ => Err(media::unsupported(&accepted)),
    }
}

pub(super) fn check_force(options: &WriteOptions, content: Content) -> Result<()> {
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

pub(super) fn malformed(why: &str, content: Content) -> Failure {
    match content {
        Content::StrategicPatch => Failure::bad_request(why),
        _ => Failure::bad_request(format!("error decoding patch: {why}")),
    }
}

/// A patch may not turn an object into another.
pub(super) fn check_identity(call: &Call<'_>, object: &Value) -> Result<()> {
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

/// The configuration that is to be applied.
pub(super) fn applied(call: &Call<'_>) -> Result<Decoded> {
    body::applied(&call.body).map_err(|why| Failure::bad_request(format!("error decoding YAML: {why}")))
}

/// What occurred twice in a configuration, which is looked at once it could be applied.
pub(super) fn look_at_duplicates(call: &Call<'_>, options: &WriteOptions, applied: &Decoded) -> Result<()> {
    for wrong in &applied.duplicates {
        match options.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => body::warnings(wrong).for_each(|text| call.warn(text)),
            FieldValidation::Strict => {
                let why = format!("error strict decoding YAML: error converting YAML to JSON: {wrong}");
                return Err(Failure::bad_request(why));
            }
        }
    }
    Ok(())
}

/// Server-side apply.
async fn apply(call: &Call<'_>, part: Part, options: &WriteOptions) -> Result<Answer> {
    let applied = applied(call)?;
    let force = options.force.unwrap_or(false);
    change(call, part, options, |old| {
        let mut object = call.kind.with_target(&call.info.subresource, |target| {
            patch::apply::apply(target, old, &applied.value, &options.field_manager, force, call.now)
        })?;
        look_at_duplicates(call, options, &applied)?;
        if !call.namespace().is_empty() && metadata::namespace(&object).is_empty() {
            object["metadata"]["namespace"] = call.namespace().into();
        }
        check_identity(call, &object)?;
        call.kind.default(&mut object);
        Ok(Change { object, applied: true })
    })
    .await
}

/// A strategic merge patch is not decoded from JSON but converted from what JSON was, by code with words of its own.
fn converter_words(why: &str) -> String {
    let parsed = why.strip_prefix("json: cannot unmarshal ").and_then(|rest| {
        let (found, rest) = rest.split_once(" into Go ")?;
        Some((found, rest.rsplit_once(" of type ")?.1))
    });
    let Some((found, wanted)) = parsed else { return why.to_owned() };
    let found = match found.split(' ').next() {
        Some("object") => "map",
        Some("array") => "slice",
        Some("number") => "int64",
        Some(other) => other,
        None => found,
    };
    match wanted {
        _ if wanted.starts_with("[]") => format!("cannot restore slice from {found}"),
        _ if wanted.starts_with("map[") => format!("cannot restore map from {found}"),
        "string" | "bool" | "int" | "int32" | "int64" => format!("cannot convert {found} to {wanted}"),
        _ => format!("cannot restore struct from: {found}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_converters_words() {
        let field = "json: cannot unmarshal number into Go struct field ConfigMap.data of type string";
        assert_eq!(converter_words(field), "cannot convert int64 to string");
        let list = "json: cannot unmarshal object into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort";
        assert_eq!(converter_words(list), "cannot restore slice from map");
        assert_eq!(converter_words("strict decoding error"), "strict decoding error");
    }
}
