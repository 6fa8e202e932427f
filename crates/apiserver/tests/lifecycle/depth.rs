//! Objects that nest deep: what is stored can be read, listed and deleted again.

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use thane_kv::{Mutation, Txn};

use crate::Cluster;
use crate::definitions::{established, toy, toys};

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({"a": inner}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nests_too_deep_is_refused_and_the_rest_is_readable() {
    let cluster = Cluster::start().await;
    established(&cluster).await;
    let api = toys(&cluster.admin());
    api.create(&PostParams::default(), &toy("car", &json!({}))).await.unwrap();
    for (levels, fits) in [(98, true), (99, false), (124, false), (125, false)] {
        let patch = Patch::Merge(json!({"status": {"deep": nested(levels)}}));
        match api.patch_status("car", &PatchParams::default(), &patch).await {
            Ok(_) => assert!(fits, "{levels}"),
            Err(kube::Error::Api(status)) => assert_eq!((status.code, fits), (400, false), "{levels}: {status:?}"),
            Err(error) => panic!("{error}"),
        }
        assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    }
    let grow = json!([{"op": "add", "path": format!("/status/deep{}", "/a".repeat(98)), "value": nested(90)}]);
    let patch = Patch::Json::<()>(serde_json::from_value(grow).unwrap());
    assert!(api.patch_status("car", &PatchParams::default(), &patch).await.is_err());
    api.delete("car", &DeleteParams::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_stored_too_deep_before_hinders_nobody() {
    let cluster = Cluster::start().await;
    established(&cluster).await;
    let api = toys(&cluster.admin());
    api.create(&PostParams::default(), &toy("car", &json!({}))).await.unwrap();
    let managed = json!([{"manager": "m", "operation": "Update", "apiVersion": "example.com/v1",
        "fieldsType": "FieldsV1", "fieldsV1": nested(124), "time": "2026-01-01T00:00:00Z"}]);
    let metadata = json!({"name": "deep", "namespace": "default", "managedFields": managed});
    let value = format!("{{\"metadata\":{metadata},\"status\":{}}}", nested(124));
    let put = Mutation::Put { key: "/registry/example.com/toys/default/deep".into(), value: value.into(), lease: None };
    cluster.store.txn(Txn { compares: Vec::new(), mutations: vec![put] }).await.unwrap();
    let table = http::Request::get("/apis/example.com/v1/namespaces/default/toys")
        .header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1");
    let table = cluster.admin().request::<Value>(table.body(Vec::new()).unwrap()).await.unwrap();
    assert_eq!(table["rows"].as_array().unwrap().len(), 2);
    api.delete("deep", &DeleteParams::default()).await.unwrap();
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
}
