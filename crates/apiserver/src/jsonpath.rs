//! The `JSONPath` of kubectl and of printer columns, without its templates: fields, indexes, slices, wildcards, unions,
//! recursive descent and filters.

use std::cmp::Ordering;

use serde_json::{Number, Value};

pub(crate) use schema::{field_path, simple_errors};

mod parse;
mod schema;
#[cfg(test)]
mod tests;

/// Deepest nesting of filters within filters, and of objects `..` descends into.
const DEPTH_MAX: usize = 64;
/// Most values one path may find.
const FOUND_MAX: usize = 10_000;

/// Why a path could not be read or followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// The text is no path.
    #[error("{0}")]
    Syntax(String),
    /// An index or filter on something that is no list.
    #[error("is not array or slice")]
    NotAList,
    /// An index beyond the end of a list.
    #[error("array index out of bounds: index {0}, length {1}")]
    OutOfBounds(i64, usize),
    /// Values that cannot be compared.
    #[error("incompatible types for comparison")]
    Incomparable,
    /// More than [`FOUND_MAX`] values, or nested too deep.
    #[error("path finds too much")]
    TooMuch,
}

/// A path into a JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// `.name` or `['name']`
    Field(String),
    /// `.*`
    Wildcard,
    /// `..`
    Recursive,
    /// `[1]`, `[1:3]`, `[*]`
    Slice(Slice),
    /// `[0,2]`
    Union(Vec<Vec<Step>>),
    /// `[?(@.a == "b")]`
    Filter(Filter),
    /// A literal inside a filter.
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    step: Option<i64>,
    /// Only `start` was given: one item.
    single: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Vec<Step>,
    operator: Operator,
    right: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Reads a path such as `.status.conditions[?(@.type=="Ready")].status`, with or without braces around it.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        Ok(Self { steps: parse::steps(inner, DEPTH_MAX)? })
    }

    /// All values the path leads to; none where a field is missing.
    pub(crate) fn find<'a>(&'a self, value: &'a Value) -> Result<Vec<&'a Value>, Error> {
        follow(&self.steps, vec![value])
    }
}

fn follow<'a>(steps: &'a [Step], mut current: Vec<&'a Value>) -> Result<Vec<&'a Value>, Error> {
    for step in steps {
        current = apply(step, &current)?;
        if current.len() > FOUND_MAX {
            return Err(Error::TooMuch);
        }
    }
    Ok(current)
}

fn apply<'a>(step: &'a Step, current: &[&'a Value]) -> Result<Vec<&'a Value>, Error> {
    let mut out = Vec::new();
    match step {
        Step::Field(name) => out.extend(current.iter().filter_map(|value| value.as_object()?.get(name))),
        Step::Wildcard => current.iter().for_each(|value| out.extend(children(value))),
        Step::Recursive => {
            for value in current {
                descend(value, &mut out, DEPTH_MAX)?;
            }
        }
        Step::Slice(slice) => {
            for value in current.iter().filter(|value| !value.is_null()) {
                out.extend(slice.cut(value.as_array().ok_or(Error::NotAList)?)?);
            }
        }
        Step::Union(branches) => {
            for branch in branches {
                out.extend(follow(branch, current.to_vec())?);
            }
        }
        Step::Filter(filter) => {
            for value in current {
                for item in value.as_array().ok_or(Error::NotAList)? {
                    if filter.holds(item)? {
                        out.push(item);
                    }
                }
            }
        }
        Step::Literal(value) => out.extend(current.iter().map(|_| value)),
    }
    Ok(out)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

fn descend<'a>(value: &'a Value, out: &mut Vec<&'a Value>, depth: usize) -> Result<(), Error> {
    let depth = depth.checked_sub(1).ok_or(Error::TooMuch)?;
    let below = children(value);
    if below.is_empty() {
        return Ok(());
    }
    out.push(value);
    if out.len() > FOUND_MAX {
        return Err(Error::TooMuch);
    }
    below.into_iter().try_for_each(|child| descend(child, out, depth))
}

impl Slice {
    fn cut<'a>(&self, list: &'a [Value]) -> Result<Vec<&'a Value>, Error> {
        let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
        let wrap = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
        let start = wrap(self.start.unwrap_or(0));
        let end = match self.end {
            _ if self.single => start.saturating_add(1),
            None => length,
            Some(end) => wrap(end),
        };
        if start == end {
            return Ok(Vec::new());
        }
        if start < 0 || start >= length {
            return Err(Error::OutOfBounds(start, list.len()));
        }
        if end < 0 || end > length || start > end {
            return Err(Error::OutOfBounds(end.saturating_sub(1), list.len()));
        }
        let step = self.step.unwrap_or(1);
        if step <= 0 {
            return Err(Error::Syntax("step must be > 0".to_owned()));
        }
        let range = usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        Ok(list.get(range).unwrap_or_default().iter().step_by(step).collect())
    }
}

impl Filter {
    fn holds(&self, item: &Value) -> Result<bool, Error> {
        if self.operator == Operator::Exists {
            return Ok(follow(&self.left, vec![item]).is_ok_and(|found| !found.is_empty()));
        }
        let (left, right) = (follow(&self.left, vec![item])?, follow(&self.right, vec![item])?);
        match (left.as_slice(), right.as_slice()) {
            ([], _) | (_, []) => Ok(false),
            ([left], [right]) => compare(left, self.operator, right),
            _ => Err(Error::Incomparable),
        }
    }
}

fn compare(left: &Value, operator: Operator, right: &Value) -> Result<bool, Error> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => numbers(left, right)?,
        (Value::Bool(left), Value::Bool(right)) => match operator {
            Operator::Equal | Operator::NotEqual => left.cmp(right),
            _ => return Err(Error::Incomparable),
        },
        _ => return Err(Error::Incomparable),
    };
    Ok(match operator {
        Operator::Equal => order == Ordering::Equal,
        Operator::NotEqual => order != Ordering::Equal,
        Operator::Less => order == Ordering::Less,
        Operator::LessOrEqual => order != Ordering::Greater,
        Operator::Greater => order == Ordering::Greater,
        Operator::GreaterOrEqual => order != Ordering::Less,
        Operator::Exists => true,
    })
}

/// Whole numbers and fractions do not compare, as in Kubernetes.
fn numbers(left: &Number, right: &Number) -> Result<Ordering, Error> {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => Ok(left.cmp(&right)),
        (None, None) => left.as_f64().partial_cmp(&right.as_f64()).ok_or(Error::Incomparable),
        _ => Err(Error::Incomparable),
    }
}
