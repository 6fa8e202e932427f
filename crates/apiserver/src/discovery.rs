//! What this server has, in the forms clients ask for it. Pure: from the types to JSON.

use serde_json::{Value, json};

use crate::catalog::{Group, Types};
use crate::resource::ResourceType;

/// A resource that is answered and never stored.
pub(crate) struct Virtual {
    /// API group.
    pub group: &'static str,
    /// Resource name.
    pub plural: &'static str,
    /// Resource name for one.
    pub singular: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Lives in a namespace.
    pub namespaced: bool,
    /// Name of its `OpenAPI` definition.
    pub definition: &'static str,
}

/// All of them; each only knows `create` and version v1.
pub(crate) const VIRTUAL: &[Virtual] = &[
    Virtual {
        group: "",
        plural: "bindings",
        singular: "binding",
        kind: "Binding",
        namespaced: true,
        definition: "io.k8s.api.core.v1.Binding",
    },
    Virtual {
        group: "authentication.k8s.io",
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        kind: "SelfSubjectReview",
        namespaced: false,
        definition: "io.k8s.api.authentication.v1.SelfSubjectReview",
    },
    Virtual {
        group: "authentication.k8s.io",
        plural: "tokenreviews",
        singular: "tokenreview",
        kind: "TokenReview",
        namespaced: false,
        definition: "io.k8s.api.authentication.v1.TokenReview",
    },
    Virtual {
        group: "authorization.k8s.io",
        plural: "localsubjectaccessreviews",
        singular: "localsubjectaccessreview",
        kind: "LocalSubjectAccessReview",
        namespaced: true,
        definition: "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    },
    Virtual {
        group: "authorization.k8s.io",
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        kind: "SelfSubjectAccessReview",
        namespaced: false,
        definition: "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    },
    Virtual {
        group: "authorization.k8s.io",
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        kind: "SelfSubjectRulesReview",
        namespaced: false,
        definition: "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    },
    Virtual {
        group: "authorization.k8s.io",
        plural: "subjectaccessreviews",
        singular: "subjectaccessreview",
        kind: "SubjectAccessReview",
        namespaced: false,
        definition: "io.k8s.api.authorization.v1.SubjectAccessReview",
    },
];

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const PART_VERBS: &[&str] = &["get", "patch", "update"];

/// The verbs of a type.
pub(crate) fn verbs(kind: &ResourceType) -> Vec<&'static str> {
    let bulk = !kind.is("", "namespaces");
    let mut verbs: Vec<&str> = VERBS.iter().copied().filter(|verb| bulk || *verb != "deletecollection").collect();
    if kind.is_custom() {
        // the order in which Kubernetes lists them for custom resources
        verbs = vec!["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    }
    verbs
}

/// A subresource of a type.
pub(crate) struct Part {
    /// Its name.
    pub name: &'static str,
    /// Group, version and kind it speaks, where they differ from the type's.
    pub kind: Option<(&'static str, &'static str, &'static str)>,
    /// Its verbs.
    pub verbs: &'static [&'static str],
}

/// The subresources of a type, in order of their names.
pub(crate) fn parts(kind: &ResourceType) -> Vec<Part> {
    let status = || Part { name: "status", kind: None, verbs: PART_VERBS };
    let mut parts = Vec::new();
    match (kind.is_custom(), kind.group.as_str(), kind.plural.as_str()) {
        (false, "", "namespaces") => parts.push(Part { name: "finalize", kind: None, verbs: &["update"] }),
        (false, "", "pods") => parts.extend([
            Part { name: "attach", kind: Some(("", "", "PodAttachOptions")), verbs: &["create", "get"] },
            Part { name: "binding", kind: Some(("", "", "Binding")), verbs: &["create"] },
            Part { name: "eviction", kind: Some(("policy", "v1", "Eviction")), verbs: &["create"] },
            Part { name: "exec", kind: Some(("", "", "PodExecOptions")), verbs: &["create", "get"] },
            Part { name: "log", kind: None, verbs: &["get"] },
            Part { name: "portforward", kind: Some(("", "", "PodPortForwardOptions")), verbs: &["create", "get"] },
        ]),
        (false, "", "serviceaccounts") => parts.push(Part {
            name: "token",
            kind: Some(("authentication.k8s.io", "v1", "TokenRequest")),
            verbs: &["create"],
        }),
        _ => {}
    }
    if kind.scale.is_some() {
        parts.push(Part { name: "scale", kind: Some(("autoscaling", "v1", "Scale")), verbs: PART_VERBS });
    }
    if kind.status {
        parts.push(status());
    }
    parts
}

/// The groups, those of virtual resources included.
pub(crate) fn groups(types: &Types) -> Vec<Group> {
    let mut groups = types.groups().to_vec();
    for name in ["authentication.k8s.io", "authorization.k8s.io"] {
        if !groups.iter().any(|group| group.name == name) {
            groups.push(Group { name: name.to_owned(), versions: vec!["v1".to_owned()] });
        }
    }
    groups.sort_by_key(|group| (crate::catalog::group_rank(&group.name), group.name.clone()));
    groups
}

fn is_served(types: &Types, group: &str, version: &str) -> bool {
    groups(types).iter().any(|known| known.name == group && known.versions.iter().any(|v| v == version))
}

/// `/api`.
pub(crate) fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

fn group_value(group: &Group) -> Value {
    let version = |version: &String| json!({"groupVersion": format!("{}/{version}", group.name), "version": version});
    json!({
        "name": group.name,
        "versions": group.versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": group.versions.first().map(version),
    })
}

/// `/apis`.
pub(crate) fn group_list(types: &Types) -> Value {
    let groups: Vec<Value> = groups(types).iter().filter(|group| !group.name.is_empty()).map(group_value).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`.
pub(crate) fn group(types: &Types, name: &str) -> Option<Value> {
    let group = groups(types).into_iter().find(|group| group.name == name && !name.is_empty())?;
    let mut value = group_value(&group);
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();
    Some(value)
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
pub(crate) fn resource_list(types: &Types, group: &str, version: &str) -> Option<Value> {
    if !is_served(types, group, version) {
        return None;
    }
    let mut resources: Vec<Value> = Vec::new();
    for kind in types.in_version(group, version) {
        let mut main = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": verbs(kind),
        });
        names(&mut main, kind);
        main["storageVersionHash"] = storage_hash(kind).into();
        resources.push(main);
        for part in parts(kind) {
            let (part_group, part_version, part_kind) = part.kind.unwrap_or(("", "", kind.kind.as_str()));
            let mut entry = json!({
                "name": format!("{}/{}", kind.plural, part.name), "singularName": "",
                "namespaced": kind.namespaced, "kind": part_kind, "verbs": part.verbs,
            });
            if !part_version.is_empty() {
                entry["group"] = part_group.into();
                entry["version"] = part_version.into();
            }
            resources.push(entry);
        }
    }
    if version == "v1" {
        resources.extend(VIRTUAL.iter().filter(|virt| virt.group == group).map(|virt| {
            json!({
                "name": virt.plural, "singularName": virt.singular, "namespaced": virt.namespaced,
                "kind": virt.kind, "verbs": ["create"],
            })
        }));
    }
    resources.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut list = json!({"kind": "APIResourceList", "groupVersion": name, "resources": resources});
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Some(list)
}

fn names(entry: &mut Value, kind: &ResourceType) {
    if !kind.short_names.is_empty() {
        entry["shortNames"] = kind.short_names.clone().into();
    }
    if !kind.categories.is_empty() {
        entry["categories"] = kind.categories.clone().into();
    }
}

/// A short digest of the stored form's name, which clients only compare.
fn storage_hash(kind: &ResourceType) -> String {
    use base64::Engine;
    use sha2::Digest;
    let digest = sha2::Sha256::digest(format!("{}/{}/{}", kind.group, kind.version, kind.kind));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

/// Aggregated discovery of core (`/api`) or of all groups (`/apis`).
pub(crate) fn aggregated(types: &Types, core: bool) -> Value {
    let items: Vec<Value> = groups(types)
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(|group| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|version| json!({"version": version, "resources": aggregated_resources(types, &group.name, version), "freshness": "Current"}))
                .collect();
            let metadata = if core { json!({}) } else { json!({"name": group.name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_resources(types: &Types, group: &str, version: &str) -> Vec<Value> {
    let scope = |namespaced: bool| if namespaced { "Namespaced" } else { "Cluster" };
    let mut resources: Vec<Value> = Vec::new();
    for kind in types.in_version(group, version) {
        // built-in kinds leave group and version empty where they are those of the enclosing entry
        let own = |name: &str| {
            if kind.is_custom() {
                json!({"group": kind.group, "version": kind.version, "kind": name})
            } else {
                json!({"group": "", "version": "", "kind": name})
            }
        };
        let mut entry = json!({
            "resource": kind.plural, "responseKind": own(&kind.kind), "scope": scope(kind.namespaced),
            "singularResource": kind.singular, "verbs": verbs(kind),
        });
        names(&mut entry, kind);
        let parts: Vec<Value> = parts(kind)
            .iter()
            .map(|part| {
                let response = match part.kind {
                    Some((group, version, kind)) => json!({"group": group, "version": version, "kind": kind}),
                    None => own(&kind.kind),
                };
                json!({"subresource": part.name, "responseKind": response, "verbs": part.verbs})
            })
            .collect();
        if !parts.is_empty() {
            entry["subresources"] = parts.into();
        }
        resources.push(entry);
    }
    if version == "v1" {
        resources.extend(VIRTUAL.iter().filter(|virt| virt.group == group).map(|virt| {
            json!({
                "resource": virt.plural, "responseKind": {"group": "", "version": "", "kind": virt.kind},
                "scope": scope(virt.namespaced), "singularResource": virt.singular, "verbs": ["create"],
            })
        }));
    }
    resources.sort_by(|a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
    resources
}

/// `/version`.
pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": "34",
        "emulationMajor": "1", "emulationMinor": "34",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "33",
        "gitVersion": concat!("v1.34.4+thane.", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, go_arch()),
    })
}

/// The processor's name as Go spells it.
fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `/`: the paths there are.
pub(crate) fn paths(types: &Types) -> Value {
    let mut paths: Vec<String> =
        ["/.well-known/openid-configuration", "/api", "/api/v1", "/apis", "/apis/"].map(str::to_owned).into();
    for group in groups(types).iter().filter(|group| !group.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|version| format!("/apis/{}/{version}", group.name)));
    }
    paths.extend(
        ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/openid/v1/jwks", "/readyz", "/version"]
            .map(str::to_owned),
    );
    paths.sort();
    json!({"paths": paths})
}
