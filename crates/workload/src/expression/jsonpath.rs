//! The part of `JSONPath` that workflows use: members, indexes, slices, wildcards, descent and simple filters.

use serde_json::Value;

/// A path that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    /// It is no path.
    #[error("invalid JSONPath query '{0}'")]
    Syntax(String),
    /// There is nothing there.
    #[error("key not found for JSONPath query '{0}'")]
    Nothing(String),
}

/// Nodes that one path visits at most.
const NODES_MAX: usize = 1 << 20;

#[derive(Debug)]
enum Part {
    Member(String),
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    All,
    Descent,
    Filter(String, Option<(Comparison, Value)>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    Greater,
    AtMost,
    AtLeast,
}

/// What is at a path: one value where it can lead to one only, else the list of all.
pub fn query(path: &str, document: &Value) -> Result<Value, JsonPathError> {
    let parts = parse(path).ok_or_else(|| JsonPathError::Syntax(path.to_owned()))?;
    let many = parts.iter().any(|part| !matches!(part, Part::Member(_) | Part::Index(_)));
    let mut found = vec![document];
    for part in &parts {
        found = found.into_iter().flat_map(|value| step(part, value)).take(NODES_MAX).collect();
    }
    if many {
        return Ok(Value::Array(found.into_iter().cloned().collect()));
    }
    found.first().map(|value| (*value).clone()).ok_or_else(|| JsonPathError::Nothing(path.to_owned()))
}

fn step<'a>(part: &Part, value: &'a Value) -> Vec<&'a Value> {
    match part {
        Part::Member(name) => value.get(name).into_iter().collect(),
        Part::Index(index) => {
            value.as_array().and_then(|list| list.get(place(*index, list.len())?)).into_iter().collect()
        }
        Part::Slice(start, end) => {
            let Some(list) = value.as_array() else { return Vec::new() };
            let bound = |at: i64| place(at, list.len()).unwrap_or(0).min(list.len());
            let (start, end) = (bound(start.unwrap_or(0)), end.map_or(list.len(), bound));
            list.get(start..end).unwrap_or_default().iter().collect()
        }
        Part::All => children(value),
        Part::Descent => {
            let mut all = vec![value];
            let mut next = 0;
            while next < all.len() && all.len() < NODES_MAX {
                let below = children(all[next]);
                all.extend(below);
                next += 1;
            }
            all
        }
        Part::Filter(field, test) => {
            children(value).into_iter().filter(|item| passes(item, field, test.as_ref())).collect()
        }
    }
}

fn place(index: i64, length: usize) -> Option<usize> {
    if index >= 0 {
        usize::try_from(index).ok()
    } else {
        length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(values) => values.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn passes(item: &Value, field: &str, test: Option<&(Comparison, Value)>) -> bool {
    let mut value = Some(item);
    for name in field.split('.').filter(|name| !name.is_empty()) {
        value = value.and_then(|value| value.get(name));
    }
    let Some((comparison, expected)) = test else { return value.is_some() };
    let Some(value) = value else { return *comparison == Comparison::Unequal };
    let order = match (value, expected) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (left, right) => left.as_f64().zip(right.as_f64()).and_then(|(left, right)| left.partial_cmp(&right)),
    };
    match comparison {
        Comparison::Equal => value == expected || order.is_some_and(std::cmp::Ordering::is_eq),
        Comparison::Unequal => value != expected && !order.is_some_and(std::cmp::Ordering::is_eq),
        Comparison::Less => order.is_some_and(std::cmp::Ordering::is_lt),
        Comparison::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
        Comparison::AtMost => order.is_some_and(std::cmp::Ordering::is_le),
        Comparison::AtLeast => order.is_some_and(std::cmp::Ordering::is_ge),
    }
}

fn parse(path: &str) -> Option<Vec<Part>> {
    let path = path.trim();
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut parts = Vec::new();
    if !rest.is_empty() && !rest.starts_with(['.', '[']) {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        parts.push(named(&rest[..end])?);
        rest = &rest[end..];
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("..") {
            parts.push(Part::Descent);
            rest = after;
            if rest.starts_with('[') {
                continue;
            }
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            parts.push(named(&rest[..end])?);
            rest = &rest[end..];
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            parts.push(named(&after[..end])?);
            rest = &after[end..];
        } else {
            let end = closing(rest)?;
            parts.push(bracketed(rest.get(1..end)?.trim())?);
            rest = &rest[end + 1..];
        }
    }
    Some(parts)
}

fn named(name: &str) -> Option<Part> {
    match name {
        "" => None,
        "*" => Some(Part::All),
        name => Some(Part::Member(name.to_owned())),
    }
}

/// The bracket that ends the one at the start, outside of quotes.
fn closing(rest: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0usize, None);
    for (at, c) in rest.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            (Some(_) | None, _) => {}
        }
    }
    None
}

fn bracketed(inside: &str) -> Option<Part> {
    if inside == "*" {
        return Some(Part::All);
    }
    if let Some(name) = quoted(inside) {
        return Some(Part::Member(name.to_owned()));
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')')) {
        return filtered(filter.trim());
    }
    if let Some((start, end)) = inside.split_once(':') {
        let bound = |text: &str| if text.trim().is_empty() { Some(None) } else { text.trim().parse().ok().map(Some) };
        return Some(Part::Slice(bound(start)?, bound(end)?));
    }
    inside.parse().ok().map(Part::Index)
}

fn quoted(text: &str) -> Option<&str> {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('\'').or_else(|| inner('"'))
}

fn filtered(filter: &str) -> Option<Part> {
    use Comparison::{AtLeast, AtMost, Equal, Greater, Less, Unequal};
    let field = |text: &str| Some(text.trim().strip_prefix('@')?.to_owned());
    for (sign, comparison) in
        [("==", Equal), ("!=", Unequal), ("<=", AtMost), (">=", AtLeast), ("<", Less), (">", Greater)]
    {
        if let Some((left, right)) = filter.split_once(sign) {
            let right = right.trim();
            let value = match quoted(right) {
                Some(text) => Value::String(text.to_owned()),
                None => serde_json::from_str(right).ok()?,
            };
            return Some(Part::Filter(field(left)?, Some((comparison, value))));
        }
    }
    Some(Part::Filter(field(filter)?, None))
}
