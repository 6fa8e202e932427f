//! Lanes: what must stay in order, on the way out and on the way in.

use std::fmt;
use std::sync::Arc;

use crate::object::Key;

/// Events of one lane keep their order; lanes are independent of each other.
///
/// For objects it is the key and not the wire's resource id: a recreated object has another uid but the same lane.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(Arc<str>);

impl Lane {
    /// The lane with this name; one that nothing else has for an event that waits for no other.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The lane of an object.
    pub fn of(key: &Key) -> Self {
        Self(format!("{}/{}/{}", key.kind.name(), key.namespace, key.name).into())
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
