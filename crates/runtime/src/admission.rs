//! The seam between an API and whoever knows more about a kind than its schema says.

use serde_json::Value;

/// Looks at objects of custom resources before they are stored, after everything else has accepted them.
pub trait Reviewer: Send + Sync {
    /// Refuses an object, with the reason; `old` is what it is to replace. Must be quick: a write waits for it.
    fn review(&self, group: &str, plural: &str, object: &Value, old: Option<&Value>) -> Result<(), String>;
}
