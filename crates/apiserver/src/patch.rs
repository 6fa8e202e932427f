//! The four kinds of patch, and who owns which field of an object.
//!
//! Everything here is synchronous and works on JSON values and [`crate::schema::Schema`] trees.

pub mod apply;
pub mod fields;
pub mod json;
pub mod managed;
pub mod merge;
pub mod strategic;

mod typed;

use serde_json::Value;

use crate::failure::Failure;
use crate::field::{FieldError, Path};

/// The answer when what a JSON or merge patch makes of an object is no such object any more.
pub fn undecodable(patched: &Value, why: &str) -> Failure {
    let shown = patched.as_str().map_or_else(|| patched.to_string(), str::to_owned);
    let error = FieldError::invalid(&Path::new("patch"), shown, why);
    let mut failure = Failure::invalid("", "", "", &[error]);
    // Kubernetes names nothing here: the object was never decoded.
    if let Some(details) = &mut failure.details {
        details.kind.clear();
    }
    failure
}

#[cfg(test)]
pub(crate) mod testing;
