//! Scalars that Argo reads loosely.

use std::fmt;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Text that may be written as a number or a truth value.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct AnyString(pub String);

impl AnyString {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text of a value: numbers without an exponent; a list or a map has none, as in Argo.
    pub fn of(value: &Value) -> Self {
        Self(match value {
            Value::Bool(truth) => truth.to_string(),
            Value::Number(number) => plain(number),
            Value::String(text) => text.clone(),
            Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
        })
    }
}

impl From<&str> for AnyString {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for AnyString {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for AnyString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for AnyString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self::of(&value))
    }
}

/// A number without an exponent and without a needless fraction.
pub(crate) fn plain(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => format!("{float}"),
        _ => number.to_string(),
    }
}

/// The number that an integer field holds, if it is one by now.
pub fn integer(value: &IntOrString) -> Option<i64> {
    match value {
        IntOrString::Int(number) => Some(i64::from(*number)),
        IntOrString::String(text) => text.trim().parse().ok(),
    }
}

/// A duration as Argo reads one: Go's form ("2m", "1h30m", "1.5s"), or a bare number of seconds.
pub fn duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let mut rest = text;
    let mut seconds = 0.0f64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        seconds += number
            * match &rest[..letters] {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &rest[letters..];
    }
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn loose_text() {
        for (value, text) in [
            (json!("a"), "a"),
            (json!(1), "1"),
            (json!(1.50), "1.5"),
            (json!(1e21), "1000000000000000000000"),
            (json!(true), "true"),
            (json!([1, "a"]), ""),
            (json!({"b": 1}), ""),
        ] {
            assert_eq!(AnyString::of(&value).as_str(), text);
        }
    }

    #[test]
    fn durations() {
        for (text, millis) in [
            ("20", Some(20_000)),
            ("2m", Some(120_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            ("100ms", Some(100)),
            ("", None),
            ("m", None),
            ("5 m", None),
            ("5x", None),
            ("-5s", None),
        ] {
            assert_eq!(duration(text), millis.map(Duration::from_millis), "{text}");
        }
    }
}
