//! Kubernetes' strategic merge, as far as a pod's spec needs it.

use serde_json::{Map, Value};

use super::super::request::Refusal;

/// Lists of a pod's spec whose items are merged, by what tells them apart.
const KEYS: [(&str, &str); 16] = [
    ("containers", "name"),
    ("initContainers", "name"),
    ("ephemeralContainers", "name"),
    ("volumes", "name"),
    ("env", "name"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
    ("ports", "containerPort"),
    ("imagePullSecrets", "name"),
    ("hostAliases", "ip"),
    ("topologySpreadConstraints", "topologyKey"),
    ("resourceClaims", "name"),
    ("readinessGates", "conditionType"),
    ("schedulingGates", "name"),
    ("secrets", "name"),
    ("claims", "name"),
];

/// Applies a patch written as JSON or YAML.
pub(super) fn apply(spec: Value, words: &str) -> Result<Value, Refusal> {
    let failed = |why: String| Refusal(format!("Error applying PodSpecPatch: {why}"));
    let patch: Value = serde_saphyr::from_str(words).map_err(|error| failed(error.to_string()))?;
    if !patch.is_object() {
        return Err(failed("it is no object".to_owned()));
    }
    merge(spec, &patch, "").map_err(|refusal| failed(refusal.0))
}

/// What a value is after a patch; `name` is the field it is in.
pub(super) fn merge(value: Value, patch: &Value, name: &str) -> Result<Value, Refusal> {
    match (value, patch) {
        (Value::Object(fields), Value::Object(changes)) => object(fields, changes).map(Value::Object),
        (Value::Array(items), Value::Array(changes)) => match KEYS.iter().find(|(list, _)| *list == name) {
            Some((_, key)) => array(items, changes, key).map(Value::Array),
            None => Ok(patch.clone()),
        },
        (_, Value::Object(changes)) => object(Map::new(), changes).map(Value::Object),
        (_, other) => Ok(other.clone()),
    }
}

fn object(mut fields: Map<String, Value>, changes: &Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    match changes.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            let rest = changes.iter().filter(|(name, _)| *name != "$patch");
            return Ok(rest.map(|(name, value)| (name.clone(), value.clone())).collect());
        }
        Some("delete") => return Ok(Map::new()),
        _ => {}
    }
    for (name, change) in changes {
        if name == "$retainKeys" {
            let kept: Vec<&str> = change.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            fields.retain(|field, _| kept.contains(&field.as_str()));
        } else if change.is_null() && !name.starts_with('$') {
            fields.remove(name);
        } else if !name.starts_with('$') {
            let before = fields.remove(name).unwrap_or(Value::Null);
            fields.insert(name.clone(), merge(before, change, name)?);
        }
    }
    Ok(fields)
}

fn array(mut items: Vec<Value>, changes: &[Value], key: &str) -> Result<Vec<Value>, Refusal> {
    if changes.iter().any(|change| change["$patch"] == "replace") {
        return Ok(changes.iter().filter(|change| change["$patch"].is_null()).cloned().collect());
    }
    let mut new = Vec::new();
    for change in changes {
        let own = &change[key];
        if own.is_null() {
            return Err(Refusal(format!("map: {change} does not contain declared merge key: {key}")));
        }
        let found = items.iter().position(|item| item[key] == *own);
        match (found, change["$patch"] == "delete") {
            (Some(at), true) => drop(items.remove(at)),
            (None, true) => {}
            (Some(at), false) => items[at] = merge(items[at].take(), change, "")?,
            (None, false) => new.push(change.clone()),
        }
    }
    items.extend(new);
    Ok(items)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn specs_are_patched() {
        let spec = json!({"containers": [{"name": "main", "image": "a", "env": [{"name": "X", "value": "1"}]}, {"name": "wait"}],
            "tolerations": [{"key": "a"}], "volumes": [{"name": "v", "emptyDir": {}}], "hostNetwork": true});
        let cases = [
            ("{}", spec.clone()),
            (
                "containers:\n- name: main\n  resources: {limits: {memory: 1Gi}}\n  env: [{name: YY, value: '2'}]\n",
                json!({"containers": [{"name": "main", "image": "a", "env": [{"name": "X", "value": "1"}, {"name": "YY", "value": "2"}],
                    "resources": {"limits": {"memory": "1Gi"}}}, {"name": "wait"}],
                    "tolerations": [{"key": "a"}], "volumes": [{"name": "v", "emptyDir": {}}], "hostNetwork": true}),
            ),
            (
                r#"{"tolerations":[{"key":"b"}],"hostNetwork":null,"volumes":[{"name":"v","$patch":"delete"}],"containers":[{"$patch":"replace"},{"name":"x"}]}"#,
                json!({"containers": [{"name": "x"}], "tolerations": [{"key": "b"}], "volumes": []}),
            ),
        ];
        for (patch, expected) in cases {
            assert_eq!(apply(spec.clone(), patch).unwrap(), expected, "{patch}");
        }
        for wrong in ["[", "1", "containers: [{image: a}]"] {
            assert!(apply(spec.clone(), wrong).unwrap_err().0.starts_with("Error applying PodSpecPatch"), "{wrong}");
        }
    }
}
