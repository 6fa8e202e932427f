//! What is there once it runs, and after it ran.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, PostParams, WatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::place::Place;
use crate::running::Running;

async fn names<K>(client: &Client) -> Vec<String>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    Api::<K>::all(client.clone()).list(&ListParams::default()).await.unwrap().iter().map(K::name_any).collect()
}

async fn text(client: &Client, path: &str) -> String {
    client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn everything_promised_is_there_when_it_says_so() {
    let place = Place::new();
    let running = Running::start(&place, &["--clusters", "2"]);
    let endpoints = running.endpoints();
    // Where pods run there are sandboxes, too.
    let known: Vec<&String> = endpoints.as_object().unwrap().keys().filter(|name| *name != "gateway").collect();
    let wanted =
        ["api", "discovery", "discovery-cluster-2", "dns", "dns-cluster-2", "hub", "metrics", "resource-proxy"];
    assert_eq!(known, wanted, "only what runs has an entry");

    for context in ["hub", "cluster-1", "cluster-2"] {
        let client = running.client(context).await;
        assert_eq!(text(&client, "/readyz").await, "ok", "{context}");
        let kinds = names::<CustomResourceDefinition>(&client).await;
        assert!(kinds.contains(&"applications.argoproj.io".to_owned()), "{context}: {kinds:?}");
        let listed = text(&client, "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications").await;
        assert_eq!(serde_json::from_str::<Value>(&listed).unwrap()["kind"], "ApplicationList");
        let namespaces = names::<Namespace>(&client).await;
        let of_clusters: Vec<&String> = namespaces.iter().filter(|name| name.starts_with("cluster-")).collect();
        assert!(namespaces.contains(&"argocd".to_owned()), "{context}: {namespaces:?}");
        assert_eq!(of_clusters.len(), if context == "hub" { 2 } else { 0 }, "{context}: {namespaces:?}");
    }
    assert!(running.ask_admin("/readyz").starts_with("HTTP/1.1 200"));
    let metrics = running.ask_admin("/metrics");
    for line in [
        r#"thane_api_requests_total{server="cluster-2",verb="list",code="200"}"#,
        r#"thane_kv_revision{server="hub"}"#,
        r#"thane_api_audit_events_total{server="hub"}"#,
        r#"thane_api_requests_in_flight{server="hub"} 0"#,
    ] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
    assert_eq!(metrics.matches("# TYPE thane_kv_revision ").count(), 1);
    assert_eq!(running.stop("-TERM").0, Some(0));
}

#[tokio::test]
async fn what_it_installs_is_only_installed_if_absent() {
    let place = Place::new();
    let name = "applications.argoproj.io";
    let running = Running::start(&place, &["--clusters", "0"]);
    let api: Api<CustomResourceDefinition> = Api::all(running.client("hub").await);
    let mut definition = api.get(name).await.unwrap();
    definition.spec.names.short_names = Some(vec!["mine".to_owned()]);
    let changed = api.replace(name, &PostParams::default(), &definition).await.unwrap();
    api.delete("workflows.argoproj.io", &DeleteParams::default()).await.unwrap();
    assert_eq!(running.stop("-INT").0, Some(0));

    let running = Running::start(&place, &["--clusters", "0"]);
    let api: Api<CustomResourceDefinition> = Api::all(running.client("hub").await);
    let kept = api.get(name).await.unwrap();
    assert_eq!(kept.spec.names.short_names, Some(vec!["mine".to_owned()]));
    assert_eq!(kept.metadata.generation, changed.metadata.generation);
    api.get("workflows.argoproj.io").await.unwrap();
    running.kill();
}

/// Ports of which the next is free too, most likely.
fn free_ports() -> (u16, u16) {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        if let Some(Ok(second)) = port.checked_add(1).map(|port| TcpListener::bind(("127.0.0.1", port))) {
            return (port, second.local_addr().unwrap().port());
        }
    }
}

#[tokio::test]
async fn it_stops_at_once_and_comes_back_as_it_was() {
    let place = Place::new();
    let (api_port, _) = free_ports();
    let address = format!("127.0.0.1:{api_port}");
    let variables = [("THANE_UP_API_ADDRESS", address.as_str()), ("THANE_ADMIN_ADDRESS", "127.0.0.1:0")];
    let running = Running::start_with(&place, &variables, &[]);
    let client = running.client("cluster-1").await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let object: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "kept"}, "data": {"a": "b"}})).unwrap();
    let created = api.create(&PostParams::default(), &object).await.unwrap();
    let read = |name: &str| std::fs::read(place.path().join(".thane").join(name)).unwrap();
    let kubeconfig = read("kubeconfig");

    // An open watch and an idle connection must not keep it from stopping.
    let watch = api.watch(&WatchParams::default(), &created.resource_version().unwrap()).await.unwrap();
    let (code, told) = running.stop("-TERM");
    assert_eq!(code, Some(0), "{told}");
    assert!(!told.contains("did not end in time"), "{told}");
    drop(watch);
    let audit = String::from_utf8(read("cluster-1/audit.log")).unwrap();
    let last: Value = serde_json::from_str(audit.lines().last().unwrap()).unwrap();
    assert_eq!((&last["verb"], &last["user"]["username"]), (&"create".into(), &"admin".into()), "{last}");
    let object = &last["objectRef"];
    assert_eq!((&object["resource"], &object["name"]), (&"configmaps".into(), &"kept".into()), "{last}");
    assert_eq!(object["uid"].as_str(), created.metadata.uid.as_deref(), "{last}");

    let running = Running::start_with(&place, &variables, &[]);
    assert_eq!(read("kubeconfig"), kubeconfig, "the same authorities, certificates and addresses");
    assert_eq!(api.get("kept").await.unwrap().metadata.uid, created.metadata.uid, "the old client still works");
    assert_eq!(running.stop("-INT").0, Some(0));
}

#[test]
fn a_signal_during_the_start_stops_it_in_order() {
    let place = Place::new();
    for _ in 0..5 {
        let mut child = place.command(&[], &["up", "--ephemeral-ports"]).stderr(Stdio::null()).spawn().unwrap();
        // The lock is there once it has begun, which is after it listens for signals.
        while !place.path().join(".thane/lock").exists() {
            std::thread::yield_now();
        }
        let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        assert_eq!(child.wait().unwrap().code(), Some(0));
        std::fs::remove_file(place.path().join(".thane/lock")).unwrap();
    }
}
