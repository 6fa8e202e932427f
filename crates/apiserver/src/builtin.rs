//! Built-in kinds: what each does beyond what its schema says.

use jiff::Timestamp;
use serde_json::Value;

use crate::field::FieldError;

mod access;
mod claim;
mod columns;
mod config_map;
mod custom_resource_definition;
pub(crate) mod event;
mod lease;
pub(crate) mod namespace;
mod network_policy;
mod node;
pub(crate) mod pod;
mod rbac;
mod registry;
mod secret;
mod selectable;
pub(crate) mod service;
mod service_account;
#[cfg(test)]
mod tests;
mod tidy;

pub(crate) use registry::kinds;

/// A column of `kubectl get`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    /// Heading.
    pub name: &'static str,
    /// `OpenAPI` type: `string`, `integer`, `boolean`, `date`.
    pub kind: &'static str,
    /// `name` for the object's name, otherwise empty.
    pub format: &'static str,
    /// Shown by `kubectl explain`-like tools.
    pub description: &'static str,
    /// 0 is always shown, 1 with `-o wide`.
    pub priority: i32,
}

/// A built-in kind's own behaviour. All functions are pure: no clock, no I/O, no randomness.
pub(crate) trait Strategy: Send + Sync {
    /// Fills in what an absent field means, as Kubernetes 1.34 does.
    fn default(&self, _object: &mut Value) {}

    /// Removes what a client may not set when it creates (such as status).
    fn prepare_create(&self, _object: &mut Value) {}

    /// Restores what an update of the main resource may not change (such as status).
    fn prepare_update(&self, _object: &mut Value, _old: &Value) {}

    /// Restores what an update of the status subresource may not change (such as spec, labels).
    fn prepare_status_update(&self, _object: &mut Value, _old: &Value) {}

    /// What is wrong with a new object, metadata aside.
    fn validate(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// What is wrong with a change, metadata aside; includes what [`Strategy::validate`] would say where Kubernetes
    /// checks it again.
    fn validate_update(&self, object: &Value, _old: &Value) -> Vec<FieldError> {
        self.validate(object)
    }

    /// What is wrong with a change of status.
    fn validate_status_update(&self, _object: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// What is wrong with the name, as the explanations Kubernetes gives; `prefix` means it is a generateName.
    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String>;

    /// Whether the change (old, new) raises `metadata.generation`.
    fn raises_generation(&self, object: &Value, old: &Value) -> bool {
        let _ = (object, old);
        false
    }

    /// Whether new objects get `metadata.generation: 1`.
    fn has_generation(&self) -> bool {
        false
    }

    /// The columns of a `Table`.
    fn columns(&self) -> &'static [Column];

    /// The cells of one object.
    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value>;

    /// The `conditions` of one object's row, such as a pod that has completed.
    fn row_conditions(&self, _object: &Value) -> Option<Value> {
        None
    }

    /// Field selectors this kind knows beyond `metadata.name` and `metadata.namespace`, with their values.
    fn selectable(&self, _object: &Value) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The names [`Strategy::selectable`] may return, so that an unknown one can be refused without an object.
    fn selectable_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// What a client is told who selects by a field this kind does not know.
    fn unknown_field(&self, name: &str) -> String {
        if self.selectable_names().is_empty() {
            format!("{name:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        } else {
            format!("field label not supported: {name}")
        }
    }
}

/// One built-in resource.
#[derive(Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "the kind of a kind is what Kubernetes calls it")]
pub(crate) struct Kind {
    /// API group; empty for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Resource name in paths.
    pub plural: &'static str,
    /// Resource name for one.
    pub singular: &'static str,
    /// Short names such as `cm`.
    pub short_names: &'static [&'static str],
    /// Categories such as `all`.
    pub categories: &'static [&'static str],
    /// Lives in a namespace.
    pub namespaced: bool,
    /// Has a `/status` subresource.
    pub status: bool,
    /// Name of its `OpenAPI` definition, such as `io.k8s.api.core.v1.Pod`.
    pub definition: &'static str,
    /// Its behaviour.
    pub strategy: &'static dyn Strategy,
}
