//! History has an end: who asks for what is beyond it is told so, who is not too late goes on without a gap.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

use std::time::Duration;

use futures::{AsyncBufReadExt, TryStreamExt};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use thane_testkit::peer::EmbeddedApi;

/// The longest an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

async fn get(client: &Client, path: &str) -> (u16, Value) {
    let request = Request::get(path).body(Vec::new()).unwrap();
    match client.request::<Value>(request).await {
        Ok(value) => (200, value),
        Err(kube::Error::Api(status)) => (status.code, serde_json::to_value(&status).unwrap()),
        Err(error) => panic!("{error}"),
    }
}

/// The first event of a watch, as it is sent.
async fn first_event(client: &Client, path: &str) -> Value {
    let request = Request::get(path).body(Vec::new()).unwrap();
    let mut lines = client.request_stream(request).await.unwrap().lines();
    let line = tokio::time::timeout(PATIENCE, lines.try_next()).await.unwrap().unwrap().unwrap();
    serde_json::from_str(&line).unwrap()
}

async fn create(maps: &Api<ConfigMap>, name: &str) -> String {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    maps.create(&PostParams::default(), &map).await.unwrap().resource_version().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_compacted_is_expired() {
    let thane = EmbeddedApi::start().await.unwrap();
    let client = thane.client().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let base = "/api/v1/namespaces/default/configmaps";
    let early = create(&maps, "a").await;
    create(&maps, "b").await;
    let page = maps.list(&ListParams::default().limit(1)).await.unwrap();
    let token = page.metadata.continue_.unwrap();
    let late = create(&maps, "c").await;
    create(&maps, "d").await;

    // Before: everything is still there.
    let (code, rest) = get(&client, &format!("{base}?continue={token}")).await;
    assert_eq!((code, rest["items"].as_array().unwrap().len()), (200, 2), "b and the root certificate, as they were");
    let event = first_event(&client, &format!("{base}?watch=true&resourceVersion={early}")).await;
    assert_eq!(event["object"]["metadata"]["name"], "b");

    thane.compact(late.parse().unwrap()).await.unwrap();

    // A watch from before the end of history gets one event that says so.
    let event = first_event(&client, &format!("{base}?watch=true&resourceVersion={early}")).await;
    let message = event["object"]["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("too old resource version: {early} (")), "{message}");
    let expected = json!({
        "type": "ERROR",
        "object": {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": "Expired", "code": 410,
        },
    });
    assert_eq!(event, expected);

    // A list in pages cannot go on as it was, but is offered to go on with what is there now.
    let (code, status) = get(&client, &format!("{base}?continue={token}")).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with("The provided continue parameter is too old to display a consistent list result."),
        "{message}"
    );
    let token = status["metadata"]["continue"].as_str().unwrap();
    let (code, rest) = get(&client, &format!("{base}?continue={token}")).await;
    let names: Vec<&str> =
        rest["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!((code, names), (200, vec!["b", "c", "d", "kube-root-ca.crt"]));

    let (code, status) = get(&client, &format!("{base}?resourceVersion={early}&resourceVersionMatch=Exact")).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    assert_eq!(status["message"], "The resourceVersion for the provided list is too old.");
    thane.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_that_keep_up_do_not_notice() {
    let thane = EmbeddedApi::start().await.unwrap();
    let client = thane.client().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    create(&maps, "a").await;
    let start = create(&maps, "b").await;
    let watching = WatchParams::default().fields("metadata.name=b");
    let mut open = Box::pin(maps.watch(&watching, &start).await.unwrap());
    let change = |number: u32| Patch::Merge(json!({"data": {"n": number.to_string()}}));
    let mut newest = start.clone();
    for number in 0..5 {
        newest = maps.patch("b", &PatchParams::default(), &change(number)).await.unwrap().resource_version().unwrap();
        thane.compact(newest.parse().unwrap()).await.unwrap();
    }
    // One that is open has seen all; one that resumes where history ends gets what follows.
    for number in 0..5 {
        let event = tokio::time::timeout(PATIENCE, open.try_next()).await.unwrap().unwrap().unwrap();
        let WatchEvent::Modified(map) = event else { panic!("{event:?}") };
        assert_eq!(map.data.unwrap()["n"], number.to_string());
    }
    let mut resumed = Box::pin(maps.watch(&watching, &newest).await.unwrap());
    maps.patch("b", &PatchParams::default(), &change(9)).await.unwrap();
    let event = tokio::time::timeout(PATIENCE, resumed.try_next()).await.unwrap().unwrap().unwrap();
    assert!(matches!(&event, WatchEvent::Modified(map) if map.data.as_ref().unwrap()["n"] == "9"), "{event:?}");
    thane.stop().await.unwrap();
}
