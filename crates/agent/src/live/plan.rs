//! What a request means for the cluster's API: which calls, and whether its object must be one of Argo CD's.

use bytes::Bytes;
use http::Method;
use thane_api::live::{Query, ResourceRequest};

/// Parameters of a list that are passed on; a watch is none of them.
const LIST_PARAMS: [&str; 5] = ["fieldSelector", "labelSelector", "resourceVersion", "continue", "limit"];
const CREATE_PARAMS: [&str; 3] = ["dryRun", "fieldValidation", "fieldManager"];
const PATCH_PARAMS: [&str; 4] = ["dryRun", "force", "fieldValidation", "fieldManager"];
/// The only objects that may be listed: what else Argo CD shows it asks for by name.
const LISTED: &str = "events";

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// Tell which groups there are.
    Groups,
    /// Answer with what is at that path.
    Read(String),
    /// Answer with the object at that path, if it is Argo CD's.
    Object(String),
    /// Make an object.
    Create(Call),
    /// Do this, if the object at that path is Argo CD's.
    Change {
        /// The object.
        object: String,
        /// What is done to it.
        call: Call,
    },
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) uri: String,
    pub(super) content_type: &'static str,
    pub(super) body: Bytes,
}

/// Why nothing is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) message: String,
}

impl Refusal {
    fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

/// What a request means.
pub(super) fn plan(request: &ResourceRequest) -> Result<Plan, Refusal> {
    let collection = collection(request)?;
    match (request.method.as_str(), request.resource.is_empty(), request.name.is_empty()) {
        ("GET", true, true) => Ok(discovery(request)),
        ("GET", false, true) => list(request, &collection),
        ("GET", false, false) => Ok(read(request, &collection)),
        ("POST", false, true) => Ok(Plan::Create(Call {
            method: Method::POST,
            uri: chosen(request, &CREATE_PARAMS).on(&collection),
            content_type: JSON,
            body: request.body.clone(),
        })),
        ("POST", false, false) if !request.subresource.is_empty() => {
            Ok(change(request, &collection, Method::POST, JSON))
        }
        ("PATCH", false, false) => Ok(change(request, &collection, Method::PATCH, patch_type(request)?)),
        ("DELETE", false, false) if request.subresource.is_empty() => {
            Ok(change(request, &collection, Method::DELETE, JSON))
        }
        ("GET" | "POST" | "PATCH" | "DELETE", ..) => Err(Refusal::new(405, "this cannot be done to what it names")),
        (method, ..) => Err(Refusal::new(405, format!("method {method:?} is not passed on"))),
    }
}

/// The path of what a request is about, without name.
fn collection(request: &ResourceRequest) -> Result<String, Refusal> {
    let parts =
        [&request.group, &request.version, &request.namespace, &request.resource, &request.name, &request.subresource];
    if let Some(bad) = parts.into_iter().find(|part| !is_segment(part)) {
        return Err(Refusal::new(400, format!("{bad:?} is no part of a path")));
    }
    if request.version.is_empty() && !(request.group.is_empty() && request.resource.is_empty()) {
        return Err(Refusal::new(400, "the API version is missing"));
    }
    let mut path = match (request.group.as_str(), request.version.as_str()) {
        ("", "") => return Ok("/api".to_owned()),
        ("", version) => format!("/api/{version}"),
        (group, version) => format!("/apis/{group}/{version}"),
    };
    if !request.resource.is_empty() {
        if !request.namespace.is_empty() {
            path = format!("{path}/namespaces/{}", request.namespace);
        }
        path = format!("{path}/{}", request.resource);
    }
    Ok(path)
}

/// Whether this may stand between two slashes; nothing may, too.
pub(super) fn is_segment(part: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:@!$&'()*+,;=".contains(&byte);
    part.bytes().all(is_plain) && !part.contains("..") && part != "."
}

fn discovery(request: &ResourceRequest) -> Plan {
    match (request.group.as_str(), request.version.as_str()) {
        ("", "") => Plan::Groups,
        ("", version) => Plan::Read(format!("/api/{version}")),
        (group, version) => Plan::Read(format!("/apis/{group}/{version}")),
    }
}

fn list(request: &ResourceRequest, collection: &str) -> Result<Plan, Refusal> {
    if request.resource != LISTED {
        return Err(Refusal::new(403, format!("{} may not be listed through the hub", request.resource)));
    }
    Ok(Plan::Read(chosen(request, &LIST_PARAMS).on(collection)))
}

fn read(request: &ResourceRequest, collection: &str) -> Plan {
    let object = format!("{collection}/{}", request.name);
    match request.subresource.as_str() {
        "" => Plan::Object(object),
        subresource => {
            let uri = format!("{object}/{subresource}");
            Plan::Change { object, call: Call { method: Method::GET, uri, content_type: JSON, body: Bytes::new() } }
        }
    }
}

fn change(request: &ResourceRequest, collection: &str, method: Method, content_type: &'static str) -> Plan {
    let object = format!("{collection}/{}", request.name);
    let uri = match request.subresource.as_str() {
        "" if method == Method::PATCH => chosen(request, &PATCH_PARAMS).on(&object),
        "" => object.clone(),
        subresource => format!("{object}/{subresource}"),
    };
    Plan::Change { object, call: Call { method, uri, content_type, body: request.body.clone() } }
}

/// Plain objects are always merged; what a subresource gets is said in a parameter.
fn patch_type(request: &ResourceRequest) -> Result<&'static str, Refusal> {
    let asked = request.params.get("content-type").map(String::as_str);
    match asked {
        _ if request.subresource.is_empty() => Ok(MERGE_PATCH),
        None | Some("" | MERGE_PATCH) => Ok(MERGE_PATCH),
        Some(JSON_PATCH) => Ok(JSON_PATCH),
        Some(STRATEGIC_PATCH) => Ok(STRATEGIC_PATCH),
        Some(other) => Err(Refusal::new(415, format!("{other:?} is no kind of patch"))),
    }
}

fn chosen(request: &ResourceRequest, names: &[&str]) -> Query {
    let mut query = Query::default();
    for name in names {
        if let Some(value) = request.params.get(*name) {
            query.push(*name, value.as_str());
        }
    }
    query
}

#[cfg(test)]
mod tests;
