//! The kind as a definition.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::kind::AgentWorkload;

/// `AgentWorkload` as a `CustomResourceDefinition`.
pub fn definition() -> Value {
    json!(AgentWorkload::crd())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set it to write it instead of comparing it.
    const WRITE: &str = "THANE_WRITE_DEFINITIONS";

    #[test]
    fn what_is_deployed_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/workload/10-definition.json");
        let current = format!("{:#}\n", definition());
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(path, &current).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap();
        assert!(found == current, "the definition has changed: run the test again with {WRITE}=1");
    }
}
