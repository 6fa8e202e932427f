//! Label and field selectors: which objects a list, watch or deletecollection is about.

use std::fmt;

pub use field::Fields;
pub use label::{Labels, Operator, Requirement};

mod field;
mod label;
mod parse;

#[cfg(test)]
mod tests;

/// Why a selector could not be read, worded as Kubernetes words it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
