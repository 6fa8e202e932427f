//! The schemas of a document.

use serde_json::{Map, Value, json};

use super::{Resource, Source};
use crate::schema::builtin;
use crate::schema::node::{ListType, MapType};

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should \
                           convert recognized schemas to the latest internal value, and may reject unrecognized values. \
                           More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this \
                    from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
                    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: \
                        https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// What every document has: metadata, delete options and the form of a patch.
pub(super) fn common(all: &mut Map<String, Value>) {
    for name in ["ObjectMeta", "DeleteOptions", "ListMeta"] {
        add_builtin(&format!("{META}.{name}"), all);
    }
    all.insert(
        format!("{META}.Patch"),
        json!({
            "description": "Patch is provided to give a concrete name and type to the Kubernetes PATCH request body.",
            "type": "object",
        }),
    );
}

/// The schemas of a resource and of its list.
pub(super) fn add(resource: &Resource<'_>, all: &mut Map<String, Value>) {
    let name = resource.definition();
    match resource.schema {
        Source::Builtin(definition) => add_builtin(definition, all),
        Source::Custom(schema) => {
            all.insert(name.clone(), custom_schema(schema));
        }
    }
    if let Some(schema) = all.get_mut(&name) {
        schema["x-kubernetes-group-version-kind"] = json!([resource.gvk(resource.kind)]);
    }
    if !resource.list_kind.is_empty() {
        all.insert(resource.list_definition(), list_schema(resource, &name));
    }
}

fn list_schema(resource: &Resource<'_>, item: &str) -> Value {
    json!({
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": API_VERSION, "type": "string"},
            "items": {
                "description": format!(
                    "List of {}. More info: \
                     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
                    resource.plural
                ),
                "type": "array",
                "items": reference(item),
            },
            "kind": {"description": KIND, "type": "string"},
            "metadata": {
                "description": "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/\
                                sig-architecture/api-conventions.md#types-kinds",
                "allOf": [reference(&format!("{META}.ListMeta"))],
            },
        },
        "x-kubernetes-group-version-kind": [resource.gvk(resource.list_kind)],
    })
}

fn custom_schema(schema: Option<&Value>) -> Value {
    let mut schema =
        schema.cloned().unwrap_or_else(|| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    whole_objects(&mut schema, true);
    schema
}

/// The root and every embedded object have a type and metadata.
fn whole_objects(schema: &mut Value, root: bool) {
    let embedded = schema.get("x-kubernetes-embedded-resource").and_then(Value::as_bool) == Some(true);
    let Some(map) = schema.as_object_mut() else { return };
    for key in ["items", "additionalProperties"] {
        if let Some(child) = map.get_mut(key) {
            whole_objects(child, false);
        }
    }
    if let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) {
        for (_, child) in properties.iter_mut() {
            whole_objects(child, false);
        }
    }
    if !(root || embedded) {
        return;
    }
    if embedded && !root {
        map.insert("required".to_owned(), with_type(map.get("required")));
    }
    let properties = map.entry("properties").or_insert_with(|| json!({}));
    if !properties.is_object() {
        *properties = json!({});
    }
    properties["apiVersion"] = json!({"description": API_VERSION, "type": "string"});
    properties["kind"] = json!({"description": KIND, "type": "string"});
    properties["metadata"] = json!({"description": METADATA, "allOf": [reference(&format!("{META}.ObjectMeta"))]});
}

/// An object inside another must say what it is.
fn with_type(required: Option<&Value>) -> Value {
    let mut names = required.and_then(Value::as_array).cloned().unwrap_or_default();
    for name in ["apiVersion", "kind"] {
        if !names.iter().any(|known| known == name) {
            names.push(name.into());
        }
    }
    names.into()
}

fn add_builtin(definition: &str, all: &mut Map<String, Value>) {
    if all.contains_key(definition) {
        return;
    }
    for (name, raw) in builtin::definitions(definition).into_iter().flatten() {
        if !all.contains_key(&name) {
            let schema = translated(&name, raw);
            all.insert(name, schema);
        }
    }
}

/// A definition in the dialect of `OpenAPI` v3, with what is known of how it merges.
fn translated(name: &str, raw: Value) -> Value {
    let short = name.rsplit('.').next().unwrap_or_default();
    let description = raw.get("description").cloned().unwrap_or_default();
    match short {
        "IntOrString" => {
            return json!({
                "description": description, "format": "int-or-string",
                "oneOf": [{"type": "integer"}, {"type": "string"}],
            });
        }
        "Quantity" => return json!({"description": description, "oneOf": [{"type": "string"}, {"type": "number"}]}),
        "JSON" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            return json!({"description": description});
        }
        _ => {}
    }
    let mut schema = references(raw);
    let fact = builtin::fact(name, None);
    if let Some(map) = schema.as_object_mut() {
        map.remove("required");
        if let Some(fact) = fact.filter(|fact| !fact.required.is_empty()) {
            map.insert("required".to_owned(), fact.required.clone().into());
        }
        if fact.is_some_and(|fact| fact.map_type == MapType::Atomic) {
            map.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
        }
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (field, child) in properties.iter_mut() {
            with_facts(name, field, child);
        }
    }
    schema
}

fn with_facts(definition: &str, field: &str, child: &mut Value) {
    let is_array = child.get("type").and_then(Value::as_str) == Some("array");
    let fact = builtin::fact(definition, Some(field));
    if is_array {
        match fact.map(|fact| &fact.list_type) {
            Some(ListType::Map(keys)) => {
                child["x-kubernetes-list-type"] = "map".into();
                child["x-kubernetes-list-map-keys"] = keys.clone().into();
            }
            Some(ListType::Set) => child["x-kubernetes-list-type"] = "set".into(),
            _ => child["x-kubernetes-list-type"] = "atomic".into(),
        }
    }
    let Some(fact) = fact else { return };
    if fact.map_type == MapType::Atomic {
        child["x-kubernetes-map-type"] = "atomic".into();
    }
    let strategy = match (fact.merge, fact.retain) {
        (true, true) => "merge,retainKeys",
        (true, false) => "merge",
        (false, true) => "retainKeys",
        (false, false) => "",
    };
    if !strategy.is_empty() {
        child["x-kubernetes-patch-strategy"] = strategy.into();
    }
    if let Some(key) = &fact.merge_key {
        child["x-kubernetes-patch-merge-key"] = key.as_str().into();
    }
    if !fact.enumeration.is_empty() {
        child["enum"] = fact.enumeration.clone().into();
    }
    if let Some(default) = &fact.default {
        child["default"] = default.clone();
    }
}

/// References point into the document; beside other keywords they are wrapped, as `OpenAPI` v3.0 wants.
fn references(raw: Value) -> Value {
    match raw {
        Value::Object(mut map) => {
            // A field may itself be called `$ref`.
            let target =
                map.get("$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next()).map(reference);
            if target.is_some() {
                map.remove("$ref");
            }
            let mut out: Map<String, Value> = map.into_iter().map(|(key, value)| (key, references(value))).collect();
            match target {
                Some(target) if out.is_empty() => return target,
                Some(target) => {
                    out.insert("allOf".to_owned(), json!([target]));
                }
                None => {}
            }
            Value::Object(out)
        }
        Value::Array(items) => items.into_iter().map(references).collect(),
        other => other,
    }
}
