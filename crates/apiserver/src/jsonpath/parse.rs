//! Reads paths.

use serde_json::Value;

use super::{Error, Filter, Operator, Slice, Step};

pub(super) fn steps(text: &str, depth: usize) -> Result<Vec<Step>, Error> {
    let depth = depth.checked_sub(1).ok_or(Error::TooMuch)?;
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        rest = match first {
            ' ' | '@' | '$' => &rest[1..],
            '[' if rest.starts_with("[?(") => {
                let (inner, after) = cut_filter(&rest[3..])?;
                out.push(Step::Filter(filter(inner, depth)?));
                after
            }
            '[' => {
                let end = rest.find([']', '\n']).filter(|at| rest[*at..].starts_with(']'));
                let end = end.ok_or_else(|| syntax("unterminated array"))?;
                array(&rest[1..end], depth, &mut out)?;
                &rest[end + 1..]
            }
            '.' if rest.starts_with("..") => {
                if out.last() == Some(&Step::Recursive) {
                    return Err(syntax("invalid multiple recursive descent"));
                }
                out.push(Step::Recursive);
                let after = &rest[2..];
                if after.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
                    field(after, &mut out)
                } else {
                    after
                }
            }
            '.' => field(&rest[1..], &mut out),
            '"' | '\'' => {
                let (text, after) = quoted(rest, first)?;
                out.push(Step::Literal(text.into()));
                after
            }
            '+' | '-' | '0'..='9' => {
                let end = rest[1..].find(|c: char| c != '.' && !c.is_ascii_digit()).map_or(rest.len(), |at| at + 1);
                out.push(Step::Literal(number(&rest[..end])?));
                &rest[end..]
            }
            _ if first == '_' || first.is_alphanumeric() => {
                let end = rest.find(is_terminator).unwrap_or(rest.len());
                match &rest[..end] {
                    word @ ("true" | "false") => out.push(Step::Literal((word == "true").into())),
                    word => return Err(syntax(&format!("unrecognized identifier {word}"))),
                }
                &rest[end..]
            }
            '\r' | '\n' => return Err(syntax("unclosed action")),
            _ => return Err(syntax(&format!("unrecognized character in action: {first:?}"))),
        };
    }
    Ok(out)
}

fn syntax(why: &str) -> Error {
    Error::Syntax(why.to_owned())
}

fn is_terminator(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// Reads a field's name, in which a backslash takes the next letter as it is.
fn field<'a>(text: &'a str, out: &mut Vec<Step>) -> &'a str {
    let mut end = text.len();
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        if !escaped && is_terminator(letter) {
            end = at;
            break;
        }
        escaped = !escaped && letter == '\\';
    }
    let name = &text[..end];
    out.push(if name == "*" { Step::Wildcard } else { Step::Field(name.replace('\\', "")) });
    &text[end..]
}

fn array(text: &str, depth: usize, out: &mut Vec<Step>) -> Result<(), Error> {
    if text.contains(',') {
        let branches = text.split(',').map(|part| {
            let mut steps = Vec::new();
            let depth = depth.checked_sub(1).ok_or(Error::TooMuch)?;
            array(part.trim(), depth, &mut steps)?;
            Ok(steps)
        });
        out.push(Step::Union(branches.collect::<Result<_, _>>()?));
        return Ok(());
    }
    if let Some(key) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        if key.contains('\'') {
            return Err(syntax(&format!("invalid array index {text}")));
        }
        out.extend(steps(&format!(".{key}"), depth)?);
        return Ok(());
    }
    out.push(Step::Slice(slice(if text == "*" { ":" } else { text })?));
    Ok(())
}

fn slice(text: &str) -> Result<Slice, Error> {
    let parts = text.split(':').collect::<Vec<_>>();
    let wrong = || syntax(&format!("invalid array index {text}"));
    let number = |at: usize| match parts.get(at).copied().unwrap_or_default() {
        "" => Ok(None),
        part if part.starts_with('+') => Err(wrong()),
        part => part.parse::<i64>().map(Some).map_err(|_| wrong()),
    };
    if parts.len() > 3 {
        return Err(wrong());
    }
    Ok(Slice { start: number(0)?, end: number(1)?, step: number(2)?, single: parts.len() == 1 })
}

/// Cuts at the `)]` that ends a filter; a `)` within quotes does not.
fn cut_filter(text: &str) -> Result<(&str, &str), Error> {
    let mut quote = None;
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            ('\n', _) => break,
            ('"' | '\'', None) => quote = Some(letter),
            (_, Some(open)) if letter == open && before != '\\' => quote = None,
            (')', None) => {
                let after = text[at + 1..].strip_prefix(']').ok_or_else(|| syntax("unclosed array expect ]"))?;
                return Ok((&text[..at], after));
            }
            _ => {}
        }
        before = letter;
    }
    Err(syntax("unterminated filter"))
}

fn filter(text: &str, depth: usize) -> Result<Filter, Error> {
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let start = text.find(is_operator).filter(|at| *at > 0);
    let Some(start) = start else {
        return Ok(Filter { left: steps(text, depth)?, operator: Operator::Exists, right: Vec::new() });
    };
    let end = text[start..].find(|c: char| !is_operator(c)).map_or(text.len(), |at| start + at);
    let operator = match &text[start..end] {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        other => return Err(syntax(&format!("unrecognized filter operator {other}"))),
    };
    Ok(Filter { left: steps(&text[..start], depth)?, operator, right: steps(&text[end..], depth)? })
}

fn quoted(text: &str, quote: char) -> Result<(String, &str), Error> {
    let mut out = String::new();
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\n' => break,
            '\\' => match letters.next().map(|(_, letter)| letter) {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(letter @ ('\\' | '"' | '\'')) => out.push(letter),
                _ => return Err(syntax("unquote string error invalid syntax")),
            },
            _ if letter == quote => return Ok((out, &text[at + 1..])),
            _ => out.push(letter),
        }
    }
    Err(syntax("unterminated quoted string"))
}

fn number(text: &str) -> Result<Value, Error> {
    if let Ok(whole) = text.parse::<i64>() {
        return Ok(whole.into());
    }
    let fraction = text.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
    fraction.map(Value::Number).ok_or_else(|| syntax(&format!("cannot parse number {text}")))
}
