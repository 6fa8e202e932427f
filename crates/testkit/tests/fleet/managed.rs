//! The hub has the truth: Applications go down, their status comes up.

use anyhow::{Result, ensure};
use serde_json::json;
use thane_testkit::fleet::Pair;
use thane_testkit::fleet::object::{
    CASCADE, application, at_revision, revision, source_uid, status, status_at, text, uid,
};

use crate::suite::{Scenario, scenario};
use crate::{apart, destination, identity, offline, operations, shared};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = vec![
        scenario!(create),
        scenario!(update),
        scenario!(status_goes_up),
        scenario!(delete),
        scenario!(cascading_delete),
        scenario!(
            recreated_under_the_same_name,
            Both,
            "the hub may send the old one's delete after the new one's create, and the agent deletes by name"
        ),
        scenario!(tampering_is_reverted),
        scenario!(a_copy_that_was_deleted_comes_back),
        scenario!(labelled_to_be_left_alone),
        scenario!(operations::operation_with_a_change_of_spec),
        scenario!(operations::operation_asked_for_while_the_hub_was_away),
    ];
    all.extend(operations::scenarios());
    all.extend(shared::scenarios());
    all.extend(apart::scenarios());
    all.extend(offline::scenarios());
    all.extend(identity::scenarios());
    all.extend(destination::scenarios());
    all
}

/// Makes an Application on the hub and waits for its copy.
pub(crate) async fn distributed(pair: &Pair, name: &str) -> Result<()> {
    let created = pair.hub.applications().create(&application(name)).await?;
    pair.spoke.applications().until(name, "a copy", |copy| source_uid(copy) == uid(&created)).await?;
    Ok(())
}

/// A whole way down and up: what was under way before has arrived, or never will.
pub(crate) async fn settled(pair: &Pair, name: &str) -> Result<()> {
    distributed(pair, name).await?;
    pair.spoke.applications().patch(name, &status("Synced", "Healthy", "settled")).await?;
    pair.hub.applications().until(name, "settled", |app| status_at(app, "settled")).await?;
    Ok(())
}

async fn create(pair: &mut Pair) -> Result<()> {
    let mut wanted = application("create");
    wanted["metadata"]["labels"] = json!({"team": "blue"});
    wanted["metadata"]["annotations"] = json!({"example.com/note": "<kept> & kept"});
    wanted["spec"]["info"] = json!([{"name": "question", "value": "who?"}]);
    let created = pair.hub.applications().create(&wanted).await?;
    let copy = pair.spoke.applications().until("create", "a copy", |_| true).await?;
    ensure!(source_uid(&copy) == uid(&created), "{copy}");
    ensure!(copy["metadata"]["labels"]["team"] == "blue", "{copy}");
    ensure!(copy["metadata"]["annotations"]["example.com/note"] == "<kept> & kept", "{copy}");
    ensure!(copy["spec"]["source"] == created["spec"]["source"], "{copy}");
    ensure!(copy["spec"]["info"] == created["spec"]["info"], "{copy}");
    // The spoke's own cluster, whatever the hub calls it.
    ensure!(text(&copy, "/spec/destination/name") == "in-cluster", "{copy}");
    ensure!(text(&copy, "/spec/destination/server").is_empty(), "{copy}");
    ensure!(text(&copy, "/spec/destination/namespace") == "guestbook", "{copy}");
    Ok(())
}

async fn update(pair: &mut Pair) -> Result<()> {
    distributed(pair, "update").await?;
    let change = json!({"metadata": {"labels": {"team": "red"}}, "spec": {"source": {"targetRevision": "v2"}}});
    pair.hub.applications().patch("update", &change).await?;
    let spoke = pair.spoke.applications();
    spoke.until("update", "new", |app| at_revision(app, "v2") && app["metadata"]["labels"]["team"] == "red").await?;
    // Of many changes in a row the last one counts.
    for number in 0..30 {
        pair.hub.applications().patch("update", &revision(&format!("r{number}"))).await?;
    }
    spoke.until("update", "at the last of many revisions", |app| at_revision(app, "r29")).await?;
    // A field that is taken away is gone.
    let change = json!({"metadata": {"labels": {"team": null}}, "spec": {"source": {"path": null, "chart": "c"}}});
    pair.hub.applications().patch("update", &change).await?;
    let without = |app: &serde_json::Value| {
        app.pointer("/metadata/labels/team").is_none() && text(app, "/spec/source/path").is_empty()
    };
    spoke.until("update", "without path and label", without).await?;
    Ok(())
}

async fn status_goes_up(pair: &mut Pair) -> Result<()> {
    distributed(pair, "status").await?;
    pair.spoke.applications().patch("status", &status("OutOfSync", "Missing", "s0")).await?;
    let found = pair.hub.applications().until("status", "compared", |app| status_at(app, "s0")).await?;
    ensure!(text(&found, "/status/health/status") == "Missing", "{found}");
    for number in 0..30 {
        pair.spoke.applications().patch("status", &status("Synced", "Healthy", &format!("s{number}"))).await?;
    }
    let found = pair.hub.applications().until("status", "at the last status", |app| status_at(app, "s29")).await?;
    ensure!(text(&found, "/status/health/status") == "Healthy", "{found}");
    // The spec is the hub's.
    ensure!(text(&found, "/spec/destination/server") == "https://kubernetes.default.svc", "{found}");
    Ok(())
}

async fn delete(pair: &mut Pair) -> Result<()> {
    distributed(pair, "delete").await?;
    pair.hub.applications().delete("delete").await?;
    pair.spoke.applications().until_gone("delete").await?;
    settled(pair, "after-delete").await?;
    pair.hub.applications().ensure_absent("delete").await?;
    pair.spoke.applications().ensure_absent("delete").await
}

async fn cascading_delete(pair: &mut Pair) -> Result<()> {
    let mut wanted = application("cascade");
    wanted["metadata"]["finalizers"] = json!([CASCADE]);
    pair.hub.applications().create(&wanted).await?;
    let has_finalizer = |app: &serde_json::Value| app["metadata"]["finalizers"][0] == CASCADE;
    pair.spoke.applications().until("cascade", "with its finalizer", has_finalizer).await?;
    pair.hub.applications().delete("cascade").await?;
    let leaving = |app: &serde_json::Value| !text(app, "/metadata/deletionTimestamp").is_empty();
    pair.spoke.applications().until("cascade", "leaving", leaving).await?;
    // The hub's waits for the spoke's, and that for Argo CD, which prunes and then lets go.
    let waiting = pair.hub.applications().get("cascade").await?;
    ensure!(waiting.as_ref().is_some_and(leaving), "{waiting:?}");
    pair.spoke.applications().patch("cascade", &json!({"metadata": {"finalizers": null}})).await?;
    pair.spoke.applications().until_gone("cascade").await?;
    pair.hub.applications().until_gone("cascade").await
}

async fn recreated_under_the_same_name(pair: &mut Pair) -> Result<()> {
    distributed(pair, "again").await?;
    pair.hub.applications().delete("again").await?;
    let mut second = application("again");
    second["spec"]["source"]["targetRevision"] = json!("second");
    let second = pair.hub.applications().create(&second).await?;
    let arrived = |app: &serde_json::Value| source_uid(app) == uid(&second) && at_revision(app, "second");
    pair.spoke.applications().until("again", "the second of its name", arrived).await?;
    settled(pair, "after-again").await?;
    let found = pair.spoke.applications().get("again").await?;
    ensure!(found.as_ref().is_some_and(arrived), "{found:?}");
    Ok(())
}

async fn tampering_is_reverted(pair: &mut Pair) -> Result<()> {
    distributed(pair, "tampered").await?;
    let tampered = pair.spoke.applications().patch("tampered", &revision("theirs")).await?;
    let reverted = |app: &serde_json::Value| {
        at_revision(app, "v1") && text(app, "/metadata/resourceVersion") != text(&tampered, "/metadata/resourceVersion")
    };
    pair.spoke.applications().until("tampered", "as the hub has it", reverted).await?;
    settled(pair, "after-tampered").await?;
    let hub = pair.hub.applications().until("tampered", "untouched", |app| at_revision(app, "v1")).await?;
    ensure!(hub["metadata"]["generation"].as_i64() <= Some(2), "the hub's copy was written to: {hub}");
    Ok(())
}

async fn a_copy_that_was_deleted_comes_back(pair: &mut Pair) -> Result<()> {
    distributed(pair, "removed").await?;
    let spoke = pair.spoke.applications();
    let old = spoke.until("removed", "there", |_| true).await?;
    spoke.delete("removed").await?;
    spoke.until("removed", "made again", |app| uid(app) != uid(&old) && source_uid(app) == source_uid(&old)).await?;
    // It is a copy as good as any: changes of the hub still arrive.
    pair.hub.applications().patch("removed", &revision("v2")).await?;
    spoke.until("removed", "updated", |app| at_revision(app, "v2")).await?;
    Ok(())
}

async fn labelled_to_be_left_alone(pair: &mut Pair) -> Result<()> {
    let mut wanted = application("alone");
    wanted["metadata"]["labels"] = json!({"argocd-agent.argoproj-labs.io/ignore-sync": "true"});
    pair.hub.applications().create(&wanted).await?;
    settled(pair, "after-alone").await?;
    pair.spoke.applications().ensure_absent("alone").await
}
