//! Types, enumerations, strings and numbers.

use serde_json::{Number, Value};

use super::{Flaw, Found, Problem, format_of, type_name};
use crate::schema::formats;
use crate::schema::node::{Schema, Type};
use crate::schema::rules::Rules;

/// The type Kubernetes sees in a value, and the width it assumes.
fn seen(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) if number.is_f64() => ("number", "float64"),
        Value::Number(_) => ("integer", "int64"),
    }
}

pub(super) fn type_check(schema: &Schema, value: &Value, path: &str) -> Found {
    let mut found = Found::default();
    let wanted: &[Type] = match (&schema.kind, schema.int_or_string) {
        (_, true) => &[Type::Integer, Type::String],
        (Some(kind), false) => std::slice::from_ref(kind),
        (None, false) => &[],
    };
    let (kind, width) = seen(value);
    let has = |name: &str| wanted.iter().any(|kind| type_name(*kind) == name);
    let wrong = |wanted: &str, got: &str| {
        let text = format!("{path} in body must be of type {wanted}: {got:?}");
        Flaw::new(path, Problem::TypeInvalid(got.into()), text)
    };
    let names = wanted.iter().map(|kind| type_name(*kind)).collect::<Vec<_>>().join(",");
    if value.is_null() {
        if !wanted.is_empty() && !schema.nullable {
            found.add(wrong(&names, "null"));
        } else {
            found.passed += 1;
        }
        return found;
    }
    let format = format_of(schema);
    let text_like = value.is_string() || value.is_array();
    let whole = kind == "number" && value.as_f64().is_some_and(formats::is_whole) && has("integer");
    let fits = has(kind) || whole || (kind == "integer" && has("number"));
    if let Some(format) = format {
        if !text_like && !fits {
            found.add(wrong(format, width));
            return found;
        }
        if text_like && !has("number") && !has("integer") {
            found.passed += 1;
            return found;
        }
    }
    if fits {
        found.passed += 1;
    } else {
        found.add(wrong(&names, kind));
    }
    found
}

pub(super) fn enumeration(schema: &Schema, value: &Value, path: &str) -> Found {
    let mut found = Found::default();
    let Some(allowed) = &schema.enumeration else { return found };
    if allowed.iter().any(|one| same(one, value)) {
        return found;
    }
    let text = |one: &Value| one.as_str().map_or_else(|| one.to_string(), str::to_owned);
    let supported = allowed.iter().map(text).collect::<Vec<_>>();
    let message = format!("{path} in body should be one of {supported:?}");
    let mut flaw = Flaw::new(path, Problem::NotSupported(value.clone()), message);
    flaw.supported = supported;
    found.add(flaw);
    found
}

fn same(allowed: &Value, value: &Value) -> bool {
    if value.is_null() {
        return false;
    }
    match (allowed, value) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => allowed == value,
    }
}

pub(super) fn string(rules: Option<&Rules>, text: &str, path: &str) -> Found {
    let mut found = Found::default();
    let Some(rules) = rules else { return found };
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(max) = rules.max_length.filter(|max| length() > *max) {
        let message = format!("{path} in body should be at most {max} chars long");
        found.add(Flaw::new(path, Problem::TooLong(max), message));
        return found;
    }
    if let Some(min) = rules.min_length.filter(|min| length() < *min) {
        found.add(Flaw::invalid(path, text, &format!("should be at least {min} chars long")));
        return found;
    }
    if let Some(pattern) = &rules.pattern {
        let source = pattern.source();
        match pattern.regex() {
            Ok(regex) if regex.is_match(text) => {}
            Ok(_) => found.add(Flaw::invalid(path, text, &format!("should match '{source}'"))),
            Err(why) => {
                let message = format!("should match '{source}, but pattern is invalid: {why}'");
                found.add(Flaw::invalid(path, text, &message));
            }
        }
    }
    found
}

pub(super) fn format(format: &str, text: &str, path: &str) -> Found {
    let mut found = Found::default();
    if !formats::matches(format, text) {
        let message = format!("{path} in body must be of type {format}: {text:?}");
        found.add(Flaw::new(path, Problem::TypeInvalid(text.into()), message));
    }
    found
}

pub(super) fn number(rules: Option<&Rules>, number: &Number, path: &str) -> Found {
    let mut found = Found { passed: 1, ..Found::default() };
    let Some(rules) = rules else { return found };
    if let Some(factor) = rules.multiple_of
        && !is_multiple(number, factor)
    {
        let shown = shown(number, factor);
        found.add(if !number.is_f64() && cut(factor) <= 0 {
            // the factor was cut to a whole number, and it is what is shown as wrong
            let text = format!("factor MultipleOf declared for {path} must be positive: {shown}");
            Flaw::new(path, Problem::Invalid(cut(factor).into()), text)
        } else {
            Flaw::invalid(path, number.clone(), &format!("should be a multiple of {shown}"))
        });
    }
    let order = |bound: f64| compare(number, bound);
    if let Some(min) = rules.minimum {
        let low = order(min).is_some_and(|order| order.is_lt() || (rules.exclusive_minimum && order.is_eq()));
        let than = if rules.exclusive_minimum { "greater than" } else { "greater than or equal to" };
        if low {
            let shown = shown(number, min);
            found.add(Flaw::invalid(path, number.clone(), &format!("should be {than} {shown}")));
        }
    }
    if let Some(max) = rules.maximum {
        let high = order(max).is_some_and(|order| order.is_gt() || (rules.exclusive_maximum && order.is_eq()));
        let than = if rules.exclusive_maximum { "less than" } else { "less than or equal to" };
        if high {
            let shown = shown(number, max);
            found.add(Flaw::invalid(path, number.clone(), &format!("should be {than} {shown}")));
        }
    }
    found
}

/// Whole numbers are compared with the bound cut to a whole number, as Kubernetes does.
fn compare(number: &Number, bound: f64) -> Option<std::cmp::Ordering> {
    match number.as_i64() {
        Some(whole) => Some(whole.cmp(&cut(bound))),
        None => number.as_f64()?.partial_cmp(&bound),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a bound is cut to a whole number, saturating, on purpose")]
fn cut(bound: f64) -> i64 {
    bound as i64
}

fn is_multiple(number: &Number, factor: f64) -> bool {
    if let Some(whole) = number.as_i64() {
        let factor = cut(factor);
        return factor > 0 && whole.checked_rem(factor) == Some(0);
    }
    let Some(value) = number.as_f64() else { return false };
    if factor <= 0.0 {
        return false;
    }
    let times = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
    formats::is_whole(times)
}

fn shown(number: &Number, bound: f64) -> String {
    if number.is_f64() { formats::go_float(bound) } else { cut(bound).to_string() }
}
