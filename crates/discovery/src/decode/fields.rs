//! What is in an object that was found to be of its shape. Later keys win over earlier ones that differ in case only,
//! as they do in Go; where a field has two spellings, the first that says something is heard.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use bytes::Bytes;

use super::duration;
use super::json::Json;
use super::shape::{BASE64, unwrapped};

/// The fields of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(&'a [(String, Json)]);

impl<'a> Fields<'a> {
    pub(super) fn of(value: &'a Json) -> Self {
        match value {
            Json::Object(fields) => Self(fields),
            _ => Self(&[]),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Json> {
        self.0
            .iter()
            .rev()
            .find(|(name, value)| name.eq_ignore_ascii_case(key) && *value != Json::Null)
            .map(|(_, value)| value)
    }

    pub(super) fn object(&self, key: &str) -> Option<Fields<'a>> {
        self.get(key).map(Fields::of)
    }

    pub(super) fn objects(&self, key: &str) -> impl Iterator<Item = Fields<'a>> + use<'a> {
        let items: &'a [Json] = match self.get(key) {
            Some(Json::List(items)) => items,
            _ => &[],
        };
        items.iter().map(Fields::of)
    }

    pub(super) fn text(&self, keys: &[&str]) -> String {
        let mut texts = keys.iter().filter_map(|key| match self.get(key) {
            Some(Json::Text(text)) => Some(text),
            _ => None,
        });
        texts.find(|text| !text.is_empty()).cloned().unwrap_or_default()
    }

    pub(super) fn flag(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.get(key) == Some(&Json::Bool(true)))
    }

    /// Whether one of the spellings says no; nothing said is no such thing.
    pub(super) fn denied(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.get(key) == Some(&Json::Bool(false)))
    }

    pub(super) fn int(&self, key: &str) -> i64 {
        self.number(key).and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    pub(super) fn uint(&self, key: &str) -> u64 {
        self.number(key).and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    fn number(&self, key: &str) -> Option<&'a str> {
        match self.get(key) {
            Some(Json::Number(number)) => Some(number),
            _ => None,
        }
    }

    pub(super) fn texts(&self, keys: &[&str]) -> Vec<String> {
        let lists = keys.iter().filter_map(|key| match self.get(key) {
            Some(Json::List(items)) if !items.is_empty() => Some(items),
            _ => None,
        });
        lists.take(1).flatten().map(text).collect()
    }

    pub(super) fn text_map(&self, key: &str) -> BTreeMap<String, String> {
        self.entries(key).iter().map(|(name, value)| (name.clone(), text(value))).collect()
    }

    pub(super) fn headers(&self, key: &str) -> BTreeMap<String, Vec<String>> {
        let values = |value: &Json| match value {
            Json::List(items) => items.iter().map(text).collect(),
            _ => Vec::new(),
        };
        self.entries(key).iter().map(|(name, value)| (name.clone(), values(value))).collect()
    }

    pub(super) fn entries(&self, key: &str) -> &'a [(String, Json)] {
        match self.get(key) {
            Some(Json::Object(fields)) => fields,
            _ => &[],
        }
    }

    pub(super) fn bytes(&self, key: &str) -> Bytes {
        match self.get(key) {
            Some(Json::Text(text)) => BASE64.decode(unwrapped(text)).unwrap_or_default().into(),
            _ => Bytes::new(),
        }
    }

    /// Nanoseconds; text that is no duration was refused before.
    pub(super) fn nanos(&self, keys: &[&str]) -> i64 {
        let found = keys.iter().find_map(|key| self.get(key));
        match found {
            Some(Json::Text(text)) => duration::nanos(text).unwrap_or(0),
            Some(Json::Number(number)) => number.parse().map_or(0, duration::from_float),
            _ => 0,
        }
    }

    pub(super) fn duration(&self, keys: &[&str]) -> Duration {
        duration::positive(self.nanos(keys))
    }
}

fn text(value: &Json) -> String {
    match value {
        Json::Text(text) => text.clone(),
        _ => String::new(),
    }
}
