//! Writes: none is lost, none is done twice, a restart changes nothing.

use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Event, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::{Cluster, config_map, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost_when_many_write_at_once() {
    let cluster = Cluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.admin(), "default");
    api.create(&PostParams::default(), &config_map("counter", "0")).await.unwrap();
    let writers = (0..16).map(|_| {
        let api = api.clone();
        async move {
            for _ in 0..8 {
                loop {
                    let mut object = api.get("counter").await.unwrap();
                    let data = object.data.as_mut().unwrap();
                    let next = data["k"].parse::<u32>().unwrap() + 1;
                    data.insert("k".into(), next.to_string());
                    match api.replace("counter", &PostParams::default(), &object).await {
                        Ok(_) => break,
                        Err(kube::Error::Api(status)) if status.is_conflict() => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    });
    join_all(writers).await;
    assert_eq!(api.get("counter").await.unwrap().data.unwrap()["k"], "128");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_of_different_fields_all_land() {
    let folder = tempfile::tempdir().unwrap();
    patches_of(64, &Cluster::start().await).await;
    patches_of(64, &Cluster::start_on_disk(folder.path()).await).await;
}

async fn patches_of(clients: usize, cluster: &Cluster) {
    let api: Api<ConfigMap> = Api::namespaced(cluster.admin(), "default");
    api.create(&PostParams::default(), &config_map("shared", "0")).await.unwrap();
    let patches = (0..clients).map(|index| {
        let api = api.clone();
        async move {
            let patch = Patch::Merge(json!({"data": {format!("f{index}"): "x"}}));
            api.patch("shared", &PatchParams::default(), &patch).await.unwrap();
        }
    });
    join_all(patches).await;
    assert_eq!(api.get("shared").await.unwrap().data.unwrap().len(), clients + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_nothing_gets_no_new_version() {
    let cluster = Cluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.admin(), "default");
    let created = api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    let apply = PatchParams::apply("me").force();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}});
    let first = api.patch("a", &apply, &Patch::Apply(&object)).await.unwrap();
    let second = api.patch("a", &apply, &Patch::Apply(&object)).await.unwrap();
    assert_ne!(created.metadata.resource_version, first.metadata.resource_version);
    assert_eq!(first.metadata.resource_version, second.metadata.resource_version);
    let merge = Patch::Merge(json!({"data": {"k": "1"}}));
    let third = api.patch("a", &PatchParams::default(), &merge).await.unwrap();
    assert_eq!(second.metadata.resource_version, third.metadata.resource_version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_server_on_the_same_store_has_everything() {
    let first = Cluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(first.admin(), "default");
    let made = api.create(&PostParams::default(), &config_map("kept", "1")).await.unwrap();
    first.tasks.shutdown(std::time::Duration::from_secs(5)).await;
    let second = Cluster::on(first.store.clone(), first.time.clone()).await;
    let api: Api<ConfigMap> = Api::namespaced(second.admin(), "default");
    let found = api.get("kept").await.unwrap();
    assert_eq!(found.metadata.uid, made.metadata.uid);
    assert_eq!(found.metadata.resource_version, made.metadata.resource_version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_namespace_has_its_default_objects_and_gets_them_back() {
    let cluster = Cluster::start().await;
    let client = cluster.admin();
    crate::namespace(&client, "n").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "n");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "n");
    eventually("the default objects", || async {
        accounts.get_opt("default").await.unwrap().is_some()
            && maps.get_opt("kube-root-ca.crt").await.unwrap().is_some()
    })
    .await;
    let uid = accounts.get("default").await.unwrap().metadata.uid;
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    eventually("a new default account", || async {
        accounts.get_opt("default").await.unwrap().is_some_and(|account| account.metadata.uid != uid)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_certificate_authority_reaches_every_namespace() {
    let cluster = Cluster::start().await;
    let client = cluster.admin();
    crate::namespace(&client, "n").await;
    cluster.server.set_authority("another");
    for namespace in ["default", "kube-system", "n"] {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        eventually("the new authority", || async {
            let map = maps.get_opt("kube-root-ca.crt").await.unwrap();
            map.and_then(|map| map.data).is_some_and(|data| data["ca.crt"] == "another")
        })
        .await;
    }
    let system: Api<ConfigMap> = Api::namespaced(client, "kube-system");
    eventually("whose certificates are believed", || async {
        let map = system.get_opt("extension-apiserver-authentication").await.unwrap();
        map.and_then(|map| map.data).is_some_and(|data| data["client-ca-file"] == "another")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_go_away_by_themselves() {
    let cluster = Cluster::start().await;
    let api: Api<Event> = Api::namespaced(cluster.admin(), "default");
    let event: Event = serde_json::from_value(json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Test", "message": "hello", "type": "Normal",
    }))
    .unwrap();
    api.create(&PostParams::default(), &event).await.unwrap();
    cluster.time.advance(std::time::Duration::from_secs(3599));
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    cluster.time.advance(std::time::Duration::from_secs(2));
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 0);
}
