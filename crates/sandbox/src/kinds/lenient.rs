//! Quantities as people write them: `cpu: 1` is as good as `cpu: "1"`.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Fields whose values are quantities by name.
const MAPS: &[&str] = &["limits", "requests", "overhead"];
/// Fields that are quantities.
const SINGLE: &[&str] = &["sizeLimit", "divisor"];

/// Reads what has quantities in it.
pub(super) fn read<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    let mut value = Value::deserialize(deserializer)?;
    quote(&mut value);
    serde_json::from_value(value).map_err(D::Error::custom)
}

fn quote(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(quote),
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match value {
                    Value::Object(values) if MAPS.contains(&name.as_str()) => values.values_mut().for_each(text),
                    Value::Number(_) if SINGLE.contains(&name.as_str()) => text(value),
                    value => quote(value),
                }
            }
        }
        _ => {}
    }
}

fn text(value: &mut Value) {
    if let Value::Number(number) = value {
        *value = Value::String(number.to_string());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::{SandboxSpec, WarmPoolSpec};

    #[test]
    fn a_number_is_a_quantity() {
        let spec = json!({"replicas": 1, "template": {"spec": {
            "containers": [{"name": "main", "resources": {"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"cpu": 0.5}}}],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": 1024}}],
        }}});
        let spec: WarmPoolSpec = serde_json::from_value(spec).unwrap();
        let pod = serde_json::to_value(spec.template.spec.unwrap()).unwrap();
        assert_eq!(pod["containers"][0]["resources"]["limits"], json!({"cpu": "2", "memory": "1Gi"}));
        assert_eq!(pod["containers"][0]["resources"]["requests"]["cpu"], "0.5");
        assert_eq!(pod["volumes"][0]["emptyDir"]["sizeLimit"], "1024");
        let spec: SandboxSpec =
            serde_json::from_value(json!({"poolRef": "p", "resources": {"limits": {"cpu": 1}}})).unwrap();
        assert_eq!(spec.resources.unwrap().limits.unwrap()["cpu"].0, "1");
        let bare: SandboxSpec = serde_json::from_value(json!({"poolRef": "p", "resources": null})).unwrap();
        assert_eq!(bare.resources, None);
        assert!(serde_json::from_value::<WarmPoolSpec>(json!({"replicas": 1, "template": "x"})).is_err());
    }
}
