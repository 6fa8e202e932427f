//! What clients look for in a document.

use std::collections::BTreeSet;

use super::*;

fn pods() -> Resource<'static> {
    Resource {
        group: "",
        version: "v1",
        kind: "Pod",
        list_kind: "PodList",
        plural: "pods",
        namespaced: true,
        subresources: &["status"],
        schema: Source::Builtin("io.k8s.api.core.v1.Pod"),
    }
}

fn parsed(resources: &[Resource<'_>]) -> Value {
    serde_json::from_slice(&document(resources)).unwrap()
}

fn refs(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(target)) = map.get("$ref") {
                found.insert(target.clone());
            }
            map.values().for_each(|child| refs(child, found));
        }
        Value::Array(items) => items.iter().for_each(|child| refs(child, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let crd = Resource {
        group: "apiextensions.k8s.io",
        version: "v1",
        kind: "CustomResourceDefinition",
        list_kind: "CustomResourceDefinitionList",
        plural: "customresourcedefinitions",
        namespaced: false,
        subresources: &["status"],
        schema: Source::Builtin("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"),
    };
    for document in [parsed(&[pods()]), parsed(&[crd])] {
        let mut found = BTreeSet::new();
        refs(&document, &mut found);
        for target in found {
            let name = target.strip_prefix("#/components/schemas/").unwrap_or_else(|| panic!("{target}"));
            assert!(document["components"]["schemas"].get(name).is_some(), "{target}");
        }
    }
}

#[test]
fn a_built_in_kind_says_how_it_merges() {
    let document = parsed(&[pods()]);
    let schemas = &document["components"]["schemas"];
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(
        schemas["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"],
        json!([{"group": "", "kind": "Pod", "version": "v1"}])
    );
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-action"], "patch");
    let names = patch["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["dryRun", "fieldManager", "fieldValidation", "force"]);
}

#[test]
fn a_custom_kind_is_named_after_its_group() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "description": "Wanted."}}});
    let widget = Resource {
        group: "schema.test.io",
        version: "v1",
        kind: "Widget",
        list_kind: "WidgetList",
        plural: "widgets",
        namespaced: true,
        subresources: &[],
        schema: Source::Custom(Some(&schema)),
    };
    let document = parsed(&[widget]);
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["io.test.schema.v1.Widget"]["properties"]["spec"]["description"], "Wanted.");
    assert!(schemas["io.test.schema.v1.Widget"]["properties"]["metadata"]["allOf"][0]["$ref"].is_string());
    assert_eq!(
        schemas["io.test.schema.v1.WidgetList"]["properties"]["items"]["items"],
        json!({"$ref": "#/components/schemas/io.test.schema.v1.Widget"})
    );
}

#[test]
fn the_index_leads_to_documents_by_hash() {
    let hash = hash(b"x");
    let index: Value = serde_json::from_slice(&index([(path("", "v1").as_str(), hash.as_str())])).unwrap();
    assert_eq!(index["paths"]["api/v1"]["serverRelativeURL"], format!("/openapi/v3/api/v1?hash={hash}"));
    assert_eq!(hash.len(), 128);
}

/// kubectl apply sends the strongest kind of patch it finds here.
#[test]
fn only_built_in_kinds_merge_strategically() {
    let check = |resource: Resource<'_>, path: &str, expected: bool| {
        let document = parsed(&[resource]);
        let content = &document["paths"][path]["patch"]["requestBody"]["content"];
        assert!(content.get("application/merge-patch+json").is_some(), "{document}");
        assert_eq!(content.get("application/strategic-merge-patch+json").is_some(), expected);
    };
    check(pods(), "/api/v1/namespaces/{namespace}/pods/{name}", true);
    let toy = Resource {
        group: "example.com",
        kind: "Toy",
        list_kind: "ToyList",
        plural: "toys",
        schema: Source::Custom(None),
        ..pods()
    };
    check(toy, "/apis/example.com/v1/namespaces/{namespace}/toys/{name}", false);
}

/// kubectl reads the second version as protobuf; these are the fields of `openapi.v2.Document`.
#[test]
fn the_second_version_is_a_document_without_schemas() {
    let bytes = legacy(true);
    let info = &bytes[7..7 + usize::from(bytes[6])];
    assert_eq!((&bytes[..5], bytes[5]), (&b"\x0a\x032.0"[..], 0x12));
    assert_eq!(info, b"\x0a\x0aKubernetes\x12\x041.34");
    assert_eq!(&bytes[7 + info.len()..], b"\x42\x00");
    assert!(serde_json::from_slice::<Value>(&legacy(false)).is_ok());
}
