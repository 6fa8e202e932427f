//! What a request to a Kubernetes API is about, read as Kubernetes reads it.

use http::Method;
use thane_api::live::Query;

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    /// What is done: one of Kubernetes' verbs.
    pub verb: &'static str,
    /// The API group; empty for the core.
    pub group: String,
    /// The plural of the kind; empty for discovery, versions and health.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace; empty for objects that have none, and for all namespaces.
    pub namespace: String,
    /// The object's name; empty for a collection.
    pub name: String,
}

/// Why a request is none that Kubernetes knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The path cannot be read.
    #[error("the path cannot be read")]
    Path,
    /// Kubernetes has nothing there.
    #[error("the server could not find the requested resource")]
    Place,
    /// That cannot be done there.
    #[error("the server does not allow this method on the requested resource")]
    Verb,
}

/// Subresources that begin a session, whichever method asks.
const SESSIONS: [&str; 4] = ["exec", "attach", "portforward", "proxy"];
/// What may follow a namespace's own name.
const OF_NAMESPACES: [&str; 2] = ["status", "finalize"];
/// Documents about the server itself.
const DOCUMENTS: [&str; 5] = ["version", "openapi", "healthz", "livez", "readyz"];
/// Bytes of a path.
const PATH_MAX: usize = 8 * 1024;

impl Target {
    /// Reads method, path and query.
    pub fn read(method: &Method, path: &str, query: Option<&str>) -> Result<Self, Unknown> {
        let segments = segments(path)?;
        let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
        match parts.as_slice() {
            ["api" | "apis"] | ["api" | "apis", _] | ["apis", _, _] => Self::document(method),
            [first, ..] if DOCUMENTS.contains(first) => Self::document(method),
            ["api", _, rest @ ..] => Self::resource(method, "", rest, query),
            ["apis", group, _, rest @ ..] => Self::resource(method, group, rest, query),
            _ => Err(Unknown::Place),
        }
    }

    /// Whether it is about the server and not about objects.
    pub fn is_document(&self) -> bool {
        self.resource.is_empty()
    }

    /// Its kind in the words of policies: `deployments.apps/scale`.
    pub fn kind(&self) -> String {
        let mut kind = self.resource.clone();
        if !self.group.is_empty() {
            kind = format!("{kind}.{}", self.group);
        }
        if !self.subresource.is_empty() {
            kind = format!("{kind}/{}", self.subresource);
        }
        kind
    }

    fn document(method: &Method) -> Result<Self, Unknown> {
        if method != Method::GET && method != Method::HEAD {
            return Err(Unknown::Verb);
        }
        Ok(Self { verb: "get", ..Self::default() })
    }

    fn resource(method: &Method, group: &str, rest: &[&str], query: Option<&str>) -> Result<Self, Unknown> {
        // An old way to ask for a watch.
        let (rest, watched) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (rest, true),
            ["proxy" | "redirect", ..] => return Err(Unknown::Place),
            rest => (rest, false),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, sub] if OF_NAMESPACES.contains(sub) => (*namespace, rest),
            ["namespaces", namespace] => (*namespace, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (resource, name, subresource) = match rest {
            [resource] => (*resource, "", ""),
            [resource, name] => (*resource, *name, ""),
            [resource, name, subresource] => (*resource, *name, *subresource),
            // Paths that are the proxied server's own, and nothing else.
            [resource, name, "proxy", ..] => (*resource, *name, "proxy"),
            _ => return Err(Unknown::Place),
        };
        let verb = if SESSIONS.contains(&subresource) {
            "create"
        } else {
            verb(method, name.is_empty(), watched || asks_to_watch(query))?
        };
        let text = str::to_owned;
        Ok(Self {
            verb,
            group: text(group),
            resource: text(resource),
            subresource: text(subresource),
            namespace: text(namespace),
            name: text(name),
        })
    }
}

fn verb(method: &Method, of_many: bool, watched: bool) -> Result<&'static str, Unknown> {
    Ok(match *method {
        Method::GET | Method::HEAD if watched => "watch",
        Method::GET | Method::HEAD if of_many => "list",
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if of_many => "deletecollection",
        Method::DELETE => "delete",
        _ => return Err(Unknown::Verb),
    })
}

/// Whether any `watch` in a query, however it is written, could be read as yes.
fn asks_to_watch(query: Option<&str>) -> bool {
    let query = Query::parse(query.unwrap_or_default());
    let mut values = query.iter().filter(|(name, _)| *name == "watch").map(|(_, value)| value);
    values.any(|value| !matches!(value, "0" | "f" | "F" | "false" | "False" | "FALSE"))
}

fn segments(path: &str) -> Result<Vec<String>, Unknown> {
    if path.len() > PATH_MAX {
        return Err(Unknown::Path);
    }
    let path = path.strip_prefix('/').ok_or(Unknown::Path)?;
    // Discovery clients ask for `/api/` as well.
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/').map(segment).collect()
}

/// One piece of a path; none that another server could read as more than one.
fn segment(text: &str) -> Result<String, Unknown> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next(), rest.next()].map(|digit| digit.and_then(|digit| (digit as char).to_digit(16)));
            let [Some(high), Some(low)] = digits else { return Err(Unknown::Path) };
            bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
        } else {
            bytes.push(byte);
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| Unknown::Path)?;
    let bad = |letter: char| letter == '/' || letter == '%' || letter == '\\' || letter.is_control();
    if text == "." || text == ".." || text.contains(bad) {
        return Err(Unknown::Path);
    }
    if text.is_empty() { Err(Unknown::Place) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_kubernetes_reads_them() {
        for (method, path, expected) in [
            ("GET", "/api/v1/pods", "list pods - -"),
            ("GET", "/api/v1/pods?watch=true", "watch pods - -"),
            ("GET", "/api/v1/pods?watch=false", "list pods - -"),
            ("GET", "/api/v1/pods?%77atch=true", "watch pods - -"),
            ("GET", "/api/v1/pods?w%61tch=%31", "watch pods - -"),
            ("GET", "/api/v1/pods?watch=1", "watch pods - -"),
            ("GET", "/api/v1/pods?watch", "watch pods - -"),
            ("GET", "/api/v1/pods?watch=%66alse", "list pods - -"),
            ("GET", "/api/v1/pods?watch=false&watch=true", "watch pods - -"),
            ("GET", "/api/v1/pods?watch=false&limit=1&%77%61tch=1", "watch pods - -"),
            ("GET", "/api/v1/pods?limit=1;watch=true", "list pods - -"),
            ("GET", "/api/v1/pods?follow=true", "list pods - -"),
            ("HEAD", "/api/v1/namespaces/a/pods/p?watch=t", "watch pods a p"),
            ("DELETE", "/api/v1/namespaces/a/pods?watch=true", "deletecollection pods a -"),
            ("GET", "/api/v1/namespaces/a/pods/p/log?%66ollow=true&follow=1", "get pods/log a p"),
            ("GET", "/api/v1/watch/namespaces/a/pods", "watch pods a -"),
            ("GET", "/api/v1/namespaces/a/pods/p", "get pods a p"),
            ("GET", "/api/v1/namespaces/a/pods/p/log?follow=true", "get pods/log a p"),
            ("GET", "/api/v1/namespaces/a/pods/p/exec?command=ls", "create pods/exec a p"),
            ("POST", "/api/v1/namespaces/a/pods/p/exec", "create pods/exec a p"),
            ("GET", "/api/v1/namespaces/a/services/s/proxy/x/y", "create services/proxy a s"),
            ("GET", "/api/v1/namespaces", "list namespaces - -"),
            ("DELETE", "/api/v1/namespaces/a", "delete namespaces a a"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update namespaces/finalize a a"),
            ("POST", "/apis/apps/v1/namespaces/a/deployments", "create deployments.apps a -"),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/d/scale", "patch deployments.apps/scale a d"),
            ("DELETE", "/apis/apps/v1/namespaces/a/deployments", "deletecollection deployments.apps a -"),
            ("GET", "/apis/argoproj.io/v1alpha1/applications", "list applications.argoproj.io - -"),
            (
                "GET",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "get clusterroles.rbac.authorization.k8s.io - system:node",
            ),
            ("GET", "/api", "get  - -"),
            ("GET", "/apis/apps/v1", "get  - -"),
            ("GET", "/version", "get  - -"),
            ("GET", "/openapi/v3/apis/apps/v1", "get  - -"),
        ] {
            let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
            let target = Target::read(&method.parse().unwrap(), path, query).unwrap();
            let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
            let kind = target.kind();
            let told = format!("{} {kind} {} {}", target.verb, or_dash(&target.namespace), or_dash(&target.name));
            assert_eq!(told, expected, "{method} {path}");
        }
    }

    #[test]
    fn what_is_no_kubernetes_path_is_refused() {
        for (method, path, expected) in [
            ("GET", "/", Unknown::Place),
            ("GET", "/metrics", Unknown::Place),
            ("GET", "/api//pods", Unknown::Place),
            ("GET", "/api/v1/namespaces/a/pods/p/log/x", Unknown::Place),
            ("GET", "/api/v1/proxy/nodes/n", Unknown::Place),
            ("GET", "/api/v1/namespaces/../pods", Unknown::Path),
            ("GET", "/api/v1/namespaces/%2e%2e/pods", Unknown::Path),
            ("GET", "/api/v1/namespaces/a%2Fb/pods", Unknown::Path),
            ("GET", "/api/v1/pods%", Unknown::Path),
            ("GET", "/api/v1/pods%ff", Unknown::Path),
            ("GET", "/api/v1/a%00b", Unknown::Path),
            ("POST", "/api", Unknown::Verb),
            ("OPTIONS", "/api/v1/pods", Unknown::Verb),
            ("CONNECT", "/api/v1/pods", Unknown::Verb),
        ] {
            let read = Target::read(&method.parse().unwrap(), path, None);
            assert_eq!(read, Err(expected), "{method} {path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_path_is_read_as_something_else_by_the_next_server(path in "(/[a-z%./0-9A-F]{0,8}){0,7}") {
            if let Ok(target) = Target::read(&Method::GET, &path, None) {
                for part in [&target.resource, &target.name, &target.namespace, &target.subresource] {
                    proptest::prop_assert!(!part.contains('/') && part != ".." && part != ".");
                }
            }
        }
    }
}
