//! The text of an expression: its tokens, the variables it needs, and what is rewritten before it is compiled.

use super::ExpressionError;

/// Expressions are never longer.
const BYTES_MAX: usize = 64 << 10;
/// Brackets, and conditions within conditions, are never nested deeper.
const NESTING_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Number,
    Text,
    Sign,
}

#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    start: usize,
}

impl Token<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// What the compiler gets: Sprig's functions under plain names, and ranges as calls that have a bound.
pub(super) fn rewrite(expression: &str) -> Result<String, ExpressionError> {
    let tokens = tokens(expression)?;
    bounded(&tokens)?;
    let mut edits: Vec<(usize, usize, &str)> = Vec::new();
    maps(&tokens, &mut edits);
    for (index, token) in tokens.iter().enumerate() {
        let called = tokens.get(index + 3).is_some_and(|next| next.text == "(");
        let dotted = tokens.get(index + 1).is_some_and(|next| next.text == ".");
        let member = index > 0 && matches!(tokens[index - 1].text, "." | "?.");
        if token.kind == Kind::Word && token.text == "sprig" && dotted && called && !member {
            edits.push((token.end(), token.end() + 1, "_"));
        }
        if token.kind == Kind::Sign && token.text == ".." {
            let start = left_operand(&tokens, index);
            let end = right_operand(&tokens, index);
            edits.push((start, start, "range__("));
            edits.push((token.start, token.end(), ", "));
            edits.push((end, end, ")"));
        }
    }
    edits.sort_by_key(|(start, end, _)| (*start, *end));
    let (mut out, mut at) = (String::with_capacity(expression.len()), 0);
    for (start, end, text) in edits {
        out.push_str(expression.get(at..start).unwrap_or_default());
        out.push_str(text);
        at = end.max(at);
    }
    out.push_str(expression.get(at..).unwrap_or_default());
    Ok(out)
}

/// Maps become calls: the compiler takes nothing but plain values in them.
fn maps(tokens: &[Token<'_>], edits: &mut Vec<(usize, usize, &str)>) {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let mut open: Vec<bool> = Vec::new();
    for (index, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Sign) {
        let mut key = false;
        match token.text {
            "{" => {
                let keyed = tokens.get(index + 1).is_some_and(|next| matches!(next.kind, Kind::Word | Kind::Text));
                let map = text(index + 1) == "}" || keyed && text(index + 2) == ":";
                open.push(map);
                if map {
                    edits.push((token.start, token.end(), "map__("));
                    key = text(index + 1) != "}";
                }
            }
            "(" | "[" => open.push(false),
            ")" | "]" => drop(open.pop()),
            "}" => edits.extend((open.pop() == Some(true)).then_some((token.start, token.end(), ")"))),
            "," if open.last() == Some(&true) => {
                key = text(index + 1) != "}";
                if !key {
                    edits.push((token.start, token.end(), ""));
                }
            }
            _ => {}
        }
        if key && let (Some(name), Some(colon)) = (tokens.get(index + 1), tokens.get(index + 2)) {
            if name.kind == Kind::Word {
                edits.push((name.start, name.start, "\""));
                edits.push((name.end(), name.end(), "\""));
            }
            if colon.text == ":" {
                edits.push((colon.start, colon.end(), ","));
            }
        }
    }
}

/// The variables that an expression needs, each by its whole name.
pub(super) fn variables(expression: &str) -> Result<Vec<String>, ExpressionError> {
    let tokens = tokens(expression)?;
    let mut names: Vec<String> = Vec::new();
    let mut bound: Vec<&str> = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let token = tokens[index];
        let before = index.checked_sub(1).map(|before| tokens[before].text);
        let after = tokens.get(index + 1).map(|next| next.text);
        if token.kind == Kind::Word && token.text == "let" {
            bound.extend(tokens.get(index + 1).map(|name| name.text));
            index += 2;
            continue;
        }
        let key = after == Some(":") && matches!(before, Some("{" | ","));
        let name = token.kind == Kind::Word && !matches!(before, Some("." | "?.")) && !key;
        if !name
            || is_keyword(token.text)
            || after == Some("(")
            || bound.contains(&token.text)
            || token.text.starts_with(['#', '$'])
        {
            index += 1;
            continue;
        }
        let (path, next, guarded) = path(&tokens, index);
        if !guarded && token.text != "sprig" && !names.contains(&path) {
            names.push(path);
        }
        index = next;
    }
    Ok(names)
}

/// A name with its members, the token after it, and whether it may be absent.
fn path(tokens: &[Token<'_>], start: usize) -> (String, usize, bool) {
    let mut path = tokens[start].text.to_owned();
    let mut index = start + 1;
    let text = |at: usize| tokens.get(at).map(|token| token.text);
    loop {
        let member = match (text(index), tokens.get(index + 1)) {
            (Some("."), Some(word)) if word.kind == Kind::Word && text(index + 2) != Some("(") => Some((word.text, 2)),
            (Some("["), Some(word)) if word.kind == Kind::Text && text(index + 2) == Some("]") => {
                Some((unquoted(word.text), 3))
            }
            _ => None,
        };
        let Some((member, length)) = member else { break };
        path.push('.');
        path.push_str(member);
        index += length;
    }
    let guarded = path.contains('.') && matches!(text(index), Some("??" | "?."));
    (path, index, guarded)
}

fn unquoted(text: &str) -> &str {
    text.get(1..text.len().saturating_sub(1)).unwrap_or_default()
}

fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "true"
            | "false"
            | "nil"
            | "and"
            | "or"
            | "not"
            | "in"
            | "contains"
            | "startsWith"
            | "endsWith"
            | "matches"
            | "if"
            | "else"
            | "let"
    )
}

fn bounded(tokens: &[Token<'_>]) -> Result<(), ExpressionError> {
    let (mut depth, mut conditions, mut signs) = (0usize, 0usize, 0usize);
    for token in tokens {
        match token.text {
            "(" | "[" | "{" if token.kind == Kind::Sign => depth += 1,
            ")" | "]" | "}" if token.kind == Kind::Sign => depth = depth.saturating_sub(1),
            "?" | "??" | "if" | "|" | "**" | "^" => conditions += 1,
            _ => {}
        }
        // chains of one kind nest as deeply as brackets do
        signs = if matches!(token.text, "!" | "-" | "+" | "not") { signs + 1 } else { 0 };
        if depth > NESTING_MAX || conditions > NESTING_MAX || signs > NESTING_MAX {
            return Err(ExpressionError::TooLarge);
        }
    }
    Ok(())
}

/// Where the operand before a range starts.
fn left_operand(tokens: &[Token<'_>], at: usize) -> usize {
    let (mut depth, mut start) = (0usize, tokens[at].start);
    for token in tokens[..at].iter().rev() {
        match token.text {
            ")" | "]" | "}" if token.kind == Kind::Sign => depth += 1,
            "(" | "[" | "{" if token.kind == Kind::Sign && depth > 0 => depth -= 1,
            _ if depth == 0 && ends_operand(token) => break,
            _ => {}
        }
        start = token.start;
    }
    start
}

/// Where the operand after a range ends.
fn right_operand(tokens: &[Token<'_>], at: usize) -> usize {
    let (mut depth, mut end) = (0usize, tokens[at].end());
    for token in &tokens[at + 1..] {
        match token.text {
            "(" | "[" | "{" if token.kind == Kind::Sign => depth += 1,
            ")" | "]" | "}" if token.kind == Kind::Sign && depth > 0 => depth -= 1,
            _ if depth == 0 && ends_operand(token) => break,
            _ => {}
        }
        end = token.end();
    }
    end
}

fn ends_operand(token: &Token<'_>) -> bool {
    match token.kind {
        Kind::Sign => !matches!(token.text, "+" | "-" | "*" | "/" | "%" | "**" | "^" | "." | "?."),
        Kind::Word => is_keyword(token.text) && !matches!(token.text, "true" | "false" | "nil"),
        Kind::Number | Kind::Text => false,
    }
}

fn tokens(expression: &str) -> Result<Vec<Token<'_>>, ExpressionError> {
    if expression.len() > BYTES_MAX {
        return Err(ExpressionError::TooLarge);
    }
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = expression[at..].chars().next() {
        let rest = &expression[at..];
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            let (kind, length) = token(rest, first)?;
            tokens.push(Token { kind, text: &rest[..length], start: at });
            length
        };
        at += length;
    }
    Ok(tokens)
}

fn token(rest: &str, first: char) -> Result<(Kind, usize), ExpressionError> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if matches!(first, '\'' | '"' | '`') {
        return quoted(rest, first).map(|length| (Kind::Text, length));
    }
    if first.is_ascii_digit() {
        let mut length = rest.find(|c| !word(c)).unwrap_or(rest.len());
        // a fraction, but not the start of a range
        if rest[length..].starts_with('.') && rest[length + 1..].starts_with(|c: char| c.is_ascii_digit()) {
            let fraction = &rest[length + 1..];
            length += 1 + fraction.find(|c| !word(c)).unwrap_or(fraction.len());
        }
        return Ok((Kind::Number, length));
    }
    if word(first) || first == '#' || first == '$' {
        let length = rest[1..].find(|c| !word(c)).map_or(rest.len(), |length| length + 1);
        return Ok((Kind::Word, length));
    }
    for sign in ["..", "?.", "??", "**", "&&", "||", "==", "!=", "<=", ">="] {
        if rest.starts_with(sign) {
            return Ok((Kind::Sign, sign.len()));
        }
    }
    Ok((Kind::Sign, first.len_utf8()))
}

fn quoted(rest: &str, quote: char) -> Result<usize, ExpressionError> {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' && quote != '`' {
            escaped = true;
        } else if c == quote {
            return Ok(at + 1);
        }
    }
    Err(ExpressionError::Syntax("a text has no end".to_owned()))
}
