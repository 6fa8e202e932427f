//! What goes with what: owners, finalizers, namespaces.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use serde_json::json;

use crate::{Cluster, config_map, eventually};

async fn owner_and_dependent(api: &Api<ConfigMap>) {
    let owner = api.create(&PostParams::default(), &config_map("owner", "1")).await.unwrap();
    let mut dependent = config_map("dependent", "1");
    let reference = OwnerReference { block_owner_deletion: Some(true), ..owner.owner_ref(&()).unwrap() };
    dependent.metadata.owner_references = Some(vec![reference]);
    api.create(&PostParams::default(), &dependent).await.unwrap();
}

async fn is_gone(api: &Api<ConfigMap>, name: &str) -> bool {
    api.get_opt(name).await.unwrap().is_none()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_go_after_before_or_not_at_all() {
    let cluster = Cluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.admin(), "default");

    owner_and_dependent(&api).await;
    api.delete("owner", &DeleteParams::background()).await.unwrap();
    eventually("the dependent goes", || is_gone(&api, "dependent")).await;

    owner_and_dependent(&api).await;
    let hold = json!({"metadata": {"finalizers": ["x.io/hold"]}});
    api.patch("dependent", &PatchParams::default(), &Patch::Merge(&hold)).await.unwrap();
    api.delete("owner", &DeleteParams::foreground()).await.unwrap();
    eventually("the dependent is asked to go", || async {
        api.get("dependent").await.unwrap().metadata.deletion_timestamp.is_some()
    })
    .await;
    assert!(!is_gone(&api, "owner").await, "the owner waits for its dependent");
    let release = json!({"metadata": {"finalizers": null}});
    api.patch("dependent", &PatchParams::default(), &Patch::Merge(&release)).await.unwrap();
    eventually("the owner goes", || is_gone(&api, "owner")).await;
    assert!(is_gone(&api, "dependent").await);

    owner_and_dependent(&api).await;
    api.delete("owner", &DeleteParams::orphan()).await.unwrap();
    eventually("the owner goes", || is_gone(&api, "owner")).await;
    let left = api.get("dependent").await.unwrap();
    assert_eq!(left.metadata.owner_references, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_whose_owner_never_was_goes_too() {
    let cluster = Cluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.admin(), "default");
    let mut object = config_map("orphan", "1");
    object.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: "nobody".into(),
        uid: "0f8e1e2a-0000-4000-8000-000000000001".into(),
        ..OwnerReference::default()
    }]);
    api.create(&PostParams::default(), &object).await.unwrap();
    eventually("the orphan goes", || is_gone(&api, "orphan")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_takes_its_objects_along_and_waits_for_finalizers() {
    let cluster = Cluster::start().await;
    let client = cluster.admin();
    crate::namespace(&client, "going").await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "going");
    maps.create(&PostParams::default(), &config_map("plain", "1")).await.unwrap();
    let mut held = config_map("held", "1");
    held.metadata.finalizers = Some(vec!["x.io/hold".into()]);
    maps.create(&PostParams::default(), &held).await.unwrap();

    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.delete("going", &DeleteParams::default()).await.unwrap();
    eventually("the plain object goes", || is_gone(&maps, "plain")).await;
    let status = namespaces.get("going").await.unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Terminating"));
    let refused = maps.create(&PostParams::default(), &config_map("late", "1")).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!(status.code, 403);

    let release = json!({"metadata": {"finalizers": null}});
    maps.patch("held", &PatchParams::default(), &Patch::Merge(&release)).await.unwrap();
    eventually("the namespace goes", || async { namespaces.get_opt("going").await.unwrap().is_none() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_outlives_its_namespace() {
    let cluster = Cluster::start().await;
    let client = cluster.admin();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "going");
    for round in 0..10 {
        crate::namespace(&client, "going").await;
        let found = maps.list(&ListParams::default()).await.unwrap();
        assert!(found.iter().all(|map| map.name_any() == "kube-root-ca.crt"), "round {round}: {found:?}");
        let writers = (0..4).map(|writer| {
            let maps = maps.clone();
            async move {
                let mut number = 0;
                while maps
                    .create(&PostParams::default(), &config_map(&format!("m-{writer}-{number}"), "1"))
                    .await
                    .is_ok()
                {
                    number += 1;
                }
            }
        });
        let params = DeleteParams::default();
        let labels = (0..10).map(|number| {
            let (namespaces, patch) = (namespaces.clone(), json!({"metadata": {"labels": {"n": number.to_string()}}}));
            async move { namespaces.patch("going", &PatchParams::default(), &Patch::Merge(&patch)).await.map(|_| ()) }
        });
        let deletion = async {
            futures::future::try_join_all(labels).await.unwrap();
            namespaces.delete("going", &params).await.unwrap();
        };
        tokio::join!(futures::future::join_all(writers), deletion);
        eventually("the namespace goes", || async { namespaces.get_opt("going").await.unwrap().is_none() }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_with_much_in_it_goes_though_some_of_it_is_held() {
    let cluster = Cluster::start().await;
    let client = cluster.admin();
    crate::namespace(&client, "full").await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "full");
    for number in 0..300 {
        let mut map = config_map(&format!("m-{number:03}"), "1");
        map.metadata.finalizers = (number % 3 == 0).then(|| vec!["x.io/hold".to_owned()]);
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.delete("full", &DeleteParams::default()).await.unwrap();
    eventually("what is not held goes", || async {
        maps.list(&ListParams::default()).await.unwrap().items.len() == 100
    })
    .await;
    let release = json!({"metadata": {"finalizers": null}});
    for number in (0..300).step_by(3) {
        maps.patch(&format!("m-{number:03}"), &PatchParams::default(), &Patch::Merge(&release)).await.unwrap();
    }
    eventually("the namespace goes", || async { namespaces.get_opt("full").await.unwrap().is_none() }).await;
}
