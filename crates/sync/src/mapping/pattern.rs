//! Patterns for names: shell globs, or regular expressions between slashes.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// The most memory one pattern may compile to.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// One pattern; one that cannot be understood matches nothing.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    matcher: Matcher,
}

#[derive(Debug, Clone)]
enum Matcher {
    Everything,
    Literal,
    Expression(Regex),
    Nothing,
}

impl Pattern {
    /// A shell glob, or a regular expression if it is between slashes.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        match text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) {
            Some(expression) => {
                let matcher = compile(expression);
                Self { text, matcher }
            }
            None => Self::glob(text),
        }
    }

    /// A shell glob: `*`, `?`, `[a-z]`, `[!a-z]`, `{this,that}`, and `\` for themselves.
    pub fn glob(text: impl Into<String>) -> Self {
        let text = text.into();
        let matcher = if text == "*" {
            Matcher::Everything
        } else if !text.contains(['*', '?', '[', '{', '\\', ']', '}']) {
            Matcher::Literal
        } else {
            glob_expression(&text).map_or(Matcher::Nothing, |expression| compile(&expression))
        };
        Self { text, matcher }
    }

    /// Whether it could be understood.
    pub fn is_valid(&self) -> bool {
        !matches!(self.matcher, Matcher::Nothing)
    }

    /// Whether a name matches.
    pub fn matches(&self, name: &str) -> bool {
        match &self.matcher {
            Matcher::Everything => true,
            Matcher::Literal => self.text == name,
            Matcher::Expression(expression) => expression.is_match(name),
            Matcher::Nothing => false,
        }
    }

    /// Whether a name matches one of several.
    pub fn any(patterns: &[Self], name: &str) -> bool {
        patterns.iter().any(|pattern| pattern.matches(name))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn compile(expression: &str) -> Matcher {
    let compiled = RegexBuilder::new(expression).size_limit(COMPILED_BYTES_MAX).build();
    compiled.map_or(Matcher::Nothing, Matcher::Expression)
}

fn glob_expression(glob: &str) -> Option<String> {
    let mut expression = String::from("(?s)^");
    let mut depth = 0_usize;
    let mut characters = glob.chars();
    while let Some(character) = characters.next() {
        match character {
            '*' => expression.push_str(".*"),
            '?' => expression.push('.'),
            '\\' => escape(characters.next()?, &mut expression),
            '{' => {
                depth += 1;
                expression.push_str("(?:");
            }
            '}' => {
                depth = depth.checked_sub(1)?;
                expression.push(')');
            }
            ',' if depth > 0 => expression.push('|'),
            '[' => class(&mut characters, &mut expression)?,
            ']' => return None,
            _ => escape(character, &mut expression),
        }
    }
    expression.push('$');
    (depth == 0).then_some(expression)
}

fn class(characters: &mut std::str::Chars<'_>, expression: &mut String) -> Option<()> {
    expression.push('[');
    let mut members = 0_usize;
    let mut first = true;
    loop {
        match characters.next()? {
            ']' if members > 0 => break,
            '!' if first => expression.push('^'),
            '-' if members > 0 && !characters.as_str().starts_with(']') => expression.push('-'),
            '\\' => {
                escape(characters.next()?, expression);
                members += 1;
            }
            member => {
                escape(member, expression);
                members += 1;
            }
        }
        first = false;
    }
    expression.push(']');
    Some(())
}

fn escape(character: char, expression: &mut String) {
    if !character.is_alphanumeric() && character.is_ascii() {
        expression.push('\\');
    }
    expression.push(character);
}
