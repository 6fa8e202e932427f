//! What a body may contain, and Go's complaints where it contains something else.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::duration;
use super::json::Json;

/// Base64 as Go reads it: padded, whatever the bits left over are.
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// An object: its fields, and what Go calls it.
#[derive(Debug)]
pub(super) struct Shape {
    /// The type in full.
    pub(super) kind: &'static str,
    /// What a complaint about one of its fields begins with; empty where Consul decodes through a type without name.
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
    /// Fields that are text or numbers, looked into after everything else.
    pub(super) durations: &'static [&'static str],
    /// Whether a field that is not among them is refused.
    pub(super) closed: bool,
}

/// A field: its key, how a complaint spells it, and what it holds.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) key: &'static str,
    pub(super) label: &'static str,
    pub(super) kind: Kind,
}

/// What a field holds; names are Go's types.
#[derive(Debug)]
pub(super) enum Kind {
    Text(&'static str),
    Int,
    Uint,
    Bool,
    Texts {
        list: &'static str,
        item: &'static str,
    },
    TextMap,
    Headers,
    Bytes,
    One(&'static Shape),
    Many {
        list: &'static str,
        shape: &'static Shape,
    },
    MapOf {
        map: &'static str,
        shape: &'static Shape,
    },
    /// Read elsewhere, or not at all.
    Any,
}

/// Whether a body is of a shape.
pub(super) fn check(value: &Json, shape: &Shape) -> Result<(), String> {
    object(value, shape, shape.name, "")
}

/// Whether a body is a list of things of a shape.
pub(super) fn check_list(value: &Json, list: &str, shape: &Shape) -> Result<(), String> {
    match value {
        Json::Null => Ok(()),
        Json::List(items) => items.iter().try_for_each(|item| check(item, shape)),
        other => Err(mismatch(other, "", "", list)),
    }
}

fn object(value: &Json, shape: &Shape, owner: &str, path: &str) -> Result<(), String> {
    let fields = match value {
        Json::Null => return Ok(()),
        Json::Object(fields) => fields,
        other => return Err(mismatch(other, owner, path, shape.kind)),
    };
    for (key, value) in fields {
        let known = shape.fields.iter().find(|field| field.key.eq_ignore_ascii_case(key));
        match known {
            Some(field) => {
                let path = if path.is_empty() { field.label.to_owned() } else { format!("{path}.{}", field.label) };
                field_value(value, &field.kind, shape.name, &path)?;
            }
            None if shape.closed => return Err(format!("json: unknown field {key:?}")),
            None => {}
        }
    }
    for name in shape.durations {
        for (_, value) in fields.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name)) {
            if let Json::Text(text) = value {
                duration::nanos(text)?;
            }
        }
    }
    Ok(())
}

fn field_value(value: &Json, kind: &Kind, owner: &str, path: &str) -> Result<(), String> {
    let wrong = |expected: &str| Err(mismatch(value, owner, path, expected));
    match (kind, value) {
        (_, Json::Null)
        | (Kind::Any, _)
        | (Kind::Text(_) | Kind::Bytes, Json::Text(_))
        | (Kind::Bool, Json::Bool(_)) => {
            if let (Kind::Bytes, Json::Text(text)) = (kind, value) {
                return BASE64.decode(unwrapped(text)).map(|_| ()).map_err(|error| illegal(text, &error));
            }
            Ok(())
        }
        (Kind::Text(expected), _) => wrong(expected),
        (Kind::Bytes, _) => wrong("[]uint8"),
        (Kind::Bool, _) => wrong("bool"),
        (Kind::Int, Json::Number(number)) if number.parse::<i64>().is_ok() => Ok(()),
        (Kind::Uint, Json::Number(number)) if number.parse::<u64>().is_ok() => Ok(()),
        (Kind::Int | Kind::Uint, found) => {
            let expected = if matches!(kind, Kind::Int) { "int" } else { "uint64" };
            match found {
                Json::Number(number) => Err(format!(
                    "json: cannot unmarshal number {number} into Go struct field {owner}.{path} of type {expected}"
                )),
                _ => wrong(expected),
            }
        }
        (Kind::Texts { item, .. }, Json::List(items)) => texts(items, item, owner, path),
        (Kind::Texts { list, .. } | Kind::Many { list, .. }, _) if !matches!(value, Json::List(_)) => wrong(list),
        (Kind::TextMap, Json::Object(fields)) => {
            fields.iter().try_for_each(|(_, value)| field_value(value, &Kind::Text("string"), owner, path))
        }
        (Kind::TextMap, _) => wrong("map[string]string"),
        (Kind::Headers, Json::Object(fields)) => {
            let values = Kind::Texts { list: "[]string", item: "string" };
            fields.iter().try_for_each(|(_, value)| field_value(value, &values, owner, path))
        }
        (Kind::Headers, _) => wrong("map[string][]string"),
        (Kind::One(shape), _) => object(value, shape, owner, path),
        (Kind::Many { shape, .. }, Json::List(items)) => {
            items.iter().try_for_each(|item| object(item, shape, owner, path))
        }
        (Kind::MapOf { shape, .. }, Json::Object(fields)) => {
            fields.iter().try_for_each(|(_, value)| object(value, shape, owner, path))
        }
        (Kind::MapOf { map, .. }, _) => wrong(map),
        (Kind::Texts { list, .. } | Kind::Many { list, .. }, _) => wrong(list),
    }
}

fn texts(items: &[Json], item: &str, owner: &str, path: &str) -> Result<(), String> {
    items.iter().try_for_each(|value| match value {
        Json::Text(_) | Json::Null => Ok(()),
        other => Err(mismatch(other, owner, path, item)),
    })
}

fn mismatch(value: &Json, owner: &str, path: &str, expected: &str) -> String {
    let found = value.kind();
    if path.is_empty() {
        format!("json: cannot unmarshal {found} into Go value of type {expected}")
    } else {
        format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {expected}")
    }
}

/// Base64 without the line breaks Go skips.
pub(super) fn unwrapped(text: &str) -> String {
    text.replace(['\r', '\n'], "")
}

fn illegal(text: &str, error: &base64::DecodeError) -> String {
    use base64::DecodeError::{InvalidByte, InvalidLastSymbol, InvalidLength, InvalidPadding};
    let at = match error {
        InvalidByte(at, _) | InvalidLastSymbol(at, _) => *at,
        InvalidLength(_) | InvalidPadding => unwrapped(text).trim_end_matches('=').len() / 4 * 4,
    };
    format!("illegal base64 data at input byte {at}")
}
