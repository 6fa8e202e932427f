//! Operators and functions on values.

use std::cmp::Ordering;
use std::rc::Rc;

use cel::common::ast::operators;
use jiff::Timestamp;

use super::eval::{Machine, Outcome, Stop};
use super::macros::MAP_INSERT;
use super::value::{Val, concat};
use super::{lists, network, semver, strings, times};
use crate::quantity::{self, Quantity};
use crate::schema::formats;

/// The arguments fit no way to call the function.
pub(super) fn no_overload() -> Stop {
    Stop::Error("no such overload".to_owned())
}

pub(super) fn error(message: impl Into<String>) -> Stop {
    Stop::Error(message.into())
}

/// Calls a function or operator. What was checked by type can only fail by value; what was `dyn` may fail by type.
pub(super) fn call<'a>(machine: &mut Machine<'a>, name: &str, args: &[Val<'a>]) -> Outcome<'a> {
    let cost = match name {
        "@in" | operators::EQUALS | operators::NOT_EQUALS | operators::ADD => args.iter().map(Val::weight).sum(),
        operators::INDEX | operators::OPT_INDEX | "size" | "value" | "hasValue" | "type" | "dyn" => 1,
        _ => args.iter().map(Val::weight).sum::<u64>(),
    };
    machine.spend(cost)?;
    let found = match args {
        [a, b] => binary(name, a, b),
        [a] => unary(name, a),
        _ => None,
    };
    let found = found
        .or_else(|| strings::call(name, args))
        .or_else(|| lists::call(name, args))
        .or_else(|| times::call(name, args))
        .or_else(|| network::call(name, args))
        .or_else(|| quantity(name, args))
        .or_else(|| optional(name, args));
    let found = found.or_else(|| semver::call(name, args)).or_else(|| insert(name, args));
    let value = found.unwrap_or_else(|| Err(no_overload()))?;
    machine.spend(value.weight() / 10)?;
    Ok(value)
}

/// A map with more entries; none may be there already.
fn insert<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    if name != MAP_INSERT {
        return None;
    }
    let Val::Map(map) = args.first()? else { return None };
    let mut map = map.to_vec();
    Some(add_entries(&mut map, &args[1..]).map(|()| Val::Map(Rc::new(map))))
}

/// Adds one entry (a key and a value) or those of another map.
pub(super) fn add_entries<'a>(map: &mut Vec<(Val<'a>, Val<'a>)>, given: &[Val<'a>]) -> Result<(), Stop> {
    let mut add = |key: Val<'a>, value: Val<'a>| {
        if map.iter().any(|(known, _)| known.equals(&key)) {
            return Err(error(format!("insert failed: key {} already exists", shown(&key))));
        }
        map.push((key, value));
        Ok(())
    };
    match given {
        [key, value] => add(key.clone(), value.clone()),
        [entries] => {
            for key in entries.keys().ok_or_else(no_overload)? {
                let value = entries.entry(&key).unwrap_or(Ok(Val::Null))?;
                add(key, value)?;
            }
            Ok(())
        }
        _ => Err(no_overload()),
    }
}

fn unary<'a>(name: &str, value: &Val<'a>) -> Option<Outcome<'a>> {
    Some(match (name, value) {
        (operators::LOGICAL_NOT, Val::Bool(value)) => Ok(Val::Bool(!value)),
        (operators::NEGATE, Val::Int(value)) => value.checked_neg().map(Val::Int).ok_or_else(overflow),
        (operators::NEGATE, Val::Double(value)) => Ok(Val::Double(-value)),
        ("size", value) => value.size().and_then(|size| i64::try_from(size).ok()).map(Val::Int).ok_or_else(no_overload),
        ("type", value) => Ok(Val::Type(value.type_name().to_owned())),
        ("dyn", value) => Ok(value.clone()),
        ("bool" | "int" | "uint" | "double" | "string" | "bytes" | "timestamp" | "duration", value) => {
            convert(name, value)?
        }
        _ => return None,
    })
}

fn binary<'a>(name: &str, a: &Val<'a>, b: &Val<'a>) -> Option<Outcome<'a>> {
    let ordered = |wanted: fn(Ordering) -> bool| match (a, b) {
        (Val::Double(x), _) | (_, Val::Double(x)) if x.is_nan() => Ok(Val::Bool(false)),
        _ => a.compare(b).map(|order| Val::Bool(wanted(order))).ok_or_else(no_overload),
    };
    Some(match name {
        operators::EQUALS => Ok(Val::Bool(a.equals(b))),
        operators::NOT_EQUALS => Ok(Val::Bool(!a.equals(b))),
        operators::LESS => ordered(Ordering::is_lt),
        operators::LESS_EQUALS => ordered(Ordering::is_le),
        operators::GREATER => ordered(Ordering::is_gt),
        operators::GREATER_EQUALS => ordered(Ordering::is_ge),
        operators::IN => contained(a, b),
        operators::INDEX => index(a, b),
        operators::OPT_INDEX => optional_index(a, b),
        operators::ADD => add(a, b)?,
        operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO => arithmetic(name, a, b)?,
        _ => return None,
    })
}

fn contained<'a>(a: &Val<'a>, b: &Val<'a>) -> Outcome<'a> {
    if let Some(items) = b.items() {
        return Ok(Val::Bool(items?.iter().any(|item| item.equals(a))));
    }
    match b.keys() {
        Some(keys) => Ok(Val::Bool(keys.iter().any(|key| key.equals(a)))),
        None => Err(no_overload()),
    }
}

fn shown(value: &Val<'_>) -> String {
    match value {
        Val::Text(text) => text.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Bool(value) => value.to_string(),
        Val::Double(value) => formats::go_float(*value),
        other => other.type_name().to_owned(),
    }
}

fn position(value: &Val<'_>) -> Option<i64> {
    match value {
        Val::Int(at) => Some(*at),
        Val::Uint(at) => i64::try_from(*at).ok(),
        Val::Double(at) if formats::is_whole(*at) => format!("{at:.0}").parse().ok(),
        _ => None,
    }
}

fn index<'a>(a: &Val<'a>, b: &Val<'a>) -> Outcome<'a> {
    match a {
        Val::List(_) | Val::Items(..) => {
            let at = position(b).ok_or_else(no_overload)?;
            item(a, at)?.ok_or_else(|| error(format!("index out of bounds: {at}")))
        }
        Val::Map(_) | Val::Fields(..) => match a.entry(b) {
            Some(value) => Ok(value?),
            None => Err(error(format!("no such key: {}", shown(b)))),
        },
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Optional(Some(inner)) => optional_index(inner, b),
        _ => Err(no_overload()),
    }
}

fn item<'a>(list: &Val<'a>, at: i64) -> Result<Option<Val<'a>>, Stop> {
    let Ok(at) = usize::try_from(at) else { return Ok(None) };
    match list {
        Val::List(items) => Ok(items.get(at).cloned()),
        Val::Items(items, schema) => {
            let one = Val::Items(items.get(at..=at).unwrap_or_default(), *schema);
            let mut found = one.items().unwrap_or_else(|| Ok(Vec::new()))?;
            Ok(found.pop())
        }
        _ => Ok(None),
    }
}

fn optional_index<'a>(a: &Val<'a>, b: &Val<'a>) -> Outcome<'a> {
    match a {
        Val::List(_) | Val::Items(..) => {
            let at = position(b).ok_or_else(no_overload)?;
            Ok(Val::Optional(item(a, at)?.map(Rc::new)))
        }
        Val::Map(_) | Val::Fields(..) => match a.entry(b) {
            Some(value) => Ok(Val::some(value?)),
            None => Ok(Val::Optional(None)),
        },
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Optional(Some(inner)) => optional_index(inner, b),
        _ => Err(no_overload()),
    }
}

fn overflow() -> Stop {
    error("integer overflow")
}

fn add<'a>(a: &Val<'a>, b: &Val<'a>) -> Option<Outcome<'a>> {
    Some(match (a, b) {
        (Val::Text(a), Val::Text(b)) => Ok(Val::text(format!("{a}{b}"))),
        (Val::Bytes(a), Val::Bytes(b)) => Ok(Val::Bytes([a.as_ref(), b.as_ref()].concat().into())),
        (Val::List(_) | Val::Items(..), Val::List(_) | Val::Items(..)) => {
            Ok(concat(a, b)?.map_err(Stop::Error)).flatten()
        }
        _ => return arithmetic(operators::ADD, a, b),
    })
}

fn arithmetic<'a>(name: &str, a: &Val<'a>, b: &Val<'a>) -> Option<Outcome<'a>> {
    Some(match (a, b) {
        (Val::Int(a), Val::Int(b)) => int_math(name, *a, *b).map(Val::Int),
        (Val::Uint(a), Val::Uint(b)) => uint_math(name, *a, *b).map(Val::Uint),
        (Val::Double(a), Val::Double(b)) => Ok(Val::Double(match name {
            operators::ADD => a + b,
            operators::SUBSTRACT => a - b,
            operators::MULTIPLY => a * b,
            operators::DIVIDE => a / b,
            _ => return None,
        })),
        (Val::Duration(a), Val::Duration(b)) => match name {
            operators::ADD => a.checked_add(*b).map(Val::Duration).ok_or_else(overflow),
            operators::SUBSTRACT => a.checked_sub(*b).map(Val::Duration).ok_or_else(overflow),
            _ => return None,
        },
        (Val::Timestamp(time), Val::Duration(by)) if name == operators::ADD => times::shift(*time, *by),
        (Val::Duration(by), Val::Timestamp(time)) if name == operators::ADD => times::shift(*time, *by),
        (Val::Timestamp(time), Val::Duration(by)) if name == operators::SUBSTRACT => {
            by.checked_neg().map_or_else(|| Err(overflow()), |by| times::shift(*time, by))
        }
        (Val::Timestamp(a), Val::Timestamp(b)) if name == operators::SUBSTRACT => {
            let nanos = a.as_nanosecond() - b.as_nanosecond();
            i64::try_from(nanos).map(Val::Duration).map_err(|_| overflow())
        }
        _ => return None,
    })
}

fn int_math(name: &str, a: i64, b: i64) -> Result<i64, Stop> {
    match name {
        operators::ADD => a.checked_add(b),
        operators::SUBSTRACT => a.checked_sub(b),
        operators::MULTIPLY => a.checked_mul(b),
        operators::DIVIDE if b == 0 => return Err(error("division by zero")),
        operators::DIVIDE => a.checked_div(b),
        _ if b == 0 => return Err(error("modulus by zero")),
        _ => a.checked_rem(b),
    }
    .ok_or_else(overflow)
}

fn uint_math(name: &str, a: u64, b: u64) -> Result<u64, Stop> {
    match name {
        operators::ADD => a.checked_add(b),
        operators::SUBSTRACT => a.checked_sub(b),
        operators::MULTIPLY => a.checked_mul(b),
        operators::DIVIDE if b == 0 => return Err(error("division by zero")),
        operators::DIVIDE => a.checked_div(b),
        _ if b == 0 => return Err(error("modulus by zero")),
        _ => a.checked_rem(b),
    }
    .ok_or_else(|| error("unsigned integer overflow"))
}

/// A float that is a whole number within range, cut toward zero.
fn cut(value: f64) -> Result<i128, Stop> {
    if !value.is_finite() || value.abs() >= 1e20 {
        return Ok(i128::MAX);
    }
    format!("{:.0}", value.trunc()).parse().map_err(|_| overflow())
}

/// A float with as few digits as tell it apart, with an exponent below `1e-4` and from `1e+06` on.
fn shortest(value: f64) -> String {
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.parse::<i32>() {
        Ok(power) if value.is_finite() && !(-4..6).contains(&power) => {
            format!("{digits}e{}{:0>2}", if power < 0 { '-' } else { '+' }, power.unsigned_abs())
        }
        _ => formats::go_float(value),
    }
}

#[expect(clippy::cast_precision_loss, reason = "conversion to a float rounds")]
pub(super) fn convert<'a>(name: &str, value: &Val<'a>) -> Option<Outcome<'a>> {
    let int = |value: i128| i64::try_from(value).map(Val::Int).map_err(|_| overflow());
    let uint = |value: i128| u64::try_from(value).map(Val::Uint).map_err(|_| error("unsigned integer overflow"));
    let wrong = |kind: &str| error(format!("type conversion error from 'string' to '{kind}'"));
    Some(match (name, value) {
        ("bool", Val::Text(text)) => match text.as_ref() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => Err(wrong("bool")),
        },
        ("int", Val::Uint(value)) => int((*value).into()),
        ("int", Val::Double(value)) => cut(*value).and_then(int),
        ("int", Val::Text(text)) => text.parse().map(Val::Int).map_err(|_| wrong("int")),
        ("int", Val::Timestamp(time)) => Ok(Val::Int(time.as_second())),
        ("int", Val::Duration(nanos)) => Ok(Val::Int(*nanos)),
        ("uint", Val::Int(value)) => uint((*value).into()),
        ("uint", Val::Double(value)) => cut(*value).and_then(uint),
        ("uint", Val::Text(text)) => text.parse().map(Val::Uint).map_err(|_| wrong("uint")),
        ("double", Val::Int(value)) => Ok(Val::Double(*value as f64)),
        ("double", Val::Uint(value)) => Ok(Val::Double(*value as f64)),
        ("double", Val::Text(text)) => text.parse().map(Val::Double).map_err(|_| wrong("double")),
        ("string", Val::Int(_) | Val::Uint(_) | Val::Bool(_)) => Ok(Val::text(shown(value))),
        ("string", Val::Double(value)) => Ok(Val::text(shortest(*value))),
        ("string", Val::Bytes(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Val::text(text)),
            Err(_) => Err(error("invalid UTF-8 in bytes, cannot convert to string")),
        },
        ("string", Val::Timestamp(time)) => Ok(Val::text(time.to_string())),
        ("string", Val::Duration(nanos)) => Ok(Val::text(format!("{}s", *nanos as f64 / 1e9))),
        ("string", Val::Ip(ip)) => Ok(Val::text(ip.to_string())),
        ("string", Val::Cidr(cidr)) => Ok(Val::text(cidr.to_string())),
        ("bytes", Val::Text(text)) => Ok(Val::Bytes(text.as_bytes().into())),
        ("timestamp", Val::Text(text)) => {
            text.parse::<Timestamp>().map(Val::Timestamp).map_err(|_| wrong("google.protobuf.Timestamp"))
        }
        ("timestamp", Val::Int(seconds)) => {
            Timestamp::from_second(*seconds).map(Val::Timestamp).map_err(|_| overflow())
        }
        ("duration", Val::Text(text)) => {
            formats::go_duration(text).map(Val::Duration).ok_or_else(|| wrong("google.protobuf.Duration"))
        }
        ("duration", Val::Int(nanos)) => Ok(Val::Duration(*nanos)),
        ("bool", Val::Bool(_))
        | ("int", Val::Int(_))
        | ("uint", Val::Uint(_))
        | ("double", Val::Double(_))
        | ("string", Val::Text(_))
        | ("bytes", Val::Bytes(_))
        | ("timestamp", Val::Timestamp(_))
        | ("duration", Val::Duration(_)) => Ok(value.clone()),
        _ => return None,
    })
}

/// Quantities of more than 18 digits are no whole numbers to Kubernetes.
fn small_whole(value: &Quantity) -> Option<i64> {
    value.as_whole().filter(|whole| whole.unsigned_abs() < 1_000_000_000_000_000_000)
}

fn quantity<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    let too_large = || error("quantity overflow");
    Some(match (name, args) {
        ("quantity", [Val::Text(text)]) => {
            text.parse().map(Val::Quantity).map_err(|why: quantity::Error| error(why.to_string()))
        }
        ("isQuantity", [Val::Text(text)]) => Ok(Val::Bool(text.parse::<Quantity>().is_ok())),
        ("sign", [Val::Quantity(value)]) => Ok(Val::Int(value.sign())),
        ("isGreaterThan", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Bool(a > b)),
        ("isLessThan", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Bool(a < b)),
        ("compareTo", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Int(a.cmp(b) as i64)),
        ("asApproximateFloat", [Val::Quantity(value)]) => Ok(Val::Double(value.as_float())),
        ("asInteger", [Val::Quantity(value)]) => {
            small_whole(value).map(Val::Int).ok_or_else(|| error("cannot convert value to integer"))
        }
        ("isInteger", [Val::Quantity(value)]) => Ok(Val::Bool(small_whole(value).is_some())),
        ("add", [Val::Quantity(a), Val::Quantity(b)]) => a.plus(b).map(Val::Quantity).ok_or_else(too_large),
        ("add", [Val::Quantity(a), Val::Int(b)]) => {
            a.plus(&Quantity::whole(*b)).map(Val::Quantity).ok_or_else(too_large)
        }
        ("sub", [Val::Quantity(a), Val::Quantity(b)]) => a.minus(b).map(Val::Quantity).ok_or_else(too_large),
        ("sub", [Val::Quantity(a), Val::Int(b)]) => {
            a.minus(&Quantity::whole(*b)).map(Val::Quantity).ok_or_else(too_large)
        }
        _ => return None,
    })
}

fn optional<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    Some(match (name, args) {
        ("optional.none", []) => Ok(Val::Optional(None)),
        ("optional.of", [value]) => Ok(Val::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) => {
            Ok(if is_zero(value) { Val::Optional(None) } else { Val::some(value.clone()) })
        }
        ("hasValue", [Val::Optional(inner)]) => Ok(Val::Bool(inner.is_some())),
        ("value", [Val::Optional(Some(inner))]) => Ok(Val::clone(inner)),
        ("value", [Val::Optional(None)]) => Err(error("optional.none() dereference")),
        ("or", [Val::Optional(first), Val::Optional(second)]) => {
            Ok(Val::Optional(first.clone().or_else(|| second.clone())))
        }
        ("orValue", [Val::Optional(first), other]) => {
            Ok(first.as_ref().map_or_else(|| other.clone(), |inner| Val::clone(inner)))
        }
        _ => return None,
    })
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null | Val::Bool(false) | Val::Int(0) | Val::Uint(0) | Val::Duration(0) | Val::Optional(None) => true,
        Val::Double(value) => *value == 0.0,
        other => other.size() == Some(0),
    }
}
