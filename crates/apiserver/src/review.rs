//! Reviews: questions about access and identity that the server answers and does not store.
//!
//! Each function takes the posted object and gives the answer. Metadata that the request machinery adds (such as
//! `managedFields`) is left to it.

mod access;
mod identity;
mod selector;

pub(crate) use access::{
    local_subject_access_review, self_subject_access_review, self_subject_rules_review, subject_access_review,
};
pub(crate) use identity::user_info;
pub(crate) use identity::{TokenQuestion, Verified, self_subject_review, token_review};

use serde_json::Value;

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A part of an object; absent and null are the same.
fn part<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|part| !part.is_null())
}

#[cfg(test)]
mod tests;
