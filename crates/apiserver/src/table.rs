//! Objects as rows (`Table`, what `kubectl get` asks for) and as their metadata alone (`PartialObjectMetadata`).

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub(crate) use age::age;
pub(crate) use custom::Printer;

use crate::builtin::{Column, Strategy};

mod age;
mod custom;
#[cfg(test)]
mod tests;

/// How much of an object its row carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Include {
    /// Nothing.
    None,
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl Include {
    /// Reads the `includeObject` parameter; `None` for a word nobody knows.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Metadata" => Some(Self::Metadata),
            "None" => Some(Self::None),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// What turns objects of one resource into rows.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a> {
    /// A built-in kind.
    Builtin(&'a dyn Strategy),
    /// A custom resource.
    Custom(&'a Printer),
}

impl Rows<'_> {
    fn definitions(&self) -> Vec<Value> {
        match self {
            Self::Builtin(strategy) => strategy.columns().iter().map(definition).collect(),
            Self::Custom(printer) => printer.definitions().to_vec(),
        }
    }

    fn row(&self, object: &Value, include: Include, now: Timestamp) -> Value {
        let cells = match self {
            Self::Builtin(strategy) => strategy.cells(object, now),
            Self::Custom(printer) => printer.cells(object, now),
        };
        let mut row = json!({ "cells": cells });
        if let Self::Builtin(strategy) = self
            && let Some(conditions) = strategy.row_conditions(object)
        {
            row["conditions"] = conditions;
        }
        row["object"] = match include {
            Include::None => Value::Null,
            Include::Metadata => partial(object),
            Include::Object => object.clone(),
        };
        row
    }
}

/// A `Table` of objects. `list` is the metadata of the list they come from; of a single object only its
/// `resourceVersion` belongs there (see [`single_metadata`]). Later events of a watch go without `headers`.
pub(crate) fn table<'a>(
    rows: Rows<'_>,
    objects: impl IntoIterator<Item = &'a Value>,
    list: &Value,
    include: Include,
    headers: bool,
    now: Timestamp,
) -> Value {
    let definitions = if headers { Value::Array(rows.definitions()) } else { Value::Null };
    let rows = objects.into_iter().map(|object| rows.row(object, include, now)).collect::<Vec<_>>();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

/// The metadata of a `Table` that shows one object.
pub(crate) fn single_metadata(object: &Value) -> Value {
    json!({ "resourceVersion": crate::metadata::resource_version(object) })
}

/// An object's metadata alone.
pub(crate) fn partial(object: &Value) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

/// The metadata of all objects of a list.
pub(crate) fn partial_list<'a>(objects: impl IntoIterator<Item = &'a Value>, list: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list,
        "items": objects.into_iter().map(partial).collect::<Vec<_>>(),
    })
}

fn definition(column: &Column) -> Value {
    json!({
        "name": column.name,
        "type": column.kind,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    })
}
