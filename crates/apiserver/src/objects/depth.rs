//! How deep objects nest. Whoever reads JSON stops at some depth (128 levels for `serde_json`), so nothing deeper is stored.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// Levels of a request body: what is stored has up to five more, of managed fields.
pub(crate) const BODY_MAX: usize = 100;
/// Levels of a stored object: lists and watches wrap a few around it for their readers.
pub(crate) const STORED_MAX: usize = 120;

/// How deep JSON nests, read without recursion.
pub(crate) fn nesting(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut quoted, mut at) = (0_usize, 0, false, 0);
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => quoted = !quoted,
            b'\\' if quoted => at += 1,
            b'{' | b'[' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    deepest
}

/// Whether a value nests deeper than `levels`. It was parsed, so the recursion ends.
pub(crate) fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Object(fields) => levels == 0 || fields.values().any(|value| is_deeper(value, levels - 1)),
        Value::Array(items) => levels == 0 || items.iter().any(|value| is_deeper(value, levels - 1)),
        _ => false,
    }
}

/// A stored object without the record of its managers, by which alone one from before [`STORED_MAX`] is too deep to be
/// read: that way it can still be looked at and deleted.
pub(super) fn without_managers(json: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice::<Lean<true>>(json).map(|object| object.0)
}

/// An object (the outer one) or its metadata.
struct Lean<const OUTER: bool>(Value);

impl<'de, const OUTER: bool> Deserialize<'de> for Lean<OUTER> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Lean(Value::Null))
    }
}

impl<'de, const OUTER: bool> Visitor<'de> for Lean<OUTER> {
    type Value = Self;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if !OUTER && key == "managedFields" {
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = if OUTER && key == "metadata" {
                entries.next_value::<Lean<false>>()?.0
            } else {
                entries.next_value()?
            };
            fields.insert(key, value);
        }
        Ok(Self(Value::Object(fields)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
    }

    #[test]
    fn brackets_in_strings_are_no_levels() {
        assert_eq!(nesting(br#"{"a{[":"\"{[[","b":[{}]}"#), 3);
        assert_eq!(nesting(b"1"), 0);
        assert_eq!(nesting(nested(10_000).as_bytes()), 10_000);
    }

    #[test]
    fn a_value_is_as_deep_as_its_text() {
        let text = nested(100);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(nesting(text.as_bytes()), 100);
        assert!(!is_deeper(&value, 100));
        assert!(is_deeper(&value, 99));
    }

    #[test]
    fn what_only_its_managers_make_too_deep_is_read_without_them() {
        let (managed, spec) = (nested(125), nested(120));
        let text = format!(r#"{{"metadata":{{"managedFields":[{managed}],"name":"a"}},"spec":{spec}}}"#);
        assert!(serde_json::from_str::<Value>(&text).is_err());
        let object = without_managers(text.as_bytes()).unwrap();
        assert_eq!(object["metadata"], json!({"name": "a"}));
        assert_eq!(object["spec"], serde_json::from_str::<Value>(&spec).unwrap());
    }
}
