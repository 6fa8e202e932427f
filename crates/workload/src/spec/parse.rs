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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::spec::Workflow;

    #[test]
    fn what_is_not_known_is_kept_and_null_means_absent() {
        let written = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
            "metadata": {"name": "a", "creationTimestamp": null},
            "spec": {
                "entrypoint": null, "novel": {"a": 1},
                "templates": [
                    {"name": "t", "container": {"name": "", "image": "i", "novel": true, "resources": {"limits": {"cpu": 1}}},
                     "outputs": {"artifacts": [{"name": "o", "s3": {"key": "k", "novel": 1}, "novel": 2}]}},
                    {"name": "s", "steps": [[{"name": "x", "template": "t", "withItems": [null, 1], "novel": []}]]},
                ],
            },
            "status": {"phase": "Running"},
        });
        let read: Workflow = from_value(written.clone()).unwrap();
        let mut expected = written;
        expected["metadata"] = json!({"name": "a"});
        expected["spec"].as_object_mut().unwrap().remove("entrypoint");
        assert_eq!(serde_json::to_value(&read).unwrap(), expected);
        assert_eq!(from_value::<Workflow>(serde_json::to_value(&read).unwrap()).unwrap(), read);
    }

    #[test]
    fn what_has_the_wrong_type_is_named() {
        let error = from_value::<Workflow>(json!({"spec": {"templates": [{"container": {"args": [1]}}]}})).unwrap_err();
        assert!(error.path.starts_with("spec"), "{error}");
        assert!(error.to_string().contains("expected a string"), "{error}");
    }
}
