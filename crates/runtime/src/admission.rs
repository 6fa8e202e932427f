//! The seam between an API and whoever knows more about a kind than its schema says.

use serde_json::Value;

/// Looks at objects of custom resources before they are stored, after everything else has accepted them.
pub trait Reviewer: Send + Sync {
    /// Refuses an object, with the reason; `old` is what it is to replace. Must be quick: a write waits for it.
    fn review(&self, group: &str, plural: &str, object: &Value, old: Option<&Value>) -> Result<(), String>;

    /// Refuses a write because of who makes it. Must be quick, too.
    fn review_writer(&self, _writer: &Writer<'_>, _write: &Write<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// Who writes, as the API knows them.
pub struct Writer<'a> {
    /// Their name.
    pub name: &'a str,
    /// Whether a verb is theirs for the object, by the roles they have.
    pub may: &'a dyn Fn(&str) -> bool,
}

/// A write of an object of a custom resource.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// Its group.
    pub group: &'a str,
    /// Its resource.
    pub plural: &'a str,
    /// The object as it is to be.
    pub object: &'a Value,
    /// What it replaces.
    pub old: Option<&'a Value>,
}
