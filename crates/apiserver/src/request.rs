//! What a request asks for, read from its method, path and query.

use http::Method;

use crate::authz::Action;

/// A request taken apart the way Kubernetes does it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or the method in lower case.
    pub verb: String,
    /// The path as sent.
    pub path: String,
    /// It names a resource.
    pub is_resource: bool,
    /// API group; empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace; empty for cluster-wide.
    pub namespace: String,
    /// Resource (plural).
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// Object name.
    pub name: String,
    /// Path elements behind the subresource.
    pub rest: Vec<String>,
}

impl RequestInfo {
    /// Reads method, path and query.
    pub(crate) fn parse(method: &Method, path: &str, query: &Query) -> Self {
        let mut info = Self { verb: method.as_str().to_ascii_lowercase(), path: path.to_owned(), ..Self::default() };
        let decoded: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(percent_decode).collect();
        let mut parts: &[String] = &decoded;
        if parts.len() < 3 {
            return info;
        }
        match parts[0].as_str() {
            "api" => parts = &parts[1..],
            "apis" if parts.len() >= 4 => {
                info.group.clone_from(&parts[1]);
                parts = &parts[2..];
            }
            _ => return info,
        }
        info.is_resource = true;
        info.version.clone_from(&parts[0]);
        parts = &parts[1..];
        let by_prefix = parts[0] == "watch" && parts.len() > 1;
        if by_prefix {
            parts = &parts[1..];
        }
        info.take_parts(parts);
        info.verb = if by_prefix { "watch".to_owned() } else { info.verb_of(method, query).to_owned() };
        if matches!(info.verb.as_str(), "list" | "watch") && info.name.is_empty() {
            info.name = query.first("fieldSelector").and_then(name_in_selector).unwrap_or_default();
        }
        info
    }

    fn take_parts(&mut self, mut parts: &[String]) {
        if parts[0] == "namespaces" && parts.len() > 1 {
            self.namespace.clone_from(&parts[1]);
            if parts.len() > 2 && !matches!(parts[2].as_str(), "status" | "finalize") {
                parts = &parts[2..];
            }
        }
        self.resource = parts.first().cloned().unwrap_or_default();
        self.name = parts.get(1).cloned().unwrap_or_default();
        self.subresource = parts.get(2).cloned().unwrap_or_default();
        self.rest = parts.iter().skip(3).cloned().collect();
    }

    fn verb_of(&self, method: &Method, query: &Query) -> &'static str {
        match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if self.name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            Method::GET | Method::HEAD if !self.name.is_empty() => "get",
            Method::GET | Method::HEAD if query.flag("watch") => "watch",
            Method::GET | Method::HEAD => "list",
            _ => "",
        }
    }

    /// What must be allowed for it.
    pub(crate) fn action(&self) -> Action {
        if !self.is_resource {
            return Action { verb: self.verb.clone(), path: Some(self.path.clone()), ..Action::default() };
        }
        Action {
            verb: self.verb.clone(),
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            path: None,
        }
    }
}

/// The object name a field selector pins down, which RBAC then takes into account.
fn name_in_selector(selector: &str) -> Option<String> {
    selector.split(',').find_map(|term| {
        let value = term.strip_prefix("metadata.name=")?;
        let value = value.strip_prefix('=').unwrap_or(value);
        (!value.is_empty() && !value.contains(['/', '%', '!', '='])).then(|| value.to_owned())
    })
}

/// The query string, decoded, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes `a=b&c=d`.
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent_decode(&key.replace('+', " ")), percent_decode(&value.replace('+', " ")))
        });
        Self(pairs.collect())
    }

    /// The first value of a parameter.
    pub(crate) fn first(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Kubernetes takes a boolean parameter as set unless it says `false` or `0`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.first(key).is_some_and(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }
}

/// Decodes `%41`; what is not a valid escape stays as it is, and bytes that are not UTF-8 are replaced.
pub(crate) fn percent_decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(byte) = escaped {
            out.push(byte);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, uri: &str, expected: &str) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let info = RequestInfo::parse(&method.parse().unwrap(), path, &Query::parse(query));
        let got = format!(
            "{} {}/{} ns={} {} name={} sub={}",
            info.verb, info.group, info.version, info.namespace, info.resource, info.name, info.subresource
        );
        assert_eq!(got, expected, "{method} {uri}");
    }

    #[test]
    fn paths_are_taken_apart() {
        check("GET", "/api/v1/pods", "list /v1 ns= pods name= sub=");
        check("GET", "/api/v1/pods?watch=1", "watch /v1 ns= pods name= sub=");
        check("GET", "/api/v1/watch/pods", "watch /v1 ns= pods name= sub=");
        check("GET", "/api/v1/namespaces/a", "get /v1 ns=a namespaces name=a sub=");
        check("PUT", "/api/v1/namespaces/a/finalize", "update /v1 ns=a namespaces name=a sub=finalize");
        check("DELETE", "/api/v1/namespaces/a/pods", "deletecollection /v1 ns=a pods name= sub=");
        check("POST", "/apis/apps.example/v1/namespaces/a/things", "create apps.example/v1 ns=a things name= sub=");
        check("PATCH", "/apis/g/v1/things/x/status", "patch g/v1 ns= things name=x sub=status");
        check("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx", "list /v1 ns= pods name=x sub=");
        check("GET", "/healthz", "get / ns=  name= sub=");
        check("GET", "/apis/apps/v1", "get / ns=  name= sub=");
    }

    proptest::proptest! {
        #[test]
        fn any_path_and_query_is_read(path in "\\PC*", query in "\\PC*") {
            let query = Query::parse(&query);
            RequestInfo::parse(&Method::GET, &path, &query).action();
        }
    }
}
