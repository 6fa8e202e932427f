//! `OpenAPI` documents, made when they are first asked for and kept until their types change.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;

use super::Inner;
use crate::catalog::Types;
use crate::discovery;
use crate::failure::Result;
use crate::openapi::{self, Resource, Source};
use crate::resource::{Behaviour, ResourceType};

/// Documents by their path, each with the tag of the types it describes. At most one for each group and version.
#[derive(Default)]
pub(crate) struct Documents {
    kept: Mutex<BTreeMap<String, (String, Bytes)>>,
}

/// The index: every group and version with the tag clients cache it by.
pub(super) fn index(types: &Types) -> Vec<u8> {
    let tags: Vec<(String, String)> = discovery::groups(types)
        .iter()
        .flat_map(|group| group.versions.iter().map(move |version| (group.name.clone(), version.clone())))
        .map(|(group, version)| (openapi::path(&group, &version), tag(types, &group, &version)))
        .collect();
    openapi::index(tags.iter().map(|(path, tag)| (path.as_str(), tag.as_str())))
}

/// Changes when any type of the group and version does.
fn tag(types: &Types, group: &str, version: &str) -> String {
    let mut text = concat!(env!("CARGO_PKG_VERSION"), "\n").to_owned();
    for kind in types.in_version(group, version) {
        let made = match &kind.behaviour {
            Behaviour::Builtin(_) => 0,
            Behaviour::Custom(custom) => custom.made,
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} {made}", kind.plural);
    }
    openapi::hash(text.as_bytes())
}

/// The document of one group and version.
pub(super) async fn document(server: &Arc<Inner>, group: &str, version: &str) -> Result<Option<Bytes>> {
    let types = server.catalog.types();
    let is_known = discovery::groups(&types)
        .iter()
        .any(|known| known.name == group && known.versions.iter().any(|name| name == version));
    if !is_known {
        return Ok(None);
    }
    let path = openapi::path(group, version);
    let tag = tag(&types, group, version);
    if let Some((known, bytes)) = server.documents.kept.lock().get(&path)
        && *known == tag
    {
        return Ok(Some(bytes.clone()));
    }
    let kinds: Vec<Arc<ResourceType>> = types.in_version(group, version).cloned().collect();
    let schemas = schemas(server, &kinds, version).await?;
    let (group, version) = (group.to_owned(), version.to_owned());
    let made = tokio::task::spawn_blocking(move || make(&kinds, &schemas, &group, &version)).await;
    let bytes = Bytes::from(made.map_err(crate::failure::Failure::internal)?);
    server.documents.kept.lock().insert(path, (tag, bytes.clone()));
    Ok(Some(bytes))
}

/// The schemas of custom kinds as their definitions have them.
async fn schemas(server: &Inner, kinds: &[Arc<ResourceType>], version: &str) -> Result<Vec<Option<Value>>> {
    let definitions = server.catalog.builtin("apiextensions.k8s.io", "customresourcedefinitions");
    let mut found = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let mut schema = None;
        if kind.is_custom() {
            let name = format!("{}.{}", kind.plural, kind.group);
            if let Some(stored) = server.objects.get(&definitions, "", &name).await? {
                let definition = stored.value(&definitions)?;
                let versions = definition["spec"]["versions"].as_array();
                let own = versions.into_iter().flatten().find(|candidate| candidate["name"] == version);
                schema = own.and_then(|own| own.pointer("/schema/openAPIV3Schema")).cloned();
            }
        }
        found.push(schema);
    }
    Ok(found)
}

fn make(kinds: &[Arc<ResourceType>], schemas: &[Option<Value>], group: &str, version: &str) -> Vec<u8> {
    let parts: Vec<Vec<&'static str>> =
        kinds.iter().map(|kind| discovery::parts(kind).iter().map(|part| part.name).collect()).collect();
    let mut resources: Vec<Resource<'_>> = kinds
        .iter()
        .zip(schemas)
        .zip(&parts)
        .map(|((kind, schema), parts)| Resource {
            group: &kind.group,
            version: &kind.version,
            kind: &kind.kind,
            list_kind: &kind.list_kind,
            plural: &kind.plural,
            namespaced: kind.namespaced,
            subresources: parts,
            schema: match &kind.behaviour {
                Behaviour::Builtin(builtin) => Source::Builtin(builtin.definition),
                Behaviour::Custom(_) => Source::Custom(schema.as_ref()),
            },
        })
        .collect();
    if version == "v1" {
        resources.extend(discovery::VIRTUAL.iter().filter(|virt| virt.group == group).map(|virt| Resource {
            group: virt.group,
            version: "v1",
            kind: virt.kind,
            list_kind: "",
            plural: virt.plural,
            namespaced: virt.namespaced,
            subresources: &[],
            schema: Source::Builtin(virt.definition),
        }));
    }
    openapi::document(&resources)
}
