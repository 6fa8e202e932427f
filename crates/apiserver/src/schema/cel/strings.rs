//! String functions.

use super::calls::error;
use super::eval::{Outcome, Stop};
use super::value::Val;
use crate::names;
use crate::schema::formats::go_float;
use crate::schema::rules;

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    match args {
        [Val::Text(text), rest @ ..] => on_text(name, text, rest),
        [list @ (Val::List(_) | Val::Items(..)), rest @ ..] if name == "join" => Some(join(list, rest)),
        [Val::Format(format), Val::Text(text)] if name == "validate" => Some(Ok(validate(format, text))),
        [] => FORMATS.iter().find(|format| name.strip_prefix("format.") == Some(format)).map(|f| Ok(Val::Format(f))),
        _ => None,
    }
}

fn on_text<'a>(name: &str, text: &str, rest: &[Val<'a>]) -> Option<Outcome<'a>> {
    Some(match (name, rest) {
        ("contains", [Val::Text(part)]) => Ok(Val::Bool(text.contains(part.as_ref()))),
        ("startsWith", [Val::Text(part)]) => Ok(Val::Bool(text.starts_with(part.as_ref()))),
        ("endsWith", [Val::Text(part)]) => Ok(Val::Bool(text.ends_with(part.as_ref()))),
        ("matches", [Val::Text(pattern)]) => regex(pattern).map(|regex| Val::Bool(regex.is_match(text))),
        ("find", [Val::Text(pattern)]) => {
            regex(pattern).map(|regex| Val::text(regex.find(text).map_or("", |found| found.as_str())))
        }
        ("findAll", [Val::Text(pattern)]) => find_all(text, pattern, -1),
        ("findAll", [Val::Text(pattern), Val::Int(limit)]) => find_all(text, pattern, *limit),
        ("charAt", [Val::Int(at)]) => char_at(text, *at),
        ("indexOf", [Val::Text(part)]) => index_of(text, part, 0),
        ("indexOf", [Val::Text(part), Val::Int(from)]) => index_of(text, part, *from),
        ("lastIndexOf", [Val::Text(part)]) => last_index_of(text, part, None),
        ("lastIndexOf", [Val::Text(part), Val::Int(until)]) => last_index_of(text, part, Some(*until)),
        ("lowerAscii", []) => Ok(Val::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Val::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Val::text(text.trim())),
        ("replace", [Val::Text(from), Val::Text(to)]) => replace(text, from, to, -1),
        ("replace", [Val::Text(from), Val::Text(to), Val::Int(limit)]) => replace(text, from, to, *limit),
        ("split", [Val::Text(by)]) => Ok(split(text, by, -1)),
        ("split", [Val::Text(by), Val::Int(limit)]) => Ok(split(text, by, *limit)),
        ("substring", [Val::Int(from)]) => substring(text, *from, None),
        ("substring", [Val::Int(from), Val::Int(until)]) => substring(text, *from, Some(*until)),
        ("strings.quote", []) => Ok(Val::text(format!("{text:?}"))),
        ("format", [list]) => format(text, list),
        ("format.named", []) => Ok(match FORMATS.iter().find(|format| **format == text) {
            Some(format) => Val::some(Val::Format(format)),
            None => Val::Optional(None),
        }),
        _ => return None,
    })
}

fn regex(pattern: &str) -> Result<regex::Regex, Stop> {
    rules::compile(pattern).map_err(|why| error(format!("Illegal regex: {why}")))
}

fn find_all<'a>(text: &str, pattern: &str, limit: i64) -> Outcome<'a> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let regex = regex(pattern)?;
    Ok(Val::list(regex.find_iter(text).take(limit).map(|found| Val::text(found.as_str())).collect()))
}

fn out_of_range(at: i64) -> Stop {
    error(format!("index out of range: {at}"))
}

/// The byte offset of a character, or of the end.
fn offset(text: &str, at: i64) -> Result<usize, Stop> {
    let wanted = usize::try_from(at).map_err(|_| out_of_range(at))?;
    let ends = text.char_indices().map(|(byte, _)| byte).chain([text.len()]);
    ends.into_iter().nth(wanted).ok_or_else(|| out_of_range(at))
}

fn chars_before(text: &str, byte: usize) -> i64 {
    i64::try_from(text[..byte].chars().count()).unwrap_or(i64::MAX)
}

fn char_at<'a>(text: &str, at: i64) -> Outcome<'a> {
    let start = offset(text, at)?;
    Ok(Val::text(text[start..].chars().next().map(String::from).unwrap_or_default()))
}

fn index_of<'a>(text: &str, part: &str, from: i64) -> Outcome<'a> {
    let start = offset(text, from)?;
    Ok(Val::Int(text[start..].find(part).map_or(-1, |at| chars_before(text, start + at))))
}

fn last_index_of<'a>(text: &str, part: &str, until: Option<i64>) -> Outcome<'a> {
    let Some(until) = until else { return Ok(Val::Int(text.rfind(part).map_or(-1, |at| chars_before(text, at)))) };
    let last = offset(text, until)?;
    let found = text.char_indices().map(|(at, _)| at).chain([text.len()]).filter(|at| *at <= last);
    let found = found.rev().find(|at| text[*at..].starts_with(part));
    Ok(Val::Int(found.map_or(-1, |at| chars_before(text, at))))
}

/// Results may not grow beyond this: replacing can multiply a string by its own length.
const RESULT_MAX: usize = 1 << 20;

fn replace<'a>(text: &str, from: &str, to: &str, limit: i64) -> Outcome<'a> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let times = text.matches(from).count().min(limit);
    if times.saturating_mul(to.len()).saturating_add(text.len()) > RESULT_MAX {
        return Err(error("result of replace is too large"));
    }
    Ok(Val::text(text.replacen(from, to, limit)))
}

fn split<'a>(text: &str, by: &str, limit: i64) -> Val<'a> {
    let parts: Vec<String> = match (limit, by.is_empty()) {
        (0, _) => Vec::new(),
        (limit, false) if limit > 0 => {
            text.splitn(usize::try_from(limit).unwrap_or(usize::MAX), by).map(str::to_owned).collect()
        }
        (_, false) => text.split(by).map(str::to_owned).collect(),
        (limit, true) => {
            let chars = text.chars().collect::<Vec<_>>();
            let most = usize::try_from(limit).ok().filter(|most| *most < chars.len()).unwrap_or(chars.len());
            let single = if most < chars.len() { most - 1 } else { most };
            let mut parts = chars[..single].iter().map(|c| String::from(*c)).collect::<Vec<_>>();
            if single < chars.len() {
                parts.push(chars[single..].iter().collect());
            }
            parts
        }
    };
    Val::list(parts.into_iter().map(Val::text).collect())
}

fn substring<'a>(text: &str, from: i64, until: Option<i64>) -> Outcome<'a> {
    let start = offset(text, from)?;
    let end = until.map_or(Ok(text.len()), |until| offset(text, until))?;
    if start > end {
        return Err(error(format!("invalid substring range. start: {from}, end: {}", until.unwrap_or_default())));
    }
    Ok(Val::text(&text[start..end]))
}

fn join<'a>(list: &Val<'a>, rest: &[Val<'a>]) -> Outcome<'a> {
    let by = match rest {
        [] => "",
        [Val::Text(by)] => by,
        _ => return Err(super::calls::no_overload()),
    };
    let items = list.items().unwrap_or_else(|| Ok(Vec::new()))?;
    let texts = items.iter().map(|item| match item {
        Val::Text(text) => Ok(text.as_ref()),
        _ => Err(super::calls::no_overload()),
    });
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    let size = texts.iter().map(|text| text.len() + by.len()).sum::<usize>();
    if size > RESULT_MAX {
        return Err(error("result of join is too large"));
    }
    Ok(Val::text(texts.join(by)))
}

/// `"%d of %s".format([1, "x"])`.
fn format<'a>(text: &str, list: &Val<'a>) -> Outcome<'a> {
    let Some(items) = list.items() else { return Err(super::calls::no_overload()) };
    let items = items?;
    let mut args = items.iter();
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut verb = chars.next().ok_or_else(|| error("unexpected end of string"))?;
        if verb == '%' {
            out.push('%');
            continue;
        }
        let mut precision = None;
        if verb == '.' {
            let digits = chars.clone().take_while(char::is_ascii_digit).collect::<String>();
            for _ in digits.chars() {
                chars.next();
            }
            precision = digits.parse::<usize>().ok().filter(|places| *places <= 64);
            verb = chars.next().ok_or_else(|| error("unexpected end of string"))?;
        }
        let value = args.next().ok_or_else(|| error("index out of range: not enough arguments"))?;
        out.push_str(&verb_text(verb, precision, value)?);
        if out.len() > RESULT_MAX {
            return Err(error("result of format is too large"));
        }
    }
    Ok(Val::text(out))
}

fn verb_text(verb: char, precision: Option<usize>, value: &Val<'_>) -> Result<String, Stop> {
    let places = precision.unwrap_or(6);
    Ok(match (verb, value) {
        ('s', value) => plain(value)?,
        ('d', Val::Int(value)) => value.to_string(),
        ('d', Val::Uint(value)) => value.to_string(),
        ('f', Val::Double(value)) => format!("{value:.places$}"),
        ('e', Val::Double(value)) => {
            let text = format!("{value:.places$e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        ('b', Val::Int(value)) => format!("{}{:b}", if *value < 0 { "-" } else { "" }, value.unsigned_abs()),
        ('b', Val::Bool(value)) => u8::from(*value).to_string(),
        ('o', Val::Int(value)) => format!("{}{:o}", if *value < 0 { "-" } else { "" }, value.unsigned_abs()),
        ('x', Val::Int(value)) => format!("{}{:x}", if *value < 0 { "-" } else { "" }, value.unsigned_abs()),
        ('X', Val::Int(value)) => format!("{}{:X}", if *value < 0 { "-" } else { "" }, value.unsigned_abs()),
        ('x', Val::Text(text)) => hex(text),
        ('X', Val::Text(text)) => hex(text).to_uppercase(),
        (verb, _) if "dfebxXo".contains(verb) => return Err(error("could not convert argument to format clause")),
        (verb, _) => return Err(error(format!("unrecognized formatting clause \"{verb}\""))),
    })
}

fn hex(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// Inside of a list or map, strings are quoted.
fn inside(value: &Val<'_>) -> Result<String, Stop> {
    match value {
        Val::Text(text) => Ok(format!("{text:?}")),
        other => plain(other),
    }
}

fn plain(value: &Val<'_>) -> Result<String, Stop> {
    let list = |items: Vec<Val<'_>>| {
        let parts = items.iter().map(inside).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, Stop>(format!("[{}]", parts.join(", ")))
    };
    Ok(match value {
        Val::Text(text) => text.to_string(),
        Val::Null => "null".to_owned(),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => go_float(*value),
        Val::Timestamp(time) => time.to_string(),
        Val::Duration(_) | Val::Bytes(_) | Val::Type(_) => {
            return Err(error(
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
            ));
        }
        Val::List(_) | Val::Items(..) => list(value.items().unwrap_or_else(|| Ok(Vec::new()))?)?,
        Val::Map(_) | Val::Fields(..) => {
            let mut parts = Vec::new();
            for key in value.keys().unwrap_or_default() {
                let entry = value.entry(&key).unwrap_or(Ok(Val::Null))?;
                parts.push(format!("{}: {}", inside(&key)?, inside(&entry)?));
            }
            parts.sort();
            format!("{{{}}}", parts.join(", "))
        }
        other => return Err(error(format!("string clause cannot be used on {}", other.type_name()))),
    })
}

const FORMATS: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

fn validate<'a>(format: &str, text: &str) -> Val<'a> {
    let wrong = match format {
        "dns1123Label" => names::dns_label(text),
        "dns1123Subdomain" => names::dns_subdomain(text),
        "dns1035Label" => names::dns1035_label(text),
        "qualifiedName" => names::qualified_name(text),
        "dns1123LabelPrefix" => names::label_name(text, true),
        "dns1123SubdomainPrefix" => names::subdomain_name(text, true),
        "dns1035LabelPrefix" => names::dns1035_name(text, true),
        "labelValue" => names::label_value(text),
        other if crate::schema::formats::matches(other, text) => Vec::new(),
        other => vec![format!("does not match the {} format", other.to_uppercase())],
    };
    if wrong.is_empty() {
        return Val::Optional(None);
    }
    Val::some(Val::list(wrong.into_iter().map(Val::text).collect()))
}
