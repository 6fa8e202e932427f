//! Who gets which pod.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use thane_runtime::{SystemClock, Tasks};
use thane_sandbox::claims::{ClaimError, Claims, OnEmpty, PoolAt};
use thane_sandbox::kinds::{Phase, Sandbox, WarmPool};
use thane_sandbox::names;

use crate::bed::{Bed, PATIENCE, run};

fn at(pool: &str) -> PoolAt {
    PoolAt { namespace: "default".into(), name: pool.into() }
}

/// An idle pod, as a pool makes them, which then runs.
async fn idle(bed: &Bed, pool: &WarmPool, name: &str) {
    let owner = json!({"apiVersion": "arl.infra.io/v1alpha1", "kind": "WarmPool", "controller": true,
        "name": pool.metadata.name, "uid": pool.metadata.uid});
    let pod = json!({
        "metadata": {"name": name, "ownerReferences": [owner],
            "labels": {names::POOL: pool.metadata.name, names::STATUS: names::IDLE}},
        "spec": {"containers": [{"name": "main", "image": "host", "workingDir": "/somewhere"}]},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    bed.api::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
    run(&bed.api(), name, false).await;
}

fn claims(bed: &Bed, tasks: &Tasks) -> Claims {
    Claims::start(bed.client.clone(), SystemClock::shared(), tasks)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_pod_is_given_to_two_by_two_processes() {
    let bed = Bed::new().await;
    let pool = bed.pool("p", 0, json!({})).await;
    let both = [claims(&bed, &bed.tasks), claims(&bed, &bed.tasks)];
    let names: Vec<String> = (0..24).map(|number| format!("s-{number}")).collect();
    let sandboxes = join_all(names.iter().map(|name| bed.sandbox(name, "p"))).await;
    let here = at("p");
    let claiming = join_all(
        sandboxes
            .iter()
            .enumerate()
            .map(|(number, sandbox)| both[number % 2].claim(&here, sandbox, OnEmpty::Wait(PATIENCE))),
    );
    let filling = async {
        for number in 0..24 {
            idle(&bed, &pool, &format!("p-{number}")).await;
        }
    };
    let (claimed, ()) = tokio::join!(claiming, filling);
    let claimed: Vec<_> = claimed.into_iter().map(Result::unwrap).collect();
    let different: BTreeSet<&str> = claimed.iter().map(|claimed| claimed.pod.as_str()).collect();
    assert_eq!(different.len(), 24);
    for (sandbox, claimed) in sandboxes.iter().zip(&claimed) {
        let name = sandbox.metadata.name.as_deref().unwrap();
        let status = bed.api::<Sandbox>().get(name).await.unwrap().status.unwrap();
        assert_eq!((status.phase, status.pod_name.as_deref()), (Some(Phase::Ready), Some(claimed.pod.as_str())));
        assert_eq!((status.pod_ip.as_deref(), status.work_dir.as_deref()), (Some("127.64.0.9"), Some("/somewhere")));
        let pod = bed.api::<Pod>().get(&claimed.pod).await.unwrap();
        assert_eq!(pod.metadata.labels.as_ref().unwrap()[names::SANDBOX], name);
        let owners = pod.metadata.owner_references.unwrap();
        assert_eq!(
            (owners.len(), owners[0].kind.as_str(), owners[0].uid.as_str()),
            (1, "Sandbox", sandbox.metadata.uid.as_deref().unwrap())
        );
        assert_eq!(claimed.pod_uid, pod.metadata.uid.unwrap());
    }
    bed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_there_is_not_is_said() {
    let bed = Bed::new().await;
    let pool = bed.pool("p", 0, json!({"maxReplicas": 1})).await;
    let claims = claims(&bed, &bed.tasks);
    let sandbox = bed.sandbox("s", "p").await;
    let here = at("p");
    let fails = |on_empty| claims.claim(&here, &sandbox, on_empty);
    assert!(
        matches!(claims.claim(&at("q"), &sandbox, OnEmpty::Fail).await, Err(ClaimError::NoPool(name)) if name == "q")
    );
    assert!(matches!(fails(OnEmpty::Fail).await, Err(ClaimError::Empty { .. })));
    assert!(matches!(fails(OnEmpty::Wait(Duration::from_millis(20))).await, Err(ClaimError::Empty { .. })));
    idle(&bed, &pool, "p-1").await;
    let claimed = fails(OnEmpty::Wait(PATIENCE)).await.unwrap();
    assert_eq!(claimed.pod, "p-1");
    assert_eq!(fails(OnEmpty::Fail).await.unwrap(), claimed, "it has one already");
    let other = bed.sandbox("t", "p").await;
    let full = claims.claim(&at("p"), &other, OnEmpty::Cold(PATIENCE)).await;
    assert!(matches!(full, Err(ClaimError::Full(_))), "{full:?}");
    // A sandbox that went meanwhile gets nothing, and what it got goes too.
    bed.api::<Sandbox>().delete("t", &DeleteParams::default()).await.unwrap();
    idle(&bed, &pool, "p-2").await;
    let uid = bed.api::<Pod>().get("p-2").await.unwrap().metadata.uid.unwrap();
    let gone = claims.claim(&at("p"), &other, OnEmpty::Wait(PATIENCE)).await;
    assert!(matches!(gone, Err(ClaimError::Gone(_))), "{gone:?}");
    bed.gone::<Pod>("p-2", &uid).await;
    bed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_none_is_idle_one_is_made() {
    let bed = Bed::new().await;
    bed.play_kubelet();
    bed.pool("p", 0, json!({})).await;
    let claims = claims(&bed, &bed.tasks);
    let sandbox = bed.sandbox("s", "p").await;
    let claimed = claims.claim(&at("p"), &sandbox, OnEmpty::Cold(PATIENCE)).await.unwrap();
    let pod = bed.api::<Pod>().get(&claimed.pod).await.unwrap();
    let labels = pod.metadata.labels.unwrap();
    assert_eq!(
        (labels[names::STATUS].as_str(), labels[names::SANDBOX].as_str(), labels["app"].as_str()),
        (names::ALLOCATED, "s", "x")
    );
    assert_eq!(pod.spec.unwrap().automount_service_account_token, Some(false));
    let spare = claims.spare(&at("p"), &sandbox, OnEmpty::Cold(PATIENCE)).await.unwrap();
    assert_ne!(spare.pod, claimed.pod);
    let told = || async { bed.api::<Sandbox>().get("s").await.unwrap().status.unwrap().pod_name.unwrap() };
    assert_eq!(told().await, claimed.pod);
    claims.repoint(&sandbox, &spare).await.unwrap();
    assert_eq!(told().await, spare.pod);
    claims.release("default", &claimed).await.unwrap();
    bed.gone::<Pod>(&claimed.pod, &claimed.pod_uid).await;
    bed.stop().await;
}

/// The API fails one write of a pod, or is too slow to say how it went.
fn failing_once(client: &Client) -> Client {
    let (inner, fails) = (client.clone(), Arc::new(AtomicBool::new(true)));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (inner, fails) = (inner.clone(), Arc::clone(&fails));
        async move {
            let is_claim = request.method() == http::Method::PATCH && request.uri().path().contains("/pods/");
            if is_claim && fails.swap(false, Ordering::SeqCst) {
                return Err(std::io::Error::other("the connection broke").into());
            }
            inner.send(request).await.map_err(tower::BoxError::from)
        }
    });
    Client::new(service, "default")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_is_not_forgotten_for_an_error_that_says_nothing_about_it() {
    let bed = Bed::new().await;
    let pool = bed.pool("p", 0, json!({})).await;
    let claims = Claims::start(failing_once(&bed.client), SystemClock::shared(), &bed.tasks);
    idle(&bed, &pool, "p-1").await;
    let sandbox = bed.sandbox("s", "p").await;
    let failed = claims.claim(&at("p"), &sandbox, OnEmpty::Wait(PATIENCE)).await;
    assert!(matches!(failed, Err(ClaimError::Api(_))), "{failed:?}");
    assert_eq!(claims.claim(&at("p"), &sandbox, OnEmpty::Fail).await.unwrap().pod, "p-1");
    bed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_with_bounds_of_its_own_gets_a_pod_with_them() {
    let bed = Bed::new().await;
    bed.play_kubelet();
    let pool = bed.pool("p", 0, json!({})).await;
    let claims = claims(&bed, &bed.tasks);
    idle(&bed, &pool, "p-1").await;
    let mut sandbox = bed.sandbox("s", "p").await;
    sandbox.spec.resources = serde_json::from_value(json!({"limits": {"memory": "64Mi"}})).unwrap();
    let none = claims.claim(&at("p"), &sandbox, OnEmpty::Fail).await;
    assert!(matches!(none, Err(ClaimError::Empty { .. })), "none with these waits: {none:?}");
    let claimed = claims.claim(&at("p"), &sandbox, OnEmpty::Wait(PATIENCE)).await.unwrap();
    assert_ne!(claimed.pod, "p-1");
    let pod = bed.api::<Pod>().get(&claimed.pod).await.unwrap();
    let limits = pod.spec.unwrap().containers[0].resources.clone().unwrap().limits.unwrap();
    assert_eq!(limits["memory"].0, "64Mi");
    assert_eq!(claims.idle(&at("p")), 1, "the one that waits is somebody else's");
    bed.stop().await;
}
