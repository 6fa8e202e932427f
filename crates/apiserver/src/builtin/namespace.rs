//! Namespace.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{each_mut, fill, fill_text, map_mut, restore, text, texts};
use super::columns::{AGE, NAME, age, column, name};
use super::tidy::tidy;
use super::{Column, Strategy};
use crate::field::{FieldError, Path};
use crate::{metadata, names};

const OWN_FINALIZER: &str = "kubernetes";

pub(super) struct Namespace;

impl Strategy for Namespace {
    fn default(&self, object: &mut Value) {
        tidy(object);
        let own = metadata::name(object).to_owned();
        if !own.is_empty()
            && let Some(labels) = object.get_mut("metadata").and_then(|meta| map_mut(meta, "labels"))
        {
            labels.insert("kubernetes.io/metadata.name".to_owned(), own.into());
        }
        map_mut(object, "spec");
        for condition in each_mut(object, "/status/conditions") {
            fill(condition, "lastTransitionTime", Value::Null);
        }
        if let Some(status) = map_mut(object, "status") {
            fill_text(status, "phase", "Active");
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"phase": "Active"});
        let has = texts(object, "/spec/finalizers").contains(&OWN_FINALIZER);
        if let Some(spec) = map_mut(object, "spec")
            && !has
        {
            match spec.get_mut("finalizers").and_then(Value::as_array_mut) {
                Some(list) => list.push(OWN_FINALIZER.into()),
                None => {
                    spec.insert("finalizers".to_owned(), json!([OWN_FINALIZER]));
                }
            }
        }
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        restore(object, old, "spec");
        restore(object, old, "status");
    }

    fn prepare_status_update(&self, object: &mut Value, old: &Value) {
        restore(object, old, "spec");
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        finalizer_errors(object)
    }

    fn validate_update(&self, _object: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_status_update(&self, object: &Value, _old: &Value) -> Vec<FieldError> {
        let (wanted, why) = match metadata::deletion_timestamp(object) {
            None => ("Active", "may only be 'Active' if `deletionTimestamp` is empty"),
            Some(_) => ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"),
        };
        let phase = text(object, "/status/phase");
        if phase == wanted { Vec::new() } else { vec![FieldError::invalid(&Path::new("status.Phase"), phase, why)] }
    }

    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        names::label_name(name, prefix)
    }

    fn columns(&self) -> &'static [Column] {
        const { &[NAME, column("Status", "The status of the namespace"), AGE] }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![name(object), text(object, "/status/phase").into(), age(object, now)]
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("status.phase", text(object, "/status/phase").to_owned())]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["status.phase"]
    }
}

/// What is wrong with an update through the `finalize` subresource, which is the way to change `spec.finalizers`.
pub(crate) fn finalize_errors(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, finalizer) in texts(object, "/spec/finalizers").into_iter().enumerate() {
        let path = Path::new("spec.finalizers").index(at);
        errors.extend(names::qualified_name(finalizer).into_iter().map(|t| FieldError::invalid(&path, finalizer, t)));
        errors.extend(metadata::unqualified_finalizer(finalizer, &path));
    }
    errors
}

/// What is wrong with the finalizers in a namespace's spec.
fn finalizer_errors(object: &Value) -> Vec<FieldError> {
    let path = Path::new("spec.finalizers");
    let mut errors = Vec::new();
    for finalizer in texts(object, "/spec/finalizers") {
        errors.extend(names::qualified_name(finalizer).into_iter().map(|t| FieldError::invalid(&path, finalizer, t)));
        errors.extend(metadata::unqualified_finalizer(finalizer, &path));
    }
    errors
}
