//! Times as Kubernetes writes them: whole seconds, and null for none.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A second, or none yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(Option<i64>);

impl Moment {
    /// The second that `time` is in.
    pub fn of(time: Timestamp) -> Self {
        Self(Some(time.as_second()))
    }

    /// Whether there is none.
    pub fn is_none(self) -> bool {
        self.0.is_none()
    }

    /// As a time.
    pub fn time(self) -> Option<Timestamp> {
        self.0.and_then(|second| Timestamp::from_second(second).ok())
    }

    /// Seconds from `start` to this, zero if either is missing.
    pub fn since(self, start: Self) -> i64 {
        self.0.zip(start.0).map_or(0, |(end, start)| end.saturating_sub(start))
    }

    /// As `2006-01-02T15:04:05Z`, empty for none.
    pub fn text(self) -> String {
        self.time().map(|time| time.to_string()).unwrap_or_default()
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.time() {
            Some(time) => serializer.serialize_str(&time.to_string()),
            None => serializer.serialize_none(),
        }
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: Option<String> = Option::deserialize(deserializer)?;
        match text.as_deref() {
            None | Some("") => Ok(Self(None)),
            Some(text) => {
                let time: Timestamp = text.parse().map_err(serde::de::Error::custom)?;
                Ok(Self::of(time))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_whole_seconds_and_null_for_none() {
        let moment: Moment = serde_json::from_str("\"2026-11-16T05:00:01.9Z\"").expect("a time");
        assert_eq!(serde_json::to_string(&moment).expect("text"), "\"2026-11-16T05:00:01Z\"");
        assert_eq!(serde_json::to_string(&Moment::default()).expect("text"), "null");
        assert_eq!(serde_json::from_str::<Moment>("null").expect("none"), Moment::default());
    }
}
