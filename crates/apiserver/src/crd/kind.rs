//! The compiled form of a definition: what the server needs to serve its resources.

use std::sync::Arc;

use serde_json::Value;

use super::view::{flag, strings, text};
use crate::field::{FieldError, Path};
use crate::go;
use crate::jsonpath::JsonPath;
use crate::schema::custom;
use crate::schema::node::Schema;
use crate::table::Printer;

/// A custom resource.
#[derive(Debug, Clone)]
pub(crate) struct CustomKind {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Kind of a list.
    pub list_kind: String,
    /// Resource name in paths.
    pub plural: String,
    /// Resource name for one.
    pub singular: String,
    /// Short names.
    pub short_names: Vec<String>,
    /// Categories.
    pub categories: Vec<String>,
    /// Lives in a namespace.
    pub namespaced: bool,
    /// Whether the definition is established, so that its resources are served.
    pub established: bool,
    /// Its versions in the order of the definition.
    pub versions: Vec<Version>,
}

/// One version of a custom resource.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    /// Such as `v1alpha1`.
    pub name: String,
    /// Whether the API offers it.
    pub served: bool,
    /// Whether objects are stored in it.
    pub storage: bool,
    /// What to warn clients of when it is deprecated.
    pub deprecation: Option<String>,
    /// Its schema.
    pub schema: Arc<Schema>,
    /// Has a `/status` subresource.
    pub status: bool,
    /// Its `/scale` subresource.
    pub scale: Option<Scale>,
    /// What `kubectl get` shows.
    pub printer: Printer,
    /// Field selectors it knows beyond name and namespace, such as `spec.color`.
    pub selectable: Vec<(String, JsonPath)>,
}

/// Where a `/scale` subresource finds its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Names leading to the wanted number of replicas.
    pub spec_replicas: Vec<String>,
    /// Names leading to the present number of replicas.
    pub status_replicas: Vec<String>,
    /// Names leading to the selector, if it has one.
    pub label_selector: Option<Vec<String>>,
}

impl CustomKind {
    /// Compiles a definition that passed validation.
    pub(crate) fn new(crd: &Value) -> Option<Self> {
        let spec = crd.get("spec")?;
        let names = spec.get("names")?;
        let accepted = crd.pointer("/status/acceptedNames").unwrap_or(names);
        let owned = |value: &Value, key: &str| text(value, key).unwrap_or_default().to_owned();
        let list = |value: &Value, key: &str| strings(value, key).into_iter().map(str::to_owned).collect::<Vec<_>>();
        let group = owned(spec, "group");
        let kind = owned(names, "kind");
        let versions = spec.get("versions")?.as_array()?;
        Some(Self {
            list_kind: text(names, "listKind").map_or_else(|| format!("{kind}List"), str::to_owned),
            plural: owned(names, "plural"),
            singular: text(names, "singular").map_or_else(|| kind.to_lowercase(), str::to_owned),
            short_names: list(accepted, "shortNames"),
            categories: list(names, "categories"),
            namespaced: text(spec, "scope") == Some("Namespaced"),
            established: super::names::is_true(crd, "Established"),
            versions: versions.iter().map(|version| Version::new(version, &group, &kind)).collect(),
            group,
            kind,
        })
    }

    /// The version objects are stored in.
    pub(crate) fn storage(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }
}

impl Version {
    fn new(version: &Value, group: &str, kind: &str) -> Self {
        let name = text(version, "name").unwrap_or_default().to_owned();
        let any =
            Value::Object(std::iter::once(("x-kubernetes-preserve-unknown-fields".to_owned(), true.into())).collect());
        let deprecation = flag(version, "deprecated").then(|| {
            let given = text(version, "deprecationWarning");
            given.map_or_else(|| format!("{group}/{name} {kind} is deprecated"), str::to_owned)
        });
        let part = |at: &str| version.pointer(at).filter(|value| !value.is_null());
        let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
        let selectable = version.get("selectableFields").and_then(Value::as_array);
        Self {
            served: flag(version, "served"),
            storage: flag(version, "storage"),
            deprecation,
            schema: custom(part("/schema/openAPIV3Schema").unwrap_or(&any)),
            status: part("/subresources/status").is_some(),
            scale: part("/subresources/scale").map(Scale::new),
            printer: Printer::new(columns.map_or(&[], Vec::as_slice)).unwrap_or_default(),
            selectable: selectable
                .into_iter()
                .flatten()
                .filter_map(|field| {
                    let path = text(field, "jsonPath")?;
                    Some((path.trim_start_matches('.').to_owned(), JsonPath::parse(path).ok()?))
                })
                .collect(),
            name,
        }
    }

    /// What is wrong with the numbers the scale subresource reads; `status_only` where only the status is written.
    pub(crate) fn scale_errors(&self, object: &Value, status_only: bool) -> Vec<FieldError> {
        let Some(scale) = &self.scale else { return Vec::new() };
        let mut errors = Vec::new();
        if !status_only {
            errors.extend(replica_error(object, &scale.spec_replicas));
        }
        errors.extend(replica_error(object, &scale.status_replicas));
        if let Some(path) = &scale.label_selector
            && let Some(other) = follow(object, path).filter(|value| !value.is_string())
        {
            let why = format!(
                ".{} accessor error: {other} is of the type {}, expected string",
                path.join("."),
                go::type_name(other)
            );
            errors.push(FieldError::invalid(&Path::new(&format!(".{}", path.join("."))), "", why));
        }
        errors
    }
}

fn follow<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, name| value.get(name))
}

fn replica_error(object: &Value, names: &[String]) -> Option<FieldError> {
    let dotted = format!(".{}", names.join("."));
    let path = Path::new(&dotted);
    let value = follow(object, names)?;
    let Some(count) = value.as_i64() else {
        let why = format!("{dotted} accessor error: {value} is of the type {}, expected int64", go::type_name(value));
        return Some(FieldError::invalid(&path, 0, why));
    };
    if count < 0 {
        return Some(FieldError::invalid(&path, count, "should be a non-negative integer"));
    }
    if count > i64::from(i32::MAX) {
        return Some(FieldError::invalid(&path, count, format!("should be less than or equal to {}", i32::MAX)));
    }
    None
}

impl Scale {
    fn new(scale: &Value) -> Self {
        let split = |key: &str| -> Vec<String> {
            let path = text(scale, key).unwrap_or_default();
            path.trim_start_matches('.').split('.').map(str::to_owned).collect()
        };
        Self {
            spec_replicas: split("specReplicasPath"),
            status_replicas: split("statusReplicasPath"),
            label_selector: text(scale, "labelSelectorPath")
                .filter(|p| !p.is_empty())
                .map(|_| split("labelSelectorPath")),
        }
    }
}
