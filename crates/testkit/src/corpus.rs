//! Argo's own examples, run by whoever keeps the Workflows of an API: how each ends is compared with how Argo ended it.

pub mod argo;
mod run;
pub mod store;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, Discovery};
use serde_json::{Value, json};

pub use run::{Ended, Limits, run};
pub use store::Store;
pub use table::{Row, read, write};

use crate::peer::{Absence, PeerHome};

/// The examples in the folder of Go's modules.
const MODULE: &str = "github.com/argoproj/argo-workflows/v4@v4.0.7/examples";
/// What examples refer to, of Argo's own files.
const GIVEN: [&str; 4] = [
    "configmaps/simple-parameters-configmap.yaml",
    "testvolume.yaml",
    "workflow-template/templates.yaml",
    "cluster-workflow-template/clustertemplates.yaml",
];

/// Where the examples are; if they are not, what a test should do about it.
pub fn folder() -> Result<PathBuf, Absence> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join("go"));
    let path = || std::env::var_os("GOPATH").map(PathBuf::from).or_else(home).map(|path| path.join("pkg/mod"));
    let modules = std::env::var_os("GOMODCACHE").map(PathBuf::from).or_else(path).unwrap_or_default();
    let folder = modules.join(MODULE);
    if folder.is_dir() {
        return Ok(folder);
    }
    Err(Absence::because(format!("{} is not there: run `make peers`", folder.display())))
}

/// The archive of the image that stands in for all that the examples name.
pub fn image(home: &PeerHome) -> Result<PathBuf, Absence> {
    let archive = home.image("standin");
    if archive.is_file() {
        return Ok(archive);
    }
    Err(Absence::because(format!("{} is not packed: run `make peers`", archive.display())))
}

/// The documents of a file of YAML.
fn documents(text: &str) -> Result<Vec<Value>> {
    let options = || serde_saphyr::options! { strict_booleans: true };
    let mut parts = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            parts.push(String::new());
        } else if let Some(last) = parts.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    let is_said = |part: &String| part.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let read = |part: &String| serde_saphyr::from_str_with_options(part, options()).map_err(|error| anyhow!("{error}"));
    parts.iter().filter(|part| is_said(part)).map(read).collect()
}

/// Makes what examples refer to.
pub async fn prepare(client: &Client, namespace: &str, folder: &Path, store: &Store) -> Result<()> {
    let mut objects = Vec::new();
    for file in GIVEN {
        let text = std::fs::read_to_string(folder.join(file)).with_context(|| format!("reading {file}"))?;
        objects.extend(documents(&text).with_context(|| format!("reading {file}"))?);
    }
    let config = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    let secret = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
    objects.push(config("my-config", json!({"workflow": "1", "template": "1"})));
    objects.push(config("artifact-repositories", json!({"my-key": store.repository().to_string()})));
    objects.push(secret("my-secret", json!({"mypassword": "S00perS3cretPa55word"})));
    objects.push(secret(store::CREDENTIALS, Store::credentials()));
    let discovery = Discovery::new(client.clone()).run().await?;
    for object in objects {
        make(client, &discovery, namespace, &object).await?;
    }
    Ok(())
}

/// Makes an object unless it is there.
async fn make(client: &Client, discovery: &Discovery, namespace: &str, object: &Value) -> Result<()> {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").rsplit_once('/').unwrap_or(("", text("apiVersion")));
    let kind = GroupVersionKind::gvk(group, version, text("kind"));
    let (resource, capabilities) = discovery.resolve_gvk(&kind).with_context(|| format!("{kind:?} is not served"))?;
    let api: Api<DynamicObject> = match capabilities.scope {
        kube::discovery::Scope::Cluster => Api::all_with(client.clone(), &resource),
        kube::discovery::Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    match api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => made.map(drop).with_context(|| format!("making {} {}", text("kind"), object["metadata"]["name"])),
    }
}

/// Workflows of a namespace.
fn workflows(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Workflow");
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_told_apart() {
        let text = "# only words\n---\na: yes\n---\nb:\n- 1\n--- \n\n";
        assert_eq!(documents(text).unwrap(), [json!({"a": "yes"}), json!({"b": [1]})]);
    }
}
