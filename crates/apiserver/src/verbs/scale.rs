//! The scale subresource of custom resources.

use serde_json::{Value, json};

use super::update::{Change, Changed, Part, changed};
use super::{Call, create, decode, patch};
use crate::crd::Scale;
use crate::failure::{Failure, Result};
use crate::media::Content;
use crate::options::{FieldValidation, WriteOptions};
use crate::patch::apply::{SCALE_VERSION, scale_schema, scale_target, track_update};
use crate::patch::managed::strip;
use crate::response::{self, Answer};
use crate::{body, go, metadata, schema};

/// Handles GET.
pub(crate) async fn get(call: &Call<'_>, paths: &Scale) -> Result<Answer> {
    let object = call.current().await?.value(&call.kind)?;
    Ok(response::value(200, &scale_of(&object, paths)?, call.accepted.encoding))
}

/// Stands for replicas that an object does not say, in the scale a write begins with.
const UNSET: i64 = i32::MIN as i64;

/// Handles PUT and PATCH.
pub(crate) async fn write(call: &Call<'_>, paths: &Scale) -> Result<Answer> {
    let is_patch = call.info.verb == "patch";
    let options = WriteOptions::parse(call.query, if is_patch { "PatchOptions" } else { "UpdateOptions" })?;
    let content = if is_patch { Some(patch::content(call)?) } else { None };
    if let Some(content) = content {
        patch::check_force(&options, content)?;
    }
    let changed = changed(call, Part::Scale, &options, |old| {
        let old = old.ok_or_else(|| call.not_found())?;
        let mut object = old.clone();
        if at(old, &paths.spec_replicas).is_none() {
            set(&mut object, &paths.spec_replicas, UNSET.into());
        }
        let mut before = scale_of(&object, paths)?;
        call.kind.with_replicas(paths, |replicas| replicas.to_scale(old, &mut before)).map_err(Failure::internal)?;
        let scale = wanted(call, &options, content, &before)?;
        rescaled(call, paths, old, &scale)
    })
    .await?;
    let object = match changed {
        Changed::Stored(stored) => stored.value(&call.kind)?,
        Changed::Shown(object) => object,
        Changed::Created(answer) => return Ok(answer),
    };
    Ok(response::value(200, &scale_of(&object, paths)?, call.accepted.encoding))
}

/// The object with the replicas and managers of its written scale.
fn rescaled(call: &Call<'_>, paths: &Scale, old: &Value, scale: &Value) -> Result<Change> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas == UNSET {
        let shown = go::quoted(&format!(".{}", paths.spec_replicas.join(".")));
        return Err(Failure::bad_request(format!("the spec replicas field {shown} cannot be empty")));
    }
    let mut object = old.clone();
    set(&mut object, &paths.spec_replicas, replicas.into());
    let version = metadata::resource_version(scale);
    if !version.is_empty() {
        object["metadata"]["resourceVersion"] = version.into();
    }
    call.kind
        .with_replicas(paths, |replicas| replicas.to_parent(old, scale, &mut object))
        .map_err(Failure::internal)?;
    Ok(Change { object, applied: true })
}

/// The scale the client wants, with its managers.
fn wanted(call: &Call<'_>, options: &WriteOptions, content: Option<Content>, before: &Value) -> Result<Value> {
    let Some(content) = content else { return updated(call, options, before) };
    if content == Content::Apply {
        return applied(call, options, before);
    }
    let decoded = body::json(&call.body).map_err(|why| patch::malformed(&why, content))?;
    let checked = options.field_validation != FieldValidation::Ignore;
    let mut noted = decoded.duplicates;
    let scale = if content == Content::JsonPatch {
        noted.extend(crate::patch::json::unknown_fields(&decoded.value));
        crate::patch::json::apply(before, &decoded.value, checked)?
    } else {
        crate::patch::merge::apply(before, &decoded.value, checked)?
    };
    let patched = scale.clone();
    let refused = |why: String| crate::patch::undecodable(&patched, &why);
    let scale = checked_scale(call, options, scale, noted).map_err(refused)?;
    patch::check_identity(call, &scale)?;
    Ok(tracked(call, options, before, scale))
}

/// The scale after an apply. Kubernetes cannot change a custom resource that way, only share or refuse what it has: the
/// scale that would come of it is of no version it can convert to.
fn applied(call: &Call<'_>, options: &WriteOptions, before: &Value) -> Result<Value> {
    let decoded = patch::applied(call)?;
    let applied = &decoded.value;
    let force = options.force.unwrap_or(false);
    let manager = &options.field_manager;
    let scale = crate::patch::apply::apply(&scale_target(), Some(before), applied, manager, force, call.now)?;
    patch::look_at_duplicates(call, options, &decoded)?;
    let bare = |scale: &Value| {
        let mut scale = scale.clone();
        strip(&mut scale);
        scale
    };
    if bare(&scale) != bare(before) {
        return Err(Failure::new(
            500,
            "",
            format!(
                "failed to convert new object ({}/{}; {SCALE_VERSION}, Kind=Scale) to proper version: request to \
                 convert CR to an invalid group/version: {SCALE_VERSION}",
                metadata::namespace(applied),
                metadata::name(applied)
            ),
        ));
    }
    patch::check_identity(call, &scale)?;
    Ok(scale)
}

/// The scale of a PUT.
fn updated(call: &Call<'_>, options: &WriteOptions, before: &Value) -> Result<Value> {
    let decoded = body::decode(call.headers, &call.body, SCALE_VERSION, "Scale")?;
    // what Kubernetes says of any body that it cannot decode as a Scale
    let refused = |_| {
        let why = "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:110\"";
        Failure::bad_request(why)
    };
    let scale = checked_scale(call, options, decoded.value, decoded.duplicates).map_err(refused)?;
    let name = metadata::name(&scale);
    if name != call.info.name {
        return Err(Failure::bad_request(if name.is_empty() {
            format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                call.info.name
            )
        } else {
            format!("the name of the object ({name}) does not match the name on the URL ({})", call.info.name)
        }));
    }
    Ok(tracked(call, options, before, scale))
}

/// A scale of the right type without unknown fields, or why it is none.
fn checked_scale(
    call: &Call<'_>,
    options: &WriteOptions,
    mut scale: Value,
    duplicates: Vec<String>,
) -> Result<Value, String> {
    let text = |field: &str| scale[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if !matches!((version, kind), ("" | SCALE_VERSION, "" | "Scale")) {
        return Err(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:110\""
        ));
    }
    if let Some(why) = schema::decode_error(scale_schema(), &scale) {
        return Err(why);
    }
    decode::known_fields_of(scale_schema(), call, options, &mut scale, duplicates)?;
    Ok(scale)
}

fn tracked(call: &Call<'_>, options: &WriteOptions, before: &Value, mut scale: Value) -> Value {
    let manager = create::manager(call, options);
    track_update(&scale_target(), Some(before), &mut scale, &manager, call.now);
    scale
}

fn scale_of(object: &Value, paths: &Scale) -> Result<Value> {
    let Some(replicas) = at(object, &paths.spec_replicas) else {
        return Err(Failure::internal(format!(
            "the spec replicas field \".{}\" does not exist",
            paths.spec_replicas.join(".")
        )));
    };
    let mut status = json!({ "replicas": at(object, &paths.status_replicas).and_then(Value::as_i64).unwrap_or(0) });
    if let Some(path) = &paths.label_selector
        && let Some(selector) = at(object, path)
    {
        status["selector"] = selector.clone();
    }
    let mut meta = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            meta[field] = value.clone();
        }
    }
    Ok(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta,
        "spec": {"replicas": replicas}, "status": status,
    }))
}

fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, field| value.get(field))
}

fn set(object: &mut Value, path: &[String], value: Value) {
    let mut here = object;
    for field in path {
        if !here.is_object() {
            *here = json!({});
        }
        here = &mut here[field];
    }
    *here = value;
}
