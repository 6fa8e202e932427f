//! The artifact repository a Workflow names, out of a `ConfigMap`.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::Value;

use super::Shared;
use crate::engine::Refused;

/// The `ConfigMap` where a Workflow names none.
const NAME: &str = "artifact-repositories";
/// The annotation with the key that counts where a Workflow names none.
const DEFAULT: &str = "workflows.argoproj.io/default-artifact-repository";

/// Where artifacts of a Workflow go that have no place of their own.
pub(super) async fn resolved(shared: &Shared, namespace: &str, spec: &Value) -> Result<Option<Value>, Refused> {
    let said = &spec["artifactRepositoryRef"];
    if !said.is_object() {
        return Ok(shared.options.repository.clone());
    }
    let text = |name: &str| said[name].as_str().filter(|text| !text.is_empty());
    let name = text("configMap").unwrap_or(NAME);
    let api: Api<ConfigMap> = Api::namespaced(shared.client.clone(), namespace);
    let refused = |message: String, is_transient: bool| Refused {
        message: format!("failed to find artifact repository ref: {message}"),
        is_transient,
    };
    let map = match api.get_opt(name).await {
        Ok(Some(map)) => map,
        Ok(None) => return Err(refused(format!("configmaps {name:?} not found"), false)),
        Err(error) => return Err(refused(error.to_string(), true)),
    };
    let annotated = map.metadata.annotations.as_ref().and_then(|all| all.get(DEFAULT)).map(String::as_str);
    let Some(key) = text("key").or(annotated) else {
        return Err(refused(format!("config map {name:?} has no default"), false));
    };
    read(&map, key).map(Some).map_err(|why| refused(why, false))
}

fn read(map: &ConfigMap, key: &str) -> Result<Value, String> {
    let words = map.data.as_ref().and_then(|data| data.get(key));
    let words = words.ok_or_else(|| format!("config map missing key {key:?}"))?;
    serde_saphyr::from_str(words).map_err(|error| format!("key {key:?} is no YAML: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_holds_a_repository() {
        let map: ConfigMap = serde_json::from_value(json!({"data": {"a": "s3:\n  bucket: b\n", "b": "{"}})).unwrap();
        assert_eq!(read(&map, "a").unwrap(), json!({"s3": {"bucket": "b"}}));
        assert!(read(&map, "b").unwrap_err().starts_with("key \"b\" is no YAML"));
        assert_eq!(read(&map, "c").unwrap_err(), "config map missing key \"c\"");
    }
}
