//! What a path of the Kubernetes API is in argocd-agent's protocol.

use http::Method;
use thane_api::live::{LogRequest, Query, ResourceRequest, TerminalRequest};

const MERGE_PATCH: &str = "application/merge-patch+json";

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    /// The version of the API, which no agent tells.
    Version,
    /// A document about groups, made of the one an agent has.
    Discovery(Document),
    /// Anything else an agent answers at once.
    Resource(ResourceRequest),
    /// A log.
    Log(LogRequest),
    /// A terminal.
    Exec(TerminalRequest),
}

/// Documents about groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Document {
    /// Versions of the group without a name.
    Core,
    /// All groups with names.
    Groups,
    /// One of them.
    Group(String),
}

/// Why it cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// The protocol has no words for it.
    Unsupported(String),
    /// It would be refused anywhere.
    Status(u16, String),
}

/// What a request is about.
#[derive(Debug, Clone, Default)]
struct Subject {
    group: String,
    version: String,
    namespace: String,
    resource: String,
    name: String,
    subresource: String,
}

/// Reads a request, but for its body.
pub(super) fn read(method: &Method, path: &str, query: &Query, content_type: Option<&str>) -> Result<Asked, Refused> {
    let segments = segments(path)?;
    let names: Vec<&str> = segments.iter().map(String::as_str).collect();
    let document = match names.as_slice() {
        ["version"] => Some(Asked::Version),
        ["api"] => Some(Asked::Discovery(Document::Core)),
        ["apis"] => Some(Asked::Discovery(Document::Groups)),
        ["apis", group] => Some(Asked::Discovery(Document::Group((*group).to_owned()))),
        _ => None,
    };
    match document {
        Some(document) if method == Method::GET => Ok(document),
        Some(_) => Err(Refused::Status(405, format!("{method} is not for documents about the API"))),
        None => about(subject(&names)?, method, query, content_type),
    }
}

fn segments(path: &str) -> Result<Vec<String>, Refused> {
    let bad = || Refused::Status(400, "this is no path of a Kubernetes API".to_owned());
    let trimmed = path.strip_prefix('/').ok_or_else(bad)?;
    let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
    let decoded = trimmed.split('/').map(|segment| {
        // Here a plus is a plus.
        let text = Query::parse(&segment.replace('+', "%2B").replace('&', "%26").replace('=', "%3D"));
        let segment = text.iter().next().map(|(name, _)| name.to_owned()).unwrap_or_default();
        let is_bad = segment.is_empty() || segment.contains(['/', '\\']) || segment.contains("..") || segment == ".";
        if is_bad { Err(bad()) } else { Ok(segment) }
    });
    decoded.collect()
}

fn subject(names: &[&str]) -> Result<Subject, Refused> {
    let (group, version, rest) = match names {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        ["openapi", ..] => return Err(unsupported("it does not tell its schemas")),
        _ => return Err(Refused::Status(404, "there is nothing at this path".to_owned())),
    };
    if !version.starts_with('v') {
        return Err(Refused::Status(400, format!("{version:?} is no version of an API")));
    }
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() && !is_of_namespace(rest) => (*namespace, rest),
        rest => ("", rest),
    };
    let mut parts = rest.iter().map(|part| (*part).to_owned());
    let mut next = || parts.next().unwrap_or_default();
    let (resource, name, subresource) = (next(), next(), next());
    if parts.next().is_some() {
        return Err(unsupported("it reaches no further than subresources"));
    }
    if resource == "watch" {
        return Err(unsupported(WATCH));
    }
    let (group, version, namespace) = (group.to_owned(), version.to_owned(), namespace.to_owned());
    Ok(Subject { group, version, namespace, resource, name, subresource })
}

/// Whether what follows a namespace's name is of the namespace itself.
fn is_of_namespace(rest: &[&str]) -> bool {
    matches!(rest, ["status" | "finalize"])
}

const WATCH: &str = "it cannot watch; ask for the object again";

fn unsupported(what: &str) -> Refused {
    Refused::Unsupported(format!("this agent speaks argocd-agent's protocol: {what}"))
}

fn about(of: Subject, method: &Method, query: &Query, content_type: Option<&str>) -> Result<Asked, Refused> {
    if query.is_set("watch") {
        return Err(unsupported(WATCH));
    }
    if of.resource == "pods" && of.group.is_empty() && !of.namespace.is_empty() {
        match of.subresource.as_str() {
            "log" if method == Method::GET => return Ok(Asked::Log(log(of, query))),
            "exec" if [Method::GET, Method::POST].contains(method) => return Ok(Asked::Exec(exec(of, query))),
            "attach" | "portforward" | "proxy" => return Err(unsupported("it opens only logs and terminals")),
            _ => {}
        }
    }
    let mut params: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
    for (name, value) in query.iter() {
        params.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    match method.as_str() {
        "GET" if of.name.is_empty() && !of.resource.is_empty() && of.resource != "events" => {
            return Err(unsupported("it lists nothing but events"));
        }
        "DELETE" if of.name.is_empty() => return Err(unsupported("it deletes one object at a time")),
        "GET" | "POST" | "DELETE" => {}
        "PATCH" => {
            let kind = content_type.unwrap_or(MERGE_PATCH);
            if of.subresource.is_empty() && kind != MERGE_PATCH {
                return Err(Refused::Status(415, format!("this agent takes only {MERGE_PATCH}")));
            }
            params.insert("content-type".to_owned(), kind.to_owned());
        }
        other => return Err(unsupported(&format!("it has no {other}"))),
    }
    let Subject { group, version, namespace, resource, name, subresource } = of;
    let method = method.to_string();
    let request = ResourceRequest {
        group,
        version,
        namespace,
        resource,
        name,
        subresource,
        method,
        params,
        ..Default::default()
    };
    Ok(Asked::Resource(request))
}

fn log(of: Subject, query: &Query) -> LogRequest {
    let text = |name: &str| query.get(name).unwrap_or_default().to_owned();
    let number = |name: &str| query.get(name).and_then(|value| value.parse().ok());
    LogRequest {
        uuid: String::new(),
        namespace: of.namespace,
        pod_name: of.name,
        container: text("container"),
        follow: query.is_set("follow"),
        tail_lines: number("tailLines"),
        since_seconds: number("sinceSeconds"),
        since_time: text("sinceTime"),
        timestamps: query.is_set("timestamps"),
        previous: query.is_set("previous"),
        insecure_backend: query.is_set("insecureSkipTLSVerifyBackend"),
        limit_bytes: number("limitBytes"),
    }
}

fn exec(of: Subject, query: &Query) -> TerminalRequest {
    TerminalRequest {
        uuid: String::new(),
        namespace: of.namespace,
        pod_name: of.name,
        container_name: query.get("container").unwrap_or_default().to_owned(),
        command: query.all("command").map(str::to_owned).collect(),
        tty: query.is_set("tty"),
        stdin: query.is_set("stdin"),
        stdout: query.is_set("stdout"),
        stderr: query.is_set("stderr"),
    }
}

#[cfg(test)]
mod tests;
