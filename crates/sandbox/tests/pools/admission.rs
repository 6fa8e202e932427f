//! What is refused, and how.

use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use thane_sandbox::kinds::Sandbox;
use thane_testkit::peer::kubernetes_or_skip;

use crate::bed::{Bed, define};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_refuses_what_cannot_work() {
    let bed = Bed::new().await;
    schemas_hold(&bed.client).await;
    // What only the rules know.
    let tool = json!({"inline": [{"name": "t", "runtime": "bash", "entrypoint": "x"}]});
    let cases = [
        (json!({"replicas": 1, "template": {}}), "spec.template.spec.containers"),
        (json!({"replicas": 1, "template": template(), "tools": tool}), "entrypoint"),
    ];
    for (spec, expected) in cases {
        let answer = create(&bed.client, "WarmPool", "p", spec.clone()).await;
        assert!(answer.starts_with("403 ") && answer.contains(expected), "{spec}: {answer}");
    }
    bed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubernetes_takes_the_definitions() {
    let Some((_home, server)) = kubernetes_or_skip(&[]).await else { return };
    let client = server.client().await.unwrap();
    define(&client).await;
    schemas_hold(&client).await;
}

fn template() -> Value {
    json!({"spec": {"containers": [{"name": "main", "image": "host", "resources": {"limits": {"cpu": 1}}}]}})
}

/// What is refused by the definitions alone.
async fn schemas_hold(client: &Client) {
    let tool = json!({"inline": [{"name": "t", "runtime": "perl", "entrypoint": "x"}]});
    let cases = [
        ("WarmPool", "p", json!({"replicas": -1, "template": template()}), "spec.replicas"),
        ("WarmPool", "p", json!({"template": template()}), "spec.replicas"),
        ("WarmPool", "p", json!({"replicas": 1}), "spec.template"),
        ("WarmPool", "p.q", json!({"replicas": 1, "template": template()}), "DNS label"),
        ("WarmPool", "p", json!({"replicas": 1, "template": template(), "tools": tool}), "runtime"),
        ("WarmPool", "good", json!({"replicas": 0, "template": template(), "imageLocality": {}}), ""),
        ("Sandbox", "s", json!({}), "spec.poolRef"),
        ("Sandbox", "s", json!({"poolRef": ""}), "spec.poolRef"),
        ("Sandbox", "s", json!({"poolRef": "p", "idleTimeoutSeconds": -1}), "spec.idleTimeoutSeconds"),
        // Its pool may come later.
        ("Sandbox", "s", json!({"poolRef": "unknown", "resources": {"limits": {"cpu": 1}}}), ""),
    ];
    for (kind, name, spec, expected) in cases {
        let answer = create(client, kind, name, spec.clone()).await;
        match expected {
            "" => assert_eq!(answer, "", "{spec}"),
            expected => assert!(answer.starts_with("422 ") && answer.contains(expected), "{spec}: {answer}"),
        }
    }
    let sandboxes: Api<Sandbox> = Api::namespaced(client.clone(), "default");
    let other = Patch::Merge(json!({"spec": {"poolRef": "other"}}));
    let refused = sandboxes.patch("s", &PatchParams::default(), &other).await.unwrap_err();
    assert!(refused.to_string().contains("poolRef cannot be changed"), "{refused}");
    let same = sandboxes.get("s").await.unwrap();
    sandboxes.replace("s", &PostParams::default(), &same).await.unwrap();
}

/// Creates an object; the code and message if it is refused.
async fn create(client: &Client, kind: &str, name: &str, spec: Value) -> String {
    let plural = if kind == "Sandbox" { "sandboxes" } else { "warmpools" };
    let object = json!({"apiVersion": "arl.infra.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let request = http::Request::post(format!("/apis/arl.infra.io/v1alpha1/namespaces/default/{plural}"))
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())
        .unwrap();
    match client.request::<Value>(request).await {
        Ok(_) => String::new(),
        Err(kube::Error::Api(status)) => format!("{} {}", status.code, status.message),
        Err(error) => panic!("{error}"),
    }
}
