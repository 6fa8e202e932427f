//! Lists are of one moment, watches have no gaps.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;

use crate::{Cluster, config_map};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_show_the_moment_of_the_first() {
    let cluster = Cluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.admin(), "default");
    for index in 0..7 {
        api.create(&PostParams::default(), &config_map(&format!("m{index}"), "1")).await.unwrap();
    }
    let only = "metadata.name!=kube-root-ca.crt";
    let params = ListParams::default().limit(3).fields(only);
    let first = api.list(&params).await.unwrap();
    api.delete("m5", &DeleteParams::default()).await.unwrap();
    api.create(&PostParams::default(), &config_map("m9", "1")).await.unwrap();
    let mut names: Vec<String> = first.items.iter().map(|item| item.metadata.name.clone().unwrap()).collect();
    let mut token = first.metadata.continue_;
    while let Some(next) = token.filter(|text| !text.is_empty()) {
        let page = api.list(&params.clone().continue_token(&next)).await.unwrap();
        names.extend(page.items.iter().map(|item| item.metadata.name.clone().unwrap()));
        token = page.metadata.continue_;
    }
    assert_eq!(names, ["m0", "m1", "m2", "m3", "m4", "m5", "m6"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_sees_objects_come_into_and_go_out_of_its_selection() {
    let cluster = Cluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.admin(), "default");
    let start = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    for labels in [json!({"on": "yes"}), json!({"on": "yes", "more": "x"}), json!({"on": "no", "more": null})] {
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    }
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let params = WatchParams::default().labels("on=yes").timeout(1);
    let events: Vec<WatchEvent<ConfigMap>> = api.watch(&params, &start).await.unwrap().try_collect().await.unwrap();
    let seen: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            WatchEvent::Added(_) => Some("added"),
            WatchEvent::Modified(_) => Some("modified"),
            WatchEvent::Deleted(_) => Some("deleted"),
            _ => None,
        })
        .collect();
    assert_eq!(seen, ["added", "modified", "deleted"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_from_a_compacted_revision_is_told_so() {
    let cluster = Cluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.admin(), "default");
    let start = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    for index in 0..5 {
        api.create(&PostParams::default(), &config_map(&format!("m{index}"), "1")).await.unwrap();
    }
    let page = api.list(&ListParams::default().limit(2)).await.unwrap().metadata.continue_.unwrap();
    api.create(&PostParams::default(), &config_map("after", "1")).await.unwrap();
    cluster.store.compact(cluster.store.revision()).await.unwrap();

    let mut events = api.watch(&WatchParams::default(), &start).await.unwrap().boxed();
    match events.next().await {
        Some(Ok(WatchEvent::Error(status))) => assert_eq!((status.code, status.reason.as_str()), (410, "Expired")),
        other => panic!("{other:?}"),
    }
    let gone = api.list(&ListParams::default().limit(2).continue_token(&page)).await.unwrap_err();
    let kube::Error::Api(status) = gone else { panic!("{gone}") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_watcher_still_sees_every_change() {
    const COUNT: usize = 3000;
    let cluster = Cluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.admin(), "default");
    let start = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = api.watch(&WatchParams::default(), &start).await.unwrap().boxed();
    for index in 0..COUNT {
        api.create(&PostParams::default(), &config_map(&format!("m{index:05}"), "1")).await.unwrap();
    }
    for index in 0..COUNT {
        match events.next().await {
            Some(Ok(WatchEvent::Added(object))) => assert_eq!(object.metadata.name.unwrap(), format!("m{index:05}")),
            other => panic!("{other:?}"),
        }
    }
}
