//! JSON patch (RFC 6902), with the leniencies of the library kube-apiserver uses.
//!
//! Beyond the RFC: `replace` of an absent field adds it, `copy` of an absent field copies null, negative indices count
//! from the end, and everything before the first `/` of a path is ignored. The crate `json-patch` follows the RFC, so
//! clients would see other answers with it.

use serde_json::{Map, Value};

use crate::failure::{Failure, Result};
use crate::go;

/// The most operations in one patch.
pub(crate) const OPERATIONS_MAX: usize = 10_000;
/// The most bytes of JSON that `copy` may add, all operations together.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The most levels of the result: what can be parsed can be stored and read back.
const DEPTH_MAX: usize = 120;

/// Applies a patch. `checked` is whether field validation is `Warn` or `Strict`: Kubernetes then decodes the patch with
/// more care and words errors differently.
pub(crate) fn apply(document: &Value, patch: &Value, checked: bool) -> Result<Value> {
    let operations = operations(patch, checked)?;
    if operations.len() > OPERATIONS_MAX {
        return Err(Failure::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
                operations.len()
            ),
        ));
    }
    let mut document = document.clone();
    let mut copied = 0;
    for operation in operations {
        perform(&mut document, operation, &mut copied).ok_or_else(rejected)?;
    }
    Ok(document)
}

/// What Kubernetes says of fields that no operation has, for `Warn` and `Strict`.
pub(crate) fn unknown_fields(patch: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for (at, operation) in patch.as_array().into_iter().flatten().enumerate() {
        for name in operation.as_object().into_iter().flat_map(Map::keys) {
            if !["op", "path", "from", "value"].contains(&name.as_str()) {
                out.push(format!("json patch unknown field \"[{at}].{name}\""));
            }
        }
    }
    out
}

/// Whatever does not apply gets this one answer.
fn rejected() -> Failure {
    let mut failure = Failure::new(422, "Invalid", "the server rejected our request due to an error in our request");
    failure.details = Some(Box::default());
    failure
}

fn operations(patch: &Value, checked: bool) -> Result<&[Value]> {
    let wrong = |value: &Value, into: &str| {
        let prefix = if checked { "error decoding patch: " } else { "" };
        Err(Failure::bad_request(format!("{prefix}json: cannot unmarshal {} into Go {into}", go::json_type(value))))
    };
    let operations = match patch {
        Value::Array(operations) => operations.as_slice(),
        Value::Null => &[],
        other if checked => return wrong(other, "value of type []handlers.jsonPatchOp"),
        other => return wrong(other, "value of type jsonpatch.Patch"),
    };
    for operation in operations {
        let fields = match operation {
            Value::Object(fields) => fields,
            Value::Null => continue,
            other if checked => return wrong(other, "value of type handlers.jsonPatchOp"),
            other => return wrong(other, "value of type jsonpatch.Operation"),
        };
        for name in ["op", "path", "from"] {
            match fields.get(name) {
                None | Some(Value::String(_) | Value::Null) => {}
                Some(other) if checked => {
                    return wrong(other, &format!("struct field jsonPatchOp.{name} of type string"));
                }
                Some(_) => {}
            }
        }
    }
    Ok(operations)
}

/// One operation; `None` if it does not apply.
fn perform(document: &mut Value, operation: &Value, copied: &mut usize) -> Option<()> {
    let text = |name: &str| operation.get(name)?.as_str();
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    let path = text("path");
    match text("op")? {
        "add" => add(document, path?, value()),
        "remove" => remove(document, path?).map(drop),
        "replace" if path?.is_empty() => {
            let value = value();
            (value.is_object() || value.is_array()).then(|| *document = value)
        }
        "replace" => replace(document, path?, value()),
        "move" => {
            let moved = remove(document, text("from")?)?;
            add(document, path?, moved)
        }
        "copy" => {
            let (parent, key) = find(document, text("from")?)?;
            let source = get(parent, &key)?.cloned().unwrap_or(Value::Null);
            *copied += source.to_string().len();
            if *copied > COPIED_BYTES_MAX {
                return None;
            }
            add(document, path?, source)
        }
        "test" => {
            let expected = value();
            if path?.is_empty() {
                return (*document == expected).then_some(());
            }
            let (parent, key) = find(document, path?)?;
            let found = get(parent, &key)?;
            let equal = match found {
                // An absent field is null, but only a null that is spelled out matches it.
                None | Some(Value::Null) => operation.get("value").is_some_and(Value::is_null),
                Some(found) => super::typed::item::same(found, &expected),
            };
            equal.then_some(())
        }
        _ => None,
    }
}

/// The container a path ends in and the last key.
fn find<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut parts = path.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
    let mut key = parts.next()?;
    let mut place = document;
    for next in parts {
        place = match place {
            Value::Object(fields) => fields.get_mut(&key)?,
            Value::Array(items) => {
                let at = position(&key, items.len())?;
                items.get_mut(at)?
            }
            _ => return None,
        };
        key = next;
    }
    matches!(place, Value::Object(_) | Value::Array(_)).then_some((place, key))
}

fn position(key: &str, len: usize) -> Option<usize> {
    let at: i64 = key.parse().ok()?;
    if at >= 0 { usize::try_from(at).ok() } else { len.checked_sub(usize::try_from(at.unsigned_abs()).ok()?) }
}

/// The outer `None` is an index out of bounds, the inner one an absent field.
#[expect(clippy::option_option, reason = "an absent field and a bad index are told apart by every caller")]
fn get<'a>(parent: &'a Value, key: &str) -> Option<Option<&'a Value>> {
    match parent {
        Value::Object(fields) => Some(fields.get(key)),
        Value::Array(items) => items.get(position(key, items.len())?).map(Some),
        _ => None,
    }
}

/// Whether a value would nest too deep at a path; recursion over the result must end.
fn too_deep(path: &str, value: &Value) -> bool {
    fn depth(value: &Value) -> usize {
        match value {
            Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
            Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
            _ => 0,
        }
    }
    path.split('/').count() + depth(value) > DEPTH_MAX
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    if too_deep(path, &value) {
        return None;
    }
    match find(document, path)? {
        (Value::Object(fields), key) => {
            fields.insert(key, value);
        }
        (Value::Array(items), key) if key == "-" => items.push(value),
        (Value::Array(items), key) => {
            let at = position(&key, items.len() + 1).filter(|at| *at <= items.len())?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    match find(document, path)? {
        (Value::Object(fields), key) => fields.remove(&key),
        (Value::Array(items), key) => {
            let at = position(&key, items.len()).filter(|at| *at < items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Option<()> {
    if too_deep(path, &value) {
        return None;
    }
    let (parent, key) = find(document, path)?;
    match parent {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) => {
            let at = position(&key, items.len())?;
            *items.get_mut(at)? = value;
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests;
