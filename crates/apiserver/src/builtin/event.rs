//! Event, in the core group and in `events.k8s.io`. Both are views of one stored object, kept as core/v1.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::access::{fill, number, present, text};
use super::columns::{column, wide};
use super::tidy::tidy;
use super::{Column, Strategy};
use crate::field::FieldError;
use crate::table::age;
use crate::{metadata, names};

mod validate;

/// Fields that differ in name: core/v1, then events.k8s.io/v1.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

const SELECTABLE: [&str; 11] = [
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
const SELECTABLE_NEW: [&str; 10] = [
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// An event of either group as core/v1.
pub(crate) fn to_core(event: &Value) -> Value {
    let Some(map) = event.as_object() else { return event.clone() };
    let mut out = Map::new();
    for (key, value) in map {
        let key = RENAMED.iter().find(|(_, new)| new == key).map_or(key.as_str(), |(core, _)| core);
        out.insert(key.to_owned(), value.clone());
    }
    out.insert("apiVersion".to_owned(), "v1".into());
    let mut out = Value::Object(out);
    fill_core(&mut out);
    out
}

/// An event of either group as `events.k8s.io/v1`.
pub(crate) fn to_events(event: &Value) -> Value {
    let Some(map) = event.as_object() else { return event.clone() };
    let mut out = Map::new();
    for (key, value) in map {
        let key = RENAMED.iter().find(|(core, _)| core == key).map_or(key.as_str(), |(_, new)| new);
        let unset = value.is_null() || value == "" || value == 0 || value == &json!({});
        let optional = matches!(key, "note" | "deprecatedCount" | "reportingController" | "reportingInstance");
        if !(unset && optional) {
            out.insert(key.to_owned(), value.clone());
        }
    }
    out.insert("apiVersion".to_owned(), "events.k8s.io/v1".into());
    for key in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"] {
        fill(&mut out, key, Value::Null);
    }
    for key in ["deprecatedSource", "regarding"] {
        fill(&mut out, key, json!({}));
    }
    Value::Object(out)
}

/// What core/v1 always shows.
fn fill_core(event: &mut Value) {
    let Some(map) = event.as_object_mut() else { return };
    for key in ["eventTime", "firstTimestamp", "lastTimestamp"] {
        fill(map, key, Value::Null);
    }
    for key in ["reportingComponent", "reportingInstance"] {
        fill(map, key, "");
    }
    for key in ["involvedObject", "source"] {
        fill(map, key, json!({}));
    }
}

/// Event as either group shows it.
pub(super) struct Event {
    /// `events.k8s.io` rather than core.
    pub(super) new_group: bool,
}

impl Strategy for Event {
    fn default(&self, object: &mut Value) {
        tidy(object);
        if self.new_group {
            *object = to_events(object);
        } else {
            fill_core(object);
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        validate::create(&to_core(object), self.new_group)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        validate::update(&to_core(object), &to_core(old), self.new_group)
    }

    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        if self.new_group { names::subdomain_name(name, prefix) } else { names::path_segment(name, prefix) }
    }

    fn columns(&self) -> &'static [Column] {
        const {
            &[
                column("Last Seen", "When it was last seen."),
                column("Type", "Normal or Warning."),
                column("Reason", "Why it happened, in a word."),
                column("Object", "What it is about."),
                wide("Subobject", "Which part of the object it is about."),
                wide("Source", "Who reports it."),
                column("Message", "What happened."),
                wide("First Seen", "When it was first seen."),
                wide("Count", "How often it was seen."),
                Column { format: "name", ..wide("Name", "Name of the object.") },
            ]
        }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let event = to_core(object);
        let first = match text(&event, "/firstTimestamp") {
            "" => age(text(&event, "/eventTime"), now),
            time => age(time, now),
        };
        let (last, count) = if let Some(series) = present(&event, "/series") {
            (age(text(series, "/lastObservedTime"), now), number(series, "/count"))
        } else {
            let last = match text(&event, "/lastTimestamp") {
                "" => first.clone(),
                time => age(time, now),
            };
            (last, number(&event, "/count").max(1))
        };
        vec![
            last.into(),
            text(&event, "/type").into(),
            text(&event, "/reason").into(),
            target(&event).into(),
            text(&event, "/involvedObject/fieldPath").into(),
            source(&event).into(),
            text(&event, "/message").trim().into(),
            first.into(),
            count.into(),
            metadata::name(&event).into(),
        ]
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        let event = to_core(object);
        let read = |name: &str| match name {
            "source" if text(&event, "/source/component").is_empty() => text(&event, "/reportingComponent").to_owned(),
            "source" => text(&event, "/source/component").to_owned(),
            _ => text(&event, &format!("/{}", name.replace('.', "/"))).to_owned(),
        };
        if !self.new_group {
            return SELECTABLE.iter().map(|name| (*name, read(name))).collect();
        }
        let core = |name: &str| match name.strip_prefix("regarding.") {
            Some(rest) => format!("involvedObject.{rest}"),
            None => name.replace("reportingController", "reportingComponent"),
        };
        SELECTABLE_NEW.iter().map(|name| (*name, read(&core(name)))).collect()
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        if self.new_group { &SELECTABLE_NEW } else { &SELECTABLE }
    }
}

fn target(event: &Value) -> String {
    let kind = text(event, "/involvedObject/kind").to_lowercase();
    match text(event, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Value) -> String {
    let first = |a: &str, b: &str| match text(event, a) {
        "" => text(event, b).to_owned(),
        text => text.to_owned(),
    };
    let (component, host) =
        (first("/source/component", "/reportingComponent"), first("/source/host", "/reportingInstance"));
    if host.is_empty() { component } else { format!("{component}, {host}") }
}
