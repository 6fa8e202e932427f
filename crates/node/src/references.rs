//! Objects a pod refers to, read before it is started.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Secret, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

use crate::changes::Object;
use crate::environment::{Lookup, Whereabouts};
use crate::pod::PodExt;
use crate::volumes::{self, Entry, Needs};

/// The values of objects, by name.
#[derive(Debug, Default)]
pub(crate) struct Known {
    config_maps: BTreeMap<String, BTreeMap<String, String>>,
    secrets: BTreeMap<String, BTreeMap<String, String>>,
}

impl Lookup for Known {
    fn config_map(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.config_maps.get(name).cloned()
    }

    fn secret(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.secrets.get(name).cloned()
    }
}

/// Reads what the environment of a container refers to.
pub(crate) async fn environment(client: &Client, pod: &Pod, container: &Container) -> Result<Known, String> {
    let (mut maps, mut secrets) = (BTreeSet::new(), BTreeSet::new());
    for source in container.env_from.iter().flatten() {
        maps.extend(source.config_map_ref.iter().map(|from| from.name.clone()));
        secrets.extend(source.secret_ref.iter().map(|from| from.name.clone()));
    }
    for from in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
        maps.extend(from.config_map_key_ref.iter().map(|key| key.name.clone()));
        secrets.extend(from.secret_key_ref.iter().map(|key| key.name.clone()));
    }
    let text = |values: BTreeMap<String, Vec<u8>>| -> BTreeMap<String, String> {
        values.into_iter().filter_map(|(key, value)| Some((key, String::from_utf8(value).ok()?))).collect()
    };
    let mut known = Known::default();
    for name in maps {
        if let Some(values) = config_map(client, pod, &name).await? {
            known.config_maps.insert(name, text(values));
        }
    }
    for name in secrets {
        if let Some(values) = secret(client, pod, &name).await? {
            known.secrets.insert(name, text(values));
        }
    }
    Ok(known)
}

async fn config_map(client: &Client, pod: &Pod, name: &str) -> Result<Option<BTreeMap<String, Vec<u8>>>, String> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), PodExt::namespace(pod));
    let found = api.get_opt(name).await.map_err(|error| format!("read configmap {name:?}: {error}"))?;
    Ok(found.map(|map| {
        let texts = map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
        let bytes = map.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
        texts.chain(bytes).collect()
    }))
}

async fn secret(client: &Client, pod: &Pod, name: &str) -> Result<Option<BTreeMap<String, Vec<u8>>>, String> {
    let api: Api<Secret> = Api::namespaced(client.clone(), PodExt::namespace(pod));
    let found = api.get_opt(name).await.map_err(|error| format!("read secret {name:?}: {error}"))?;
    Ok(found.map(|secret| secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()))
}

/// The files of a volume, and after how many seconds a token among them has to be renewed.
pub(crate) async fn files(client: &Client, pod: &Pod, needs: &[Needs]) -> Result<(Vec<Entry>, Option<u64>), String> {
    let (mut entries, mut renew) = (Vec::new(), None);
    for need in needs {
        match need {
            Needs::File(entry) => entries.push(entry.clone()),
            Needs::ConfigMap(keys) => {
                let found = config_map(client, pod, &keys.name).await?;
                entries.extend(of_keys(keys, found, "configmap")?);
            }
            Needs::Secret(keys) => {
                let found = secret(client, pod, &keys.name).await?;
                entries.extend(of_keys(keys, found, "secret")?);
            }
            Needs::Token { path, audience, seconds, mode } => {
                let content = token(client, pod, audience.as_deref(), *seconds).await?.into_bytes();
                entries.push(Entry { path: path.clone(), content, mode: *mode });
                // Four fifths of its life, as kubelets do.
                let due = u64::try_from(*seconds).unwrap_or(3600) * 4 / 5;
                renew = Some(renew.map_or(due, |before: u64| before.min(due)));
            }
        }
    }
    Ok((entries, renew))
}

fn of_keys(keys: &volumes::Keys, found: Option<BTreeMap<String, Vec<u8>>>, kind: &str) -> Result<Vec<Entry>, String> {
    match found {
        Some(values) => keys.entries(&values),
        None if keys.optional => Ok(Vec::new()),
        None => Err(format!("{kind} {:?} not found", keys.name)),
    }
}

async fn token(client: &Client, pod: &Pod, audience: Option<&str>, seconds: i64) -> Result<String, String> {
    let account = pod.spec().and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), PodExt::namespace(pod));
    let mut spec = json!({
        "expirationSeconds": seconds,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod.name(), "uid": PodExt::uid(pod)},
    });
    spec["audiences"] = audience.map_or(json!([]), |audience| json!([audience]));
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let answer: serde_json::Value = api
        .create_subresource("token", account, &PostParams::default(), &request)
        .await
        .map_err(|error| format!("ask for a token of {account:?}: {error}"))?;
    let token = answer["status"]["token"].as_str().map(str::to_owned);
    token.ok_or_else(|| format!("the answer has no token of {account:?}"))
}

/// The objects that the files of a pod's volumes are made from.
pub(crate) fn objects(pod: &Pod, whereabouts: &Whereabouts) -> Result<BTreeSet<Object>, String> {
    let namespace = PodExt::namespace(pod);
    let mut objects = BTreeSet::new();
    for volume in pod.spec().iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        for need in volumes::needs(pod, volume, whereabouts)? {
            match need {
                Needs::ConfigMap(keys) => drop(objects.insert(Object::config_map(namespace, &keys.name))),
                Needs::Secret(keys) => drop(objects.insert(Object::secret(namespace, &keys.name))),
                Needs::File(_) | Needs::Token { .. } => {}
            }
        }
    }
    Ok(objects)
}

/// Writes all files of a pod's volumes; after how many seconds it has to be done again.
pub(crate) async fn write_volumes(
    client: &Client,
    pod: &Pod,
    directory: &std::path::Path,
    whereabouts: &Whereabouts,
) -> Result<Option<u64>, String> {
    let mut renew: Option<u64> = None;
    let spec = pod.spec();
    let group =
        spec.and_then(|spec| spec.security_context.as_ref()?.fs_group).and_then(|group| u32::try_from(group).ok());
    for volume in spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        let needs = volumes::needs(pod, volume, whereabouts)?;
        let written = volume.config_map.is_some()
            || volume.secret.is_some()
            || volume.projected.is_some()
            || volume.downward_api.is_some();
        if !written {
            continue;
        }
        let (entries, due) = files(client, pod, &needs).await?;
        volumes::write(&directory.join(&volume.name), &entries, group)
            .map_err(|error| format!("write volume {:?}: {error}", volume.name))?;
        renew = match (renew, due) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    Ok(renew)
}
