//! `"%d of %s".format([1, "x"])`: its checks and its text.

use cel::common::ast::{Expr, IdedExpr, LiteralValue};

use super::calls::{self, error};
use super::eval::{Outcome, Stop};
use super::strings::RESULT_MAX;
use super::types::Ty;
use super::value::Val;

/// The digits after the point unless a format says otherwise.
const PLACES: usize = 6;
/// More digits after the point are not given.
const PLACES_MAX: usize = 64;

/// A piece of a format.
enum Piece {
    Char(char),
    /// What is put in, and with how many digits after the point.
    Verb(char, usize),
}

/// Reads a format; `wants` is asked before each verb whether there is something for it.
fn pieces(format: &str, mut wants: impl FnMut() -> Result<(), String>) -> Result<Vec<Piece>, String> {
    let mut out = Vec::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(Piece::Char(c));
            continue;
        }
        match chars.peek() {
            Some('%') => {
                chars.next();
                out.push(Piece::Char('%'));
                continue;
            }
            None => return Err("unexpected end of string".to_owned()),
            Some(_) => wants()?,
        }
        let unreadable = |why: String| format!("could not parse formatting clause: {why}");
        let mut places = PLACES;
        if chars.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            if chars.peek().is_none() {
                let why = "error while parsing precision: could not find end of precision specifier";
                return Err(unreadable(why.to_owned()));
            }
            places = digits.parse::<usize>().map(|places| places.min(PLACES_MAX)).map_err(|_| {
                let why = format!("strconv.Atoi: parsing {digits:?}: invalid syntax");
                unreadable(format!("error while parsing precision: error while converting precision to integer: {why}"))
            })?;
        }
        match chars.next() {
            Some(verb) if "sdfebxXo".contains(verb) => out.push(Piece::Verb(verb, places)),
            Some(other) => return Err(unreadable(format!("unrecognized formatting clause \"{other}\""))),
            None => return Err("unexpected end of string".to_owned()),
        }
    }
    Ok(out)
}

fn misfit(verb: char, given: &str) -> String {
    let may = match verb {
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
        'o' => "octal clause can only be used on integers",
        _ => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and \
             timestamps"
        }
    };
    format!("error during formatting: {may}, was given {given}")
}

/// What can be seen to be wrong with a format and what is put in it: the expression it is about, if not the call, and why.
pub(super) fn check(
    format: &str,
    args: &[IdedExpr],
    type_of: impl Fn(&IdedExpr) -> Ty,
) -> Option<(Option<u64>, String)> {
    let mut asked = 0;
    let pieces = pieces(format, || {
        asked += 1;
        if asked > args.len() { Err(format!("index {} out of range", asked - 1)) } else { Ok(()) }
    });
    let pieces = match pieces {
        Ok(pieces) => pieces,
        Err(why) => return Some((None, why)),
    };
    let mut rest = args.iter();
    for piece in &pieces {
        let Piece::Verb(verb, _) = piece else { continue };
        let arg = rest.next()?;
        if let Some((id, given)) = wrong_type(*verb, arg, &type_of) {
            return Some((Some(id), misfit(*verb, &given)));
        }
    }
    (asked < args.len())
        .then(|| (None, format!("too many arguments supplied to string.format (expected {asked}, got {})", args.len())))
}

fn wrong_type(verb: char, arg: &IdedExpr, type_of: &impl Fn(&IdedExpr) -> Ty) -> Option<(u64, String)> {
    let ty = type_of(arg);
    let fits = match (verb, &ty) {
        (_, Ty::Dyn | Ty::Error)
        | ('d' | 'o' | 'b' | 'x' | 'X', Ty::Int | Ty::Uint)
        | ('b', Ty::Bool)
        | ('x' | 'X', Ty::Text | Ty::Bytes)
        | ('f' | 'e', Ty::Double | Ty::Text) => true,
        ('s', ty) => !matches!(ty, Ty::Object(_) | Ty::Opaque(_) | Ty::Optional(_) | Ty::Param(_)),
        _ => false,
    };
    if !fits {
        let given = match &ty {
            Ty::List(_) => "list".to_owned(),
            Ty::Map(..) => "map".to_owned(),
            Ty::Optional(_) => "optional_type".to_owned(),
            Ty::Null => "null_type".to_owned(),
            other => other.to_string(),
        };
        return Some((arg.id, given));
    }
    match &arg.expr {
        Expr::List(list) if verb == 's' => list.elements.iter().find_map(|item| wrong_type('s', item, type_of)),
        _ => None,
    }
}

/// The text of a literal.
pub(super) fn literal_text(expr: &IdedExpr) -> Option<&str> {
    match &expr.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

pub(super) fn format<'a>(text: &str, list: &Val<'a>) -> Outcome<'a> {
    let Some(items) = list.items() else { return Err(calls::no_overload()) };
    let items = items?;
    let mut asked = 0;
    let pieces = pieces(text, || {
        asked += 1;
        if asked > items.len() { Err(format!("index {} out of range", asked - 1)) } else { Ok(()) }
    });
    let mut args = items.iter();
    let mut out = String::new();
    for piece in pieces.map_err(Stop::Error)? {
        match piece {
            Piece::Char(c) => out.push(c),
            Piece::Verb(verb, places) => out.push_str(&put(verb, places, args.next().unwrap_or(&Val::Null))?),
        }
        if out.len() > RESULT_MAX {
            return Err(error("result of format is too large"));
        }
    }
    Ok(Val::text(out))
}

fn put(verb: char, places: usize, value: &Val<'_>) -> Result<String, Stop> {
    let signed = |value: i64, text: String| if value < 0 { format!("-{text}") } else { text };
    Ok(match (verb, value) {
        ('s', value) => plain(value)?,
        ('d', Val::Int(value)) => value.to_string(),
        ('d', Val::Uint(value)) => value.to_string(),
        ('f', Val::Double(value)) => grouped(*value, places),
        ('e', Val::Double(value)) => format!("{:>places$}", scientific(*value)),
        ('f' | 'e', Val::Text(text)) if matches!(text.as_ref(), "NaN" | "Infinity" | "-Infinity") => {
            text.replace("Infinity", "∞")
        }
        ('b', Val::Int(value)) => signed(*value, format!("{:b}", value.unsigned_abs())),
        ('b', Val::Uint(value)) => format!("{value:b}"),
        ('b', Val::Bool(value)) => u8::from(*value).to_string(),
        ('o', Val::Int(value)) => signed(*value, format!("{:o}", value.unsigned_abs())),
        ('o', Val::Uint(value)) => format!("{value:o}"),
        ('x', Val::Int(value)) => signed(*value, format!("{:x}", value.unsigned_abs())),
        ('x', Val::Uint(value)) => format!("{value:x}"),
        ('x', Val::Text(text)) => hex(text.as_bytes()),
        ('x', Val::Bytes(bytes)) => hex(bytes),
        ('X', value) => put('x', places, value)?.to_uppercase(),
        (verb, other) => return Err(error(misfit(verb, other.type_name()))),
    })
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// Digits in groups of three, as Go prints numbers for English readers.
fn grouped(value: f64, places: usize) -> String {
    if !value.is_finite() {
        return endless(value);
    }
    let text = format!("{:.places$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::from(if value.is_sign_negative() { "-" } else { "" });
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

fn endless(value: f64) -> String {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "∞"
    } else {
        "-∞"
    }
    .to_owned()
}

/// `1.052033×10⁰³`, as Go prints it for English readers; the precision of the clause is a width to it.
fn scientific(value: f64) -> String {
    if !value.is_finite() {
        return endless(value);
    }
    let text = format!("{value:.PLACES$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |rest| ("⁻", rest));
    let exponent = format!("{exponent:0>2}");
    let raised = exponent.bytes().map(|digit| match digit {
        b'1' => '¹',
        b'2' => '²',
        b'3' => '³',
        other => char::from_u32(0x2070 + u32::from(other - b'0')).unwrap_or('⁰'),
    });
    format!("{digits}×10{sign}{}", raised.collect::<String>())
}

fn plain(value: &Val<'_>) -> Result<String, Stop> {
    Ok(match value {
        Val::Null => "null".to_owned(),
        Val::Type(name) => name.clone(),
        Val::List(_) | Val::Items(..) | Val::Map(_) | Val::Fields(..) => inside(value)?,
        other => match calls::convert("string", other) {
            Some(Ok(Val::Text(text))) if !matches!(other, Val::Ip(_) | Val::Cidr(_)) => text.into_owned(),
            Some(Err(stop)) => return Err(stop),
            _ => return Err(error(misfit('s', other.type_name()))),
        },
    })
}

/// As a literal of the language.
fn inside(value: &Val<'_>) -> Result<String, Stop> {
    Ok(match value {
        Val::Text(text) => format!("{text:?}"),
        Val::Bytes(bytes) => format!("b{:?}", String::from_utf8_lossy(bytes)),
        Val::Double(value) if value.is_finite() => format!("{value:.PLACES$}"),
        Val::Double(_) => format!("{:?}", plain(value)?),
        Val::Timestamp(_) => format!("timestamp({:?})", plain(value)?),
        Val::Duration(_) => format!("duration({:?})", plain(value)?),
        Val::List(_) | Val::Items(..) => {
            let items = value.items().unwrap_or_else(|| Ok(Vec::new()))?;
            let parts = items.iter().map(inside).collect::<Result<Vec<_>, _>>()?;
            format!("[{}]", parts.join(", "))
        }
        Val::Map(_) | Val::Fields(..) => {
            let mut parts = Vec::new();
            for key in value.keys().unwrap_or_default() {
                let entry = value.entry(&key).unwrap_or(Ok(Val::Null))?;
                parts.push((inside(&key)?, inside(&entry)?));
            }
            parts.sort();
            let parts = parts.into_iter().map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>();
            format!("{{{}}}", parts.join(", "))
        }
        Val::Null | Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Type(_) => plain(value)?,
        other => return Err(error(format!("no formatting function for {}", other.type_name()))),
    })
}
