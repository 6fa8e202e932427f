//! Values seen through a schema: the walks that server-side apply is made of.
//!
//! Behaviour follows structured-merge-diff: what a schema leaves open is deduced from the value, where maps are shared
//! entry by entry and lists are one value.

pub(crate) mod compare;
pub(crate) mod field_set;
pub(crate) mod item;
pub(crate) mod merge;
pub(crate) mod reconcile;
pub(crate) mod remove;
mod shape;
pub(crate) mod validate;

use std::fmt;

pub(crate) use shape::{Form, Shape};

/// What does not fit the schema, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeError {
    pub(crate) path: String,
    pub(crate) message: String,
}

/// Everything that does not fit the schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TypeErrors(pub(crate) Vec<TypeError>);

impl TypeErrors {
    pub(crate) fn push(&mut self, message: impl Into<String>) {
        self.0.push(TypeError { path: String::new(), message: message.into() });
    }

    /// Takes over errors found below `prefix`.
    pub(crate) fn below(&mut self, prefix: &dyn fmt::Display, errors: Self) {
        for mut error in errors.0 {
            error.path = format!("{prefix}{}", error.path);
            self.0.push(error);
        }
    }

    pub(crate) fn extend(&mut self, errors: Self) {
        self.0.extend(errors.0);
    }

    pub(crate) fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.path, self.message) }
    }
}

impl fmt::Display for TypeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return one.fmt(f);
        }
        f.write_str("errors:")?;
        for error in &self.0 {
            write!(f, "\n  {error}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
