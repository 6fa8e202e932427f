//! `allOf`, `anyOf`, `oneOf` and `not`.

use std::sync::Arc;

use serde_json::Value;

use super::{Flaw, Found, checks};
use crate::schema::node::Schema;
use crate::schema::rules::Rules;

pub(super) fn check(rules: Option<&Rules>, value: &Value, old: Option<&Value>, path: &str) -> Found {
    let mut found = Found::default();
    if let Some(rules) = rules {
        any_of(&rules.any_of, value, old, path, &mut found);
        one_of(&rules.one_of, value, old, path, &mut found);
        all_of(&rules.all_of, value, old, path, &mut found);
        if let Some(not) = &rules.not
            && checks(not, value, old, path).is_valid()
        {
            found.add(Flaw::composite(format!("{path:?} must not validate the schema (not)")));
        }
    }
    found.passed += 1;
    found
}

fn any_of(list: &[Arc<Schema>], value: &Value, old: Option<&Value>, path: &str, found: &mut Found) {
    if list.is_empty() {
        return;
    }
    let mut best: Option<Found> = None;
    for schema in list {
        let result = checks(schema, value, old, path);
        if result.is_valid() {
            found.merge(result);
            return;
        }
        if best.as_ref().is_none_or(|best| result.passed > best.passed) {
            best = Some(result);
        }
    }
    found.add(Flaw::composite(format!("{path:?} must validate at least one schema (anyOf)")));
    if let Some(best) = best {
        found.merge(best);
    }
}

fn one_of(list: &[Arc<Schema>], value: &Value, old: Option<&Value>, path: &str, found: &mut Found) {
    if list.is_empty() {
        return;
    }
    let mut best: Option<Found> = None;
    let mut first: Option<Found> = None;
    let mut valid = 0_usize;
    for schema in list {
        let result = checks(schema, value, old, path);
        if result.is_valid() {
            valid += 1;
            best = None;
            first.get_or_insert(result);
        } else if valid == 0 && best.as_ref().is_none_or(|best| result.passed > best.passed) {
            best = Some(result);
        }
    }
    if valid == 1 {
        found.merge(first.unwrap_or_default());
        return;
    }
    let why = if valid == 0 { "Found none valid".to_owned() } else { format!("Found {valid} valid alternatives") };
    found.add(Flaw::composite(format!("{path:?} must validate one and only one schema (oneOf). {why}")));
    if let Some(best) = best {
        found.merge(best);
    }
}

fn all_of(list: &[Arc<Schema>], value: &Value, old: Option<&Value>, path: &str, found: &mut Found) {
    let mut valid = 0_usize;
    for schema in list {
        let result = checks(schema, value, old, path);
        valid += usize::from(result.is_valid());
        found.merge(result);
    }
    if valid != list.len() {
        let why = if valid == 0 { ". None validated" } else { "" };
        found.add(Flaw::composite(format!("{path:?} must validate all the schemas (allOf){why}")));
    }
}
