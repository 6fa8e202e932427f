//! Parameters of a request.

use std::borrow::Cow;

/// The parameters behind the question mark, in order, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads what follows the question mark. `None`: an escape is broken.
    pub fn parse(text: &str) -> Option<Self> {
        let mut pairs = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            // Go refuses semicolons, which others took for separators.
            if part.contains(';') {
                return None;
            }
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            pairs.push((form_decoded(name)?, form_decoded(value)?));
        }
        Some(Self { pairs })
    }

    /// Whether the parameter is there, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(known, _)| known == name)
    }

    /// The first value of a parameter; empty if it is absent.
    pub fn get(&self, name: &str) -> &str {
        self.pairs.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The first value of a parameter, if it has one that is not empty.
    pub fn given(&self, name: &str) -> Option<&str> {
        Some(self.get(name)).filter(|value| !value.is_empty())
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The same without parameters of these names.
    #[must_use]
    pub fn without(&self, names: &[&str]) -> Self {
        let pairs = self.pairs.iter().filter(|(name, _)| !names.contains(&name.as_str()));
        Self { pairs: pairs.cloned().collect() }
    }

    /// Whether nothing is given.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The parameters in order of their names, encoded as Go does.
    pub fn encoded(&self) -> String {
        let mut pairs: Vec<&(String, String)> = self.pairs.iter().collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        let pair = |(name, value): &(String, String)| format!("{}={}", form_encoded(name), form_encoded(value));
        pairs.into_iter().map(pair).collect::<Vec<_>>().join("&")
    }
}

fn form_decoded(text: &str) -> Option<String> {
    let spaced = if text.contains('+') { Cow::from(text.replace('+', " ")) } else { Cow::from(text) };
    percent_decoded(&spaced)
}

/// Text with its percent escapes resolved; what is not UTF-8 is replaced. `None`: an escape is broken.
pub fn percent_decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    Some(String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn form_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => out.extend(['%', upper_digit(byte >> 4), upper_digit(byte & 15)]),
        }
    }
    out
}

fn upper_digit(half: u8) -> char {
    char::from_digit(half.into(), 16).unwrap_or('0').to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn parameters_are_read_as_go_reads_them() {
        let query = Query::parse("passing&tag=a%20b&tag=c+d&index=&&x=1=2").unwrap();
        assert!(query.has("passing") && query.has("index") && !query.has("wait"));
        assert_eq!(query.all("tag").collect::<Vec<_>>(), ["a b", "c d"]);
        assert_eq!((query.get("x"), query.get("passing"), query.given("index")), ("1=2", "", None));
        assert_eq!(query.encoded(), "index=&passing=&tag=a+b&tag=c+d&x=1%3D2");
        for broken in ["a=%", "a=%zz", "%2=1", "a=1;b=2"] {
            assert_eq!(Query::parse(broken), None, "{broken}");
        }
        assert_eq!(query.without(&["tag", "index", "x"]).encoded(), "passing=");
        assert!(Query::parse("").unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_what_is_written_reads_the_same(text in ".{0,40}", pairs in vec((".{1,8}", ".{0,8}"), 0..4)) {
            let _ = (Query::parse(&text), percent_decoded(&text));
            let mut pairs = pairs;
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            let query = Query { pairs };
            prop_assert_eq!(Query::parse(&query.encoded()), Some(query));
        }
    }

    #[test]
    fn paths_are_decoded() {
        for (text, expected) in
            [("a/b", Some("a/b")), ("a%2Fb%20c", Some("a/b c")), ("%ff", Some("\u{fffd}")), ("%g1", None)]
        {
            assert_eq!(percent_decoded(text).as_deref(), expected, "{text}");
        }
    }
}
