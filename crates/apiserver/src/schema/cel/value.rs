//! Values of expressions. What comes from the object is read in place, as its schema says.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::net::IpAddr;
use std::rc::Rc;

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::network::{Cidr, Url};
use super::semver::Semver;
use crate::quantity::Quantity;
use crate::schema::formats;
use crate::schema::node::{Link, ListType, Schema, Type};
use crate::schema::validate::correlate;

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Cow<'a, str>),
    Bytes(Rc<[u8]>),
    List(Rc<Vec<Val<'a>>>),
    Map(Rc<Vec<(Val<'a>, Val<'a>)>>),
    /// A list of the object.
    Items(&'a [Value], Option<&'a Schema>),
    /// A map or object of the object.
    Fields(&'a Map<String, Value>, Option<&'a Schema>),
    Duration(i64),
    Timestamp(Timestamp),
    Type(String),
    Optional(Option<Rc<Val<'a>>>),
    Quantity(Quantity),
    Ip(IpAddr),
    Cidr(Cidr),
    Url(Rc<Url>),
    Semver(Rc<Semver>),
    Format(&'static str),
}

fn here(link: &Link) -> Option<&Schema> {
    match link {
        Link::Here(node) => Some(node),
        Link::Back(_) => None,
    }
}

impl<'a> Val<'a> {
    /// A value of the object.
    pub(super) fn from_json(value: &'a Value, schema: Option<&'a Schema>) -> Result<Self, String> {
        let kind = schema.and_then(|schema| schema.kind);
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), Some(float)) if kind == Some(Type::Number) => {
                    let _ = whole;
                    Self::Double(float)
                }
                (Some(whole), _) => Self::Int(whole),
                (None, Some(float)) if kind == Some(Type::Integer) && formats::is_whole(float) => {
                    Self::Int(whole_of(float))
                }
                (None, Some(float)) => Self::Double(float),
                (None, None) => return Err("invalid data, expected a number".to_owned()),
            },
            Value::String(text) => Self::from_text(text, schema.filter(|_| kind == Some(Type::String)))?,
            Value::Array(items) => Self::Items(items, schema),
            Value::Object(map) => Self::Fields(map, schema),
        })
    }

    fn from_text(text: &'a str, schema: Option<&Schema>) -> Result<Self, String> {
        Ok(match schema.and_then(|schema| schema.format.as_deref()) {
            Some("byte") => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                Self::Bytes(bytes.map_err(|why| format!("failed to decode byte format: {why}"))?.into())
            }
            Some("duration") => {
                let nanos = formats::go_duration(text);
                Self::Duration(nanos.ok_or_else(|| format!("invalid data, expected duration, got {text:?}"))?)
            }
            Some("date") => {
                let date = text.parse::<jiff::civil::Date>().ok().filter(|_| formats::is_date(text));
                let zoned = date.and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok());
                Self::Timestamp(zoned.ok_or_else(|| format!("invalid data, expected date, got {text:?}"))?.timestamp())
            }
            Some("date-time") => {
                let time = text.parse::<Timestamp>();
                Self::Timestamp(time.map_err(|_| format!("invalid data, expected date-time, got {text:?}"))?)
            }
            _ => Self::Text(Cow::Borrowed(text)),
        })
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(Cow::Owned(text.into()))
    }

    pub(super) fn list(items: Vec<Val<'a>>) -> Self {
        Self::List(Rc::new(items))
    }

    pub(super) fn some(value: Val<'a>) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    /// The name of its type, as `type()` has it.
    pub(super) fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) | Self::Items(..) => "list",
            Self::Map(_) | Self::Fields(..) => "map",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Option<Result<Vec<Val<'a>>, String>> {
        match self {
            Self::List(items) => Some(Ok(items.to_vec())),
            Self::Items(items, schema) => {
                let node = item_schema(*schema);
                Some(items.iter().map(|item| Val::from_json(item, node)).collect())
            }
            _ => None,
        }
    }

    /// How many items, entries or characters it has.
    pub(super) fn size(&self) -> Option<usize> {
        Some(match self {
            Self::Text(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(items) => items.len(),
            Self::Items(items, _) => items.len(),
            Self::Map(entries) => entries.len(),
            Self::Fields(map, _) => map.len(),
            _ => return None,
        })
    }

    /// The keys of a map.
    pub(super) fn keys(&self) -> Option<Vec<Val<'a>>> {
        match self {
            Self::Map(entries) => Some(entries.iter().map(|(key, _)| key.clone()).collect()),
            Self::Fields(map, _) => Some(map.keys().map(|key| Val::Text(Cow::Borrowed(key.as_str()))).collect()),
            _ => None,
        }
    }

    /// An entry of a map by its key, not escaped.
    pub(super) fn entry(&self, key: &Val<'a>) -> Option<Result<Val<'a>, String>> {
        match (self, key) {
            (Self::Fields(map, schema), Self::Text(key)) => {
                let value = map.get(key.as_ref())?;
                Some(Val::from_json(value, field_schema(*schema, key)))
            }
            (Self::Map(entries), key) => {
                entries.iter().find(|(known, _)| known.equals(key)).map(|(_, value)| Ok(value.clone()))
            }
            _ => None,
        }
    }

    /// Whether two values are equal; values of unrelated types are not.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => a.equals(b),
                (a, b) => a.is_none() && b.is_none(),
            },
            (Self::Quantity(a), Self::Quantity(b)) => a == b,
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a), Self::Cidr(b)) => a == b,
            (Self::Url(a), Self::Url(b)) => a.text == b.text,
            (Self::Semver(a), Self::Semver(b)) => a.same(b),
            (Self::Format(a), Self::Format(b)) => a == b,
            (Self::List(_) | Self::Items(..), Self::List(_) | Self::Items(..)) => lists_equal(self, other),
            (Self::Map(_) | Self::Fields(..), Self::Map(_) | Self::Fields(..)) => maps_equal(self, other),
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }

    /// How two values order, if they do.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) | (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (Self::Uint(a), Self::Uint(b)) => Some(a.cmp(b)),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b),
            (Self::Int(a), Self::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Uint(a), Self::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Int(a), Self::Double(b)) => with_float(i128::from(*a), *b),
            (Self::Uint(a), Self::Double(b)) => with_float(i128::from(*a), *b),
            (Self::Double(a), Self::Int(b)) => with_float(i128::from(*b), *a).map(Ordering::reverse),
            (Self::Double(a), Self::Uint(b)) => with_float(i128::from(*b), *a).map(Ordering::reverse),
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// An estimate of how much work it is to read all of it.
    pub(super) fn weight(&self) -> u64 {
        fn json(value: &Value) -> u64 {
            match value {
                Value::String(text) => 1 + text.len() as u64 / 10,
                Value::Array(items) => 1 + items.iter().map(json).sum::<u64>(),
                Value::Object(map) => 1 + map.values().map(json).sum::<u64>(),
                _ => 1,
            }
        }
        match self {
            Self::Text(text) => 1 + text.len() as u64 / 10,
            Self::Bytes(bytes) => 1 + bytes.len() as u64 / 10,
            Self::List(items) => 1 + items.iter().map(Val::weight).sum::<u64>(),
            Self::Map(entries) => 1 + entries.iter().map(|(key, value)| key.weight() + value.weight()).sum::<u64>(),
            Self::Items(items, _) => 1 + items.iter().map(json).sum::<u64>(),
            Self::Fields(map, _) => 1 + map.values().map(json).sum::<u64>(),
            Self::Optional(Some(inner)) => 1 + inner.weight(),
            _ => 1,
        }
    }
}

/// Whole floats beyond exact range never get here.
#[expect(clippy::cast_possible_truncation, reason = "only called with whole floats in range")]
fn whole_of(float: f64) -> i64 {
    float.round() as i64
}

#[expect(clippy::cast_precision_loss, reason = "compared as floats, as the language says")]
fn with_float(whole: i128, float: f64) -> Option<Ordering> {
    (whole as f64).partial_cmp(&float)
}

fn item_schema(schema: Option<&Schema>) -> Option<&Schema> {
    schema.and_then(|schema| schema.items.as_ref()).and_then(here)
}

/// The schema of a field of an object or of a map's values.
pub(super) fn field_schema<'a>(schema: Option<&'a Schema>, name: &str) -> Option<&'a Schema> {
    let schema = schema?;
    schema.properties.get(name).or(schema.additional.as_ref()).and_then(here)
}

/// Sets and lists of keyed items are equal in any order, other lists only in theirs.
fn lists_equal(a: &Val<'_>, b: &Val<'_>) -> bool {
    let (Some(Ok(left)), Some(Ok(right))) = (a.items(), b.items()) else { return false };
    if left.len() != right.len() {
        return false;
    }
    let unordered =
        [a, b].iter().any(|list| matches!(list, Val::Items(_, Some(schema)) if schema.list_type != ListType::Atomic));
    if unordered {
        return left.iter().all(|item| right.iter().any(|other| item.equals(other)));
    }
    left.iter().zip(&right).all(|(a, b)| a.equals(b))
}

fn maps_equal(a: &Val<'_>, b: &Val<'_>) -> bool {
    let (Some(keys), Some(others)) = (a.keys(), b.size()) else { return false };
    keys.len() == others
        && keys.iter().all(|key| match (a.entry(key), b.entry(key)) {
            (Some(Ok(left)), Some(Ok(right))) => left.equals(&right),
            _ => false,
        })
}

/// Lists put together: sets without repeats, keyed items by their keys, other lists end to end.
pub(super) fn concat<'a>(a: &Val<'a>, b: &Val<'a>) -> Option<Result<Val<'a>, String>> {
    let (left, right) = (a.items()?, b.items()?);
    Some(left.and_then(|mut left| {
        let right = right?;
        match a {
            Val::Items(_, Some(schema)) if schema.list_type == ListType::Set => {
                for item in right {
                    if !left.iter().any(|known| known.equals(&item)) {
                        left.push(item);
                    }
                }
            }
            Val::Items(items, Some(schema)) if matches!(schema.list_type, ListType::Map(_)) => {
                merge_keyed(&mut left, right, items, schema);
            }
            _ => left.extend(right),
        }
        Ok(Val::list(left))
    }))
}

fn merge_keyed<'a>(left: &mut Vec<Val<'a>>, right: Vec<Val<'a>>, items: &'a [Value], schema: &'a Schema) {
    let (ListType::Map(keys), Some(node)) = (&schema.list_type, item_schema(Some(schema))) else { return };
    for item in right {
        let at = match &item {
            Val::Fields(map, _) => {
                let whole = Value::Object((*map).clone());
                let found = correlate(node, keys, &whole, items);
                found.and_then(|found| items.iter().position(|known| std::ptr::eq(known, found)))
            }
            _ => None,
        };
        match at {
            Some(at) => left[at] = item,
            None => left.push(item),
        }
    }
}
