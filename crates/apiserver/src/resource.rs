//! A resource type: everything the verbs need to know about one kind at one version.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::builtin;
use crate::crd::{CustomVersion, ScalePaths};
use crate::field::FieldError;
use crate::schema::{self, Schema};

/// One kind at one version.
pub struct ResourceType {
    /// API group; empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Kind of its list.
    pub list_kind: String,
    /// Resource name.
    pub plural: String,
    /// Resource name for one.
    pub singular: String,
    /// Short names.
    pub short_names: Vec<String>,
    /// Categories.
    pub categories: Vec<String>,
    /// Lives in a namespace.
    pub namespaced: bool,
    /// Has a status subresource.
    pub status: bool,
    /// Where its scale subresource finds its numbers.
    pub scale: Option<ScalePaths>,
    /// What it does.
    pub behaviour: Behaviour,
    api_version: String,
    prefix: String,
}

/// Where a type's behaviour comes from.
#[derive(Clone)]
pub enum Behaviour {
    /// Written in Rust.
    Builtin(&'static builtin::Kind),
    /// Described by a CustomResourceDefinition.
    Custom(Arc<CustomVersion>),
}

impl ResourceType {
    /// A built-in type.
    pub fn builtin(kind: &'static builtin::Kind) -> Self {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Self {
            group: kind.group.to_owned(),
            version: kind.version.to_owned(),
            kind: kind.kind.to_owned(),
            list_kind: format!("{}List", kind.kind),
            plural: kind.plural.to_owned(),
            singular: kind.singular.to_owned(),
            short_names: owned(kind.short_names),
            categories: owned(kind.categories),
            namespaced: kind.namespaced,
            status: kind.status,
            scale: None,
            behaviour: Behaviour::Builtin(kind),
            api_version: api_version(kind.group, kind.version),
            // both groups of Event show the same objects
            prefix: prefix(if kind.plural == "events" { "" } else { kind.group }, kind.plural),
        }
    }

    /// A type described by a CustomResourceDefinition.
    pub fn custom(version: Arc<CustomVersion>) -> Self {
        Self {
            group: version.group.clone(),
            version: version.version.clone(),
            kind: version.kind.clone(),
            list_kind: version.list_kind.clone(),
            plural: version.plural.clone(),
            singular: version.singular.clone(),
            short_names: version.short_names.clone(),
            categories: version.categories.clone(),
            namespaced: version.namespaced,
            status: version.status,
            scale: version.scale.clone(),
            api_version: api_version(&version.group, &version.version),
            prefix: prefix(&version.group, &version.plural),
            behaviour: Behaviour::Custom(version),
        }
    }

    /// `group/version`, or the version alone for core.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The key of an object, or of a collection's start when `name` is empty.
    pub fn key(&self, namespace: &str, name: &str) -> Bytes {
        if self.namespaced && !namespace.is_empty() {
            format!("{}{namespace}/{name}", self.prefix).into()
        } else {
            format!("{}{name}", self.prefix).into()
        }
    }

    /// The prefix of all objects of the type.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Its schema.
    pub fn schema(&self) -> Arc<Schema> {
        match &self.behaviour {
            Behaviour::Builtin(kind) => schema::builtin(kind.definition).unwrap_or_default(),
            Behaviour::Custom(version) => Arc::clone(&version.schema),
        }
    }

    /// The built-in strategy, if it has one.
    pub fn strategy(&self) -> Option<&'static dyn builtin::Strategy> {
        match &self.behaviour {
            Behaviour::Builtin(kind) => Some(kind.strategy),
            Behaviour::Custom(_) => None,
        }
    }

    /// It is a CustomResourceDefinition's.
    pub fn is_custom(&self) -> bool {
        matches!(self.behaviour, Behaviour::Custom(_))
    }

    /// Secrets may be encrypted at rest.
    pub fn is_secret(&self) -> bool {
        self.group.is_empty() && self.plural == "secrets"
    }

    /// Whether it is the built-in resource `group/plural`.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        !self.is_custom() && self.group == group && self.plural == plural
    }

    fn is_other_event(&self) -> bool {
        self.is("events.k8s.io", "events")
    }

    /// Whether reading has to look into the object.
    pub fn changes_on_read(&self) -> bool {
        match &self.behaviour {
            Behaviour::Builtin(_) => self.is_other_event(),
            Behaviour::Custom(version) => version.has_defaults,
        }
    }

    /// What a stored object becomes when read at this version.
    pub fn on_read(&self, object: &mut Value) {
        match &self.behaviour {
            Behaviour::Builtin(_) if self.is_other_event() => builtin::event::to_events(object),
            Behaviour::Builtin(_) => {}
            Behaviour::Custom(version) => {
                if version.has_defaults {
                    schema::default(&version.schema, object);
                }
            }
        }
    }

    /// What an object of this version becomes when stored.
    pub fn on_write(&self, object: &mut Value) {
        if self.is_other_event() {
            builtin::event::to_core(object);
        }
    }

    /// Fills in defaults.
    pub fn default(&self, object: &mut Value) {
        match &self.behaviour {
            Behaviour::Builtin(kind) if kind.plural == "customresourcedefinitions" => crate::crd::default(object),
            Behaviour::Builtin(kind) => kind.strategy.default(object),
            Behaviour::Custom(version) => schema::default(&version.schema, object),
        }
    }

    /// Removes what a client may not set when it creates.
    pub fn prepare_create(&self, object: &mut Value) {
        match &self.behaviour {
            Behaviour::Builtin(kind) => {
                kind.strategy.prepare_create(object);
                if kind.strategy.has_generation() {
                    object["metadata"]["generation"] = json!(1);
                }
            }
            Behaviour::Custom(_) => {
                if self.status && let Some(fields) = object.as_object_mut() {
                    fields.remove("status");
                }
                object["metadata"]["generation"] = json!(1);
            }
        }
    }

    /// Restores what an update may not change and counts the generation.
    pub fn prepare_update(&self, object: &mut Value, old: &Value) {
        let raised = match &self.behaviour {
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
    pub fn prepare_status_update(&self, object: &mut Value, old: &Value) {
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
    pub fn validate(&self, object: &Value) -> Vec<FieldError> {
        match &self.behaviour {
            Behaviour::Builtin(kind) if kind.plural == "customresourcedefinitions" => crate::crd::validate(object),
            Behaviour::Builtin(kind) => kind.strategy.validate(object),
            Behaviour::Custom(version) => schema::validate(&version.schema, object, None),
        }
    }

    /// What is wrong with a change, metadata aside.
    pub fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        match &self.behaviour {
            Behaviour::Builtin(kind) if kind.plural == "customresourcedefinitions" => {
                crate::crd::validate_update(object, old)
            }
            Behaviour::Builtin(kind) => kind.strategy.validate_update(object, old),
            Behaviour::Custom(version) => schema::validate(&version.schema, object, Some(old)),
        }
    }

    /// What is wrong with a change of status.
    pub fn validate_status_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        match &self.behaviour {
            Behaviour::Builtin(kind) => kind.strategy.validate_status_update(object, old),
            Behaviour::Custom(version) => schema::validate(&version.schema, object, Some(old)),
        }
    }

    /// What is wrong with a name.
    pub fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        match self.strategy() {
            Some(strategy) => strategy.name_errors(name, prefix),
            None => crate::names::dns1123_subdomain(name, prefix),
        }
    }

    /// The value of a field that field selectors know; `None` if they do not know it.
    pub fn selectable(&self, object: &Value, field: &str) -> Option<String> {
        let metadata = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        match (field, &self.behaviour) {
            ("metadata.name", _) => Some(metadata("name")),
            ("metadata.namespace", _) => Some(metadata("namespace")),
            (_, Behaviour::Builtin(kind)) => {
                kind.strategy.selectable(object).into_iter().find(|(name, _)| *name == field).map(|(_, value)| value)
            }
            (_, Behaviour::Custom(version)) => version.selectable(object, field),
        }
    }

    /// Whether field selectors know the field.
    pub fn is_selectable(&self, field: &str) -> bool {
        match (field, &self.behaviour) {
            ("metadata.name", _) => true,
            ("metadata.namespace", _) => self.namespaced || !self.is_custom(),
            (_, Behaviour::Builtin(kind)) => kind.strategy.selectable_names().contains(&field),
            (_, Behaviour::Custom(version)) => version.is_selectable(field),
        }
    }

    /// A `Table` of objects.
    pub fn table(&self, now: Timestamp) -> crate::table::Printer<'_> {
        match &self.behaviour {
            Behaviour::Builtin(kind) => crate::table::Printer::builtin(kind.strategy, now),
            Behaviour::Custom(version) => crate::table::Printer::custom(&version.columns, now),
        }
    }

    /// Whether a PUT to an absent name creates it.
    pub fn creates_on_update(&self) -> bool {
        matches!(
            (self.group.as_str(), self.plural.as_str()),
            ("" | "events.k8s.io", "events")
                | ("", "services")
                | ("coordination.k8s.io", "leases")
                | ("rbac.authorization.k8s.io", _)
        ) && !self.is_custom()
    }

    /// Whether an update must name the revision it is based on.
    pub fn needs_version_on_update(&self) -> bool {
        self.is_custom() || self.plural == "customresourcedefinitions"
    }

    /// Whether a delete answers with the object instead of a `Status`.
    pub fn returns_deleted(&self) -> bool {
        self.group.is_empty()
            && matches!(
                self.plural.as_str(),
                "pods" | "services" | "serviceaccounts" | "persistentvolumeclaims" | "namespaces"
            )
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn prefix(group: &str, plural: &str) -> String {
    format!("/registry/{}/{plural}/", if group.is_empty() { "core" } else { group })
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
pub fn copy_field(object: &mut Value, old: &Value, field: &str) {
    set_or_remove(object, field, old.get(field).cloned());
}

fn copy_generation(object: &mut Value, old: &Value) {
    let generation = old["metadata"].get("generation").cloned();
    set_or_remove(&mut object["metadata"], "generation", generation);
}

/// Whether any field but the named ones differs.
pub fn differs_beyond(object: &Value, old: &Value, ignored: &[&str]) -> bool {
    let (Some(new), Some(old)) = (object.as_object(), old.as_object()) else { return object != old };
    let changed = |key: &String| !ignored.contains(&key.as_str()) && new.get(key) != old.get(key);
    new.keys().any(changed) || old.keys().any(changed)
}
