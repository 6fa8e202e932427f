//! The kinds a server has, and what people call them.

use kube::client::APIGroupDiscovery;
use thane_api::code;

use crate::failure::Failure;

/// One kind in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) verbs: Vec<String>,
    pub(crate) namespaced: bool,
}

impl Resource {
    /// The URL path of the collection.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.plural),
            None => format!("{root}/{}", self.plural),
        }
    }

    /// How messages call it: `configmap`, `deployment.apps`.
    pub(crate) fn label(&self) -> String {
        let name = if self.singular.is_empty() { self.kind.to_lowercase() } else { self.singular.clone() };
        if self.group.is_empty() { name } else { format!("{name}.{}", self.group) }
    }

    fn is_called(&self, name: &str) -> bool {
        self.plural == name
            || self.singular == name
            || self.kind.to_lowercase() == name
            || self.short_names.iter().any(|short| short == name)
    }
}

/// Every kind of a server, preferred groups and versions first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    resources: Vec<Resource>,
}

impl Catalog {
    pub(crate) fn new(groups: impl IntoIterator<Item = APIGroupDiscovery>) -> Self {
        Self { resources: groups.into_iter().flat_map(resources).collect() }
    }

    /// What a word means: a kind's name, `name.group`, `name.version.group`, or a category.
    pub(crate) fn find(&self, word: &str) -> Result<Vec<&Resource>, Failure> {
        let lower = word.to_lowercase();
        let (name, rest) = lower.split_once('.').map_or((lower.as_str(), None), |(name, rest)| (name, Some(rest)));
        let in_group = |resource: &&Resource| match rest {
            None => true,
            Some(group) if resource.group == group => true,
            Some(rest) => {
                let (version, group) = rest.split_once('.').unwrap_or((rest, ""));
                resource.version == version && resource.group == group
            }
        };
        if let Some(resource) = self.resources.iter().filter(in_group).find(|resource| resource.is_called(name)) {
            return Ok(vec![resource]);
        }
        let mut category: Vec<&Resource> = Vec::new();
        for resource in self.resources.iter().filter(|resource| resource.categories.contains(&lower)) {
            // Another version of a kind already taken would list the same objects twice.
            if !category.iter().any(|taken| (&taken.group, &taken.plural) == (&resource.group, &resource.plural)) {
                category.push(resource);
            }
        }
        if category.is_empty() { Err(unknown(word)) } else { Ok(category) }
    }

    /// The kind a manifest names.
    pub(crate) fn kind(&self, api_version: &str, kind: &str) -> Result<&Resource, Failure> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let found = self.resources.iter().find(|r| r.group == group && r.version == version && r.kind == kind);
        found.ok_or_else(|| unknown(&format!("{kind} in {api_version}")))
    }
}

fn unknown(what: &str) -> Failure {
    Failure::new(code::KIND_UNKNOWN, format!("the server has no kind called {what}"))
}

fn resources(group: APIGroupDiscovery) -> Vec<Resource> {
    let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
    let mut resources = Vec::new();
    for version in group.versions {
        let version_name = version.version.unwrap_or_default();
        for found in version.resources {
            resources.push(Resource {
                group: name.clone(),
                version: version_name.clone(),
                kind: found.response_kind.and_then(|kind| kind.kind).unwrap_or_default(),
                plural: found.resource.unwrap_or_default(),
                singular: found.singular_resource.unwrap_or_default(),
                short_names: found.short_names,
                categories: found.categories,
                verbs: found.verbs,
                namespaced: found.scope.as_deref() == Some("Namespaced"),
            });
        }
    }
    resources
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn catalog() -> Catalog {
        let resource = |plural: &str, singular: &str, kind: &str, short: &[&str], scope: &str| {
            json!({
                "resource": plural, "singularResource": singular, "responseKind": {"kind": kind}, "scope": scope,
                "shortNames": short, "verbs": ["get", "list"], "categories": if plural == "pods" { json!(["all"]) } else { json!([]) },
            })
        };
        let groups = json!([
            {"metadata": {}, "versions": [{"version": "v1", "resources": [
                resource("pods", "pod", "Pod", &["po"], "Namespaced"),
                resource("nodes", "node", "Node", &["no"], "Cluster"),
                resource("events", "event", "Event", &["ev"], "Namespaced"),
            ]}]},
            {"metadata": {"name": "events.k8s.io"}, "versions": [{"version": "v1", "resources": [
                resource("events", "event", "Event", &["ev"], "Namespaced"),
            ]}]},
            {"metadata": {"name": "argoproj.io"}, "versions": [
                {"version": "v1", "resources": [resource("applications", "application", "Application", &["app"], "Namespaced")]},
                {"version": "v1alpha1", "resources": [resource("applications", "application", "Application", &["app"], "Namespaced")]},
            ]},
        ]);
        Catalog::new(serde_json::from_value::<Vec<APIGroupDiscovery>>(groups).unwrap())
    }

    #[test]
    fn people_may_call_kinds_by_any_of_their_names() {
        let catalog = catalog();
        let check = |word: &str, expected: &str| {
            let found = catalog.find(word).map_or_else(|_| "none".to_owned(), |found| found[0].path(Some("ns")));
            assert_eq!(found, expected, "{word}");
        };
        for word in ["pods", "pod", "po", "Pod", "PODS", "all", "pods.v1"] {
            check(word, "/api/v1/namespaces/ns/pods");
        }
        check("nodes", "/api/v1/nodes");
        check("events", "/api/v1/namespaces/ns/events");
        check("events.events.k8s.io", "/apis/events.k8s.io/v1/namespaces/ns/events");
        check("app", "/apis/argoproj.io/v1/namespaces/ns/applications");
        check("applications.v1alpha1.argoproj.io", "/apis/argoproj.io/v1alpha1/namespaces/ns/applications");
        for word in ["", "podz", "pods.apps", ".", "app.v2.argoproj.io"] {
            check(word, "none");
        }
        assert_eq!(catalog.kind("argoproj.io/v1alpha1", "Application").unwrap().label(), "application.argoproj.io");
        assert_eq!(catalog.kind("v1", "Node").unwrap().path(None), "/api/v1/nodes");
        assert!(catalog.kind("v2", "Node").is_err());
    }
}
