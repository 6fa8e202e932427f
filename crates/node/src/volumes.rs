//! Volumes: directories on the machine that containers get to see.

mod atomic;
mod content;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod, Volume, VolumeMount};
use thane_executor::plan::{Mount, Source};

use crate::environment::expand;
use crate::pod::PodExt;
use crate::quantity;
pub(crate) use atomic::write;
pub(crate) use content::{Entry, Keys, Needs, needs};

/// Where a volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A directory.
    Directory {
        /// Which.
        path: PathBuf,
        /// Nobody may write to it.
        read_only: bool,
    },
    /// One of the pod's volumes in memory, which its holder has: containers share it, and it outlives them.
    Memory(usize),
}

/// The bounds of a pod's volumes in memory, in their order.
pub(crate) fn memory(pod: &Pod) -> Vec<Option<u64>> {
    let limit = |volume: &Volume| {
        let empty = volume.empty_dir.as_ref()?;
        Some(empty.size_limit.as_ref().and_then(|limit| quantity::units(&limit.0)))
    };
    all(pod).iter().filter(|volume| is_memory(volume)).filter_map(limit).collect()
}

fn is_memory(volume: &Volume) -> bool {
    volume.empty_dir.as_ref().is_some_and(|empty| empty.medium.as_deref() == Some("Memory"))
}

fn all(pod: &Pod) -> &[Volume] {
    pod.spec().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default()
}

/// Where a pod's volumes are, by name. Claims are directories that outlive the pod.
pub(crate) fn places(pod: &Pod, directory: &Path, claims: &Path) -> Result<BTreeMap<String, Place>, String> {
    let place = |(at, volume): (usize, &Volume)| -> Result<(String, Place), String> {
        if is_memory(volume) {
            let before = all(pod)[..at].iter().filter(|volume| is_memory(volume)).count();
            return Ok((volume.name.clone(), Place::Memory(before)));
        }
        Ok((volume.name.clone(), place(pod, volume, directory, claims)?))
    };
    all(pod).iter().enumerate().map(place).collect()
}

fn place(pod: &Pod, volume: &Volume, directory: &Path, claims: &Path) -> Result<Place, String> {
    let own = directory.join(&volume.name);
    if volume.empty_dir.is_some() {
        return Ok(Place::Directory { path: own, read_only: false });
    }
    if let Some(claim) = &volume.persistent_volume_claim {
        let path = claims.join(PodExt::namespace(pod)).join(&claim.claim_name);
        return Ok(Place::Directory { path, read_only: claim.read_only == Some(true) });
    }
    let written = volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.projected.is_some()
        || volume.downward_api.is_some();
    if written {
        return Ok(Place::Directory { path: own, read_only: true });
    }
    Err(format!("volume {:?} is of a kind that is not supported", volume.name))
}

/// The mounts of a container, by depth, so that none hides another.
pub(crate) fn mounts(
    container: &Container,
    places: &BTreeMap<String, Place>,
    env: &BTreeMap<String, String>,
) -> Result<Vec<Mount>, String> {
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let place = places.get(&mount.name).ok_or_else(|| format!("there is no volume {:?}", mount.name))?;
        mounts.push(one(mount, place, env)?);
    }
    mounts.sort_by_key(|mount| mount.target.split('/').filter(|name| !name.is_empty()).count());
    Ok(mounts)
}

fn one(mount: &VolumeMount, place: &Place, env: &BTreeMap<String, String>) -> Result<Mount, String> {
    let below = match (&mount.sub_path_expr, &mount.sub_path) {
        (Some(path), _) => expand(path, env),
        (None, Some(path)) => path.clone(),
        (None, None) => String::new(),
    };
    if below.starts_with('/') || below.split('/').any(|name| name == "..") {
        return Err(format!("subPath {below:?} leads out of the volume"));
    }
    let asked = mount.read_only == Some(true);
    Ok(match place {
        Place::Memory(number) => {
            let source = Source::Memory { number: *number, path: below };
            Mount { target: mount.mount_path.clone(), source, read_only: asked }
        }
        Place::Directory { path, read_only } => {
            let source = if below.is_empty() {
                Source::Bind(path.clone())
            } else {
                Source::Below { root: path.clone(), path: below }
            };
            Mount { target: mount.mount_path.clone(), source, read_only: asked || *read_only }
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volumes_become_mounts() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {
                "containers": [{"name": "a", "volumeMounts": [
                    {"name": "e", "mountPath": "/a/b/c"},
                    {"name": "m", "mountPath": "/a", "readOnly": true},
                    {"name": "c", "mountPath": "/a/b", "subPathExpr": "$(X)"},
                    {"name": "s", "mountPath": "/s"},
                ]}],
                "volumes": [
                    {"name": "e", "emptyDir": {}},
                    {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
                    {"name": "c", "persistentVolumeClaim": {"claimName": "k"}},
                    {"name": "s", "secret": {"secretName": "x"}},
                ],
            },
        }))
        .unwrap();
        assert_eq!(memory(&pod), [Some(1 << 20)]);
        let places = places(&pod, Path::new("/v"), Path::new("/claims")).unwrap();
        let env = BTreeMap::from([("X".to_owned(), "sub".to_owned())]);
        let mounts = mounts(&pod.containers()[0], &places, &env).unwrap();
        let mount = |target: &str, source, read_only| Mount { target: target.to_owned(), source, read_only };
        let bind = |path: &str| Source::Bind(PathBuf::from(path));
        assert_eq!(
            mounts,
            [
                mount("/a", Source::Memory { number: 0, path: String::new() }, true),
                mount("/s", bind("/v/s"), true),
                mount("/a/b", Source::Below { root: PathBuf::from("/claims/n/k"), path: "sub".to_owned() }, false),
                mount("/a/b/c", bind("/v/e"), false),
            ]
        );
    }

    #[test]
    fn ways_out_are_refused() {
        let place = Place::Directory { path: PathBuf::from("/v"), read_only: false };
        for path in ["../x", "/x", "a/../../b"] {
            let mount: VolumeMount =
                serde_json::from_value(json!({"name": "v", "mountPath": "/m", "subPath": path})).unwrap();
            assert!(one(&mount, &place, &BTreeMap::new()).is_err(), "{path}");
        }
    }
}
