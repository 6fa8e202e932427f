//! A container's environment and arguments.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar, ObjectFieldSelector, Pod, ResourceFieldSelector};

use crate::pod::PodExt;
use crate::quantity;

/// What references in a pod lead to. Keys are there or not; bytes that are no text are passed over.
pub(crate) trait Lookup {
    /// The values of a `ConfigMap`, if it exists.
    fn config_map(&self, name: &str) -> Option<BTreeMap<String, String>>;
    /// The values of a Secret, if it exists.
    fn secret(&self, name: &str) -> Option<BTreeMap<String, String>>;
}

/// What is known about the pod only here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Whereabouts {
    /// The pod's address.
    pub(crate) address: String,
    /// The machine's address.
    pub(crate) host: String,
}

/// The environment of a container: what the image sets, then `envFrom`, then `env`, each with references filled in.
pub(crate) fn environment(
    pod: &Pod,
    container: &Container,
    image: &BTreeMap<String, String>,
    lookup: &impl Lookup,
    whereabouts: &Whereabouts,
) -> Result<BTreeMap<String, String>, String> {
    let mut env = BTreeMap::from([("HOSTNAME".to_owned(), hostname(pod))]);
    env.extend(image.clone());
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        if let Some(from) = &source.config_map_ref {
            let found = lookup.config_map(&from.name);
            extend(&mut env, prefix, found, from.optional, &format!("configmap {:?}", from.name))?;
        }
        if let Some(from) = &source.secret_ref {
            let found = lookup.secret(&from.name);
            extend(&mut env, prefix, found, from.optional, &format!("secret {:?}", from.name))?;
        }
    }
    // A variable may use those that were declared before it, and no others.
    let mut declared = env.clone();
    for variable in container.env.iter().flatten() {
        let value = match &variable.value {
            Some(value) => Some(expand(value, &declared)),
            None => referenced(pod, container, variable, lookup, whereabouts)?,
        };
        if let Some(value) = value {
            declared.insert(variable.name.clone(), value.clone());
            env.insert(variable.name.clone(), value);
        }
    }
    Ok(env)
}

/// The pod's host name.
pub(crate) fn hostname(pod: &Pod) -> String {
    let name = pod.spec().and_then(|spec| spec.hostname.as_deref()).filter(|name| !name.is_empty());
    let name: String = name.unwrap_or_else(|| pod.name()).chars().take(63).collect();
    name.trim_end_matches(['-', '.']).to_owned()
}

fn extend(
    env: &mut BTreeMap<String, String>,
    prefix: &str,
    found: Option<BTreeMap<String, String>>,
    optional: Option<bool>,
    shown: &str,
) -> Result<(), String> {
    match found {
        Some(values) => env.extend(values.into_iter().map(|(key, value)| (format!("{prefix}{key}"), value))),
        None if optional == Some(true) => {}
        None => return Err(format!("{shown} not found")),
    }
    Ok(())
}

fn referenced(
    pod: &Pod,
    container: &Container,
    variable: &EnvVar,
    lookup: &impl Lookup,
    whereabouts: &Whereabouts,
) -> Result<Option<String>, String> {
    let Some(from) = &variable.value_from else { return Ok(Some(String::new())) };
    if let Some(field) = &from.field_ref {
        return field_value(pod, field, whereabouts).map(Some);
    }
    if let Some(resource) = &from.resource_field_ref {
        return resource_value(pod, container, resource).map(Some);
    }
    let (found, key, optional, shown) = if let Some(key) = &from.config_map_key_ref {
        (lookup.config_map(&key.name), &key.key, key.optional, format!("configmap {:?}", key.name))
    } else if let Some(key) = &from.secret_key_ref {
        (lookup.secret(&key.name), &key.key, key.optional, format!("secret {:?}", key.name))
    } else {
        return Err(format!("variable {:?} has a source that is not supported", variable.name));
    };
    let optional = optional == Some(true);
    match found.map(|values| values.get(key).cloned()) {
        Some(Some(value)) => Ok(Some(value)),
        _ if optional => Ok(None),
        Some(None) => Err(format!("couldn't find key {key} in {shown}")),
        None => Err(format!("{shown} not found")),
    }
}

/// A field of the pod, as text.
pub(crate) fn field_value(pod: &Pod, field: &ObjectFieldSelector, whereabouts: &Whereabouts) -> Result<String, String> {
    let path = field.field_path.as_str();
    let map = |all: &Option<BTreeMap<String, String>>| {
        let lines: Vec<String> = all.iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect();
        lines.join("\n")
    };
    let keyed = |all: &Option<BTreeMap<String, String>>, key: &str| {
        all.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default()
    };
    let between = |prefix: &str| path.strip_prefix(prefix).and_then(|rest| rest.strip_suffix("']"));
    let meta = &pod.metadata;
    if let Some(key) = between("metadata.labels['") {
        return Ok(keyed(&meta.labels, key));
    }
    if let Some(key) = between("metadata.annotations['") {
        return Ok(keyed(&meta.annotations, key));
    }
    let spec = pod.spec();
    Ok(match path {
        "metadata.name" => pod.name().to_owned(),
        "metadata.namespace" => PodExt::namespace(pod).to_owned(),
        "metadata.uid" => PodExt::uid(pod).to_owned(),
        "metadata.labels" => map(&meta.labels),
        "metadata.annotations" => map(&meta.annotations),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default(),
        "status.hostIP" | "status.hostIPs" => whereabouts.host.clone(),
        "status.podIP" | "status.podIPs" => whereabouts.address.clone(),
        other => return Err(format!("field {other:?} is not supported")),
    })
}

/// A resource of a container, divided as asked for.
pub(crate) fn resource_value(pod: &Pod, own: &Container, field: &ResourceFieldSelector) -> Result<String, String> {
    let container = match field.container_name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => pod.container(name).ok_or_else(|| format!("there is no container {name:?}"))?,
        None => own,
    };
    let (kind, name) =
        field.resource.split_once('.').ok_or_else(|| format!("resource {:?} is not supported", field.resource))?;
    let resources = container.resources.clone().unwrap_or_default();
    let list = match kind {
        "limits" => resources.limits,
        "requests" => resources.requests,
        _ => return Err(format!("resource {:?} is not supported", field.resource)),
    };
    let amount = list.and_then(|list| list.get(name).cloned()).and_then(|amount| quantity::millis(&amount.0));
    let divisor =
        field.divisor.as_ref().and_then(|divisor| quantity::millis(&divisor.0)).filter(|divisor| *divisor > 0);
    Ok(amount.unwrap_or_default().div_ceil(divisor.unwrap_or(1000)).to_string())
}

/// Fills in `$(NAME)`; `$$` is a dollar, and what is not known stays.
pub(crate) fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match env.get(name) {
                Some(value) => out.push_str(value),
                None => out.extend(["$(", name, ")"]),
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Known;

    impl Lookup for Known {
        fn config_map(&self, name: &str) -> Option<BTreeMap<String, String>> {
            (name == "c").then(|| BTreeMap::from([("k".to_owned(), "v".to_owned())]))
        }

        fn secret(&self, name: &str) -> Option<BTreeMap<String, String>> {
            (name == "s").then(|| BTreeMap::from([("p".to_owned(), "w".to_owned())]))
        }
    }

    fn env(container: &serde_json::Value) -> Result<BTreeMap<String, String>, String> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"l": "x"}},
            "spec": {"containers": [container], "nodeName": "node"},
        }))
        .unwrap();
        let image = BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]);
        let here = Whereabouts { address: "127.64.0.1".to_owned(), host: "127.0.0.1".to_owned() };
        environment(&pod, &pod.containers()[0], &image, &Known, &here)
    }

    #[test]
    fn variables_come_from_everywhere() {
        let container = json!({
            "name": "a", "image": "i",
            "resources": {"limits": {"memory": "1Gi", "cpu": "1500m"}},
            "envFrom": [{"prefix": "C_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}},
                {"secretRef": {"name": "none", "optional": true}}],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "value": "$(A)$(Z)$$(A)$(PATH)$"},
                {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['l']"}}},
                {"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "p"}}},
                {"name": "F", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "no", "optional": true}}},
                {"name": "G", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
                {"name": "H", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "I", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            ],
        });
        let found = env(&container).unwrap();
        let expected = [
            ("A", "1"),
            ("B", "1$(Z)$(A)/bin$"),
            ("C", "p"),
            ("C_k", "v"),
            ("D", "x"),
            ("E", "w"),
            ("G", "1024"),
            ("H", "2"),
            ("HOSTNAME", "p"),
            ("I", "127.64.0.1"),
            ("PATH", "/bin"),
            ("p", "w"),
        ];
        assert_eq!(found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_missing_is_named() {
        for (source, expected) in [
            (json!({"configMapKeyRef": {"name": "x", "key": "k"}}), "configmap \"x\" not found"),
            (json!({"secretKeyRef": {"name": "s", "key": "k"}}), "couldn't find key k in secret \"s\""),
            (json!({"fieldRef": {"fieldPath": "spec.nope"}}), "field \"spec.nope\" is not supported"),
        ] {
            let container = json!({"name": "a", "env": [{"name": "A", "valueFrom": source}]});
            assert_eq!(env(&container), Err(expected.to_owned()));
        }
    }

    proptest::proptest! {
        #[test]
        fn expansion_takes_any_text(text in "[$()A-C]{0,30}") {
            let env = BTreeMap::from([("A".to_owned(), "$(B)".to_owned())]);
            expand(&text, &env);
        }
    }
}
