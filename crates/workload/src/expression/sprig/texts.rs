//! Texts.

use expr::{Environment, Value};

use super::super::functions::{MADE_MAX, arg, failed, integer, one, repeat, text};
use super::{Outcome, define, shown};
use crate::expression;

pub(super) fn add(environment: &mut Environment<'static>) {
    trimming(environment);
    shaping(environment);
    cases(environment);
    searching(environment);
    parts(environment);
}

#[expect(clippy::unnecessary_wraps, reason = "what every function yields")]
fn made(text: impl Into<String>) -> Outcome {
    Ok(Value::String(text.into()))
}

fn trimming(environment: &mut Environment<'static>) {
    define(environment, &["trim"], |args| made(text(args, 0)?.trim()));
    define(environment, &["trimAll", "trimall"], |args| {
        let cut: Vec<char> = text(args, 0)?.chars().collect();
        made(text(args, 1)?.trim_matches(cut.as_slice()))
    });
    define(environment, &["trimSuffix"], |args| {
        let whole = text(args, 1)?;
        made(whole.strip_suffix(text(args, 0)?).unwrap_or(whole))
    });
    define(environment, &["trimPrefix"], |args| {
        let whole = text(args, 1)?;
        made(whole.strip_prefix(text(args, 0)?).unwrap_or(whole))
    });
    define(environment, &["nospace"], |args| made(text(args, 0)?.split_whitespace().collect::<String>()));
    define(environment, &["trunc"], |args| {
        let (length, whole) = (integer(args, 0)?, text(args, 1)?);
        let count = whole.chars().count();
        let wanted = usize::try_from(length.unsigned_abs()).unwrap_or(usize::MAX);
        made(if length >= 0 {
            whole.chars().take(wanted).collect::<String>()
        } else {
            whole.chars().skip(count.saturating_sub(wanted)).collect()
        })
    });
    define(environment, &["abbrev"], |args| {
        let (width, whole) = (usize::try_from(integer(args, 0)?).unwrap_or(0), text(args, 1)?);
        if width < 4 || whole.chars().count() <= width {
            return made(whole);
        }
        made(whole.chars().take(width - 3).collect::<String>() + "...")
    });
}

fn shaping(environment: &mut Environment<'static>) {
    define(environment, &["repeat"], |args| repeat(text(args, 1)?, integer(args, 0)?));
    define(environment, &["quote"], |args| {
        made(
            args.iter()
                .filter(|value| !value.is_nil())
                .map(|value| format!("{:?}", shown(value)))
                .collect::<Vec<_>>()
                .join(" "),
        )
    });
    define(environment, &["squote"], |args| {
        made(
            args.iter()
                .filter(|value| !value.is_nil())
                .map(|value| format!("'{}'", shown(value)))
                .collect::<Vec<_>>()
                .join(" "),
        )
    });
    define(environment, &["cat"], |args| {
        made(args.iter().filter(|value| !value.is_nil()).map(shown).collect::<Vec<_>>().join(" "))
    });
    define(environment, &["indent"], |args| indented(integer(args, 0)?, text(args, 1)?, ""));
    define(environment, &["nindent"], |args| indented(integer(args, 0)?, text(args, 1)?, "\n"));
    define(environment, &["replace"], |args| {
        let (old, new, whole) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
        if whole.len().saturating_mul(new.len().max(1)) > MADE_MAX * 64 {
            return Err(failed(&"the text is too large"));
        }
        made(whole.replace(old, new))
    });
    define(environment, &["plural"], |args| {
        let count = integer(args, 2)?;
        made(text(args, usize::from(count != 1))?)
    });
    define(environment, &["printf"], |args| {
        let mut values = args.iter().skip(1);
        let mut out = String::new();
        let mut characters = text(args, 0)?.chars();
        while let Some(c) = characters.next() {
            match (c, if c == '%' { characters.next() } else { None }) {
                ('%', Some('%')) => out.push('%'),
                ('%', Some('q')) => {
                    let quoted = format!("{:?}", values.next().map(shown).unwrap_or_default());
                    out.push_str(&quoted);
                }
                ('%', Some('s' | 'v' | 'd' | 't')) => out.push_str(&values.next().map(shown).unwrap_or_default()),
                ('%', verb) => return Err(failed(&format!("the verb %{} is not known", verb.unwrap_or(' ')))),
                (c, _) => out.push(c),
            }
        }
        made(out)
    });
}

fn indented(width: i64, whole: &str, before: &str) -> Outcome {
    let width = usize::try_from(width).unwrap_or(0);
    if width.saturating_mul(whole.lines().count() + 1) > MADE_MAX {
        return Err(failed(&"the text is too large"));
    }
    let pad = " ".repeat(width);
    made(format!("{before}{pad}{}", whole.replace('\n', &format!("\n{pad}"))))
}

fn cases(environment: &mut Environment<'static>) {
    define(environment, &["upper"], |args| made(text(args, 0)?.to_uppercase()));
    define(environment, &["lower"], |args| made(text(args, 0)?.to_lowercase()));
    define(environment, &["title"], |args| made(initials(text(args, 0)?, |c| c.to_uppercase().collect())));
    define(environment, &["untitle"], |args| made(initials(text(args, 0)?, |c| c.to_lowercase().collect())));
    define(environment, &["snakecase"], |args| made(words(text(args, 0)?).join("_").to_lowercase()));
    define(environment, &["kebabcase"], |args| made(words(text(args, 0)?).join("-").to_lowercase()));
    define(environment, &["camelcase"], |args| {
        made(
            words(text(args, 0)?)
                .iter()
                .map(|word| initials(&word.to_lowercase(), |c| c.to_uppercase().collect()))
                .collect::<String>(),
        )
    });
    define(environment, &["initials"], |args| {
        made(text(args, 0)?.split_whitespace().filter_map(|word| word.chars().next()).collect::<String>())
    });
}

fn initials(whole: &str, change: fn(char) -> String) -> String {
    let mut out = String::with_capacity(whole.len());
    let mut before = ' ';
    for c in whole.chars() {
        if before.is_whitespace() {
            out.push_str(&change(c));
        } else {
            out.push(c);
        }
        before = c;
    }
    out
}

/// The words of a name, also where a capital starts one.
fn words(whole: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in whole.chars() {
        if c.is_alphanumeric() {
            let starts = !before.is_alphanumeric() || (c.is_uppercase() && !before.is_uppercase());
            match words.last_mut() {
                Some(word) if !starts => word.push(c),
                _ => words.push(c.to_string()),
            }
        }
        before = c;
    }
    words
}

fn searching(environment: &mut Environment<'static>) {
    define(environment, &["contains"], |args| Ok(Value::Bool(text(args, 1)?.contains(text(args, 0)?))));
    define(environment, &["hasPrefix"], |args| Ok(Value::Bool(text(args, 1)?.starts_with(text(args, 0)?))));
    define(environment, &["hasSuffix"], |args| Ok(Value::Bool(text(args, 1)?.ends_with(text(args, 0)?))));
    define(environment, &["regexMatch", "mustRegexMatch"], |args| {
        expression::matches(text(args, 1)?, text(args, 0)?).map(Value::Bool).map_err(|error| failed(&error))
    });
    define(environment, &["regexQuoteMeta"], |args| {
        let special = |c: char| r"\.+*?()|[]{}^$".contains(c);
        made(text(args, 0)?.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect::<String>())
    });
}

fn parts(environment: &mut Environment<'static>) {
    define(environment, &["substr"], |args| {
        let (start, end, whole) = (integer(args, 0)?, integer(args, 1)?, text(args, 2)?);
        let at = |place: i64| usize::try_from(place).unwrap_or(0).min(whole.len());
        let (start, end) = (at(start), if end < 0 { whole.len() } else { at(end) });
        made(String::from_utf8_lossy(whole.as_bytes().get(start..end).unwrap_or_default()).into_owned())
    });
    define(environment, &["splitList"], |args| {
        Ok(Value::Array(split(text(args, 0)?, text(args, 1)?).into_iter().map(Value::String).collect()))
    });
    define(environment, &["split"], |args| Ok(numbered(split(text(args, 0)?, text(args, 1)?))));
    define(environment, &["splitn"], |args| {
        let count = usize::try_from(integer(args, 1)?).unwrap_or(usize::MAX);
        Ok(numbered(text(args, 2)?.splitn(count, text(args, 0)?).map(str::to_owned).collect()))
    });
    define(environment, &["join"], |args| {
        let values = match arg(args, 1)? {
            Value::Array(values) => values.iter().map(shown).collect(),
            value => vec![shown(value)],
        };
        made(values.join(text(args, 0)?))
    });
    define(environment, &["toString"], |args| made(shown(one(args)?)));
    define(environment, &["base"], |args| made(text(args, 0)?.rsplit('/').next().unwrap_or_default()));
    define(environment, &["dir"], |args| {
        let whole = text(args, 0)?;
        made(whole.rsplit_once('/').map_or(".", |(dir, _)| if dir.is_empty() { "/" } else { dir }))
    });
    define(environment, &["ext"], |args| {
        let name = text(args, 0)?.rsplit('/').next().unwrap_or_default();
        made(name.rfind('.').map_or("", |at| &name[at..]))
    });
}

fn split(separator: &str, whole: &str) -> Vec<String> {
    if separator.is_empty() {
        return whole.chars().map(|c| c.to_string()).collect();
    }
    whole.split(separator).map(str::to_owned).collect()
}

fn numbered(parts: Vec<String>) -> Value {
    parts.into_iter().enumerate().map(|(index, part)| (format!("_{index}"), Value::String(part))).collect()
}
