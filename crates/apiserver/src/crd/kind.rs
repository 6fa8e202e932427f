//! The compiled form of a definition: what the server needs to serve its resources.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::jsonpath::JsonPath;
use super::view::{flag, strings, text};
use crate::field::{FieldError, Path};
use crate::schema::node::Schema;
use crate::schema::{custom, formats};

/// A custom resource.
#[derive(Debug, Clone)]
pub struct CustomKind {
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
    /// Unknown fields stay everywhere (old definitions only).
    pub preserve_unknown: bool,
    /// Its versions in the order of the definition.
    pub versions: Vec<Version>,
}

/// One version of a custom resource.
#[derive(Debug, Clone)]
pub struct Version {
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
    /// Columns of `kubectl get` after the name.
    pub columns: Vec<Column>,
    /// Field selectors it knows beyond name and namespace, such as `spec.color`.
    pub selectable: Vec<(String, JsonPath)>,
}

/// Where a `/scale` subresource finds its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// Names leading to the wanted number of replicas.
    pub spec_replicas: Vec<String>,
    /// Names leading to the present number of replicas.
    pub status_replicas: Vec<String>,
    /// Names leading to the selector, if it has one.
    pub label_selector: Option<Vec<String>>,
}

/// A column of `kubectl get`.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// `integer`, `number`, `string`, `boolean` or `date`.
    pub kind: String,
    /// Format of the value, such as `int32`.
    pub format: String,
    /// Text for people.
    pub description: String,
    /// 0 is always shown, others with `-o wide`.
    pub priority: i64,
    /// Where its value is.
    pub path: Option<JsonPath>,
}

impl CustomKind {
    /// Compiles a definition that passed validation.
    pub fn new(crd: &Value) -> Option<Self> {
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
            preserve_unknown: flag(spec, "preserveUnknownFields"),
            versions: versions.iter().map(|version| Version::new(version, &group, &kind)).collect(),
            group,
            kind,
        })
    }

    /// A version by name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The version objects are stored in.
    pub fn storage(&self) -> Option<&Version> {
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
            columns: columns
                .filter(|list| !list.is_empty())
                .map_or_else(|| vec![Column::age()], |list| list.iter().map(Column::new).collect()),
            selectable: selectable
                .into_iter()
                .flatten()
                .filter_map(|field| {
                    let path = text(field, "jsonPath")?;
                    Some((path.trim_start_matches('.').to_owned(), JsonPath::parse(path)?))
                })
                .collect(),
            name,
        }
    }

    /// What is wrong with the numbers the scale subresource reads; `status_only` where only the status is written.
    pub fn scale_errors(&self, object: &Value, status_only: bool) -> Vec<FieldError> {
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
                go_kind(other)
            );
            errors.push(FieldError::invalid(&Path::new(&format!(".{}", path.join("."))), "", why));
        }
        errors
    }
}

fn follow<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, name| value.get(name))
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn replica_error(object: &Value, names: &[String]) -> Option<FieldError> {
    let dotted = format!(".{}", names.join("."));
    let path = Path::new(&dotted);
    let value = follow(object, names)?;
    let Some(count) = value.as_i64() else {
        let why = format!("{dotted} accessor error: {value} is of the type {}, expected int64", go_kind(value));
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

impl Column {
    fn new(column: &Value) -> Self {
        let owned = |key: &str| text(column, key).unwrap_or_default().to_owned();
        Self {
            name: owned("name"),
            kind: owned("type"),
            format: owned("format"),
            description: match text(column, "description") {
                Some(description) if !description.is_empty() => description.to_owned(),
                _ => format!("Custom resource definition column (in JSONPath format): {}", owned("jsonPath")),
            },
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            path: JsonPath::parse(&owned("jsonPath")),
        }
    }

    /// The one column a definition without columns has.
    fn age() -> Self {
        Self {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: "CreationTimestamp is a timestamp representing the server time when this object was created. \
                          It is not guaranteed to be set in happens-before order across separate operations. Clients \
                          may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the \
                          system. Read-only. Null for lists. More info: \
                          https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
                .to_owned(),
            priority: 0,
            path: JsonPath::parse(".metadata.creationTimestamp"),
        }
    }

    /// The cell of an object.
    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = self.path.as_ref().and_then(|path| path.first(object)) else { return Value::Null };
        match self.kind.as_str() {
            "integer" => match value {
                Value::Number(number) if number.is_f64() => number
                    .as_f64()
                    .filter(|float| formats::is_whole(*float))
                    .map_or(Value::Null, |float| format!("{float:.0}").parse::<i64>().map_or(Value::Null, Into::into)),
                Value::Number(_) => value.clone(),
                _ => Value::Null,
            },
            "number" if value.is_number() => value.clone(),
            "boolean" if value.is_boolean() => value.clone(),
            "string" => printed(value).into(),
            "date" => match value.as_str() {
                Some(text) => {
                    text.parse::<Timestamp>().map_or_else(|_| "<invalid>".to_owned(), |then| age(then, now)).into()
                }
                None => Value::Null,
            },
            _ => Value::Null,
        }
    }
}

/// A value as a template prints it.
fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// How long ago, as kubectl says it: two units at most, fewer as they grow.
fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - then.as_second();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let minutes = seconds / 60;
    let hours = minutes / 60;
    let days = hours / 24;
    let two = |major: i64, unit: &str, minor: i64, small: &str| {
        if minor == 0 { format!("{major}{unit}") } else { format!("{major}{unit}{minor}{small}") }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 365 * 2 => format!("{days}d"),
        () if days < 365 * 8 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}
