//! A resource type: everything the verbs need to know about one kind at one version.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::builtin;
use crate::crd::{self, CustomKind, Scale, Version};
use crate::failure::Failure;
use crate::field::FieldError;
use crate::patch::apply::{Target, reset_fields};
use crate::schema::{self, Schema};
use crate::table::Rows;

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
    pub scale: Option<Scale>,
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
    Custom(Arc<Custom>),
}

/// A version of a custom resource.
pub struct Custom {
    /// The version.
    pub version: Version,
    /// The schema of the version objects are stored in, which decides what of a stored object is still there.
    pub stored: Arc<Schema>,
    /// The schemas of the other versions, by `group/version`.
    pub other_versions: Vec<(String, Arc<Schema>)>,
    /// The revision of the definition.
    pub revision: u64,
    /// There is no other version, so that objects written after `revision` were pruned and defaulted by this very
    /// schema. Others are when they are read.
    pub alone: bool,
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

    /// The types described by a CustomResourceDefinition: one for each version that is served.
    ///
    /// `revision` is that of the definition as it is now.
    pub fn custom(definition: &CustomKind, revision: u64) -> Vec<Self> {
        let versions = &definition.versions;
        let served = versions.iter().filter(|version| version.served);
        served
            .map(|version| {
                let others = versions.iter().filter(|other| other.name != version.name);
                Self::custom_version(
                    definition,
                    Custom {
                        version: version.clone(),
                        stored: Arc::clone(&definition.storage().unwrap_or(version).schema),
                        other_versions: others
                            .map(|other| (api_version(&definition.group, &other.name), Arc::clone(&other.schema)))
                            .collect(),
                        revision,
                        alone: versions.len() == 1,
                    },
                )
            })
            .collect()
    }

    fn custom_version(definition: &CustomKind, custom: Custom) -> Self {
        Self {
            group: definition.group.clone(),
            version: custom.version.name.clone(),
            kind: definition.kind.clone(),
            list_kind: definition.list_kind.clone(),
            plural: definition.plural.clone(),
            singular: definition.singular.clone(),
            short_names: definition.short_names.clone(),
            categories: definition.categories.clone(),
            namespaced: definition.namespaced,
            status: custom.version.status,
            scale: custom.version.scale.clone(),
            api_version: api_version(&definition.group, &custom.version.name),
            prefix: prefix(&definition.group, &definition.plural),
            behaviour: Behaviour::Custom(Arc::new(custom)),
        }
    }

    /// The refusal of an object of this type. Both groups of Event are one to Kubernetes here.
    pub fn invalid(&self, name: &str, errors: &[FieldError]) -> Failure {
        let group = if self.is_other_event() { "" } else { &self.group };
        Failure::invalid(group, &self.kind, name, errors)
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
            Behaviour::Custom(custom) => Arc::clone(&custom.version.schema),
        }
    }

    /// What decides about ownership of fields in writes to a part of the object.
    pub fn with_target<R>(&self, subresource: &str, use_it: impl FnOnce(&Target<'_>) -> R) -> R {
        let others = match &self.behaviour {
            Behaviour::Builtin(_) => &[][..],
            Behaviour::Custom(custom) => custom.other_versions.as_slice(),
        };
        use_it(&Target {
            schema: &self.schema(),
            api_version: &self.api_version,
            kind: &self.kind,
            builtin: !self.is_custom(),
            subresource,
            reset: &reset_fields(&self.api_version, &self.kind, self.status, subresource),
            other_versions: others,
        })
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

    /// It is the type of definitions.
    pub fn is_definition(&self) -> bool {
        self.is("apiextensions.k8s.io", "customresourcedefinitions")
    }

    fn is_other_event(&self) -> bool {
        self.is("events.k8s.io", "events")
    }

    /// Whether reading an object stored at `revision` has to look into it.
    pub fn changes_on_read(&self, revision: u64) -> bool {
        match &self.behaviour {
            Behaviour::Builtin(_) => self.is_other_event(),
            Behaviour::Custom(custom) => !custom.alone || revision <= custom.revision,
        }
    }

    /// What a stored object becomes when read at this version.
    pub fn on_read(&self, object: &mut Value) {
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
    pub fn stored_form<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        if self.is_other_event() { Cow::Owned(builtin::event::to_core(object)) } else { Cow::Borrowed(object) }
    }

    /// Fills in defaults.
    pub fn default(&self, object: &mut Value) {
        match &self.behaviour {
            Behaviour::Builtin(_) if self.is_definition() => crd::default(object),
            Behaviour::Builtin(kind) => kind.strategy.default(object),
            Behaviour::Custom(custom) => schema::default(&custom.version.schema, object),
        }
    }

    /// Removes what a client may not set when it creates.
    pub fn prepare_create(&self, object: &mut Value) {
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
    pub fn prepare_update(&self, object: &mut Value, old: &Value) {
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
    pub fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
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
    pub fn validate_status_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
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
    pub fn name_errors(&self, object: &Value, name: &str, prefix: bool) -> Vec<String> {
        match self.strategy() {
            Some(_) if self.is_definition() => crd::name_errors(object, name),
            Some(strategy) => strategy.name_errors(name, prefix),
            None => crate::names::subdomain_name(name, prefix),
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
            (_, Behaviour::Custom(custom)) => {
                let (_, path) = custom.version.selectable.iter().find(|(name, _)| name == field)?;
                let found = path.find(object).unwrap_or_default();
                Some(found.first().map(|value| plain(value)).unwrap_or_default())
            }
        }
    }

    /// Whether field selectors know the field.
    pub fn is_selectable(&self, field: &str) -> bool {
        match (field, &self.behaviour) {
            ("metadata.name", _) => true,
            ("metadata.namespace", _) => self.namespaced || !self.is_custom(),
            (_, Behaviour::Builtin(kind)) => kind.strategy.selectable_names().contains(&field),
            (_, Behaviour::Custom(custom)) => custom.version.selectable.iter().any(|(name, _)| name == field),
        }
    }

    /// What makes rows of a `Table` of its objects.
    pub fn rows(&self) -> Rows<'_> {
        match &self.behaviour {
            Behaviour::Builtin(kind) => Rows::Builtin(kind.strategy),
            Behaviour::Custom(custom) => Rows::Custom(&custom.version.printer),
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

/// A scalar as field selectors compare it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
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
