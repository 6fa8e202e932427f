//! `Warning` headers of the API server, told to the person once each.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::Response;
use http::header::WARNING;
use owo_colors::OwoColorize;
use parking_lot::Mutex;

use crate::output::tell;

/// A server that makes up warnings without end is listened to this far.
const REMEMBERED_MAX: usize = 1000;

/// Warnings that were told already.
#[derive(Debug, Clone, Default)]
pub(super) struct Warnings {
    told: Arc<Mutex<BTreeSet<String>>>,
}

impl Warnings {
    /// Tells what is new in an answer's headers and passes the answer on.
    pub(super) fn tell<B>(&self, answer: Response<B>) -> Response<B> {
        for header in answer.headers().get_all(WARNING) {
            for text in parse(&String::from_utf8_lossy(header.as_bytes())) {
                let mut told = self.told.lock();
                if told.len() < REMEMBERED_MAX && told.insert(text.clone()) {
                    tell(&format!("{} {text}", "warning:".yellow().bold()));
                }
            }
        }
        answer
    }
}

/// The texts of a header value: `299 AGENT "text"`, several separated by commas. Other codes are not for people.
fn parse(value: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = value.trim();
    while let Some((head, tail)) = rest.split_once('"') {
        let Some((text, after)) = unquote(tail) else { break };
        if head.trim_start().starts_with("299 ") {
            texts.push(text);
        }
        // A date may follow before the next one.
        let Some((_, next)) = after.split_once(',') else { break };
        rest = next.trim_start();
    }
    texts
}

/// A quoted text up to its end, and what follows; control characters are left out, they could move a terminal's cursor.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let (mut text, mut escaped) = (String::new(), false);
    for (at, c) in quoted.char_indices() {
        match c {
            '"' if !escaped => return Some((text, &quoted[at + 1..])),
            '\\' if !escaped => escaped = true,
            c => {
                escaped = false;
                if !c.is_control() {
                    text.push(c);
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_from_headers() {
        let check = |value: &str, expected: &[&str]| assert_eq!(parse(value), expected, "{value}");
        check(r#"299 - "unknown field \"spec.x\"""#, &["unknown field \"spec.x\""]);
        check(r#"299 - "a, b", 299 agent "c" "Sun, 15 Nov 2026 16:00:00 GMT""#, &["a, b", "c"]);
        check(r#"199 - "not for people", 299 - "for people""#, &["for people"]);
        check("299 - \"a\tb\u{1b}[2J\"", &["ab[2J"]);
        for broken in ["", "299", "299 - ", r#"299 - "no end"#, r#"299 - "no end\""#, "\""] {
            check(broken, &[]);
        }
    }
}
