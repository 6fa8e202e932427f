//! Field selectors: `status.phase=Running,metadata.name!=x`.

use std::fmt;

use super::Error;

/// One comparison of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    equal: bool,
}

/// A field selector: all terms must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<Term>);

impl Fields {
    /// Reads the text of a `fieldSelector` parameter.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let mut parts = split(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((field, equal, value)) = cut(part) else {
                return Err(Error(format!("invalid selector: '{text}'; can't understand '{part}'")));
            };
            terms.push(Term { field: field.to_owned(), value: unescape(value)?, equal });
        }
        Ok(Self(terms))
    }

    /// Whether every object is selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of the fields compared.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|term| term.field.as_str())
    }

    /// Whether an object is selected whose fields `read` gives; an absent field is empty.
    pub(crate) fn matches<'a>(&self, read: impl Fn(&str) -> std::borrow::Cow<'a, str>) -> bool {
        self.0.iter().all(|term| (read(&term.field) == term.value.as_str()) == term.equal)
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, term) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let operator = if term.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

/// Cuts at commas that no backslash precedes.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Cuts at the first operator.
fn cut(term: &str) -> Option<(&str, bool, &str)> {
    term.char_indices().find_map(|(at, _)| {
        let rest = &term[at..];
        let field = &term[..at];
        if let Some(value) = rest.strip_prefix("!=") {
            return Some((field, false, value));
        }
        rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')).map(|value| (field, true, value))
    })
}

fn escape(value: &str) -> String {
    value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=")
}

fn unescape(value: &str) -> Result<String, Error> {
    let mut out = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(next @ ('\\' | ',' | '=')) => out.push(next),
                other => {
                    let rest = other.map(String::from).unwrap_or_default();
                    return Err(Error(format!("invalid field selector: invalid escape sequence: \\{rest}")));
                }
            },
            ',' | '=' => {
                let code = u32::from(letter);
                return Err(Error(format!("invalid field selector: unescaped character in value: {code}")));
            }
            _ => out.push(letter),
        }
    }
    Ok(out)
}
