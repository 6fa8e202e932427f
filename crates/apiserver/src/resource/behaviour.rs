//! What a type does with its objects, wherever its behaviour comes from.

use std::sync::atomic::Ordering;

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{Behaviour, ResourceType};
use crate::field::FieldError;
use crate::selector::Fields;
use crate::table::Rows;
use crate::{builtin, crd, metadata, schema};

impl ResourceType {
    /// Whether reading an object stored at `revision` has to look into it.
    pub(crate) fn changes_on_read(&self, revision: u64) -> bool {
        match &self.behaviour {
            Behaviour::Builtin(_) => self.is_other_event(),
            Behaviour::Custom(custom) => !custom.alone || revision <= custom.revision.load(Ordering::Acquire),
        }
    }

    /// What a stored object becomes when read at this version.
    pub(crate) fn on_read(&self, object: &mut Value) {
        match &self.behaviour {
            Behaviour::Builtin(_) if self.is_other_event() => *object = builtin::event::to_events(object),
            Behaviour::Builtin(_) => {}
            Behaviour::Custom(custom) => {
                schema::prune(&custom.stored, object);
                schema::default(&custom.stored, object);
            }
        }
    }

    /// What an object of this version becomes when stored.
    pub(crate) fn stored_form<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        if self.is_other_event() { Cow::Owned(builtin::event::to_core(object)) } else { Cow::Borrowed(object) }
    }

    /// Fills in defaults.
    pub(crate) fn default(&self, object: &mut Value) {
        match &self.behaviour {
            Behaviour::Builtin(_) if self.is_definition() => crd::default(object),
            Behaviour::Builtin(kind) => kind.strategy.default(object),
            Behaviour::Custom(custom) => schema::default(&custom.version.schema, object),
        }
    }

    /// Removes what a client may not set when it creates.
    pub(crate) fn prepare_create(&self, object: &mut Value) {
        match &self.behaviour {
            Behaviour::Builtin(_) if self.is_definition() => {
                crd::prepare_create(object);
                object["metadata"]["generation"] = json!(1);
            }
            Behaviour::Builtin(kind) => {
                kind.strategy.prepare_create(object);
                if kind.strategy.has_generation() {
                    object["metadata"]["generation"] = json!(1);
                }
            }
            Behaviour::Custom(_) => {
                if self.status
                    && let Some(fields) = object.as_object_mut()
                {
                    fields.remove("status");
                }
                object["metadata"]["generation"] = json!(1);
            }
        }
    }

    /// Restores what an update may not change and counts the generation.
    pub(crate) fn prepare_update(&self, object: &mut Value, old: &Value) {
        let raised = match &self.behaviour {
            Behaviour::Builtin(_) if self.is_definition() => {
                crd::prepare_update(object, old);
                object.get("spec") != old.get("spec")
            }
            Behaviour::Builtin(kind) => {
                kind.strategy.prepare_update(object, old);
                kind.strategy.raises_generation(object, old)
            }
            Behaviour::Custom(_) => {
                if self.status {
                    copy_field(object, old, "status");
                }
                differs_beyond(object, old, if self.status { &["metadata", "status"] } else { &["metadata"] })
            }
        };
        if let Some(generation) = old["metadata"]["generation"].as_i64() {
            object["metadata"]["generation"] = json!(generation + i64::from(raised));
        }
    }

    /// Restores what a write to the status subresource may not change.
    pub(crate) fn prepare_status_update(&self, object: &mut Value, old: &Value) {
        match &self.behaviour {
            Behaviour::Builtin(kind) => {
                kind.strategy.prepare_status_update(object, old);
                copy_generation(object, old);
            }
            Behaviour::Custom(_) => {
                let managed = object["metadata"].get("managedFields").cloned();
                let status = object.get("status").cloned();
                *object = old.clone();
                set_or_remove(&mut object["metadata"], "managedFields", managed);
                set_or_remove(object, "status", status);
            }
        }
    }

    /// What is wrong with a new object, metadata aside.
    pub(crate) fn validate(&self, object: &Value) -> Vec<FieldError> {
        match &self.behaviour {
            Behaviour::Builtin(_) if self.is_definition() => crd::validate(object),
            Behaviour::Builtin(kind) => kind.strategy.validate(object),
            Behaviour::Custom(custom) => {
                let mut errors = schema::validate(&custom.version.schema, object, None);
                errors.extend(custom.version.scale_errors(object, false));
                errors
            }
        }
    }

    /// What is wrong with a change, metadata aside.
    pub(crate) fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        match &self.behaviour {
            Behaviour::Builtin(_) if self.is_definition() => crd::validate_update(object, old),
            Behaviour::Builtin(kind) => kind.strategy.validate_update(object, old),
            Behaviour::Custom(custom) => {
                let mut errors = schema::validate(&custom.version.schema, object, Some(old));
                errors.extend(custom.version.scale_errors(object, false));
                errors
            }
        }
    }

    /// What is wrong with a change of status.
    pub(crate) fn validate_status_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        match &self.behaviour {
            Behaviour::Builtin(_) if self.is_definition() => crd::validate_status_update(object),
            Behaviour::Builtin(kind) => kind.strategy.validate_status_update(object, old),
            Behaviour::Custom(custom) => {
                let mut errors = schema::validate_status(&custom.version.schema, object, Some(old));
                errors.extend(custom.version.scale_errors(object, true));
                errors
            }
        }
    }

    /// What is wrong with the name of an object.
    pub(crate) fn name_errors(&self, object: &Value, name: &str, prefix: bool) -> Vec<String> {
        match self.strategy() {
            Some(_) if self.is_definition() => crd::name_errors(object, name),
            Some(strategy) => strategy.name_errors(name, prefix),
            None => crate::names::subdomain_name(name, prefix),
        }
    }

    /// Why a field selector cannot be used on this type, in the words of Kubernetes.
    pub(crate) fn field_selector_error(&self, fields: &Fields) -> Option<String> {
        match &self.behaviour {
            Behaviour::Builtin(kind) => kind.field_selector_error(fields),
            Behaviour::Custom(custom) => {
                let known = |name: &str| match name {
                    "metadata.name" => true,
                    "metadata.namespace" => self.namespaced,
                    _ => custom.version.selectable.iter().any(|(known, _)| known == name),
                };
                let unknown = fields.names().find(|name| !known(name))?;
                Some(format!("field label not supported: {unknown}"))
            }
        }
    }

    /// Whether a field selector selects an object.
    pub(crate) fn is_selected(&self, object: &Value, fields: &Fields) -> bool {
        match &self.behaviour {
            Behaviour::Builtin(kind) => kind.is_selected(object, fields),
            Behaviour::Custom(custom) => fields.matches(|name| match name {
                "metadata.name" => metadata::name(object).into(),
                "metadata.namespace" => metadata::namespace(object).into(),
                _ => {
                    let path = custom.version.selectable.iter().find(|(known, _)| known == name);
                    let found = path.and_then(|(_, path)| path.find(object).ok()).unwrap_or_default();
                    found.first().map(|value| plain(value)).unwrap_or_default().into()
                }
            }),
        }
    }

    /// What a client should be told about an object that was taken.
    pub(crate) fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if self.is_definition() { crd::warnings(object, old) } else { Vec::new() }
    }

    /// What makes rows of a `Table` of its objects.
    pub(crate) fn rows(&self) -> Rows<'_> {
        match &self.behaviour {
            Behaviour::Builtin(kind) => Rows::Builtin(kind.strategy),
            Behaviour::Custom(custom) => Rows::Custom(&custom.version.printer),
        }
    }

    /// Whether a PUT to an absent name creates it.
    pub(crate) fn creates_on_update(&self) -> bool {
        matches!(
            (self.group.as_str(), self.plural.as_str()),
            ("" | "events.k8s.io", "events")
                | ("", "services")
                | ("coordination.k8s.io", "leases")
                | ("rbac.authorization.k8s.io", _)
        ) && !self.is_custom()
    }

    /// Whether an update must name the revision it is based on.
    pub(crate) fn needs_version_on_update(&self) -> bool {
        self.is_custom() || self.plural == "customresourcedefinitions"
    }

    /// Whether a delete answers with the object instead of a `Status`.
    pub(crate) fn returns_deleted(&self) -> bool {
        self.group.is_empty()
            && matches!(
                self.plural.as_str(),
                "pods" | "services" | "serviceaccounts" | "persistentvolumeclaims" | "namespaces"
            )
    }
}

/// A scalar as field selectors compare it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn set_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    if let Some(fields) = object.as_object_mut() {
        match value {
            Some(value) => fields.insert(field.to_owned(), value),
            None => fields.remove(field),
        };
    }
}

/// Makes `field` of `object` what it was in `old`.
fn copy_field(object: &mut Value, old: &Value, field: &str) {
    set_or_remove(object, field, old.get(field).cloned());
}

fn copy_generation(object: &mut Value, old: &Value) {
    let generation = old["metadata"].get("generation").cloned();
    set_or_remove(&mut object["metadata"], "generation", generation);
}

/// Whether any field but the named ones differs.
fn differs_beyond(object: &Value, old: &Value, ignored: &[&str]) -> bool {
    let (Some(new), Some(old)) = (object.as_object(), old.as_object()) else { return object != old };
    let changed = |key: &String| !ignored.contains(&key.as_str()) && new.get(key) != old.get(key);
    new.keys().any(changed) || old.keys().any(changed)
}
