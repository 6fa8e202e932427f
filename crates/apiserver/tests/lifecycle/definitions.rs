//! Kinds that come and go while the server runs.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use kube::discovery::ApiResource;
use kube::runtime::wait::{await_condition, conditions};
use serde_json::json;
use thane_kv::{Mutation, Txn};

use crate::{Cluster, eventually};

pub(crate) fn definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": "toys.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "toys", "kind": "Toy"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 1, "maximum": 5}}},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    }))
    .unwrap()
}

pub(crate) fn toys(client: &kube::Client) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Toy"), "toys");
    Api::namespaced_with(client.clone(), "default", &resource)
}

pub(crate) fn toy(name: &str, spec: &serde_json::Value) -> DynamicObject {
    serde_json::from_value(
        json!({"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": name}, "spec": spec, "status": {"x": 1}}),
    )
    .unwrap()
}

pub(crate) async fn established(cluster: &Cluster) -> Api<CustomResourceDefinition> {
    let api: Api<CustomResourceDefinition> = Api::all(cluster.admin());
    api.create(&PostParams::default(), &definition()).await.unwrap();
    let wait = await_condition(api.clone(), "toys.example.com", conditions::is_crd_established());
    tokio::time::timeout(std::time::Duration::from_secs(20), wait).await.unwrap().unwrap();
    api
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_serves_as_soon_as_it_is_established() {
    let cluster = Cluster::start().await;
    established(&cluster).await;
    let api = toys(&cluster.admin());
    let made = api.create(&PostParams::default(), &toy("car", &json!({"odd": true}))).await.unwrap();
    assert_eq!(made.data["spec"], json!({"size": 1}), "unknown fields go, defaults come");
    assert_eq!(made.data.get("status"), None, "status is only written through its own path");
    let refused = api.create(&PostParams::default(), &toy("big", &json!({"size": 9}))).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!(status.code, 422);
    let patch = Patch::Merge(json!({"status": {"ok": true}, "spec": {"size": 3}}));
    let patched = api.patch_status("car", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!((&patched.data["spec"], &patched.data["status"]), (&json!({"size": 1}), &json!({"ok": true})));
    assert_eq!(patched.metadata.generation, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_schema_judges_what_was_stored_before() {
    let cluster = Cluster::start().await;
    let definitions = established(&cluster).await;
    let api = toys(&cluster.admin());
    api.create(&PostParams::default(), &toy("car", &json!({"size": 2}))).await.unwrap();
    let patch = Patch::Json::<()>(
        serde_json::from_value(json!([{
            "op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/colour",
            "value": {"type": "string", "default": "red"},
        }]))
        .unwrap(),
    );
    definitions.patch("toys.example.com", &PatchParams::default(), &patch).await.unwrap();
    eventually("the new default shows", || async {
        api.get("car").await.unwrap().data["spec"] == json!({"size": 2, "colour": "red"})
    })
    .await;
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items[0].data["spec"]["colour"], "red");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_goes_with_its_objects() {
    let cluster = Cluster::start().await;
    let definitions = established(&cluster).await;
    let api = toys(&cluster.admin());
    api.create(&PostParams::default(), &toy("car", &json!({}))).await.unwrap();
    definitions.delete("toys.example.com", &DeleteParams::default()).await.unwrap();
    eventually("the definition goes", || async { definitions.get_opt("toys.example.com").await.unwrap().is_none() })
        .await;
    eventually("the kind is no longer served", || async { api.list(&ListParams::default()).await.is_err() }).await;
    established(&cluster).await;
    assert_eq!(toys(&cluster.admin()).list(&ListParams::default()).await.unwrap().items.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_new_is_stored_while_its_definition_goes() {
    let cluster = Cluster::start().await;
    let definitions = established(&cluster).await;
    let api = toys(&cluster.admin());
    let mut held = toy("car", &json!({}));
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    api.create(&PostParams::default(), &held).await.unwrap();
    definitions.delete("toys.example.com", &DeleteParams::default()).await.unwrap();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let refusal = || async { api.create(&dry, &toy("bus", &json!({}))).await.err() };
    eventually("new objects are refused", || async { refusal().await.is_some() }).await;
    let kube::Error::Api(status) = refusal().await.unwrap() else { panic!("no answer of the server") };
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    let why =
        "toys.example.com \"bus\" is forbidden: create not allowed while custom resource definition is terminating";
    assert_eq!(status.message, why);
    let applied = api.patch("bus", &PatchParams::apply("me"), &Patch::Apply(toy("bus", &json!({})))).await.unwrap_err();
    assert!(matches!(applied, kube::Error::Api(status) if status.message == why));
    let letting_go = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("car", &PatchParams::default(), &letting_go).await.unwrap();
    eventually("the definition goes", || async { definitions.get_opt("toys.example.com").await.unwrap().is_none() })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_created_while_its_definition_goes_does_not_come_back() {
    let cluster = Cluster::start().await;
    for round in 0..10 {
        let definitions = established(&cluster).await;
        let api = toys(&cluster.admin());
        assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 0, "round {round}");
        let writers = (0..4).map(|writer| {
            let api = api.clone();
            async move {
                let mut number = 0;
                while api
                    .create(&PostParams::default(), &toy(&format!("t-{writer}-{number}"), &json!({})))
                    .await
                    .is_ok()
                {
                    number += 1;
                }
            }
        });
        let params = DeleteParams::default();
        let deletion = definitions.delete("toys.example.com", &params);
        let (_, deleted) = tokio::join!(futures::future::join_all(writers), deletion);
        deleted.unwrap();
        eventually("the definition goes", || async {
            definitions.get_opt("toys.example.com").await.unwrap().is_none()
        })
        .await;
        eventually("the kind is no longer served", || async { api.list(&ListParams::default()).await.is_err() }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_starts_again_knows_how_objects_are_stored() {
    let first = Cluster::start().await;
    established(&first).await;
    // written behind the server's back: whoever looks into it takes `odd` away
    let (key, value) =
        ("/registry/example.com/toys/default/car", r#"{"metadata":{"name":"car","namespace":"default"},"odd":1}"#);
    let put = Mutation::Put { key: key.into(), value: value.into(), lease: None };
    first.store.txn(Txn { compares: Vec::new(), mutations: vec![put] }).await.unwrap();
    let is_read_as_stored = |cluster: &Cluster| {
        let api = toys(&cluster.admin());
        async move { api.get("car").await.unwrap().data.get("odd").is_some() }
    };
    assert!(is_read_as_stored(&first).await);
    first.tasks.shutdown(std::time::Duration::from_secs(5)).await;
    let second = Cluster::on(first.store.clone(), first.time.clone()).await;
    assert!(is_read_as_stored(&second).await);
    let change = Patch::Merge(json!({"spec": {"names": {"shortNames": ["ty"]}}}));
    let definitions: Api<CustomResourceDefinition> = Api::all(second.admin());
    definitions.patch("toys.example.com", &PatchParams::default(), &change).await.unwrap();
    eventually("another spec is looked for", || async { !is_read_as_stored(&second).await }).await;
    second.tasks.shutdown(std::time::Duration::from_secs(5)).await;
    let third = Cluster::on(second.store.clone(), second.time.clone()).await;
    assert!(!is_read_as_stored(&third).await, "it was stored before the change");
}
