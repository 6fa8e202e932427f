//! Leaves out what Go leaves out when it writes JSON: nulls, and empty lists and maps of optional fields.

use serde_json::Value;

/// Deeper than any built-in kind goes.
const DEPTH_MAX: usize = 64;
/// Lists that are written even when empty.
const KEPT_LISTS: [&str; 3] = ["rules", "verbs", "nodeSelectorTerms"];
/// Maps, as opposed to structures, which mean something even when empty.
const MAPS: [&str; 16] = [
    "labels",
    "annotations",
    "matchLabels",
    "nodeSelector",
    "limits",
    "requests",
    "data",
    "binaryData",
    "stringData",
    "capacity",
    "allocatable",
    "allocatedResources",
    "allocatedResourceStatuses",
    "overhead",
    "volumeAttributes",
    "options",
];

/// Tidies an object of a built-in kind.
pub(super) fn tidy(object: &mut Value) {
    let Some(map) = object.as_object_mut() else { return };
    for (key, value) in map.iter_mut() {
        if key == "metadata" {
            let Some(meta) = value.as_object_mut() else { continue };
            meta.iter_mut().filter(|(key, _)| *key != "managedFields").for_each(|(_, value)| walk(value, DEPTH_MAX));
            meta.retain(|key, value| !is_left_out(key, value));
        } else {
            walk(value, DEPTH_MAX);
        }
    }
    map.retain(|key, value| !is_left_out(key, value));
}

fn walk(value: &mut Value, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| walk(value, depth)),
        Value::Object(map) => {
            map.values_mut().for_each(|value| walk(value, depth));
            map.retain(|key, value| !is_left_out(key, value));
        }
        _ => {}
    }
}

fn is_left_out(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty() && !KEPT_LISTS.contains(&key),
        Value::Object(map) => map.is_empty() && MAPS.contains(&key),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_go_leaves_out() {
        let mut object = json!({
            "metadata": {"labels": {}, "finalizers": [], "managedFields": [{"fieldsV1": {"f:data": {}, "x": null}}]},
            "spec": {"a": null, "ports": [], "emptyDir": {}, "nested": [{"limits": {}, "verbs": []}]},
        });
        tidy(&mut object);
        let expected = json!({
            "metadata": {"managedFields": [{"fieldsV1": {"f:data": {}, "x": null}}]},
            "spec": {"emptyDir": {}, "nested": [{"verbs": []}]},
        });
        assert_eq!(object, expected);
    }
}
