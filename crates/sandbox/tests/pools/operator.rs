//! Controllers: pools are kept full, sandboxes get pods.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use thane_runtime::metrics::Registry;
use thane_runtime::{SystemClock, Tasks};
use thane_sandbox::kinds::{Phase, Sandbox, WarmPool};
use thane_sandbox::lease::Candidate;
use thane_sandbox::names;
use thane_sandbox::operator::{self, Options};
use thane_sandbox::pods::Shape;

use crate::bed::{ABSENT, Bed, PATIENCE, nobodys_certificates};

/// So long pools of experiments stay here without a sandbox.
const UNUSED: Duration = Duration::from_secs(5);

fn operate(bed: &Bed, tasks: &Tasks, lease: Option<&str>) {
    let lease = lease.map(|identity| Candidate {
        namespace: "default".into(),
        name: "operator".into(),
        identity: identity.into(),
    });
    let options = Options {
        shape: Shape::Embedded,
        sidecars: nobodys_certificates(),
        lease,
        certificates: None,
        claims: None,
        managed_unused: UNUSED,
    };
    operator::start(bed.client.clone(), options, SystemClock::shared(), tasks, &mut Registry::default());
}

fn counts(pool: &WarmPool) -> (i32, i32) {
    pool.status.as_ref().map_or((-1, -1), |status| (status.ready_replicas, status.allocated_replicas))
}

fn phase(sandbox: &Sandbox) -> Option<Phase> {
    sandbox.status.as_ref()?.phase
}

fn reason(sandbox: &Sandbox) -> &str {
    sandbox.status.as_ref().and_then(|status| status.conditions.first()).map_or("", |ready| &ready.reason)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_fills_gives_refills_and_survives_its_operator() {
    let bed = Bed::new().await;
    bed.play_kubelet();
    let first = bed.tasks.child("first");
    operate(&bed, &first, None);
    bed.pool("p", 3, json!({})).await;
    bed.until::<WarmPool>("p", "full", |pool| counts(pool) == (3, 0)).await;
    // made with kubectl, before its pool is known and after
    bed.sandbox("early", "q").await;
    bed.until::<Sandbox>("early", "waiting", |sandbox| reason(sandbox) == "PoolNotFound").await;
    let sandbox = bed.sandbox("s", "p").await;
    let ready = bed.until::<Sandbox>("s", "ready", |sandbox| phase(sandbox) == Some(Phase::Ready)).await;
    bed.until::<WarmPool>("p", "refilled", |pool| counts(pool) == (3, 1)).await;
    bed.pool("q", 1, json!({})).await;
    bed.until::<Sandbox>("early", "ready", |sandbox| phase(sandbox) == Some(Phase::Ready)).await;
    // another operator finds everything as it is
    assert!(first.shutdown(PATIENCE).await.is_empty());
    let before: BTreeSet<String> = bed.pods("p").await.into_iter().filter_map(|pod| pod.metadata.uid).collect();
    assert_eq!(before.len(), 4);
    operate(&bed, &bed.tasks.child("second"), None);
    let scaled = Patch::Merge(json!({"spec": {"replicas": 1}}));
    bed.api::<WarmPool>().patch("p", &PatchParams::default(), &scaled).await.unwrap();
    bed.until::<WarmPool>("p", "smaller", |pool| counts(pool) == (1, 1)).await;
    let after: BTreeSet<String> = bed.pods("p").await.into_iter().filter_map(|pod| pod.metadata.uid).collect();
    assert!(after.is_subset(&before), "nothing was made anew");
    // a sandbox that goes takes its pod along
    let pod = ready.status.unwrap().pod_name.unwrap();
    let pod_uid = bed.api::<Pod>().get(&pod).await.unwrap().metadata.uid.unwrap();
    bed.api::<Sandbox>().delete("s", &DeleteParams::default()).await.unwrap();
    bed.gone::<Pod>(&pod, &pod_uid).await;
    bed.gone::<Sandbox>("s", sandbox.metadata.uid.as_deref().unwrap()).await;
    bed.until::<WarmPool>("p", "without it", |pool| counts(pool) == (1, 0)).await;
    bed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_says_why() {
    let bed = Bed::new().await;
    bed.play_kubelet();
    operate(&bed, &bed.tasks.child("operator"), None);
    let absent = json!({"spec": {"containers": [{"name": "main", "image": ABSENT}]}});
    bed.pool("p", 2, json!({"template": absent})).await;
    let failing = |pool: &WarmPool| {
        let conditions = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let failing = conditions.iter().find(|condition| condition.type_ == "PodsFailing");
        failing.is_some_and(|failing| failing.status == "True" && failing.message == "no such image")
    };
    bed.until::<WarmPool>("p", "failing", failing).await;
    bed.sandbox("s", "p").await;
    bed.until::<Sandbox>("s", "waiting", |sandbox| reason(sandbox) == "PoolNotReady").await;
    // another image heals it, and the pod that is lost under a sandbox is told
    let healed = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "host"}]}}}});
    bed.api::<WarmPool>().patch("p", &PatchParams::default(), &Patch::Merge(healed)).await.unwrap();
    let ready = bed.until::<Sandbox>("s", "ready", |sandbox| phase(sandbox) == Some(Phase::Ready)).await;
    bed.until::<WarmPool>("p", "full", |pool| counts(pool) == (2, 1)).await;
    let pod = ready.status.unwrap().pod_name.unwrap();
    bed.api::<Pod>().delete(&pod, &DeleteParams::default().grace_period(0)).await.unwrap();
    let failed = bed.until::<Sandbox>("s", "failed", |sandbox| phase(sandbox) == Some(Phase::Failed)).await;
    assert!(matches!(reason(&failed), "PodLost" | "PodDeleted"), "{failed:?}");
    bed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_operator_leads_and_the_next_takes_over() {
    let bed = Bed::new().await;
    bed.play_kubelet();
    let (first, second) = (bed.tasks.child("first"), bed.tasks.child("second"));
    operate(&bed, &first, Some("first"));
    operate(&bed, &second, Some("second"));
    bed.pool("p", 20, json!({})).await;
    bed.until::<WarmPool>("p", "full", |pool| counts(pool) == (20, 0)).await;
    assert_eq!(bed.pods("p").await.len(), 20, "two who lead would have made more");
    let lease = bed.api::<Lease>().get("operator").await.unwrap();
    let leader = if lease.spec.unwrap().holder_identity.as_deref() == Some("first") { first } else { second };
    assert!(leader.shutdown(PATIENCE).await.is_empty());
    bed.pool("q", 2, json!({})).await;
    bed.until::<WarmPool>("q", "full", |pool| counts(pool) == (2, 0)).await;
    bed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_wait_and_a_new_template_rolls() {
    let bed = Bed::new().await;
    bed.play_kubelet();
    operate(&bed, &bed.tasks.child("operator"), None);
    bed.pool("p", 200, json!({"maxReplicas": 210})).await;
    bed.until::<WarmPool>("p", "full", |pool| counts(pool) == (200, 0)).await;
    assert_eq!(bed.pods("p").await.len(), 200);
    let other = json!({"spec": {"replicas": 8, "template": {"metadata": {"labels": {"app": "y"}}}}});
    bed.api::<WarmPool>().patch("p", &PatchParams::default(), &Patch::Merge(other)).await.unwrap();
    bed.until::<WarmPool>("p", "smaller", |pool| counts(pool) == (8, 0)).await;
    let rolled =
        |pods: Vec<Pod>| pods.len() == 8 && pods.iter().all(|pod| pod.metadata.labels.as_ref().unwrap()["app"] == "y");
    let waited = tokio::time::timeout(PATIENCE, async {
        while !rolled(bed.pods("p").await) {
            tokio::task::yield_now().await;
        }
    });
    waited.await.expect("all idle ones are of the new template");
    bed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_of_an_experiment_goes_when_nobody_uses_it() {
    let bed = Bed::new().await;
    bed.play_kubelet();
    let labels = Patch::Merge(json!({"metadata": {"labels": {names::EXPERIMENT: "e"}}}));
    for name in ["managed-used", "managed-unused", "other"] {
        bed.pool(name, 1, json!({})).await;
        bed.api::<WarmPool>().patch(name, &PatchParams::default(), &labels).await.unwrap();
    }
    operate(&bed, &bed.tasks.child("operator"), None);
    let sandbox = bed.sandbox("s", "managed-used").await;
    bed.until::<Sandbox>("s", "ready", |sandbox| phase(sandbox) == Some(Phase::Ready)).await;
    let uid = async |name: &str| bed.api::<WarmPool>().get(name).await.unwrap().metadata.uid.unwrap();
    let used = uid("managed-used").await;
    if let Some(unused) = bed.api::<WarmPool>().get_opt("managed-unused").await.unwrap() {
        bed.gone::<WarmPool>("managed-unused", &unused.metadata.uid.unwrap()).await;
    }
    assert_eq!(uid("managed-used").await, used, "a sandbox of it is there");
    uid("other").await;
    bed.api::<Sandbox>().delete("s", &DeleteParams::default()).await.unwrap();
    bed.gone::<Sandbox>("s", sandbox.metadata.uid.as_deref().unwrap()).await;
    bed.gone::<WarmPool>("managed-used", &used).await;
    bed.stop().await;
}
