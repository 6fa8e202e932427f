//! The kinds as definitions, generated from their types.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::kinds::{Sandbox, WarmPool};

/// What a name must be, to be a label's value too.
pub(crate) const NAME: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// `WarmPool` and `Sandbox`, as `CustomResourceDefinition` objects.
pub fn definitions() -> Vec<Value> {
    let mut definitions = vec![json!(WarmPool::crd()), json!(Sandbox::crd())];
    for definition in &mut definitions {
        let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["x-kubernetes-validations"] = json!([{
            "rule": format!("size(self.metadata.name) <= 63 && self.metadata.name.matches('{NAME}')"),
            "message": "metadata.name must be a DNS label: at most 63 lower case letters, digits and dashes",
        }]);
    }
    let reference = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/poolRef";
    if let Some(reference) = definitions[1].pointer_mut(reference) {
        reference["x-kubernetes-validations"] =
            json!([{"rule": "self == oldSelf", "message": "poolRef cannot be changed"}]);
    }
    definitions
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set it to write them instead of comparing them.
    const WRITE: &str = "THANE_WRITE_DEFINITIONS";

    #[test]
    fn what_is_deployed_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/sandbox/10-definitions.json");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": definitions()});
        let current = format!("{list:#}\n");
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(path, &current).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap();
        assert!(found == current, "the definitions have changed: run the test again with {WRITE}=1");
    }

    #[test]
    fn rules_are_where_they_belong() {
        let definitions = definitions();
        let spec =
            |at: usize| &definitions[at]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert_eq!(spec(0)["properties"]["template"]["x-kubernetes-preserve-unknown-fields"], true);
        assert_eq!(spec(0)["properties"]["replicas"]["minimum"].as_f64(), Some(0.0));
        assert_eq!(spec(1)["required"], json!(["poolRef"]));
        assert_eq!(spec(1)["properties"]["poolRef"]["x-kubernetes-validations"][0]["rule"], "self == oldSelf");
    }
}
