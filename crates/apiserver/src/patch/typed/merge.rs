//! Laying an applied configuration over the live object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{Form, Shape, TypeErrors, item, validate};
use crate::patch::fields::Element;
use crate::schema::ListType;

/// The live value with everything the configuration sets. Nothing is removed; items the configuration names take its
/// order, the others stay in front of the item they stood in front of.
pub(crate) fn merge(shape: &Shape, live: &Value, config: &Value) -> Result<Value, TypeErrors> {
    let mut errors = TypeErrors::default();
    let merged = visit(shape, Some(live), Some(config), &mut errors);
    errors.into_result(merged.unwrap_or(Value::Null))
}

fn visit(shape: &Shape, live: Option<&Value>, config: Option<&Value>, errors: &mut TypeErrors) -> Option<Value> {
    let (live_forms, config_forms) = (shape.forms(live), shape.forms(config));
    if config.is_none() {
        return handle(live_forms.first(), shape, live, config, errors);
    }
    if live.is_some() && live_forms != config_forms {
        handle(live_forms.first(), shape, live, config, errors);
    }
    handle(config_forms.first(), shape, live, config, errors)
}

fn handle(
    form: Form,
    shape: &Shape,
    live: Option<&Value>,
    config: Option<&Value>,
    errors: &mut TypeErrors,
) -> Option<Value> {
    let leaf = || config.or(live).cloned();
    match form {
        Form::Scalar => {
            let wrong = (validate::scalar(shape, live, "lhs: "), validate::scalar(shape, config, "rhs: "));
            if !wrong.0.0.is_empty() && !wrong.1.0.is_empty() {
                errors.extend(wrong.0);
                errors.extend(wrong.1);
                return None;
            }
            leaf()
        }
        Form::Map => {
            let (live_map, config_map) = (live.and_then(Value::as_object), config.and_then(Value::as_object));
            let empty = live_map.is_none_or(Map::is_empty) && config_map.is_none_or(Map::is_empty);
            if shape.map_is_atomic() || empty { leaf() } else { maps(shape, live_map, config_map, errors) }
        }
        Form::List => {
            let (live_list, config_list) = (live.and_then(Value::as_array), config.and_then(Value::as_array));
            let empty = live_list.is_none_or(Vec::is_empty) && config_list.is_none_or(Vec::is_empty);
            if *shape.list_type() == ListType::Atomic || empty {
                return leaf();
            }
            let none = Vec::new();
            lists(shape, live_list.unwrap_or(&none), config_list.unwrap_or(&none), errors)
        }
    }
}

fn maps(
    shape: &Shape,
    live: Option<&Map<String, Value>>,
    config: Option<&Map<String, Value>>,
    errors: &mut TypeErrors,
) -> Option<Value> {
    let none = Map::new();
    let (live, config) = (live.unwrap_or(&none), config.unwrap_or(&none));
    let mut out = Map::new();
    let names = live.keys().chain(config.keys().filter(|name| !live.contains_key(*name)));
    for name in names {
        let mut wrong = TypeErrors::default();
        let merged = visit(&shape.field(name), live.get(name), config.get(name), &mut wrong);
        errors.below(&Element::Field(name.clone()), wrong);
        if let Some(merged) = merged {
            out.insert(name.clone(), merged);
        }
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

/// A list's items by key, in order. Items with the same key cannot be merged one by one: they read as null.
struct Index<'a> {
    order: Vec<(Element, &'a Value)>,
    by_key: BTreeMap<Element, &'a Value>,
}

static NULL: Value = Value::Null;

fn index<'a>(shape: &Shape, list: &'a [Value], allow_duplicates: bool, errors: &mut TypeErrors) -> Index<'a> {
    let mut out = Index { order: Vec::new(), by_key: BTreeMap::new() };
    for (at, child) in list.iter().enumerate() {
        let element = match item::element(shape, child) {
            Ok(element) => element,
            Err(why) => {
                errors.push(format!("element {at}: {why}"));
                continue;
            }
        };
        let again = out.by_key.contains_key(&element);
        if again && !allow_duplicates {
            errors.push(format!("duplicate entries for key {element}"));
            continue;
        }
        out.by_key.insert(element.clone(), if again { &NULL } else { child });
        out.order.push((element, child));
    }
    out
}

fn lists(shape: &Shape, live: &[Value], config: &[Value], errors: &mut TypeErrors) -> Option<Value> {
    let config = index(shape, config, false, errors);
    let live = index(shape, live, true, errors);
    if !errors.0.is_empty() {
        return None;
    }
    let below = shape.item();
    let mut out = Vec::new();
    // What goes wrong inside an item was found when the applied object was checked.
    let mut take = |live: Option<&Value>, config: Option<&Value>| {
        out.extend(visit(&below, live, config, &mut TypeErrors::default()));
    };
    let mut shared = config.order.iter().map(|(element, _)| element).filter(|e| live.by_key.contains_key(*e));
    let mut next_shared = shared.next();
    let mut done = BTreeSet::new();
    let (mut at_live, mut at_config) = (0, 0);
    while at_live < live.order.len() || at_config < config.order.len() {
        if let (Some((mine, _)), Some((theirs, value))) = (live.order.get(at_live), config.order.get(at_config)) {
            if mine == theirs {
                done.insert(mine);
                take(live.by_key.get(mine).copied(), Some(value));
                at_live += 1;
                at_config += 1;
                next_shared = shared.next();
                continue;
            }
            if config.by_key.contains_key(mine) && next_shared.is_some_and(|next| next != mine) {
                at_live += 1;
                continue;
            }
        }
        if let Some((mine, value)) = live.order.get(at_live) {
            if !config.by_key.contains_key(mine) {
                take(Some(value), None);
                at_live += 1;
                continue;
            }
            if done.contains(mine) {
                at_live += 1;
            }
        }
        if let Some((theirs, value)) = config.order.get(at_config) {
            done.insert(theirs);
            take(live.by_key.get(theirs).copied(), Some(value));
            at_config += 1;
            if next_shared == Some(theirs) {
                next_shared = shared.next();
            }
        }
    }
    (!out.is_empty()).then_some(Value::Array(out))
}
