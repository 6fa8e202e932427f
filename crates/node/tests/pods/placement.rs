//! Which pods come to a node, and what the others are told.

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::bed::{Bed, holds, on_bed};

async fn change(bed: &Bed, patch: Value) {
    let nodes: Api<Node> = Api::all(bed.client());
    nodes.patch("here", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

/// Waits until a pod says why it waits.
async fn told(bed: &Bed, name: &str, why: &str) -> Pod {
    bed.until(name, "told why it waits", |pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let mut unplaced = conditions.filter(|one| one.type_ == "PodScheduled" && one.status == "False");
        unplaced.any(|one| {
            let message = one.message.as_deref().unwrap_or_default();
            one.reason.as_deref() == Some("Unschedulable")
                && message.starts_with("0/1 nodes are available")
                && message.contains(why)
        })
    })
    .await
}

#[test]
fn a_pod_waits_for_its_label_and_says_so() {
    on_bed(|bed| async {
        bed.script("p", "sleep 60", json!({"nodeSelector": {"disk": "ssd", "beta.kubernetes.io/os": "linux"}})).await;
        let pod = told(&bed, "p", "kubectl label node here disk=ssd").await;
        assert!(pod.spec.unwrap().node_name.is_none());
        change(&bed, json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
        let pod = bed.phase("p", "Running").await;
        assert!(holds(&pod, "PodScheduled"), "{:?}", pod.status);
        let events: Api<Event> = Api::namespaced(bed.client(), "default");
        let about = ListParams::default().fields("involvedObject.name=p,reason=FailedScheduling");
        assert_eq!(events.list(&about).await.unwrap().items.len(), 1);
        bed.delete("p").await;
        bed
    });
}

#[test]
fn a_cordoned_node_takes_no_new_pods_also_after_a_restart() {
    on_bed(|mut bed| async {
        change(&bed, json!({"spec": {"unschedulable": true}})).await;
        bed.script("after", "sleep 60", json!({})).await;
        told(&bed, "after", "kubectl uncordon here").await;
        bed.stop_node().await;
        bed.start_node().await;
        bed.script("later", "sleep 60", json!({})).await;
        told(&bed, "later", "kubectl uncordon here").await;
        change(&bed, json!({"spec": {"unschedulable": null}})).await;
        for name in ["after", "later"] {
            bed.phase(name, "Running").await;
            bed.delete(name).await;
        }
        bed
    });
}
