//! The scale subresource of custom resources.

use serde_json::{Value, json};

use super::Call;
use super::update::{Change, Part, change};
use crate::crd::Scale;
use crate::failure::{Failure, Result};
use crate::media::Content;
use crate::options::WriteOptions;
use crate::response::{self, Answer};
use crate::{body, media, metadata, patch};

/// Handles GET.
pub(crate) async fn get(call: &Call<'_>, paths: &Scale) -> Result<Answer> {
    let object = call.current().await?.value(&call.kind)?;
    Ok(response::value(200, &scale_of(&object, paths)?, call.accepted.encoding))
}

/// Handles PUT and PATCH.
pub(crate) async fn write(call: &Call<'_>, paths: &Scale) -> Result<Answer> {
    let options = WriteOptions::parse(call.query, "UpdateOptions")?;
    let answer = change(call, Part::Scale, &options, |old| {
        let old = old.ok_or_else(|| call.not_found())?;
        let scale = wanted(call, &scale_of(old, paths)?)?;
        let version = metadata::resource_version(&scale);
        if !version.is_empty() && version != metadata::resource_version(old) {
            return Err(Failure::modified(&call.kind.group, &call.kind.plural, &call.info.name));
        }
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
        let mut object = old.clone();
        set(&mut object, &paths.spec_replicas, replicas.into());
        Ok(Change { object, applied: false })
    })
    .await?;
    let object = call.current().await?.value(&call.kind)?;
    let shown = scale_of(&object, paths)?;
    Ok(response::value(answer.status().as_u16(), &shown, call.accepted.encoding))
}

/// The Scale the client wants.
fn wanted(call: &Call<'_>, current: &Value) -> Result<Value> {
    if call.info.verb == "update" {
        let decoded = body::decode(call.headers, &call.body, "autoscaling/v1", "Scale")?;
        if decoded.value["kind"].as_str().is_some_and(|kind| kind != "Scale") {
            return Err(Failure::bad_request("the body is not a Scale"));
        }
        return Ok(decoded.value);
    }
    let content = Content::of(call.headers).map_err(|_| media::unsupported(media::OBJECT_TYPES))?;
    let body = body::json_value(&call.body).map_err(Failure::bad_request)?;
    match content {
        Content::JsonPatch => patch::json::apply(current, &body, true),
        Content::MergePatch | Content::StrategicPatch => patch::merge::apply(current, &body, true),
        _ => Err(media::unsupported(&["application/json-patch+json", "application/merge-patch+json"])),
    }
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
