//! Label and field selectors: which objects a list, watch or deletecollection is about.

use std::fmt;

use crate::field::{FieldError, Path};

pub(crate) use field::Fields;
pub(crate) use label::Labels;

mod field;
mod label;
mod parse;

#[cfg(test)]
mod tests;

/// Why a selector could not be read, worded as Kubernetes words it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// What is wrong with an expression having values, or none, given its operator.
pub(crate) fn values_error(operator: &str, has_values: bool, path: &Path) -> Option<FieldError> {
    match operator {
        "In" | "NotIn" if !has_values => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            Some(FieldError::required(&path.child("values"), why))
        }
        "Exists" | "DoesNotExist" if has_values => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            Some(FieldError::forbidden(&path.child("values"), why))
        }
        _ => None,
    }
}
