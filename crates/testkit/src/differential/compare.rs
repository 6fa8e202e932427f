//! What differs between two normalised records.

use std::fmt;

use serde_json::Value;

/// One place where two records disagree.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// JSON pointer into the record.
    pub path: String,
    /// What the reference has there.
    pub expected: Option<Value>,
    /// What the other has there.
    pub found: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: expected {}, found {}", self.path, shown(self.expected.as_ref()), shown(self.found.as_ref()))
    }
}

fn shown(value: Option<&Value>) -> String {
    const LIMIT: usize = 400;
    let text = value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    match text.char_indices().nth(LIMIT) {
        Some((cut, _)) => format!("{}… ({} bytes)", &text[..cut], text.len()),
        None => text,
    }
}

/// All differences, in the order of the reference.
pub fn compare(expected: &Value, found: &Value) -> Vec<Difference> {
    let mut differences = Vec::new();
    walk("", Some(expected), Some(found), &mut differences);
    differences
}

fn walk(path: &str, expected: Option<&Value>, found: Option<&Value>, out: &mut Vec<Difference>) {
    match (expected, found) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let extra = right.keys().filter(|key| !left.contains_key(*key));
            for key in left.keys().chain(extra) {
                walk(&format!("{path}/{}", escaped(key)), left.get(key), right.get(key), out);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            for index in 0..left.len().max(right.len()) {
                walk(&format!("{path}/{index}"), left.get(index), right.get(index), out);
            }
        }
        (left, right) if left == right => {}
        (left, right) => {
            out.push(Difference { path: path.to_owned(), expected: left.cloned(), found: right.cloned() });
        }
    }
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Whether `path` is `prefix` or below it; `*` in the prefix stands for any one segment.
pub(super) fn covers(prefix: &str, path: &str) -> bool {
    let mut segments = path.split('/');
    prefix.split('/').all(|wanted| segments.next().is_some_and(|segment| wanted == "*" || wanted == segment))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_each_place() {
        let check = |left: Value, right: Value, expected: &[&str]| {
            let paths: Vec<String> = compare(&left, &right).into_iter().map(|difference| difference.path).collect();
            assert_eq!(paths, expected);
        };
        check(json!({"a": 1}), json!({"a": 1}), &[]);
        check(json!({"a": 1, "b": [1, 2]}), json!({"a": 2, "b": [1], "c": null}), &["/a", "/b/1", "/c"]);
        check(json!({"a/b": 1}), json!({"a/b": "1"}), &["/a~1b"]);
        check(json!([]), json!({}), &[""]);
    }

    #[test]
    fn covers_whole_segments() {
        assert!(covers("/body/a", "/body/a/b"));
        assert!(covers("/body/a", "/body/a"));
        assert!(!covers("/body/a", "/body/ab"));
        assert!(!covers("/body/a/b", "/body/a"));
        assert!(covers("/body/*/b", "/body/0/b/c"));
        assert!(covers("", "/anything"));
    }
}
