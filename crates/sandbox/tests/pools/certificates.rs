//! Certificates of a cluster, and the webhook that shows one.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};
use thane_runtime::SystemClock;
use thane_runtime::metrics::Registry;
use thane_runtime::net::{Network, Tcp};
use thane_sandbox::certificates::{AUTHORITY, CLIENT, Certificates, PUBLIC};
use thane_sandbox::kinds::WarmPool;
use thane_sandbox::pods::{Kubernetes, Shape};
use thane_sandbox::{admission, operator};
use thane_testkit::client::HttpsClient;
use thane_testkit::endpoint::Endpoint;

use crate::bed::{Bed, nobodys_certificates, now};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_made_once_and_the_webhook_is_believed() {
    let bed = Bed::new().await;
    let now = now();
    let certificates = Certificates::open(&bed.client, "default", now).await.unwrap();
    certificates.keep_sidecars(&bed.client, "default", "sidecars", now).await.unwrap();
    certificates.keep_gateway(&bed.client, "default", now).await.unwrap();
    // Another operator, or the same again, finds what there is.
    let again = Certificates::open(&bed.client, "default", now).await.unwrap();
    let version = |secret: &Secret| secret.metadata.resource_version.clone();
    let before = bed.api::<Secret>().get("sidecars").await.unwrap();
    again.keep_sidecars(&bed.client, "default", "sidecars", now).await.unwrap();
    let after = bed.api::<Secret>().get("sidecars").await.unwrap();
    assert_eq!(version(&before), version(&after));
    let keys = |secret: Secret| secret.data.unwrap().into_keys().collect::<Vec<_>>();
    assert_eq!(keys(after), ["ca.crt", "tls.crt", "tls.key"]);
    assert_eq!(keys(bed.api::<Secret>().get(CLIENT).await.unwrap()), ["ca.crt", "tls.crt", "tls.key"]);
    assert_eq!(keys(bed.api::<Secret>().get(AUTHORITY).await.unwrap()), ["tls.crt", "tls.key"]);
    let public = bed.api::<Secret>().get(PUBLIC).await.unwrap().data.unwrap();
    assert_eq!(public.keys().collect::<Vec<_>>(), ["ca.crt"], "whoever believes needs no key");

    let tls = again.server(&["localhost".to_owned()], now).unwrap();
    let listener = Tcp.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let port = listener.local_addr().port();
    bed.tasks.spawn("webhook", admission::serve(listener, tls, bed.tasks.child("reviews")));
    let ca = String::from_utf8(public["ca.crt"].0.clone()).unwrap();
    let endpoint = Endpoint { address: format!("localhost:{port}"), ca, client: None };
    let client = HttpsClient::new(&endpoint).unwrap();
    let ask = |path: &str, body: String| {
        let request = http::Request::post(format!("https://localhost:{port}{path}"));
        client.exchange(request.body(Full::new(Bytes::from(body))).unwrap())
    };
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "7", "operation": "CREATE",
            "resource": {"group": "arl.infra.io", "version": "v1alpha1", "resource": "warmpools"},
            "object": {"apiVersion": "arl.infra.io/v1alpha1", "kind": "WarmPool", "metadata": {"name": "p"},
                "spec": {"replicas": -1, "template": {}}}},
    });
    let answer = ask("/validate", review.to_string()).await.unwrap();
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((&answer["response"]["uid"], &answer["response"]["allowed"]), (&json!("7"), &json!(false)));
    assert_eq!(ask("/validate", "{".into()).await.unwrap().status.as_u16(), 400);
    assert_eq!(ask("/", String::new()).await.unwrap().status.as_u16(), 404);
    bed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_with_pools_has_certificates_and_a_policy() {
    let bed = Bed::new().await;
    bed.play_kubelet();
    let certificates = Certificates::open(&bed.client, "kube-system", now()).await.unwrap();
    let options = operator::Options {
        shape: Shape::Kubernetes(Kubernetes { image: "thane".to_owned(), secret: "sidecars".to_owned() }),
        sidecars: nobodys_certificates(),
        lease: None,
        certificates: Some(Arc::new(certificates)),
        claims: None,
        managed_unused: operator::MANAGED_UNUSED,
    };
    operator::start(bed.client.clone(), options, SystemClock::shared(), &bed.tasks, &mut Registry::default());
    bed.pool("p", 1, json!({})).await;
    bed.until::<NetworkPolicy>("thane-sandboxes", "there", |policy| {
        let spec = serde_json::to_value(&policy.spec).unwrap();
        let from = &spec["ingress"][0]["from"][0];
        from["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] == "kube-system"
            && from["podSelector"]["matchExpressions"][0]["values"] == json!(["thane-gateway", "thane-operator"])
            && spec["policyTypes"] == json!(["Ingress", "Egress"])
            && spec.get("egress").is_none_or(|egress| *egress == json!([]))
    })
    .await;
    bed.api::<Secret>().get("sidecars").await.unwrap();
    bed.until::<WarmPool>("p", "full", |pool| pool.status.as_ref().is_some_and(|status| status.ready_replicas == 1))
        .await;
    bed.stop().await;
}
