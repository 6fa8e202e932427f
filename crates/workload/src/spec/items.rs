//! What a step that is called for items is called for, and what those calls are named.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::scalar::{integer, plain};
use super::task::{Sequence, Step};

/// The most calls one step can expand to.
const ITEMS_MAX: i64 = 100_000;

/// A step that cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// withParam that is no JSON list.
    #[error("withParam value could not be parsed as a JSON list: {0}: {1}")]
    Param(String, String),
    /// A bound of a sequence that is no number.
    #[error("{0}")]
    Bound(String),
    /// More items than can be.
    #[error("more than {ITEMS_MAX} items")]
    TooMany,
}

/// The items of a step whose variables have been replaced, or `None` where it is called just once.
pub fn items(step: &Step) -> Result<Option<Vec<Value>>, ItemError> {
    if let Some(items) = step.with_items.as_ref().filter(|items| !items.is_empty()) {
        return Ok(Some(items.clone()));
    }
    if !step.with_param.is_empty() {
        let list: Vec<Value> = serde_json::from_str(&step.with_param)
            .map_err(|error| ItemError::Param(step.with_param.trim().to_owned(), error.to_string()))?;
        return if list.len() > bound() { Err(ItemError::TooMany) } else { Ok(Some(list)) };
    }
    step.with_sequence.as_ref().map(sequence).transpose()
}

fn bound() -> usize {
    usize::try_from(ITEMS_MAX).unwrap_or(usize::MAX)
}

fn sequence(sequence: &Sequence) -> Result<Vec<Value>, ItemError> {
    let start = sequence.start.as_ref().map_or(Ok(0), number)?;
    if let Some(end) = &sequence.end {
        return range(sequence, start, number(end)?);
    }
    if let Some(count) = &sequence.count {
        let count = number(count)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        return range(sequence, start, start.saturating_add(count).saturating_sub(1));
    }
    Err(ItemError::Bound("neither end nor count was specified in withSequence".to_owned()))
}

fn range(sequence: &Sequence, start: i64, end: i64) -> Result<Vec<Value>, ItemError> {
    if start.abs_diff(end) >= ITEMS_MAX.unsigned_abs() {
        return Err(ItemError::TooMany);
    }
    let numbers: Vec<i64> = if start <= end { (start..=end).collect() } else { (end..=start).rev().collect() };
    let format = if sequence.format.is_empty() { "%d" } else { &sequence.format };
    Ok(numbers.into_iter().map(|number| json!(formatted(format, number))).collect())
}

fn number(value: &IntOrString) -> Result<i64, ItemError> {
    integer(value).ok_or_else(|| match value {
        IntOrString::String(text) => ItemError::Bound(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")),
        IntOrString::Int(number) => ItemError::Bound(format!("{number} is no number")),
    })
}

/// A number in a printf format with one verb: d, x, X, o, b, c, v, with flags and width.
fn formatted(format: &str, number: i64) -> String {
    let mut text = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            text.push('%');
            rest = after;
            continue;
        }
        let end = rest.find(|c: char| !"+-# 0123456789.".contains(c)).unwrap_or(rest.len());
        let (flags, tail) = rest.split_at(end);
        let mut characters = tail.chars();
        let verb = characters.next();
        rest = characters.as_str();
        text.push_str(&verbed(verb, flags, number));
    }
    text.push_str(rest);
    text
}

fn verbed(verb: Option<char>, flags: &str, number: i64) -> String {
    let size = number.unsigned_abs();
    let digits = match verb {
        Some('d' | 'v') => size.to_string(),
        Some('x') => format!("{size:x}"),
        Some('X') => format!("{size:X}"),
        Some('o') => format!("{size:o}"),
        Some('b') => format!("{size:b}"),
        Some(verb) => return format!("%!{verb}(int64={number})"),
        None => return "%!(NOVERB)".to_owned(),
    };
    let width: usize = flags
        .trim_start_matches(['+', '-', '#', ' ', '0'])
        .split('.')
        .next()
        .unwrap_or("")
        .parse()
        .unwrap_or(0)
        .min(1000);
    let shape = &flags[..flags.find(|c: char| c.is_ascii_digit() && c != '0').unwrap_or(flags.len())];
    let sign = if number < 0 {
        "-"
    } else if shape.contains('+') {
        "+"
    } else if shape.contains(' ') {
        " "
    } else {
        ""
    };
    let missing = width.saturating_sub(digits.len() + sign.len());
    if shape.contains('-') {
        format!("{sign}{digits}{}", " ".repeat(missing))
    } else if shape.contains('0') {
        format!("{sign}{}{digits}", "0".repeat(missing))
    } else {
        format!("{}{sign}{digits}", " ".repeat(missing))
    }
}

/// The name of the call for an item: `step(INDEX:ITEM)`.
pub fn name(step: &str, index: usize, item: &Value) -> String {
    let shown = match item {
        Value::Object(fields) => {
            let mut pairs: Vec<String> = fields.iter().map(|(key, value)| format!("{key}:{}", shown(value))).collect();
            pairs.sort();
            pairs.join(",")
        }
        Value::Array(values) => format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(" ")),
        value => shown(value),
    };
    format!("{step}({index}:{})", shown.replace(['(', ')'], ""))
}

/// The variables of an item: `item`, and `item.KEY` where it is a map.
pub fn variables(item: &Value) -> Vec<(String, String)> {
    let mut variables = vec![("item".to_owned(), display(item))];
    if let Value::Object(fields) = item {
        variables.extend(fields.iter().map(|(key, value)| (format!("item.{key}"), shown(value))));
    }
    variables
}

/// An item as `{{item}}` shows it: text as it is, everything else as JSON.
pub fn display(item: &Value) -> String {
    match item {
        Value::String(text) => text.clone(),
        value => shown(value),
    }
}

/// A value as Argo prints it: JSON, text without its quotes.
fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => plain(number),
        Value::String(_) => {
            let quoted = value.to_string();
            quoted[1..quoted.len() - 1].to_owned()
        }
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(step: Value) -> Result<Option<Vec<Value>>, ItemError> {
        items(&super::super::from_value(step).unwrap())
    }

    #[test]
    fn expansion() {
        for (step, expected) in [
            (json!({}), None),
            (json!({"withItems": ["a", 1, {"k": "v"}]}), Some(json!(["a", 1, {"k": "v"}]))),
            (json!({"withParam": "[1, \"b\"]"}), Some(json!([1, "b"]))),
            (json!({"withParam": "[]"}), Some(json!([]))),
            (json!({"withSequence": {"count": "3"}}), Some(json!(["0", "1", "2"]))),
            (json!({"withSequence": {"start": 4, "end": 2}}), Some(json!(["4", "3", "2"]))),
            (json!({"withSequence": {"start": 5, "count": 2, "format": "n-%03X"}}), Some(json!(["n-005", "n-006"]))),
            (json!({"withSequence": {"count": 0}}), Some(json!([]))),
            (json!({"withSequence": {"count": -1}}), Some(json!(["0", "-1", "-2"]))),
        ] {
            assert_eq!(of(step.clone()).unwrap(), expected.map(|list| list.as_array().unwrap().clone()), "{step}");
        }
        assert!(matches!(of(json!({"withParam": "nothing"})), Err(ItemError::Param(..))));
        assert!(matches!(of(json!({"withSequence": {"count": "many"}})), Err(ItemError::Bound(_))));
        assert_eq!(of(json!({"withSequence": {"count": 2_000_000_000}})), Err(ItemError::TooMany));
    }

    #[test]
    fn names() {
        assert_eq!(name("s", 0, &json!("a (b)")), "s(0:a b)");
        assert_eq!(name("s", 1, &json!({"b": 2, "a": "x"})), "s(1:a:x,b:2)");
        assert_eq!(name("s", 2, &json!([1, "q"])), "s(2:[1 q])");
        assert_eq!(
            variables(&json!({"k": "a\nb"})),
            [("item".to_owned(), "{\"k\":\"a\\nb\"}".to_owned()), ("item.k".to_owned(), "a\\nb".to_owned())]
        );
    }
}
