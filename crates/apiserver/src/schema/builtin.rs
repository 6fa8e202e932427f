//! Schemas of the built-in kinds, from `k8s-openapi` and a table of facts about how their lists and maps merge.

mod facts;
mod table;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock, Weak};

use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::custom::type_of;
use super::node::{Link, ListType, MapType, Schema, Type};
use super::rules::Rules;
use facts::Fact;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const SCHEMA_PROPS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// Trees already built, kept for good: there are as many as built-in types.
static BUILT: LazyLock<Mutex<HashMap<String, Arc<Schema>>>> = LazyLock::new(Mutex::default);

/// The schema of a definition such as `io.k8s.api.core.v1.Pod`, if it is one of the built-in kinds.
pub(crate) fn builtin(definition: &str) -> Option<Arc<Schema>> {
    if let Some(built) = BUILT.lock().get(definition) {
        return Some(Arc::clone(built));
    }
    let definitions = table::definitions(definition)?;
    let mut resolver = Resolver { definitions: &definitions, open: HashMap::new(), built: BUILT.lock().clone() };
    let tree = resolver.definition(definition)?;
    let mut cache = BUILT.lock();
    for (name, node) in resolver.built {
        cache.entry(name).or_insert(node);
    }
    Some(cache.get(definition).map_or(tree, Arc::clone))
}

/// The raw definitions a built-in kind is made of, by name, with descriptions.
pub(crate) fn definitions(definition: &str) -> Option<Map<String, Value>> {
    table::definitions(definition)
}

/// Names of every built-in definition that has a schema.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    table::names()
}

/// What the table of facts says of a definition (no field) or of one of its fields.
pub(crate) fn fact(definition: &str, field: Option<&str>) -> Option<&'static Fact> {
    facts::of(definition, field)
}

/// The schema of `metadata`.
pub(crate) fn object_meta() -> Arc<Schema> {
    builtin(META).unwrap_or_default()
}

/// The schema of a string.
pub(crate) fn plain_string() -> Arc<Schema> {
    static PLAIN: OnceLock<Arc<Schema>> = OnceLock::new();
    Arc::clone(PLAIN.get_or_init(|| Arc::new(Schema { kind: Some(Type::String), ..Schema::default() })))
}

struct Resolver<'a> {
    definitions: &'a Map<String, Value>,
    /// Definitions being built: a reference to one of these points back.
    open: HashMap<String, Weak<Schema>>,
    built: HashMap<String, Arc<Schema>>,
}

impl Resolver<'_> {
    fn definition(&mut self, name: &str) -> Option<Arc<Schema>> {
        if let Some(built) = self.built.get(name) {
            return Some(Arc::clone(built));
        }
        let raw = self.definitions.get(name)?;
        let tree = Arc::new_cyclic(|me| {
            self.open.insert(name.to_owned(), me.clone());
            let mut node = self.node(raw, name);
            node.required.clear();
            if let Some(fact) = facts::of(name, None) {
                fact.apply(&mut node);
                node.required.clone_from(&fact.required);
            }
            special(name, &mut node);
            self.open.remove(name);
            node
        });
        // A node that points back into an unfinished one is only kept as part of that one.
        if self.open.is_empty() {
            self.built.insert(name.to_owned(), Arc::clone(&tree));
        }
        Some(tree)
    }

    fn link(&mut self, raw: &Value, owner: &str) -> Link {
        let Some(name) = reference(raw) else { return Link::Here(Arc::new(self.node(raw, owner))) };
        if let Some(open) = self.open.get(&name) {
            return Link::Back(open.clone());
        }
        Link::Here(self.definition(&name).unwrap_or_default())
    }

    /// A field: its own facts on top of what it refers to.
    fn field(&mut self, owner: &str, name: &str, raw: &Value) -> Link {
        let link = self.link(raw, owner);
        let (Some(fact), Link::Here(node)) = (facts::of(owner, Some(name)), &link) else { return link };
        let mut node = Schema::clone(node);
        fact.apply(&mut node);
        Link::Here(Arc::new(node))
    }

    fn node(&mut self, raw: &Value, owner: &str) -> Schema {
        let Some(raw) = raw.as_object() else { return Schema::default() };
        let mut node = Schema {
            kind: raw.get("type").and_then(Value::as_str).and_then(type_of),
            int_or_string: raw.contains_key("x-kubernetes-int-or-string"),
            format: raw.get("format").and_then(Value::as_str).map(str::to_owned),
            ..Schema::default()
        };
        for (name, child) in raw.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let link = self.field(owner, name, child);
            node.properties.insert(name.clone(), link);
        }
        node.additional = raw.get("additionalProperties").map(|child| self.link(child, owner));
        node.items = raw.get("items").map(|child| self.link(child, owner));
        for choice in raw.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
            self.choice(choice, &mut node, owner);
        }
        node
    }

    /// One form of a value that has several, such as a schema or a list of schemas: the node takes them all.
    fn choice(&mut self, raw: &Value, node: &mut Schema, owner: &str) {
        if let Some(items) = raw.get("items") {
            node.items = Some(self.link(items, owner));
        }
        if reference(raw).as_deref() == Some(SCHEMA_PROPS) {
            // The fields of the enclosing definition, known only by its raw form while it is still being built.
            let fields = self.definitions.get(SCHEMA_PROPS).and_then(|raw| raw.get("properties"));
            for (name, child) in fields.and_then(Value::as_object).into_iter().flatten() {
                let link = self.field(SCHEMA_PROPS, name, child);
                node.properties.insert(name.clone(), link);
            }
        }
        node.rules.get_or_insert_default().silent = true;
    }
}

fn reference(raw: &Value) -> Option<String> {
    let text = raw.get("$ref")?.as_str()?;
    Some(text.rsplit('/').next()?.replace("~1", "/"))
}

/// Types that decode in their own way.
fn special(name: &str, node: &mut Schema) {
    let short = name.rsplit('.').next().unwrap_or_default();
    match short {
        "FieldsV1" | "RawExtension" | "JSON" => {
            node.preserve_unknown = true;
            if short == "JSON" {
                node.kind = None;
                node.nullable = true;
            }
        }
        "Quantity" => node.format = Some("quantity".to_owned()),
        "MicroTime" => node.format = Some("micro-time".to_owned()),
        _ => {}
    }
    if node.kind == Some(Type::Object) {
        let package = name.rsplit('.').nth(1).unwrap_or_default();
        node.rules.get_or_insert_with(Box::<Rules>::default).go_type = Some(format!("{package}.{short}").into());
    }
}

impl Fact {
    fn apply(&self, node: &mut Schema) {
        if self.list_type != ListType::Atomic {
            node.list_type = self.list_type.clone();
        }
        if self.map_type == MapType::Atomic {
            node.map_type = MapType::Atomic;
        }
        node.patch_merge |= self.merge;
        node.patch_retain_keys |= self.retain;
        node.patch_merge_key = node.patch_merge_key.take().or_else(|| self.merge_key.clone());
        node.default = node.default.take().or_else(|| self.default.clone());
        if let Some(name) = &self.go_type {
            node.rules.get_or_insert_default().go_type = Some(Arc::clone(name));
        }
    }
}
