//! Quoting as Go's `%q` does it, because Kubernetes' messages are written with it.

use std::fmt::Write as _;

/// A string in double quotes.
pub(crate) fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for symbol in text.chars() {
        match symbol {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            ' '..='~' => out.push(symbol),
            '\0'..='\u{7f}' => push_escape(&mut out, 'x', 2, symbol),
            // Rust and Go agree on which characters are printable but for a few marks; `escape_debug` also escapes
            // combining marks, which Go prints.
            other if other.escape_debug().len() == 1 => out.push(other),
            other if other <= '\u{ffff}' => push_escape(&mut out, 'u', 4, other),
            other => push_escape(&mut out, 'U', 8, other),
        }
    }
    out.push('"');
    out
}

fn push_escape(out: &mut String, letter: char, width: usize, symbol: char) {
    // Writing into a string cannot fail.
    let _ = write!(out, "\\{letter}{:0width$x}", u32::from(symbol));
}

/// A list: `["a" "b"]`.
pub(crate) fn go_quote_list<S: AsRef<str>>(items: &[S]) -> String {
    let quoted = items.iter().map(|item| go_quote(item.as_ref())).collect::<Vec<_>>();
    format!("[{}]", quoted.join(" "))
}
