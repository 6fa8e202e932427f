//! Who may do what.

use http::Method;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use thane_sandbox::gateway::{Access, Keys};
use thane_sandbox::kinds::WarmPool;
use thane_sandbox::names::EXPERIMENT;

use crate::bed::{Bed, gone};
use crate::fake::hex;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_have_their_own_sessions_and_no_others() {
    let keys = json!({"keys": [
        {"name": "ann", "sha256": hex(b"a"), "sessionsMax": 1},
        {"name": "bob", "sha256": hex(b"b"), "requestsPerSecond": 0.001, "burst": 3},
        {"name": "root", "sha256": hex(b"r"), "role": "admin"},
    ]});
    let bed = Bed::with(Access::Keys(Keys::parse(keys.to_string().as_bytes()).unwrap())).await;
    bed.pool("p", 3, true).await;
    let ask = async |key: &str, method: Method, path: &str, body: &str| {
        let bearer = format!("Bearer {key}");
        bed.call(method, path, &[("authorization", &bearer)], body.to_owned()).await
    };
    let wanted = r#"{"poolRef": "p"}"#;
    assert_eq!(bed.post("/v1/sessions", json!({"poolRef": "p"})).await.fault(), (401, "user".to_owned()));
    assert_eq!(ask("x", Method::GET, "/v1/sessions", "").await.fault(), (401, "user".to_owned()));
    let made = ask("a", Method::POST, "/v1/sessions", wanted).await.expect(201);
    let path = format!("/v1/sessions/{}", made["id"].as_str().unwrap());
    let crowded = ask("a", Method::POST, "/v1/sessions", wanted).await;
    assert_eq!(crowded.fault(), (429, "user".to_owned()));
    assert!(crowded.headers.contains_key("retry-after"));
    assert_eq!(ask("b", Method::GET, &path, "").await.fault(), (404, "user".to_owned()));
    assert_eq!(ask("b", Method::DELETE, &path, "").await.fault(), (404, "user".to_owned()));
    assert_eq!(ask("b", Method::GET, "/v1/sessions", "").await.expect(200), json!([]));
    assert_eq!(ask("b", Method::GET, "/v1/sessions", "").await.fault(), (429, "user".to_owned()));
    assert_eq!(ask("a", Method::GET, &path, "").await.expect(200)["id"], made["id"]);
    assert_eq!(ask("r", Method::GET, "/v1/sessions", "").await.expect(200)[0]["id"], made["id"]);
    let pool = r#"{"name": "q", "image": "host"}"#;
    assert_eq!(ask("a", Method::POST, "/v1/pools", pool).await.fault(), (403, "user".to_owned()));
    ask("r", Method::POST, "/v1/pools", pool).await.expect(201);
    assert_eq!(bed.get("/metrics").await.fault(), (401, "user".to_owned()));
    assert_eq!(bed.get("/healthz").await.status, 200);
    bed.end().await;
}

/// A pool of an experiment, as one who has that key makes it.
async fn experiment_pool(bed: &Bed, name: &str, namespace: &str, owner: &str) -> Api<WarmPool> {
    let pools: Api<WarmPool> = Api::namespaced(bed.client.clone(), namespace);
    let pool = json!({
        "apiVersion": "arl.infra.io/v1alpha1", "kind": "WarmPool",
        "metadata": {"name": name, "labels": {EXPERIMENT: "e", "thane.dev/owner": owner}},
        "spec": {"replicas": 0, "template": {"spec": {"containers": [{"name": "main", "image": "host"}]}}},
    });
    pools.create(&PostParams::default(), &serde_json::from_value(pool).unwrap()).await.unwrap();
    pools
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_reaches_its_namespaces_and_its_owners_pools_only() {
    let keys = json!({"keys": [
        {"name": "ann", "sha256": hex(b"a")},
        {"name": "bob", "sha256": hex(b"b")},
        {"name": "root", "sha256": hex(b"r"), "role": "admin", "namespaces": ["other"]},
    ]});
    let bed = Bed::with(Access::Keys(Keys::parse(keys.to_string().as_bytes()).unwrap())).await;
    bed.pool("p", 1, true).await;
    let ask = async |key: &str, method: Method, path: &str, body: &str| {
        let bearer = format!("Bearer {key}");
        bed.call(method, path, &[("authorization", &bearer)], body.to_owned()).await
    };
    ask("a", Method::POST, "/v1/sessions", r#"{"poolRef": "p"}"#).await.expect(201);
    assert_eq!(ask("a", Method::GET, "/v1/sessions", "").await.expect(200).as_array().unwrap().len(), 1);
    assert_eq!(ask("r", Method::GET, "/v1/sessions", "").await.expect(200), json!([]), "it is in another namespace");
    let forbidden = (403, "user".to_owned());
    assert_eq!(ask("r", Method::GET, "/v1/sessions?namespace=default", "").await.fault(), forbidden);
    let experiment = "/v1/managed/experiments/e";
    let named = format!("{experiment}?namespace=default");
    assert_eq!(ask("r", Method::DELETE, &named, "").await.fault(), forbidden);
    let sessions = format!("{experiment}/sessions?namespace=default");
    assert_eq!(ask("r", Method::GET, &sessions, "").await.fault(), forbidden);
    assert_eq!(ask("r", Method::GET, "/v1/operations/o", "").await.fault(), (404, "user".to_owned()));

    let pools = experiment_pool(&bed, "anns", "default", "ann").await;
    for key in ["b", "r"] {
        ask(key, Method::DELETE, experiment, "").await.expect(200);
        assert!(pools.get_opt("anns").await.unwrap().is_some(), "{key} has no part in it");
    }
    ask("a", Method::DELETE, experiment, "").await.expect(200);
    gone(pools, "anns").await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_web_page_drives_a_gateway_without_keys() {
    let bed = Bed::new().await;
    for headers in [&[("host", "evil.example")][..], &[("origin", "http://evil.example")]] {
        assert_eq!(bed.call(Method::GET, "/v1/sessions", headers, "").await.fault(), (403, "user".to_owned()));
    }
    assert_eq!(bed.call(Method::GET, "/v1/sessions", &[("host", "localhost")], "").await.status, 200);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_has_so_many_pools_of_experiments_and_no_config_maps() {
    let keys = json!({"keys": [
        {"name": "ann", "sha256": hex(b"a"), "burst": 100},
        {"name": "bob", "sha256": hex(b"b")},
    ]});
    let bed = Bed::with(Access::Keys(Keys::parse(keys.to_string().as_bytes()).unwrap())).await;
    for number in 0..20 {
        experiment_pool(&bed, &format!("managed-{number}"), "default", "ann").await;
    }
    let ask = async |key: &str, body: serde_json::Value| {
        let bearer = format!("Bearer {key}");
        bed.call(Method::POST, "/v1/managed/sessions", &[("authorization", &bearer)], body.to_string()).await
    };
    let body = json!({"image": "host", "experimentId": "e", "waitSeconds": 0});
    assert_eq!(ask("a", body.clone()).await.fault(), (429, "user".to_owned()));
    assert_eq!(ask("b", body.clone()).await.fault(), (503, "infra".to_owned()), "it has one, which nobody fills here");
    let mut others = body.clone();
    others["tools"] = json!({"configMaps": [{"name": "somebodys"}]});
    assert_eq!(ask("b", others).await.fault(), (403, "user".to_owned()));
    let mut elsewhere = body;
    elsewhere["namespace"] = json!("../pods");
    assert_eq!(ask("b", elsewhere).await.status, 400);
    let path = "/v1/sessions/s?namespace=default/pods";
    assert_eq!(bed.call(Method::GET, path, &[("x-api-key", "b")], "").await.fault(), (400, "user".to_owned()));
    bed.end().await;
}
