//! Built-in kinds are decoded into Go structs by Kubernetes: a wrong JSON type is a bad request, worded by Go.

use serde_json::{Number, Value};

use super::builtin;
use super::custom::META_FIELDS;
use super::node::{Link, Schema, Type};
use crate::field::{FieldError, Path};
use crate::go;
use crate::quantity::Quantity;

/// What Go says of metadata that is no `ObjectMeta`.
pub(crate) fn object_meta_error(metadata: &Value) -> Option<String> {
    decode_error(&builtin::object_meta(), metadata)
}

/// What Go's decoder says first of a value that does not fit.
pub(crate) fn decode_error(schema: &Schema, value: &Value) -> Option<String> {
    Walk { owner: String::new(), path: Vec::new() }.value(schema, value)
}

/// What is said of a custom resource whose metadata, or the type or metadata of an object inside it, are of the wrong
/// shape.
pub(crate) fn custom_error(schema: &Schema, value: &Value) -> Option<String> {
    let metadata = value.get("metadata").and_then(object_meta_error);
    metadata.or_else(|| coerce(schema, value, &Path::root(), true).map(|error| error.to_string()))
}

fn coerce(schema: &Schema, value: &Value, path: &Path, root: bool) -> Option<FieldError> {
    match value {
        Value::Object(map) => map.iter().find_map(|(key, child)| {
            if schema.embedded_resource && META_FIELDS.contains(&key.as_str()) {
                let at = path.child(key);
                return match key.as_str() {
                    _ if root => None,
                    "metadata" => object_meta_error(child).map(|why| FieldError::invalid(&at, child.clone(), why)),
                    _ if child.is_string() => None,
                    _ => Some(FieldError::invalid(&at, child.clone(), "must be a string")),
                };
            }
            if let Some(link) = schema.properties.get(key) {
                return coerce(&link.get(), child, &path.child(key), false);
            }
            coerce(&schema.additional.as_ref()?.get(), child, &path.key(key), false)
        }),
        Value::Array(items) => {
            let node = schema.items.as_ref()?.get();
            items.iter().enumerate().find_map(|(at, item)| coerce(&node, item, &path.index(at), false))
        }
        _ => None,
    }
}

struct Walk {
    /// Name of the innermost struct.
    owner: String,
    path: Vec<String>,
}

impl Walk {
    fn value(&mut self, schema: &Schema, value: &Value) -> Option<String> {
        if value.is_null() || (schema.kind.is_none() && !schema.int_or_string) {
            return None;
        }
        match schema.format.as_deref() {
            Some("quantity") => return quantity(value),
            Some("date-time") => return self.time(value, "2006-01-02T15:04:05Z07:00"),
            Some("micro-time") => return self.time(value, "2006-01-02T15:04:05.000000Z07:00"),
            Some("byte") => return self.bytes(value),
            _ => {}
        }
        if schema.int_or_string {
            return match value {
                Value::String(_) => None,
                Value::Number(number) => self.integer(number, "int32"),
                other => Some(self.mismatch(go::json_type(other), "int32")),
            };
        }
        match (schema.kind?, value) {
            (Type::Object, Value::Object(_)) => self.object(schema, value),
            (Type::Array, Value::Array(items)) => {
                let node = schema.items.as_ref().map(Link::get)?;
                items.iter().find_map(|item| self.value(&node, item))
            }
            (Type::String, Value::String(_)) | (Type::Boolean, Value::Bool(_)) | (Type::Number, Value::Number(_)) => {
                None
            }
            (Type::Integer, Value::Number(number)) => self.integer(number, &go_type(schema)),
            (_, other) => Some(self.mismatch(go::json_type(other), &go_type(schema))),
        }
    }

    fn object(&mut self, schema: &Schema, value: &Value) -> Option<String> {
        let map = value.as_object()?;
        let is_struct = schema.additional.is_none();
        let before = self.owner.clone();
        if is_struct && let Some(name) = schema.rules.as_ref().and_then(|rules| rules.go_type.as_deref()) {
            name.rsplit('.').next().unwrap_or_default().clone_into(&mut self.owner);
        }
        for (key, child) in map {
            let Some(node) = schema.field(key) else { continue };
            if is_struct {
                self.path.push(key.clone());
            }
            let found = self.value(&node, child);
            if is_struct {
                self.path.pop();
            }
            if found.is_some() {
                return found;
            }
        }
        self.owner = before;
        None
    }

    fn integer(&self, number: &Number, wanted: &str) -> Option<String> {
        let fits = match number.as_i64() {
            Some(value) if wanted.ends_with("int32") => i32::try_from(value).is_ok(),
            Some(_) => true,
            None => false,
        };
        if fits { None } else { Some(self.mismatch(&format!("number {number}"), wanted)) }
    }

    fn time(&self, value: &Value, layout: &str) -> Option<String> {
        let Value::String(text) = value else { return Some(self.mismatch(go::json_type(value), "string")) };
        time_error(text, layout)
    }

    fn bytes(&self, value: &Value) -> Option<String> {
        let Value::String(text) = value else { return Some(self.mismatch(go::json_type(value), "[]uint8")) };
        base64_error(text.as_bytes()).map(|at| format!("illegal base64 data at input byte {at}"))
    }

    fn mismatch(&self, got: &str, wanted: &str) -> String {
        if self.path.is_empty() {
            return format!("json: cannot unmarshal {got} into Go value of type {wanted}");
        }
        let field = self.path.join(".");
        format!("json: cannot unmarshal {got} into Go struct field {}.{field} of type {wanted}", self.owner)
    }
}

/// The Go type behind a node, as Go prints it.
fn go_type(schema: &Schema) -> String {
    if let Some(name) = schema.rules.as_ref().and_then(|rules| rules.go_type.as_deref()) {
        return name.to_owned();
    }
    if schema.int_or_string {
        let quantity = schema.format.as_deref() == Some("quantity");
        return if quantity { "resource.Quantity" } else { "intstr.IntOrString" }.to_owned();
    }
    match (schema.kind, schema.format.as_deref()) {
        (Some(Type::String), Some("byte")) => "[]uint8".to_owned(),
        (Some(Type::String), Some("date-time")) => "v1.Time".to_owned(),
        (Some(Type::String), Some("micro-time")) => "v1.MicroTime".to_owned(),
        (Some(Type::String), _) => "string".to_owned(),
        (Some(Type::Integer), Some("int32")) => "int32".to_owned(),
        (Some(Type::Integer), _) => "int64".to_owned(),
        (Some(Type::Number), _) => "float64".to_owned(),
        (Some(Type::Boolean), _) => "bool".to_owned(),
        (Some(Type::Array), _) => {
            format!(
                "[]{}",
                schema.items.as_ref().map_or_else(|| "interface {}".to_owned(), |link| go_type(&link.get()))
            )
        }
        (Some(Type::Object), _) => match &schema.additional {
            Some(link) => format!("map[string]{}", go_type(&link.get())),
            None => "map[string]interface {}".to_owned(),
        },
        (None, _) => "interface {}".to_owned(),
    }
}

fn quantity(value: &Value) -> Option<String> {
    Quantity::from_value(value).err().map(|error| error.to_string())
}

/// Go's explanation of a time it cannot read: the part it stopped at and what it wanted there.
fn time_error(text: &str, layout: &str) -> Option<String> {
    let explain = |rest: &str, wanted: &str| {
        Some(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {wanted:?}"))
    };
    let mut rest = text;
    for wanted in ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"] {
        let width = wanted.len();
        let fits = rest.get(..width).is_some_and(|part| match wanted.as_bytes()[0] {
            b'0'..=b'9' => part.bytes().all(|b| b.is_ascii_digit()),
            _ => part == wanted,
        });
        if !fits {
            return explain(rest, wanted);
        }
        rest = &rest[width..];
    }
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
        rest = &fraction[end..];
    } else if layout.contains(".000000") {
        return explain(rest, ".000000");
    }
    let offset = rest.strip_prefix(['+', '-']).is_some_and(|zone| {
        zone.len() >= 5
            && zone.bytes().take(5).enumerate().all(|(at, b)| if at == 2 { b == b':' } else { b.is_ascii_digit() })
    });
    let after = match rest.strip_prefix('Z') {
        Some(after) => after,
        None if offset => rest.get(6..).unwrap_or_default(),
        None => return explain(rest, "Z07:00"),
    };
    if !after.is_empty() {
        return Some(format!("parsing time {text:?}: extra text: {after:?}"));
    }
    let part = |at: usize| text.get(at..at + 2).and_then(|part| part.parse::<i8>().ok()).unwrap_or_default();
    let year = text.get(..4).and_then(|year| year.parse::<i16>().ok()).unwrap_or_default();
    let wrong = [("hour", part(11) > 23), ("minute", part(14) > 59), ("second", part(17) > 59)];
    let month = !(1..=12).contains(&part(5));
    let field = if month {
        Some("month")
    } else if jiff::civil::Date::new(year, part(5), part(8)).is_err() {
        Some("day")
    } else {
        wrong.iter().find(|(_, wrong)| *wrong).map(|(name, _)| *name)
    };
    field.map(|field| format!("parsing time {text:?}: {field} out of range"))
}

/// Where Go's base64 decoder stops, if it does.
fn base64_error(text: &[u8]) -> Option<usize> {
    let is_digit = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    let mut at = 0;
    let mut filled = 0;
    let next = |from: usize| (from..text.len()).find(|at| !matches!(text[*at], b'\n' | b'\r'));
    while let Some(here) = next(at) {
        at = here + 1;
        match text[here] {
            b if is_digit(b) => filled = (filled + 1) % 4,
            b'=' if filled == 2 || filled == 3 => {
                if filled == 2 {
                    match next(at) {
                        None => return Some(text.len()),
                        Some(second) if text[second] == b'=' => at = second + 1,
                        Some(second) => return Some(second),
                    }
                }
                return next(at);
            }
            _ => return Some(here),
        }
    }
    if filled == 0 { None } else { Some(at - filled) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wrong_types_are_worded_as_go_words_them() {
        let check = |kind: &str, value: Value, expected: &str| {
            let schema = builtin::builtin(&format!("io.k8s.api.core.v1.{kind}")).unwrap();
            assert_eq!(decode_error(&schema, &value).unwrap_or_default(), expected, "{value}");
        };
        let field = |what: &str, at: &str, of: &str| {
            format!("json: cannot unmarshal {what} into Go struct field {at} of type {of}")
        };
        let pod = |container: Value| json!({"spec": {"containers": [container]}});
        check("Pod", pod(json!({"image": 5})), &field("number", "Container.spec.containers.image", "string"));
        check(
            "Pod",
            json!({"metadata": {"labels": {"a": 5}}}),
            &field("number", "ObjectMeta.metadata.labels", "string"),
        );
        check(
            "Pod",
            json!({"spec": {"restartPolicy": 5}}),
            &field("number", "PodSpec.spec.restartPolicy", "v1.RestartPolicy"),
        );
        check(
            "Pod",
            json!({"spec": {"containers": {}}}),
            &field("object", "PodSpec.spec.containers", "[]v1.Container"),
        );
        check(
            "Pod",
            pod(json!({"ports": [{"containerPort": 1.5}]})),
            &field("number 1.5", "ContainerPort.spec.containers.ports.containerPort", "int32"),
        );
        check(
            "Pod",
            pod(json!({"resources": {"limits": {"cpu": "abc"}}})),
            &crate::quantity::Error::Format.to_string(),
        );
        check(
            "Pod",
            pod(json!({"resources": {"limits": 5}})),
            &field("number", "ResourceRequirements.spec.containers.resources.limits", "v1.ResourceList"),
        );
        check(
            "Pod",
            json!({"metadata": {"creationTimestamp": "abc"}}),
            r#"parsing time "abc" as "2006-01-02T15:04:05Z07:00": cannot parse "abc" as "2006""#,
        );
        check(
            "Pod",
            json!({"metadata": {"creationTimestamp": 5}}),
            &field("number", "ObjectMeta.metadata.creationTimestamp", "string"),
        );
        check("Pod", json!({"metadata": 5}), &field("number", "Pod.metadata", "v1.ObjectMeta"));
        check(
            "Pod",
            pod(json!({"livenessProbe": {"httpGet": {"port": true}}})),
            &field("bool", "HTTPGetAction.spec.containers.livenessProbe.httpGet.port", "int32"),
        );
        check("Pod", pod(json!(5)), &field("number", "PodSpec.spec.containers", "v1.Container"));
        check("Pod", pod(json!({"command": [5]})), &field("number", "Container.spec.containers.command", "string"));
        check("Secret", json!({"data": {"a": "!"}}), "illegal base64 data at input byte 0");
        check("Secret", json!({"data": {"a": "YQ"}}), "illegal base64 data at input byte 0");
        check("Secret", json!({"data": {"a": 5}}), &field("number", "Secret.data", "[]uint8"));
        check("Secret", json!({"data": 5}), &field("number", "Secret.data", "map[string][]uint8"));
        check("Secret", json!({"data": {"a": "YQ=="}, "immutable": true, "type": null}), "");
    }
}
