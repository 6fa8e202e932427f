//! The four kinds of patch, and who owns which field of an object.
//!
//! Everything here is synchronous and works on JSON values and [`crate::schema::Schema`] trees.

pub(crate) mod apply;
pub(crate) mod fields;
pub(crate) mod json;
pub(crate) mod managed;
pub(crate) mod merge;
pub(crate) mod strategic;

mod typed;

use serde_json::Value;

use crate::failure::Failure;
use crate::field::{FieldError, Path};
use crate::go;

/// The answer when what a JSON or merge patch makes of an object is no such object any more.
pub(crate) fn undecodable(patched: &Value, why: &str) -> Failure {
    not_an_object(patched.to_string(), why)
}

/// The same for a strategic merge patch, where Kubernetes shows the patch and not the result.
pub(crate) fn undecodable_strategic(patch: &Value, why: &str) -> Failure {
    not_an_object(go::plain(patch), why)
}

fn not_an_object(shown: String, why: &str) -> Failure {
    let error = FieldError::invalid(&Path::new("patch"), shown, why);
    Failure::invalid("", "", "", &[error])
}

#[cfg(test)]
pub(crate) mod testing;
