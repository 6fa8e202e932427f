//! Pools over REST, and those that experiments need.

use http::Method;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use thane_sandbox::kinds::WarmPool;

use crate::bed::{Bed, gone};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pools_are_made_changed_and_deleted() {
    let bed = Bed::new().await;
    let body = json!({"name": "p", "image": "host", "replicas": 3, "workspaceDir": "/w"});
    assert_eq!(bed.post("/v1/pools", body.clone()).await.expect(201), json!({"name": "p", "status": "created"}));
    assert_eq!(bed.post("/v1/pools", body).await.fault(), (409, "user".to_owned()));
    let shown = bed.get("/v1/pools/p").await.expect(200);
    let expected = json!({
        "name": "p", "namespace": "default", "replicas": 3, "readyReplicas": 0, "allocatedReplicas": 0, "conditions": [],
    });
    assert_eq!(shown, expected);
    assert_eq!(bed.get("/v1/pools").await.expect(200), json!([expected]));
    let change = json!({"replicas": 1, "resources": {"limits": {"memory": "64Mi"}}}).to_string();
    let changed = bed.call(Method::PATCH, "/v1/pools/p", &[], change).await.expect(200);
    assert_eq!(changed["replicas"], 1);
    let pools: Api<WarmPool> = Api::namespaced(bed.client.clone(), "default");
    let container = pools.get("p").await.unwrap().spec.template.spec.unwrap().containers.remove(0);
    assert_eq!((container.image.as_deref(), container.working_dir.as_deref()), (Some("host"), Some("/w")));
    assert_eq!(container.resources.unwrap().limits.unwrap()["memory"].0, "64Mi");
    for wrong in [
        json!({"name": "q", "image": "host", "replicas": -1}),
        json!({"name": "Q Q", "image": "host"}),
        json!({"name": "q"}),
        json!({"name": "q", "image": ""}),
    ] {
        assert_eq!(bed.post("/v1/pools", wrong).await.fault(), (400, "user".to_owned()));
    }
    let negative = bed.call(Method::PATCH, "/v1/pools/p", &[], r#"{"replicas": -1}"#).await;
    assert_eq!(negative.fault(), (400, "user".to_owned()));
    bed.delete("/v1/pools/p?namespace=default").await.expect(204);
    gone(pools, "p").await;
    for answer in [bed.get("/v1/pools/p").await, bed.delete("/v1/pools/p").await] {
        assert_eq!(answer.fault(), (404, "user".to_owned()));
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_experiment_has_a_pool_for_each_image() {
    let bed = Bed::new().await;
    let pools: Api<WarmPool> = Api::namespaced(bed.client.clone(), "default");
    // Nobody fills the pool here: what is made for the first session is never ready, and there may be one only.
    let body = json!({"image": "host", "experimentId": "e", "maxReplicas": 1, "waitSeconds": 1});
    let first = bed.post("/v1/managed/sessions", body.clone());
    let second = async {
        while bed.pods().list(&ListParams::default()).await.unwrap().items.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        bed.post("/v1/managed/sessions", body.clone()).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.fault(), (503, "infra".to_owned()));
    assert_eq!(second.fault(), (429, "infra".to_owned()));
    let made = pools.list(&ListParams::default()).await.unwrap().items;
    assert_eq!((made.len(), made[0].spec.max_replicas), (1, Some(1)));
    for wrong in [json!({"image": "host"}), json!({"image": "host", "experimentId": "no value"})] {
        assert_eq!(bed.post("/v1/managed/sessions", wrong).await.fault(), (400, "user".to_owned()));
    }
    assert_eq!(bed.get("/v1/managed/experiments/e/sessions").await.expect(200), json!([]));
    let deleted = bed.delete("/v1/managed/experiments/e").await.expect(200);
    assert_eq!(deleted["error"], serde_json::Value::Null);
    gone(pools, made[0].metadata.name.as_deref().unwrap()).await;
    bed.end().await;
}
