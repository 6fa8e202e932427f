//! From the bytes of a write to an object of the right type, without unknown fields.

use std::sync::Arc;

use serde_json::Value;

use super::Call;
use crate::failure::{Failure, Result};
use crate::field::{FieldError, Path};
use crate::metadata;
use crate::options::{FieldValidation, WriteOptions};
use crate::resource::ResourceType;
use crate::{body, schema};

/// Decodes and checks a body that should hold an object of the call's type.
pub(crate) fn object(call: &Call<'_>, options: &WriteOptions) -> Result<Value> {
    let kind = &call.kind;
    let decoded = body::decode(call.headers, &call.body, kind.api_version(), &kind.kind)?;
    let mut object = decoded.value;
    if kind.is_custom() { custom_type(call, &object) } else { builtin_type(call, &object) }?;
    let handled = |why: String| {
        Failure::bad_request(format!("{0} in version {1:?} cannot be handled as a {0}: {why}", kind.kind, kind.version))
    };
    if let Some(why) = wrong_types(kind, &object) {
        return Err(handled(why));
    }
    if !kind.is_custom() {
        schema::fill_null_entries(&kind.schema(), &mut object);
    }
    known_fields(call, options, &mut object, decoded.duplicates).map_err(handled)?;
    kind.default(&mut object);
    Ok(object)
}

/// Checks what a patch made of an object; `refuse` words a refusal, given the object and the reason.
pub(crate) fn patched(
    call: &Call<'_>,
    options: &WriteOptions,
    mut object: Value,
    duplicates: Vec<String>,
    refused: impl Fn(&Value, &str) -> Failure,
) -> Result<Value> {
    let kind = &call.kind;
    if object["kind"] != kind.kind.as_str() || object["apiVersion"] != kind.api_version() {
        let (found_version, found_kind) = (text(&object, "apiVersion"), text(&object, "kind"));
        return Err(refused(&object, &unconvertible(call, found_version, found_kind)));
    }
    if let Some(why) = wrong_types(kind, &object) {
        return Err(refused(&object, &why));
    }
    let before = object.clone();
    known_fields(call, options, &mut object, duplicates).map_err(|why| refused(&before, &why))?;
    kind.default(&mut object);
    Ok(object)
}

/// A value of the wrong JSON type, as Go's decoder words it.
fn wrong_types(kind: &ResourceType, object: &Value) -> Option<String> {
    let schema = kind.schema();
    if kind.is_custom() { schema::custom_error(&schema, object) } else { schema::decode_error(&schema, object) }
}

/// Drops unknown fields, and warns or refuses as the client asked.
fn known_fields(
    call: &Call<'_>,
    options: &WriteOptions,
    object: &mut Value,
    duplicates: Vec<String>,
) -> Result<(), String> {
    known_fields_of(&call.kind.schema(), call, options, object, duplicates)
}

/// As [`known_fields`], of an object that is not of the call's type.
pub(crate) fn known_fields_of(
    schema: &Arc<schema::Schema>,
    call: &Call<'_>,
    options: &WriteOptions,
    object: &mut Value,
    duplicates: Vec<String>,
) -> Result<(), String> {
    let mut wrong = duplicates;
    let unknown = schema::prune(schema, object);
    wrong.extend(unknown.into_iter().map(|path| format!("unknown field {path:?}")));
    if wrong.is_empty() {
        return Ok(());
    }
    match options.field_validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            wrong.iter().flat_map(|text| body::warnings(text)).for_each(|text| call.warn(text));
            Ok(())
        }
        FieldValidation::Strict => Err(format!("strict decoding error: {}", wrong.join(", "))),
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

fn custom_type(call: &Call<'_>, object: &Value) -> Result<()> {
    let kind = &call.kind;
    let (found_kind, found_version) = (text(object, "kind"), text(object, "apiVersion"));
    if found_kind.is_empty() {
        let text = String::from_utf8_lossy(&call.body);
        return Err(Failure::bad_request(format!("Object 'Kind' is missing in '{text}'")));
    }
    if found_version != kind.api_version() {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({found_version}) does not match the expected API version ({})",
            kind.api_version()
        )));
    }
    if found_kind == kind.kind {
        return Ok(());
    }
    let error = FieldError::invalid(&Path::new("kind"), found_kind, format!("must be {}", kind.kind));
    Err(Failure::invalid(&kind.group, found_kind, metadata::name(object), &[error]))
}

fn builtin_type(call: &Call<'_>, object: &Value) -> Result<()> {
    let kind = &call.kind;
    let found_version = match text(object, "apiVersion") {
        "" => kind.api_version(),
        version => version,
    };
    let found_kind = match text(object, "kind") {
        "" => &kind.kind,
        kind => kind,
    };
    if found_version == kind.api_version() && found_kind == kind.kind {
        return Ok(());
    }
    if found_version.matches('/').count() > 1 {
        return Err(Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): unexpected GroupVersion string: \
             {found_version} ({})",
            kind.kind,
            body::shown(&call.body)
        )));
    }
    let version = found_version.rsplit_once('/').map_or(found_version, |(_, version)| version);
    let why = unconvertible(call, found_version, found_kind);
    Err(Failure::bad_request(format!(
        "{found_kind} in version {version:?} cannot be handled as a {}: {why}",
        kind.kind
    )))
}

/// Why an object of another type cannot be taken as one of this.
fn unconvertible(call: &Call<'_>, found_version: &str, found_kind: &str) -> String {
    let kind = &call.kind;
    let (group, version) = found_version.rsplit_once('/').unwrap_or(("", found_version));
    if call.types.of_kind(group, version, found_kind).is_some_and(|found| !found.is_custom()) {
        // the package of the internal type is named after the group
        let package = match kind.group.split('.').next() {
            None | Some("") => "core",
            Some(first) => first,
        };
        format!("converting ({version}.{found_kind}) to ({package}.{}): unknown conversion", kind.kind)
    } else {
        format!(
            "no kind {found_kind:?} is registered for version {found_version:?} in scheme \"pkg/runtime/scheme.go:110\""
        )
    }
}
