//! Subresources of pods: binding to a node, and eviction.

use serde_json::{Value, json};

use super::Call;
use super::delete::{self, Deletion};
use super::update::{Change, Part, change};
use crate::failure::{Failure, Result};
use crate::field::{FieldError, Path};
use crate::options::{DeleteOptions, WriteOptions};
use crate::response::{self, Answer};
use crate::{body, metadata, time};

fn success(code: u16) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code});
    response::json_bytes(code, status.to_string())
}

/// Handles POST of a Binding: the pod goes to that node, once.
pub(crate) async fn bind(call: &Call<'_>) -> Result<Answer> {
    let options = WriteOptions::parse(call.query, "CreateOptions")?;
    let binding = body::decode(call.headers, &call.body, "v1", "Binding")?.value;
    let target = binding["target"]["name"].as_str().unwrap_or_default().to_owned();
    if target.is_empty() {
        let error = FieldError::required(&Path::new("target.name"), "");
        return Err(Failure::invalid("", "Binding", metadata::name(&binding), &[error]));
    }
    change(call, Part::Binding, &options, |old| {
        let old = old.ok_or_else(|| call.not_found())?;
        let node = old["spec"]["nodeName"].as_str().unwrap_or_default();
        let refuse = |why: String| Failure::conflict("", "pods/binding", &call.info.name, &why);
        if metadata::deletion_timestamp(old).is_some() {
            return Err(refuse(format!("pod {} is being deleted, cannot be assigned to a host", call.info.name)));
        }
        if !node.is_empty() {
            return Err(refuse(format!("pod {} is already assigned to node {node:?}", call.info.name)));
        }
        let mut object = old.clone();
        object["spec"]["nodeName"] = target.as_str().into();
        for (key, value) in metadata::annotations(&binding).into_iter().flatten() {
            object["metadata"]["annotations"][key] = value.clone();
        }
        scheduled(&mut object, &time::seconds(call.now));
        Ok(Change { object, applied: true })
    })
    .await?;
    Ok(success(201))
}

fn scheduled(object: &mut Value, now: &str) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        conditions.push(json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
        }));
    }
}

/// Handles POST of an Eviction: a delete, since no disruption budgets are kept here.
pub(crate) async fn evict(call: &Call<'_>) -> Result<Answer> {
    let eviction = body::decode(call.headers, &call.body, "policy/v1", "Eviction")?.value;
    let name = metadata::name(&eviction);
    if !name.is_empty() && name != call.info.name {
        return Err(Failure::bad_request(format!(
            "name in URL ({}) does not match name in Eviction object ({name})",
            call.info.name
        )));
    }
    let options = DeleteOptions::parse(call.query, eviction.get("deleteOptions"))?;
    if options.dry_run {
        call.current().await?;
        return Ok(success(201));
    }
    let (Deletion::Gone(_) | Deletion::Marked(_)) = delete::remove(call, &call.info.name, &options, None).await?;
    Ok(success(201))
}
