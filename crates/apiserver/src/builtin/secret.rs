//! Secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::access::{fill_text, map, map_mut, restore, text};
use super::columns::{AGE, NAME, age, column, name};
use super::config_map::{SIZE_MAX, decoded_len, frozen};
use super::tidy::tidy;
use super::{Column, Strategy};
use crate::field::{FieldError, Path};
use crate::{metadata, names};

const ACCOUNT_ANNOTATION: &str = "kubernetes.io/service-account.name";

pub(super) struct Secret;

impl Strategy for Secret {
    fn default(&self, object: &mut Value) {
        tidy(object);
        merge_string_data(object);
        if let Some(object) = object.as_object_mut() {
            fill_text(object, "type", "Opaque");
        }
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        if text(object, "/type").is_empty() {
            restore(object, old, "type");
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let at = Path::new("data");
        let mut errors = Vec::new();
        let mut size = 0;
        for (key, value) in map(object, "/data").into_iter().flatten() {
            let path = at.key(key);
            errors.extend(names::config_key(key).into_iter().map(|why| FieldError::invalid(&path, key.as_str(), why)));
            size += decoded_len(value.as_str().unwrap_or_default());
        }
        if size > SIZE_MAX {
            errors.push(FieldError::too_long(&at, 1024 * 1024));
        }
        errors.extend(type_errors(object, &at));
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if text(object, "/type") != text(old, "/type") {
            errors.push(FieldError::invalid(&Path::new("type"), text(object, "/type"), "field is immutable"));
        }
        errors.extend(frozen(object, old, &["data"]));
        errors.extend(self.validate(object));
        errors
    }

    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        names::subdomain_name(name, prefix)
    }

    fn columns(&self) -> &'static [Column] {
        const { &[NAME, column("Type", "What the entries are for."), column("Data", "How many entries there are."), AGE] }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let entries = map(object, "/data").map_or(0, Map::len);
        vec![name(object), text(object, "/type").into(), entries.into(), age(object, now)]
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("type", text(object, "/type").to_owned())]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["type"]
    }
}

/// Moves `stringData` into `data`; what it names wins.
fn merge_string_data(object: &mut Value) {
    let Some(Value::Object(plain)) = object.as_object_mut().and_then(|object| object.remove("stringData")) else {
        return;
    };
    if plain.is_empty() {
        return;
    }
    let Some(data) = map_mut(object, "data") else { return };
    for (key, value) in plain {
        data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
    }
}

fn type_errors(object: &Value, at: &Path) -> Vec<FieldError> {
    let data = map(object, "/data");
    let has = |key: &str| data.is_some_and(|data| data.contains_key(key));
    let missing = |keys: &[&str]| {
        keys.iter().filter(|key| !has(key)).map(|key| FieldError::required(&at.key(key), "")).collect::<Vec<_>>()
    };
    match text(object, "/type") {
        "kubernetes.io/service-account-token" => {
            if metadata::annotation(object, ACCOUNT_ANNOTATION).unwrap_or_default().is_empty() {
                return vec![FieldError::required(&Path::new("metadata.annotations").key(ACCOUNT_ANNOTATION), "")];
            }
            Vec::new()
        }
        "kubernetes.io/dockercfg" => docker_errors(data, ".dockercfg", at),
        "kubernetes.io/dockerconfigjson" => docker_errors(data, ".dockerconfigjson", at),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => missing(&["username", "password"]),
        "kubernetes.io/ssh-auth" => {
            let key = data.and_then(|data| data.get("ssh-privatekey")).and_then(Value::as_str).unwrap_or_default();
            if key.is_empty() { vec![FieldError::required(&at.key("ssh-privatekey"), "")] } else { Vec::new() }
        }
        "kubernetes.io/tls" => missing(&["tls.crt", "tls.key"]),
        _ => Vec::new(),
    }
}

fn docker_errors(data: Option<&Map<String, Value>>, key: &str, at: &Path) -> Vec<FieldError> {
    let path = at.key(key);
    let Some(value) = data.and_then(|data| data.get(key)) else { return vec![FieldError::required(&path, "")] };
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
    let why = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return Vec::new(),
        Ok(other) => format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                _ => "number",
            }
        ),
        Err(_) if bytes.trim_ascii().is_empty() => "unexpected end of JSON input".to_owned(),
        Err(error) if error.is_eof() => "unexpected end of JSON input".to_owned(),
        Err(_) => syntax_error(bytes.trim_ascii_start()),
    };
    vec![FieldError::invalid(&path, "<secret contents redacted>", why)]
}

/// What Go says about a text that does not even start as JSON does.
fn syntax_error(bytes: &[u8]) -> String {
    let literal = match bytes.first() {
        Some(b'n') => "null",
        Some(b't') => "true",
        Some(b'f') => "false",
        first => {
            let first = first.map_or(' ', |byte| char::from(*byte));
            return format!("invalid character {first:?} looking for beginning of value");
        }
    };
    match literal.bytes().zip(bytes).find(|(expected, found)| expected != *found) {
        Some((expected, found)) => format!(
            "invalid character {:?} in literal {literal} (expecting {:?})",
            char::from(*found),
            char::from(expected)
        ),
        None => "unexpected end of JSON input".to_owned(),
    }
}
