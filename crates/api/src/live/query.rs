//! Parameters of a URL, in their order.

/// Parameters as they come in a URL, decoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads what follows the question mark; what is not readable stays as it is.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self(decoded.map(|(name, value)| (decode(name), decode(value))).collect())
    }

    /// The first value of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// All values of that name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Whether a parameter says yes, as Kubernetes reads it.
    pub fn is_set(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    }

    /// Adds a parameter.
    pub fn push(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    /// All parameters.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A path with these parameters.
    pub fn on(&self, path: &str) -> String {
        let pairs: Vec<String> =
            self.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
    }
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = (*byte == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) => {
                decoded.push(value);
                at += 3;
            }
            None => {
                decoded.push(if *byte == b'+' { b' ' } else { *byte });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn encode(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parameters_are_read_as_they_are_meant() {
        let query = Query::parse("a=1&b=x%20y+z&&c&a=2&d=%zz%4&e=%C3%A9&follow=True&tty=1&no=0");
        assert_eq!(query.get("a"), Some("1"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        let expected = [("b", "x y z"), ("c", ""), ("d", "%zz%4"), ("e", "é")];
        for (name, value) in expected {
            assert_eq!(query.get(name), Some(value), "{name}");
        }
        assert!(query.is_set("follow") && query.is_set("tty") && !query.is_set("no") && !query.is_set("absent"));
        assert_eq!(Query::default().on("/api"), "/api");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(pairs in proptest::collection::vec((".{1,8}", ".{0,12}"), 0..6)) {
            let query = Query(pairs);
            let path = query.on("/p");
            let text = path.strip_prefix("/p").unwrap_or_default().trim_start_matches('?');
            prop_assert!(path.is_ascii());
            prop_assert_eq!(Query::parse(text), query);
        }

        #[test]
        fn anything_can_be_read(text in ".{0,64}") {
            Query::parse(&text);
        }
    }
}
