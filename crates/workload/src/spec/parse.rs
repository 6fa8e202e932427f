//! Reading objects the way Argo's decoder does.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// An object that is not what its kind says.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct ParseError {
    /// Where.
    pub path: String,
    /// What is wrong.
    pub reason: String,
}

/// Reads an object of this module; null means absent, as in Go.
pub fn from_value<T: DeserializeOwned>(mut value: Value) -> Result<T, ParseError> {
    drop_nulls(&mut value);
    serde_path_to_error::deserialize(value)
        .map_err(|error| ParseError { path: error.path().to_string(), reason: error.into_inner().to_string() })
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            for (name, field) in fields {
                // items are values of the user's, null included
                if name != "withItems" {
                    drop_nulls(field);
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
