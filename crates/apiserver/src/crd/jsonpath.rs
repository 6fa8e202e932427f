//! The `JSONPath` subset of printer columns, scale paths and selectable fields.

use serde_json::Value;

use crate::field::{FieldError, Path};
use crate::schema::node::Schema;

/// Paths longer than this are not read: none in the wild comes near.
const STEPS_MAX: usize = 64;

/// A parsed path such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Where { path: Vec<String>, operator: Operator, value: Value },
    Has(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Reads a path; `None` if it uses what the subset has not.
    pub fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            if steps.len() >= STEPS_MAX {
                return None;
            }
            if let Some(after) = rest.strip_prefix('[') {
                let end = closing(after)?;
                steps.push(bracket(after[..end].trim())?);
                rest = &after[end + 1..];
            } else if let Some(after) = rest.strip_prefix('.') {
                if after.is_empty() {
                    break;
                }
                if after.starts_with('[') {
                    rest = after;
                    continue;
                }
                let (name, tail) = field_name(after)?;
                steps.push(if name == "*" { Step::All } else { Step::Field(name) });
                rest = tail;
            } else {
                return None;
            }
        }
        Some(Self { steps })
    }

    /// Every value the path leads to.
    pub fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![object];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step.apply(value)).collect();
        }
        found
    }

    /// The first value the path leads to.
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.find(object).into_iter().next()
    }

    /// The names of a path that only goes through fields.
    pub fn fields(&self) -> Option<Vec<&str>> {
        let name = |step: &'_ Step| match step {
            Step::Field(name) => Some(name.clone()),
            _ => None,
        };
        if self.steps.iter().any(|step| name(step).is_none()) {
            return None;
        }
        Some(
            self.steps
                .iter()
                .filter_map(|step| if let Step::Field(name) = step { Some(name.as_str()) } else { None })
                .collect(),
        )
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(at) => {
                let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let at = if *at < 0 { i64::try_from(list.len()).unwrap_or(i64::MAX) + at } else { *at };
                usize::try_from(at).ok().and_then(|at| list.get(at)).into_iter().collect()
            }
            Self::All => children(value),
            Self::Has(path) => children(value).into_iter().filter(|item| walk(item, path).is_some()).collect(),
            Self::Where { path, operator, value: wanted } => children(value)
                .into_iter()
                .filter(|item| walk(item, path).is_some_and(|got| operator.holds(got, wanted)))
                .collect(),
        }
    }
}

impl Operator {
    fn holds(self, got: &Value, wanted: &Value) -> bool {
        let order = match (got, wanted) {
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Number(a), Value::Number(b)) => a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b)),
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            _ => None,
        };
        order.is_some_and(|order| match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        })
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

fn walk<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// The name up to the next separator; `\.` is a dot inside a name.
fn field_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            '.' | '[' => return if name.is_empty() { None } else { Some((name, &text[at..])) },
            c => name.push(c),
        }
    }
    if name.is_empty() { None } else { Some((name, "")) }
}

/// Where the bracket that is open ends, quotes and inner brackets aside.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (Some(_) | None, _) => {}
        }
    }
    None
}

fn bracket(inside: &str) -> Option<Step> {
    if inside == "*" {
        return Some(Step::All);
    }
    if let Some(name) = unquote(inside) {
        return Some(Step::Field(name));
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return condition(filter.trim());
    }
    inside.parse().ok().map(Step::Index)
}

fn condition(text: &str) -> Option<Step> {
    const OPERATORS: [(&str, Operator); 6] = [
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ];
    let path_of = |text: &str| {
        let path = JsonPath::parse(text.trim().strip_prefix('@')?)?;
        Some(path.fields()?.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    for (symbol, operator) in OPERATORS {
        if let Some((left, right)) = text.split_once(symbol) {
            let right = right.trim();
            let value = unquote(right).map(Value::String).or_else(|| serde_json::from_str(right).ok())?;
            return Some(Step::Where { path: path_of(left)?, operator, value });
        }
    }
    path_of(text).map(Step::Has)
}

fn unquote(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        out.push(if c == '\\' { chars.next()? } else { c });
    }
    Some(out)
}

/// What is wrong with a path where only a simple one is allowed.
pub(super) fn simple_errors(text: &str, path: &Path) -> Vec<FieldError> {
    if text.is_empty() {
        return vec![FieldError::invalid(path, text, "must not be empty")];
    }
    if !text.starts_with('.') {
        return vec![FieldError::invalid(path, text, "must be a simple json path starting with .")];
    }
    Vec::new()
}

/// Follows a field path such as `.spec.a['b c']` through a schema: where it leads, and the path in Kubernetes' notation.
pub(super) fn field_path(text: &str, schema: &Schema, brackets: bool) -> Result<(Path, Schema), String> {
    let mut path = Path::root();
    let mut node = schema.clone();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, tail) = if let Some(after) = rest.strip_prefix('[') {
            if !brackets {
                return Err("array notation is not allowed".to_owned());
            }
            let end = closing(after).ok_or("unexpected end of JSON path")?;
            let inside = &after[..end];
            let quoted = inside.len() >= 2 && inside.starts_with('\'') && inside.ends_with('\'');
            let name = unquote(inside).filter(|_| quoted);
            (name.ok_or_else(|| format!("expected single quoted string but got {inside}"))?, &after[end + 1..])
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 && after.is_empty() {
                return Err("unexpected end of JSON path".to_owned());
            }
            (after[..end].to_owned(), &after[end..])
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        };
        let declared = |name: &str| {
            let own = node.rules.as_ref().and_then(|rules| rules.declared.get(name));
            match own {
                Some(own) => Some(Schema::clone(own)),
                None if node.embedded_resource && crate::schema::custom::META_FIELDS.contains(&name) => None,
                None => node.properties.get(name).map(|link| Schema::clone(&link.get())),
            }
        };
        let next = if node.properties.is_empty() {
            path = path.key(&name);
            node.additional.as_ref().map(|link| Schema::clone(&link.get()))
        } else {
            path = path.child(&name);
            declared(&name)
        };
        node = next.ok_or("does not refer to a valid field")?;
        rest = tail;
    }
    Ok((path, node))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_what_kubectl_would_show() {
        let object = json!({
            "spec": {"a.b": 1, "list": [1, 2, 3]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
        });
        let check = |path: &str, expected: Value| {
            let found = JsonPath::parse(path).map(|path| path.find(&object).into_iter().cloned().collect::<Vec<_>>());
            assert_eq!(found.map_or(Value::Null, Value::Array), expected, "{path}");
        };
        check(".spec.list[1]", json!([2]));
        check(".spec.list[-1]", json!([3]));
        check(".spec.list[*]", json!([1, 2, 3]));
        check(r".spec.a\.b", json!([1]));
        check(".spec['a.b']", json!([1]));
        check(r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"]));
        check(".status.conditions[?(@.type=='Nope')].status", json!([]));
        check(".status.conditions[?(@.status)].type", json!(["Ready", "Other"]));
        check(".spec.missing.deeper", json!([]));
        check("spec", Value::Null);
        check(".spec[", Value::Null);
        check(".spec[?(", Value::Null);
    }
}
