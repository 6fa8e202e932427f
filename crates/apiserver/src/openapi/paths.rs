//! The operations of a document: clients look here for a resource's kind and for the parameters its verbs take.

use serde_json::{Map, Value, json};

use super::{Resource, Source};

const JSON: &str = "application/json";
/// How an object can be patched; the last way only if it is of a built-in kind.
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

fn query(name: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}

fn in_path(name: &str, description: &str) -> Value {
    json!({
        "name": name, "in": "path", "description": description, "required": true,
        "schema": {"type": "string", "uniqueItems": true},
    })
}

fn writing() -> Vec<Value> {
    ["dryRun", "fieldManager", "fieldValidation"].map(|name| query(name, "string")).to_vec()
}

fn listing() -> Vec<Value> {
    vec![
        query("allowWatchBookmarks", "boolean"),
        query("continue", "string"),
        query("fieldSelector", "string"),
        query("labelSelector", "string"),
        query("limit", "integer"),
        query("resourceVersion", "string"),
        query("resourceVersionMatch", "string"),
        query("sendInitialEvents", "boolean"),
        query("timeoutSeconds", "integer"),
        query("watch", "boolean"),
    ]
}

fn deleting() -> Vec<Value> {
    vec![
        query("dryRun", "string"),
        query("gracePeriodSeconds", "integer"),
        query("orphanDependents", "boolean"),
        query("propagationPolicy", "string"),
    ]
}

fn content(types: &[&str], definition: &str) -> Value {
    let schema = json!({"schema": {"$ref": format!("#/components/schemas/{definition}")}});
    types.iter().map(|kind| ((*kind).to_owned(), schema.clone())).collect::<Map<_, _>>().into()
}

struct Operation<'a> {
    action: &'a str,
    description: String,
    parameters: Vec<Value>,
    body: Option<Value>,
    answer: &'a str,
}

impl Operation<'_> {
    fn build(self, resource: &Resource<'_>) -> Value {
        let group = if resource.group.is_empty() { "core" } else { resource.group };
        let mut operation = json!({
            "tags": [format!("{}_{}", group.split('.').next().unwrap_or_default(), resource.version)],
            "description": self.description,
            "parameters": self.parameters,
            "responses": {
                "200": {"description": "OK", "content": content(&[JSON], self.answer)},
                "401": {"description": "Unauthorized"},
            },
            "x-kubernetes-action": self.action,
            "x-kubernetes-group-version-kind": resource.gvk(resource.kind),
        });
        if let Some(body) = self.body {
            operation["requestBody"] = json!({"content": body, "required": true});
        }
        operation
    }
}

/// The operations on a resource, its items and its subresources.
pub(super) fn add(resource: &Resource<'_>, paths: &mut Map<String, Value>) {
    let prefix = resource.prefix();
    let plural = resource.plural;
    let namespaced = format!("{prefix}/namespaces/{{namespace}}/{plural}");
    let base = if resource.namespaced { namespaced } else { format!("{prefix}/{plural}") };
    let scope: Vec<Value> = if resource.namespaced {
        vec![
            in_path("namespace", "object name and auth scope, such as for teams and projects"),
            query("pretty", "string"),
        ]
    } else {
        vec![query("pretty", "string")]
    };
    let definition = resource.definition();
    if resource.list_kind.is_empty() {
        let create = create(resource, &definition);
        paths.insert(base, json!({"post": create, "parameters": scope}));
        return;
    }
    let list_definition = resource.list_definition();
    let list = || {
        let description = format!("list objects of kind {}", resource.kind);
        Operation { action: "list", description, parameters: listing(), body: None, answer: &list_definition }
            .build(resource)
    };
    if resource.namespaced {
        paths.insert(format!("{prefix}/{plural}"), json!({"get": list(), "parameters": [query("pretty", "string")]}));
    }
    let collection = json!({
        "get": list(),
        "post": create(resource, &definition),
        "delete": Operation {
            action: "deletecollection",
            description: format!("delete collection of {}", resource.kind),
            parameters: listing().into_iter().chain(deleting()).collect(),
            body: None,
            answer: &definition,
        }
        .build(resource),
        "parameters": scope.clone(),
    });
    paths.insert(base.clone(), collection);
    let mut item_scope = vec![in_path("name", &format!("name of the {}", resource.kind))];
    item_scope.extend(scope);
    let mut item = item(resource, &definition, &item_scope);
    item["delete"] = Operation {
        action: "delete",
        description: format!("delete a {}", resource.kind),
        parameters: deleting(),
        body: Some(content(&[JSON], "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")),
        answer: &definition,
    }
    .build(resource);
    for subresource in resource.subresources {
        paths.insert(format!("{base}/{{name}}/{subresource}"), self::item(resource, &definition, &item_scope));
    }
    paths.insert(format!("{base}/{{name}}"), item);
}

fn create(resource: &Resource<'_>, definition: &str) -> Value {
    Operation {
        action: "post",
        description: format!("create a {}", resource.kind),
        parameters: writing(),
        body: Some(content(&[JSON], definition)),
        answer: definition,
    }
    .build(resource)
}

fn item(resource: &Resource<'_>, definition: &str, scope: &[Value]) -> Value {
    let kind = resource.kind;
    let read = Operation {
        action: "get",
        description: format!("read the specified {kind}"),
        parameters: vec![query("resourceVersion", "string")],
        body: None,
        answer: definition,
    };
    let replace = Operation {
        action: "put",
        description: format!("replace the specified {kind}"),
        parameters: writing(),
        body: Some(content(&[JSON], definition)),
        answer: definition,
    };
    let patches = match resource.schema {
        Source::Builtin(_) => &PATCHES[..],
        // kubectl would choose the last, and be refused
        Source::Custom(_) => &PATCHES[..3],
    };
    let patch = Operation {
        action: "patch",
        description: format!("partially update the specified {kind}"),
        parameters: writing().into_iter().chain([query("force", "boolean")]).collect(),
        body: Some(content(patches, "io.k8s.apimachinery.pkg.apis.meta.v1.Patch")),
        answer: definition,
    };
    json!({
        "get": read.build(resource),
        "put": replace.build(resource),
        "patch": patch.build(resource),
        "parameters": scope,
    })
}
