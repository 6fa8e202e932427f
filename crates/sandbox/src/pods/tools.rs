//! Tools in a sandbox: one directory each under `/opt/arl/tools`, and a list of all. Volumes bring them, so that the image
//! needs nothing for it; only images with tools are copied from, with their own `cp`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, EmptyDirVolumeSource, KeyToPath, PodSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::make::owned_by;
use super::{name, namespace};
use crate::kinds::{InlineTool, Tools, WarmPool};

/// Where tools are.
const TOOLS: &str = "/opt/arl/tools";
/// The list of all, with what each says about itself.
const REGISTRY: &str = "registry.json";
/// What a tool says about itself.
const MANIFEST: &str = "manifest.json";
/// Where an image has its tools.
const IN_IMAGE: &str = "/tools/.";

/// The `ConfigMap` that a pool's tools are kept in.
pub(crate) fn config_map_name(pool: &WarmPool) -> String {
    format!("{}-tools", name(pool))
}

/// What a pool's tools are, as files; `others` are the `ConfigMaps` it names, where they are there.
pub(crate) fn config_map(pool: &WarmPool, tools: &Tools, others: &[ConfigMap]) -> ConfigMap {
    let mut data = BTreeMap::new();
    let mut registry = Vec::new();
    for (at, tool) in tools.inline.iter().enumerate() {
        let manifest = manifest(tool);
        data.insert(format!("{at}-manifest"), manifest.to_string());
        data.extend(tool.files.values().enumerate().map(|(file, content)| (format!("{at}-{file}"), content.clone())));
        registry.push(manifest);
    }
    let said = others.iter().filter_map(|other| other.data.as_ref()?.get(MANIFEST));
    registry.extend(said.filter_map(|manifest| serde_json::from_str(manifest).ok()));
    data.insert(REGISTRY.to_owned(), json!({"tools": registry}).to_string());
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(config_map_name(pool)),
            namespace: Some(namespace(pool).to_owned()),
            owner_references: Some(vec![owned_by(pool, "WarmPool")]),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    }
}

fn manifest(tool: &InlineTool) -> Value {
    json!({
        "name": tool.name,
        "description": tool.description.clone().unwrap_or_default(),
        "parameters": tool.parameters.clone().unwrap_or_else(|| json!({})),
        "runtime": tool.runtime,
        "entrypoint": tool.entrypoint,
        "timeout": tool.timeout.clone().unwrap_or_default(),
    })
}

/// Brings a pool's tools into the container that steps run in.
pub(super) fn bring(spec: &mut PodSpec, pool: &WarmPool, tools: &Tools) {
    let own = config_map_name(pool);
    let (mut volumes, mut mounts, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    for (at, tool) in tools.inline.iter().enumerate() {
        let files = tool.files.keys().enumerate().filter(|(_, file)| *file != MANIFEST);
        let mut items: Vec<KeyToPath> = files.map(|(key, file)| item(format!("{at}-{key}"), file, 0o755)).collect();
        items.push(item(format!("{at}-manifest"), MANIFEST, 0o644));
        volumes.push(from_config_map(format!("arl-tool-{at}"), &own, Some(items)));
        mounts.push(mount(format!("arl-tool-{at}"), format!("{TOOLS}/{}", tool.name)));
    }
    for (at, other) in tools.config_maps.iter().enumerate() {
        volumes.push(from_config_map(format!("arl-tools-map-{at}"), &other.name, None));
        mounts.push(mount(format!("arl-tools-map-{at}"), format!("{TOOLS}/{}", other.name)));
    }
    for (at, image) in tools.images.iter().enumerate() {
        let (volume, path) = (format!("arl-tools-image-{at}"), format!("{TOOLS}/image-{at}"));
        volumes.push(Volume {
            name: volume.clone(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        });
        let writable = VolumeMount { name: volume.clone(), mount_path: path.clone(), ..VolumeMount::default() };
        copies.push(Container {
            name: volume.clone(),
            image: Some(image.image.clone()),
            command: Some(["cp", "-r", IN_IMAGE, &path].map(str::to_owned).to_vec()),
            volume_mounts: Some(vec![writable]),
            ..Container::default()
        });
        mounts.push(mount(volume, path));
    }
    let registry = vec![item(REGISTRY.to_owned(), REGISTRY, 0o644)];
    volumes.push(from_config_map("arl-tools-registry".to_owned(), &own, Some(registry)));
    let listed = mount("arl-tools-registry".to_owned(), format!("{TOOLS}/{REGISTRY}"));
    mounts.push(VolumeMount { sub_path: Some(REGISTRY.to_owned()), ..listed });
    if let Some(sandbox) = spec.containers.first_mut() {
        sandbox.volume_mounts.get_or_insert_default().extend(mounts);
    }
    spec.volumes.get_or_insert_default().extend(volumes);
    if !copies.is_empty() {
        spec.init_containers.get_or_insert_default().extend(copies);
    }
}

fn item(key: String, path: &str, mode: i32) -> KeyToPath {
    KeyToPath { key, path: path.to_owned(), mode: Some(mode) }
}

fn from_config_map(name: String, map: &str, items: Option<Vec<KeyToPath>>) -> Volume {
    let source = ConfigMapVolumeSource {
        name: map.to_owned(),
        items,
        default_mode: Some(0o755),
        ..ConfigMapVolumeSource::default()
    };
    Volume { name, config_map: Some(source), ..Volume::default() }
}

fn mount(name: String, path: String) -> VolumeMount {
    VolumeMount { name, mount_path: path, read_only: Some(true), ..VolumeMount::default() }
}
