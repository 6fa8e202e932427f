//! Values of the agent's file that can be written in more than one way.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// One address, several separated by commas, or a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OneOrMany(pub Vec<String>);

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::Null => Vec::new(),
            serde_json::Value::String(text) => text.split(',').map(str::to_owned).collect(),
            serde_json::Value::Array(list) => list
                .into_iter()
                .map(|one| one.as_str().map(str::to_owned).ok_or_else(|| D::Error::custom("not an address")))
                .collect::<Result<_, _>>()?,
            other => return Err(D::Error::custom(format!("{other} is not an address"))),
        };
        let trimmed = written.iter().map(|one| one.trim().to_owned()).filter(|one| !one.is_empty());
        Ok(Self(trimmed.collect()))
    }
}

/// Whether messages are compressed: `true`, `false`, `snappy`, `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression(pub bool);

impl Default for Compression {
    fn default() -> Self {
        Self(true)
    }
}

impl<'de> Deserialize<'de> for Compression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::Bool(is_on) => Ok(Self(is_on)),
            serde_json::Value::String(text) if text == "snappy" => Ok(Self(true)),
            serde_json::Value::String(text) if text == "none" || text.is_empty() => Ok(Self(false)),
            other => Err(D::Error::custom(format!("{other} is not true, false, snappy or none"))),
        }
    }
}

/// Bytes as Kubernetes writes them: `128Mi`, `1Gi`, `500M`, a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory(pub u64);

const UNITS: [(&str, u64); 12] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
];

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let read = match &value {
            serde_json::Value::Number(bytes) => bytes.as_u64(),
            serde_json::Value::String(text) => {
                let (digits, factor) = UNITS
                    .iter()
                    .find_map(|(unit, factor)| text.strip_suffix(unit).map(|digits| (digits, *factor)))
                    .unwrap_or((text, 1));
                digits.trim().parse::<u64>().ok().and_then(|count| count.checked_mul(factor))
            }
            _ => None,
        };
        read.map(Self).ok_or_else(|| D::Error::custom(format!("{value} is not a size such as 128Mi")))
    }
}

/// Processor cores as Kubernetes writes them: `100m`, `0.5`, `2`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cores(pub f64);

impl<'de> Deserialize<'de> for Cores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let read = match &value {
            serde_json::Value::Number(cores) => cores.as_f64(),
            serde_json::Value::String(text) => match text.strip_suffix('m') {
                Some(thousandths) => thousandths.parse::<f64>().ok().map(|count| count / 1000.0),
                None => text.parse().ok(),
            },
            _ => None,
        };
        let read = read.filter(|cores| cores.is_finite() && *cores > 0.0);
        read.map(Self).ok_or_else(|| D::Error::custom(format!("{value} is not a number of cores such as 100m")))
    }
}
