//! Documents in `OpenAPI` v3: what `kubectl explain`, client validation and server-side apply read.

mod paths;
mod schemas;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};

#[cfg(test)]
mod tests;

/// A resource to describe.
#[derive(Debug, Clone)]
pub(crate) struct Resource<'a> {
    /// API group; empty for core.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Kind of a list; empty where the resource cannot be listed (reviews).
    pub list_kind: &'a str,
    /// Resource name in paths.
    pub plural: &'a str,
    /// Lives in a namespace.
    pub namespaced: bool,
    /// Subresources, such as `status` and `scale`.
    pub subresources: &'a [&'a str],
    /// Where its schema comes from.
    pub schema: Source<'a>,
}

/// Where a schema comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// A built-in definition such as `io.k8s.api.core.v1.Pod`.
    Builtin(&'a str),
    /// The `openAPIV3Schema` of a custom resource definition, if it has one.
    Custom(Option<&'a Value>),
}

impl Resource<'_> {
    /// The name of its schema.
    fn definition(&self) -> String {
        match self.schema {
            Source::Builtin(name) => name.to_owned(),
            Source::Custom(_) => custom_name(self.group, self.version, self.kind),
        }
    }

    /// The name of its list's schema.
    fn list_definition(&self) -> String {
        let name = self.definition();
        let package = name.rsplit_once('.').map_or("", |(package, _)| package);
        format!("{package}.{}", self.list_kind)
    }

    fn gvk(&self, kind: &str) -> Value {
        json!({"group": self.group, "kind": kind, "version": self.version})
    }

    /// `/api/v1` or `/apis/group/version`.
    fn prefix(&self) -> String {
        format!("/{}", path(self.group, self.version))
    }
}

/// `io.example.v1.Kind` for a kind of `example.io`.
fn custom_name(group: &str, version: &str, kind: &str) -> String {
    let reversed = group.split('.').rev().collect::<Vec<_>>().join(".");
    format!("{reversed}.{version}.{kind}")
}

/// The key of a group and version in the index: `api/v1` or `apis/group/version`.
pub(crate) fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The document of one group and version, as JSON. Pure and not cheap: callers keep the bytes.
pub(crate) fn document(resources: &[Resource<'_>]) -> Vec<u8> {
    let mut all_paths = Map::new();
    let mut all_schemas = Map::new();
    schemas::common(&mut all_schemas);
    for resource in resources {
        schemas::add(resource, &mut all_schemas);
        paths::add(resource, &mut all_paths);
    }
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "1.34"},
        "paths": all_paths,
        "components": {
            "schemas": all_schemas,
            "securitySchemes": {"BearerToken": {
                "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
            }},
        },
    });
    document.to_string().into_bytes()
}

/// The media type of version 2 as kubectl asks for it.
pub(crate) const LEGACY_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The document in version 2: it has no schemas, so clients that validate by it leave that to the server, which does.
///
/// kubectl needs one to be there before it sends a `List`, and reads it as protobuf.
pub(crate) fn legacy(protobuf: bool) -> Vec<u8> {
    if !protobuf {
        return json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "1.34"}, "paths": {}})
            .to_string()
            .into_bytes();
    }
    // fields 1: swagger, 2: info (1: title, 2: version), 8: paths
    b"\x0a\x032.0\x12\x12\x0a\x0aKubernetes\x12\x041.34\x42\x00".to_vec()
}

/// The hash of a document, by which clients cache it.
pub(crate) fn hash(document: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(128);
    for byte in Sha512::digest(document) {
        let _ = write!(text, "{byte:02X}");
    }
    text
}

/// The index at `/openapi/v3`, from the [`path`] and [`hash`] of each document.
pub(crate) fn index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let paths: Map<String, Value> = documents
        .into_iter()
        .map(|(path, hash)| (path.to_owned(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")})))
        .collect();
    json!({"paths": paths}).to_string().into_bytes()
}
