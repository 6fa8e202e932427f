//! The schema tree that pruning, defaulting, validation, patches and field ownership all walk.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use serde_json::Value;

use super::rules::Rules;

/// The JSON type of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
}

/// How items of a list are told apart when two writers share it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    /// The list is one value.
    #[default]
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Objects, told apart by the values of these fields.
    Map(Vec<String>),
}

/// Whether two writers may share a map.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum MapType {
    /// Each entry has its own owner.
    #[default]
    Granular,
    /// The map is one value.
    Atomic,
}

/// A child node: below its parent, or an ancestor again where a type contains itself.
#[derive(Debug, Clone)]
pub(crate) enum Link {
    /// A node of its own.
    Here(Arc<Schema>),
    /// A node that encloses this one.
    Back(Weak<Schema>),
}

impl Link {
    /// The node.
    ///
    /// # Panics
    /// Never: whoever walks a tree holds its root, and the root keeps every enclosing node alive.
    pub(crate) fn get(&self) -> Arc<Schema> {
        match self {
            Self::Here(node) => Arc::clone(node),
            Self::Back(node) => node.upgrade().expect("the root outlives a walk of its tree"),
        }
    }
}

/// One node of a structural schema.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a keyword of the schema language")]
pub(crate) struct Schema {
    /// The JSON type; `None` where anything (or int-or-string) is allowed.
    pub kind: Option<Type>,
    /// `null` is a value here.
    pub nullable: bool,
    /// Integer or string.
    pub int_or_string: bool,
    /// Unknown fields stay.
    pub preserve_unknown: bool,
    /// A whole Kubernetes object with its own apiVersion, kind and metadata.
    pub embedded_resource: bool,
    /// Known fields of an object.
    pub properties: BTreeMap<String, Link>,
    /// The schema of every other field: this is a map.
    pub additional: Option<Link>,
    /// The schema of a list's items.
    pub items: Option<Link>,
    /// What an absent field becomes.
    pub default: Option<Value>,
    /// How a list merges.
    pub list_type: ListType,
    /// How a map merges.
    pub map_type: MapType,
    /// Strategic merge patch: the field that tells list items apart (built-in kinds only).
    pub patch_merge_key: Option<String>,
    /// Strategic merge patch: lists or maps merge instead of being replaced.
    pub patch_merge: bool,
    /// Strategic merge patch: fields a patch does not name are removed (`retainKeys`).
    pub patch_retain_keys: bool,
    /// Names of fields that must be present.
    pub required: Vec<String>,
    /// Such as `int64` or `date-time`.
    pub format: Option<String>,
    /// Allowed values.
    pub enumeration: Option<Vec<Value>>,
    /// What else must hold of the value; most nodes need nothing more.
    pub rules: Option<Box<Rules>>,
}

impl Schema {
    /// The schema of field `name` of an object, if the object may have it.
    pub(crate) fn field(&self, name: &str) -> Option<Arc<Schema>> {
        self.properties.get(name).or(self.additional.as_ref()).map(Link::get)
    }
}
