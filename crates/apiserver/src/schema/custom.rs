//! A schema tree from the `openAPIV3Schema` of a custom resource definition.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::cel::{self, Rule};
use super::node::{Link, ListType, MapType, Schema, Type};
use super::rules::{Pattern, Rules};
use super::{builtin, formats};

/// Schemas nested deeper than this are cut off; JSON bodies are bounded well below it.
const DEPTH_MAX: usize = 256;

/// Fields of every whole object.
pub(crate) const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Builds the tree of a custom resource. What is no valid schema is passed over: the definition is validated elsewhere.
///
/// Equal subtrees are shared and descriptions left out, so that a schema of a megabyte becomes a small tree.
pub(crate) fn custom(openapi: &Value) -> Arc<Schema> {
    Builder { shared: HashMap::new() }.node(openapi, Place::Root, 0)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Inside,
    /// Below `allOf`, `anyOf`, `oneOf` or `not`: no structure of its own.
    Junctor,
}

struct Builder {
    shared: HashMap<String, Arc<Schema>>,
}

impl Builder {
    fn node(&mut self, raw: &Value, place: Place, depth: usize) -> Arc<Schema> {
        let empty = Map::new();
        let raw = match raw.as_object() {
            Some(raw) if depth < DEPTH_MAX => raw,
            _ => &empty,
        };
        let mut node = scalars(raw);
        let mut rules = keywords(raw);
        self.children(raw, &mut node, &mut rules, depth);
        self.junctors(raw, &mut rules, depth);
        rules.validations_below = below(&node, &rules);
        if place == Place::Root || node.embedded_resource {
            node.embedded_resource = true;
            whole_object(&mut node, &mut rules);
        }
        rules.validations = validations(raw, &node, place == Place::Root || node.embedded_resource);
        let key = fingerprint(raw, &node, &rules, place);
        if is_set(&rules) {
            node.rules = Some(Box::new(rules));
        }
        Arc::clone(self.shared.entry(key).or_insert_with(|| Arc::new(node)))
    }

    fn children(&mut self, raw: &Map<String, Value>, node: &mut Schema, rules: &mut Rules, depth: usize) {
        if let Some(properties) = raw.get("properties").and_then(Value::as_object) {
            for (name, child) in properties {
                let child = self.node(child, Place::Inside, depth + 1);
                node.properties.insert(name.clone(), Link::Here(child));
            }
        }
        match raw.get("additionalProperties") {
            Some(Value::Bool(open)) => {
                rules.closed = !open;
                let any = self.node(&Value::Null, Place::Inside, depth + 1);
                node.additional = Some(Link::Here(any));
            }
            Some(child @ Value::Object(_)) => {
                node.additional = Some(Link::Here(self.node(child, Place::Inside, depth + 1)));
            }
            _ => {}
        }
        if let Some(child @ Value::Object(_)) = raw.get("items") {
            node.items = Some(Link::Here(self.node(child, Place::Inside, depth + 1)));
        }
    }

    fn junctors(&mut self, raw: &Map<String, Value>, rules: &mut Rules, depth: usize) {
        let mut list = |key: &str| -> Vec<Arc<Schema>> {
            let items = raw.get(key).and_then(Value::as_array);
            items.into_iter().flatten().map(|child| self.node(child, Place::Junctor, depth + 1)).collect()
        };
        rules.all_of = list("allOf");
        rules.any_of = list("anyOf");
        rules.one_of = list("oneOf");
        rules.not = raw.get("not").filter(|not| not.is_object()).map(|not| self.node(not, Place::Junctor, depth + 1));
    }
}

fn scalars(raw: &Map<String, Value>) -> Schema {
    let text = |key: &str| raw.get(key).and_then(Value::as_str);
    let flag = |key: &str| raw.get(key).and_then(Value::as_bool).unwrap_or_default();
    let names = |key: &str| -> Vec<String> {
        let items = raw.get(key).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let int_or_string = flag("x-kubernetes-int-or-string");
    Schema {
        kind: if int_or_string { None } else { text("type").and_then(type_of) },
        nullable: flag("nullable"),
        int_or_string,
        preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
        embedded_resource: flag("x-kubernetes-embedded-resource"),
        default: raw.get("default").filter(|value| !value.is_null()).cloned(),
        list_type: match text("x-kubernetes-list-type") {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(names("x-kubernetes-list-map-keys")),
            _ => ListType::Atomic,
        },
        map_type: if text("x-kubernetes-map-type") == Some("atomic") { MapType::Atomic } else { MapType::Granular },
        required: names("required"),
        format: text("format").filter(|format| formats::is_known(format) || is_numeric(format)).map(str::to_owned),
        enumeration: raw.get("enum").and_then(Value::as_array).filter(|list| !list.is_empty()).cloned(),
        ..Schema::default()
    }
}

/// Formats that say how wide a number is: kept for those who read the tree, never checked.
fn is_numeric(format: &str) -> bool {
    matches!(format, "int32" | "int64" | "float" | "double")
}

/// The type a type name of `OpenAPI` stands for.
pub(crate) fn type_of(name: &str) -> Option<Type> {
    Some(match name {
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ => return None,
    })
}

fn keywords(raw: &Map<String, Value>) -> Rules {
    let number = |key: &str| raw.get(key).and_then(Value::as_f64);
    let count = |key: &str| raw.get(key).and_then(Value::as_i64);
    let flag = |key: &str| raw.get(key).and_then(Value::as_bool).unwrap_or_default();
    Rules {
        minimum: number("minimum"),
        maximum: number("maximum"),
        exclusive_minimum: flag("exclusiveMinimum"),
        exclusive_maximum: flag("exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        pattern: raw.get("pattern").and_then(Value::as_str).filter(|text| !text.is_empty()).map(Pattern::new),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        unique_items: flag("uniqueItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        ..Rules::default()
    }
}

/// A whole object has `apiVersion`, `kind` and `metadata` whatever the definition says of them; what it does say is kept.
fn whole_object(node: &mut Schema, rules: &mut Rules) {
    for name in META_FIELDS {
        if let Some(declared) = node.properties.remove(name) {
            rules.declared.insert(name.to_owned(), declared.get());
        }
        let child = if name == "metadata" { builtin::object_meta() } else { builtin::plain_string() };
        node.properties.insert(name.to_owned(), Link::Here(child));
    }
}

fn validations(raw: &Map<String, Value>, node: &Schema, whole: bool) -> Vec<Arc<Rule>> {
    let Some(list) = raw.get("x-kubernetes-validations").and_then(Value::as_array) else { return Vec::new() };
    // What a rule may cost depends on the node's own bounds, which it does not have yet.
    let mut node = node.clone();
    node.rules = Some(keywords(raw).into());
    list.iter().map(|rule| Arc::new(cel::compile(rule, &node, whole))).collect()
}

fn below(node: &Schema, rules: &Rules) -> bool {
    let has = |node: &Schema| {
        node.rules.as_ref().is_some_and(|rules| rules.validations_below || !rules.validations.is_empty())
    };
    let links = node.properties.values().chain(&node.additional).chain(&node.items);
    links.into_iter().any(|link| has(&link.get())) || rules.all_of.iter().any(|child| has(child))
}

fn is_set(rules: &Rules) -> bool {
    let Rules { minimum, maximum, multiple_of, min_length, max_length, pattern, .. } = rules;
    let Rules { min_items, max_items, min_properties, max_properties, .. } = rules;
    minimum.or(*maximum).or(*multiple_of).is_some()
        || [min_length, max_length, min_items, max_items, min_properties, max_properties].iter().any(|n| n.is_some())
        || pattern.is_some()
        || rules.unique_items
        || rules.closed
        || ![&rules.all_of, &rules.any_of, &rules.one_of].iter().all(|list| list.is_empty())
        || rules.not.is_some()
        || !rules.declared.is_empty()
        || !rules.validations.is_empty()
        || rules.validations_below
}

/// Two nodes with the same text are the same node: the keywords as written, and children by address, as equal children
/// are already one.
fn fingerprint(raw: &Map<String, Value>, node: &Schema, rules: &Rules, place: Place) -> String {
    const NESTED: [&str; 13] = [
        "description",
        "title",
        "example",
        "externalDocs",
        "properties",
        "additionalProperties",
        "items",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "id",
        "$schema",
    ];
    let mut out = String::new();
    if place == Place::Root {
        out.push_str("root;");
    }
    let sorted: BTreeMap<_, _> = raw.iter().filter(|(key, _)| !NESTED.contains(&key.as_str())).collect();
    for (key, value) in sorted {
        let _ = write!(out, "{key}={value};");
    }
    for (name, link) in &node.properties {
        let _ = write!(out, "{name:?}:{:p},", Arc::as_ptr(&link.get()));
    }
    for link in node.additional.iter().chain(&node.items) {
        let _ = write!(out, "{:p},", Arc::as_ptr(&link.get()));
    }
    let _ = write!(out, "{}{}{}", node.additional.is_some(), node.items.is_some(), rules.closed);
    for list in [&rules.all_of, &rules.any_of, &rules.one_of] {
        out.push('|');
        for child in list {
            let _ = write!(out, "{:p},", Arc::as_ptr(child));
        }
    }
    if let Some(not) = &rules.not {
        let _ = write!(out, "!{:p}", Arc::as_ptr(not));
    }
    for (name, declared) in &rules.declared {
        let _ = write!(out, "{name}:{:p}", Arc::as_ptr(declared));
    }
    out
}
