//! A definition as Kubernetes sees it inside: what all versions share is moved to the top, and errors name it there.

use serde_json::Value;

use crate::field::Path;

/// A definition and where the parts its versions share are reported.
pub(super) struct View<'a> {
    pub(super) spec: &'a Value,
    pub(super) versions: Vec<&'a Value>,
    shared: [bool; 4],
}

/// A part of a version that may be shared.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Schema,
    Subresources,
    Columns,
    Selectable,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Subresources => "subresources",
            Self::Columns => "additionalPrinterColumns",
            Self::Selectable => "selectableFields",
        }
    }

    fn top_name(self) -> &'static str {
        if matches!(self, Self::Schema) { "validation" } else { self.name() }
    }
}

impl<'a> View<'a> {
    pub(super) fn new(crd: &'a Value) -> Self {
        let spec = crd.get("spec").unwrap_or(&Value::Null);
        let versions =
            spec.get("versions").and_then(Value::as_array).map(|list| list.iter().collect()).unwrap_or_default();
        let mut view = Self { spec, versions, shared: [false; 4] };
        for part in [Part::Schema, Part::Subresources, Part::Columns, Part::Selectable] {
            let mut values = view.versions.iter().map(|version| present(version, part));
            let first = values.next();
            let same = first.is_some_and(|first| values.all(|other| other == first));
            view.shared[part as usize] = same;
        }
        view
    }

    /// The part all versions share, if they do and have it.
    pub(super) fn top(&self, part: Part) -> Option<&'a Value> {
        if self.shared[part as usize] { self.versions.first().and_then(|version| present(version, part)) } else { None }
    }

    /// The part of one version, if it has its own.
    pub(super) fn own(&self, at: usize, part: Part) -> Option<&'a Value> {
        if self.shared[part as usize] { None } else { self.versions.get(at).and_then(|version| present(version, part)) }
    }

    pub(super) fn top_path(part: Part) -> Path {
        Path::new("spec").child(part.top_name())
    }

    pub(super) fn own_path(at: usize, part: Part) -> Path {
        Path::new("spec").child("versions").index(at).child(part.name())
    }

    /// Whether a version has a status subresource.
    pub(super) fn has_status(&self, at: usize) -> bool {
        self.versions
            .get(at)
            .is_some_and(|version| version.pointer("/subresources/status").is_some_and(|s| !s.is_null()))
    }

    /// Every version's schema.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &'a Value> {
        self.versions.iter().filter_map(|version| version.pointer("/schema/openAPIV3Schema"))
    }
}

fn present(version: &Value, part: Part) -> Option<&Value> {
    version.get(part.name()).filter(|value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()))
}

/// A string field.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// A true field.
pub(super) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// A list of strings.
pub(super) fn strings<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    value.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Calls for each schema directly inside a schema.
pub(super) fn for_each_child<'a>(schema: &'a Value, visit: &mut dyn FnMut(&'a Value)) {
    for key in ["items", "not", "additionalProperties"] {
        if let Some(child) = schema.get(key).filter(|child| child.is_object()) {
            visit(child);
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        schema.get(key).and_then(Value::as_array).into_iter().flatten().for_each(&mut *visit);
    }
    for (_, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        visit(child);
    }
}
