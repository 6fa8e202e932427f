//! String functions.

use super::calls::error;
use super::eval::{Outcome, Stop};
use super::formatting::format;
use super::value::Val;
use crate::names;
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
        ("strings.quote", []) => Ok(Val::text(quote(text))),
        ("format", [list]) => format(text, list),
        ("format.named", []) => Ok(match FORMATS.iter().find(|format| **format == text) {
            Some(format) => Val::some(Val::Format(format)),
            None => Val::Optional(None),
        }),
        _ => return None,
    })
}

fn regex(pattern: &str) -> Result<regex::Regex, Stop> {
    rules::compile(pattern).map_err(error)
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
    if part.is_empty() {
        return Ok(Val::Int(from));
    }
    if from < 0 {
        return Err(out_of_range(from));
    }
    let Ok(start) = offset(text, from) else { return Ok(Val::Int(-1)) };
    Ok(Val::Int(text[start..].find(part).map_or(-1, |at| chars_before(text, start + at))))
}

fn last_index_of<'a>(text: &str, part: &str, until: Option<i64>) -> Outcome<'a> {
    let Some(until) = until else { return Ok(Val::Int(text.rfind(part).map_or(-1, |at| chars_before(text, at)))) };
    if part.is_empty() {
        return Ok(Val::Int(until));
    }
    if until < 0 {
        return Err(out_of_range(until));
    }
    let Ok(last) = offset(text, until) else { return Ok(Val::Int(-1)) };
    if last == text.len() {
        return Ok(Val::Int(-1));
    }
    let found = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= last);
    let found = found.filter(|at| text[*at..].starts_with(part)).last();
    Ok(Val::Int(found.map_or(-1, |at| chars_before(text, at))))
}

/// In quotes, with what cannot stand in them escaped.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// Results may not grow beyond this: replacing can multiply a string by its own length.
pub(super) const RESULT_MAX: usize = 1 << 20;

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
