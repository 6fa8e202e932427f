//! Numbers, quoted text and what they mean.

use super::position::Cursor;

impl Cursor<'_> {
    /// A number as it is written.
    pub(super) fn number(&mut self) -> Option<String> {
        let start = self.at;
        self.word("-", "\"-\"");
        let digits = |cursor: &mut Self| while cursor.class("[0-9]", |next| next.is_ascii_digit()) {};
        if !self.word("0", "\"0\"") {
            if !self.class("[1-9]", |next| matches!(next, '1'..='9')) {
                self.at = start;
                return None;
            }
            digits(self);
        }
        let whole = self.at;
        if self.word(".", "\".\"") {
            if self.class("[0-9]", |next| next.is_ascii_digit()) {
                digits(self);
            } else {
                self.at = whole;
            }
        }
        let end = self.at;
        let followed = self.space() || self.end() || self.word(")", "\")\"");
        self.at = end;
        if followed {
            return Some(self.text[start..end].to_owned());
        }
        self.error(end, "number", "Invalid number literal");
        self.at = start;
        None
    }

    /// Text in quotes, without them.
    pub(super) fn quoted(&mut self) -> Option<String> {
        let start = self.at;
        let quote = if self.word("`", "\"`\"") {
            '`'
        } else if self.word("\"", "\"\\\"\"") {
            '"'
        } else {
            return None;
        };
        let Some(length) = self.rest().find(quote) else {
            let end = self.text.len();
            self.error(end, "string", "Unterminated string literal");
            self.at = start;
            return None;
        };
        let inner = &self.rest()[..length];
        self.at += length + 1;
        let meant = if quote == '`' { Some(inner.replace('\r', "")) } else { unescape(inner) };
        if meant.is_none() {
            self.error(start, "string", "invalid syntax");
        }
        // The text goes on being read: only the first complaint would be lost otherwise.
        Some(meant.unwrap_or_default())
    }

    /// At least one blank.
    pub(super) fn space(&mut self) -> bool {
        let blank = |next| matches!(next, ' ' | '\t' | '\r' | '\n');
        let mut any = false;
        while self.class("[ \\t\\r\\n]", blank) {
            any = true;
        }
        any
    }
}

/// What text between double quotes means in Go.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        if next == '\n' {
            return None;
        }
        if next != '\\' {
            bytes.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escape = rest.next()?;
        let simple = match escape {
            'a' => 0x07,
            'b' => 0x08,
            'f' => 0x0c,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 0x0b,
            '\\' => b'\\',
            'x' => u8::try_from(digits(&mut rest, 2, 16, 0)?).ok()?,
            '0'..='7' => u8::try_from(digits(&mut rest, 2, 8, escape.to_digit(8)?)?).ok()?,
            'u' | 'U' => {
                let length = if escape == 'u' { 4 } else { 8 };
                let point = char::from_u32(digits(&mut rest, length, 16, 0)?)?;
                bytes.extend_from_slice(point.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return None,
        };
        bytes.push(simple);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn digits(rest: &mut std::str::Chars<'_>, count: usize, radix: u32, first: u32) -> Option<u32> {
    (0..count).try_fold(first, |sum, _| {
        let digit = rest.next()?.to_digit(radix)?;
        sum.checked_mul(radix)?.checked_add(digit)
    })
}

/// A whole number as Go's `ParseInt` with base 0 reads it.
pub(super) fn integer(text: &str) -> Result<i64, String> {
    let failed = |why: &str| format!("strconv.ParseInt: parsing {text:?}: {why}");
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_str() {
        "0" => (10, "0"),
        other => match other.get(..2) {
            Some("0x") => (16, &other[2..]),
            Some("0b") => (2, &other[2..]),
            Some("0o") => (8, &other[2..]),
            _ if other.starts_with('0') => (8, &other[1..]),
            _ => (10, other),
        },
    };
    i64::from_str_radix(&format!("{sign}{digits}"), radix).map_err(|error| match error.kind() {
        std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => failed("value out of range"),
        _ => failed("invalid syntax"),
    })
}

/// A yes or no as Go's `ParseBool` reads it.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
    }
}
