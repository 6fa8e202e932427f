//! What a schema node says about sharing: which forms a value may take, how lists and maps are split between owners.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::schema::{Link, ListType, MapType, Schema, Type};

/// A place in an object, as far as its schema tells.
#[derive(Clone)]
pub(crate) struct Shape {
    base: Base,
    /// An enclosing node keeps unknown fields; that holds for everything below it.
    preserve: bool,
    /// A whole Kubernetes object, with apiVersion, kind and metadata.
    object: bool,
    /// The type of a built-in kind, where a required key field that is absent reads as its zero value.
    builtin: bool,
}

#[derive(Clone)]
enum Base {
    Declared(Arc<Schema>),
    /// Nothing declared: scalars and lists are one value, maps are shared by entry.
    Deduced,
    /// Nothing declared: the whole is one value.
    Opaque,
}

/// What a value is handled as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Map,
    Scalar,
    List,
}

/// The forms still possible for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forms {
    map: bool,
    scalar: bool,
    list: bool,
}

/// The scalar types structured-merge-diff tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

impl Forms {
    /// The form to treat the value as; maps win where nothing was deduced.
    pub(crate) fn first(self) -> Form {
        match self {
            Self { map: true, .. } => Form::Map,
            Self { scalar: true, .. } => Form::Scalar,
            _ => Form::List,
        }
    }
}

impl Shape {
    /// The shape of a whole object.
    pub(crate) fn root(schema: &Arc<Schema>, builtin: bool) -> Self {
        Self { preserve: schema.preserve_unknown, base: Base::Declared(Arc::clone(schema)), object: true, builtin }
    }

    fn below(&self, schema: Arc<Schema>) -> Self {
        Self {
            preserve: self.preserve || schema.preserve_unknown,
            object: schema.embedded_resource,
            builtin: self.builtin,
            base: Base::Declared(schema),
        }
    }

    fn open(&self, base: Base) -> Self {
        Self { base, preserve: self.preserve, object: false, builtin: self.builtin }
    }

    fn all_forms(&self) -> Forms {
        let any = Forms { map: true, scalar: true, list: true };
        let Base::Declared(schema) = &self.base else { return any };
        let none = Forms { map: false, scalar: false, list: false };
        match schema.kind {
            None if schema.int_or_string => Forms { scalar: true, ..none },
            None => any,
            Some(Type::Object) => Forms { map: true, ..none },
            Some(Type::Array) => Forms { list: true, ..none },
            Some(_) => Forms { scalar: true, ..none },
        }
    }

    /// Narrows the forms by the value; a value of no allowed form (or null, or absent) leaves all open.
    pub(crate) fn forms(&self, value: Option<&Value>) -> Forms {
        let all = self.all_forms();
        let none = Forms { map: false, scalar: false, list: false };
        match value {
            Some(Value::Object(_)) if all.map => Forms { map: true, ..none },
            Some(Value::Array(_)) if all.list => Forms { list: true, ..none },
            Some(Value::String(_) | Value::Number(_) | Value::Bool(_)) if all.scalar => Forms { scalar: true, ..none },
            _ => all,
        }
    }

    pub(crate) fn scalar(&self) -> Scalar {
        let Base::Declared(schema) = &self.base else { return Scalar::Untyped };
        if schema.int_or_string {
            return Scalar::Untyped;
        }
        match schema.kind {
            Some(Type::Integer | Type::Number) => Scalar::Numeric,
            Some(Type::Boolean) => Scalar::Boolean,
            Some(Type::String) if matches!(schema.format.as_deref(), None | Some("" | "byte")) => Scalar::String,
            _ => Scalar::Untyped,
        }
    }

    pub(crate) fn list_type(&self) -> &ListType {
        match &self.base {
            Base::Declared(schema) => &schema.list_type,
            _ => &ListType::Atomic,
        }
    }

    /// The shape of a list's items.
    pub(crate) fn item(&self) -> Self {
        match &self.base {
            Base::Declared(schema) => match &schema.items {
                Some(items) => self.below(items.get()),
                None => self.open(Base::Opaque),
            },
            _ => self.open(Base::Opaque),
        }
    }

    pub(crate) fn map_is_atomic(&self) -> bool {
        match &self.base {
            Base::Declared(schema) => schema.map_type == MapType::Atomic,
            Base::Deduced => false,
            Base::Opaque => true,
        }
    }

    /// A map without declared fields whose entries may be anything.
    pub(crate) fn is_open_map(&self) -> bool {
        match &self.base {
            Base::Declared(schema) => schema.properties.is_empty() && schema.additional.is_none() && !self.object,
            _ => true,
        }
    }

    /// The shape of a declared field.
    pub(crate) fn declared(&self, name: &str) -> Option<Self> {
        let Base::Declared(schema) = &self.base else { return None };
        let declared = schema.properties.get(name).map(Link::get);
        if !self.object {
            return declared.map(|schema| self.below(schema));
        }
        let schema = match (name, declared) {
            // A custom resource may narrow down its metadata, but it stays ObjectMeta.
            ("metadata", Some(schema)) if schema.properties.contains_key("managedFields") => schema,
            ("metadata", _) => return Some(Self { builtin: true, ..self.below(Arc::clone(&OBJECT_META)) }),
            ("apiVersion" | "kind", None) => Arc::clone(&STRING),
            (_, declared) => declared?,
        };
        Some(self.below(schema))
    }

    /// The shape of entries that are no declared fields, where there may be any.
    pub(crate) fn element(&self) -> Option<Self> {
        match &self.base {
            Base::Declared(schema) => match &schema.additional {
                Some(additional) => Some(self.below(additional.get())),
                None if self.preserve || schema.properties.is_empty() => Some(self.open(Base::Deduced)),
                None => None,
            },
            Base::Deduced => Some(self.open(Base::Deduced)),
            Base::Opaque => Some(self.open(Base::Opaque)),
        }
    }

    /// The shape of a field or entry; open where the schema does not know it.
    pub(crate) fn field(&self, name: &str) -> Self {
        self.declared(name).or_else(|| self.element()).unwrap_or_else(|| self.open(Base::Deduced))
    }

    /// What an absent key field of a list item reads as.
    pub(crate) fn key_default(&self, name: &str) -> Option<Value> {
        let Base::Declared(schema) = &self.base else { return None };
        let field = schema.properties.get(name)?.get();
        if let Some(default) = &field.default {
            return Some(default.clone());
        }
        if !self.builtin {
            return None;
        }
        match (name, schema.properties.len()) {
            // Two optional keys have defaults that only the types know: of ports, and of a reference by name alone.
            ("protocol", _) => return Some("TCP".into()),
            ("name", 1) => return Some("".into()),
            _ if !schema.required.iter().any(|required| required == name) => return None,
            _ => {}
        }
        match field.kind? {
            Type::String => Some("".into()),
            Type::Integer | Type::Number => Some(0.into()),
            Type::Boolean => Some(false.into()),
            Type::Object | Type::Array => None,
        }
    }
}

static STRING: LazyLock<Arc<Schema>> = LazyLock::new(|| scalar(Type::String));

fn scalar(kind: Type) -> Arc<Schema> {
    Arc::new(Schema { kind: Some(kind), ..Schema::default() })
}

fn object(fields: &[(&str, Arc<Schema>)]) -> Schema {
    let properties = fields.iter().map(|(name, schema)| ((*name).to_owned(), Link::Here(Arc::clone(schema))));
    Schema { kind: Some(Type::Object), properties: properties.collect::<BTreeMap<_, _>>(), ..Schema::default() }
}

/// `ObjectMeta`, for kinds whose own schema does not spell it out.
static OBJECT_META: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let string = || Arc::clone(&STRING);
    let time = || Arc::new(Schema { format: Some("date-time".into()), ..(*scalar(Type::String)).clone() });
    let labels = || {
        let additional = Some(Link::Here(string()));
        Arc::new(Schema { kind: Some(Type::Object), additional, ..Schema::default() })
    };
    let list = |item: Arc<Schema>, list_type| {
        Arc::new(Schema { kind: Some(Type::Array), items: Some(Link::Here(item)), list_type, ..Schema::default() })
    };
    let mut owner = object(&[
        ("apiVersion", string()),
        ("kind", string()),
        ("name", string()),
        ("uid", string()),
        ("controller", scalar(Type::Boolean)),
        ("blockOwnerDeletion", scalar(Type::Boolean)),
    ]);
    owner.map_type = MapType::Atomic;
    owner.required = ["apiVersion", "kind", "name", "uid"].map(str::to_owned).to_vec();
    Arc::new(object(&[
        ("annotations", labels()),
        ("creationTimestamp", time()),
        ("deletionGracePeriodSeconds", scalar(Type::Integer)),
        ("deletionTimestamp", time()),
        ("finalizers", list(string(), ListType::Set)),
        ("generateName", string()),
        ("generation", scalar(Type::Integer)),
        ("labels", labels()),
        ("managedFields", list(Arc::new(object(&[])), ListType::Atomic)),
        ("name", string()),
        ("namespace", string()),
        ("ownerReferences", list(Arc::new(owner), ListType::Map(vec!["uid".into()]))),
        ("resourceVersion", string()),
        ("selfLink", string()),
        ("uid", string()),
    ]))
});
