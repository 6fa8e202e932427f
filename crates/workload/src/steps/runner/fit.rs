//! Which steps run in a sandbox.

use serde_json::Value;

use super::super::location;
use super::super::names::POOL;
use super::super::pod::{list, text};

/// The pool a step asks for, on its template or else on the Workflow.
pub fn pool<'a>(template: &'a Value, annotations: &'a Value) -> Option<&'a str> {
    let own = template["metadata"]["annotations"][POOL].as_str();
    own.or_else(|| annotations[POOL].as_str()).filter(|pool| !pool.is_empty())
}

/// Why a step needs a pod although it asks for a sandbox; nothing if it does not. The pool's sandboxes have that image, and
/// its artifacts may be in the directory for them if that is here.
pub fn unfit(template: &Value, spec: &Value, image: &str, has_directory: bool) -> Option<String> {
    let body = if template["container"].is_object() { &template["container"] } else { &template["script"] };
    if !body.is_object() {
        return Some("only containers and scripts run in sandboxes".to_owned());
    }
    let own = text(body, "image");
    if !own.is_empty() && own != image {
        return Some(format!("its image is {own:?}, the pool's is {image:?}"));
    }
    let has = |value: &Value| value.as_array().is_some_and(|items| !items.is_empty());
    let is_patched = |of: &Value| !text(of, "podSpecPatch").is_empty();
    let secured = |of: &Value| of["securityContext"].as_object().is_some_and(|context| !context.is_empty());
    let elsewhere = has(&body["envFrom"]) || list(&body["env"]).iter().any(|one| one["valueFrom"].is_object());
    let reasons = [
        (has(&template["volumes"]) || has(&body["volumeMounts"]), "volumes"),
        (has(&template["sidecars"]), "sidecars"),
        (has(&template["initContainers"]), "init containers"),
        (elsewhere, "variables from elsewhere"),
        (is_patched(template) || is_patched(spec), "a podSpecPatch"),
        (secured(template) || secured(body) || secured(spec), "a security context"),
        (template["archiveLocation"]["archiveLogs"] == true, "a log to be archived"),
        (template["daemon"] == true, "to run as a daemon"),
    ];
    if let Some((_, what)) = reasons.into_iter().find(|(found, _)| *found) {
        return Some(format!("it has {what}"));
    }
    if list(&body["command"]).is_empty() {
        return Some("it names no command".to_owned());
    }
    let is_near = |one: &Value| {
        let place = if location::is_located(one) { one } else { &template["archiveLocation"] };
        one["raw"].is_object() || (has_directory && location::is_directory(place))
    };
    let all = ["inputs", "outputs"].into_iter().flat_map(|side| list(&template[side]["artifacts"]));
    let far = all.into_iter().find(|one| !is_near(one))?;
    Some(format!("its artifact {:?} is not in a directory of this machine", text(far, "name")))
}
