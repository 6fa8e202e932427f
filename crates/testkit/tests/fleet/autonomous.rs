//! The spoke has the truth: the hub shows mirrors and may only ask for operations.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use thane_testkit::fleet::Pair;
use thane_testkit::fleet::object::{
    CASCADE, application, at_revision, revision, source_uid, status, status_at, text, uid,
};

use crate::suite::{Scenario, scenario};
use crate::{apart, mirrored, operations};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = vec![
        scenario!(mirror),
        scenario!(update_and_status),
        scenario!(edit_on_the_hub_is_reverted),
        scenario!(delete_on_the_hub_is_reverted),
        scenario!(delete),
        scenario!(delete_with_finalizer),
        scenario!(mirror_of_a_project),
        scenario!(policies_of_a_project, Hub, "0.9.0 mirrors the policies of a project as they are"),
        scenario!(
            refresh_of_one_without_annotations,
            Agent,
            "its JSON patch adds an annotation where there is no map of annotations yet, which the API refuses"
        ),
        scenario!(
            operations::operation_asked_for_while_the_hub_was_away,
            Hub,
            "at its start it sends no operations, and takes them from its mirrors when the agent tells of none"
        ),
    ];
    all.extend(operations::scenarios());
    all.extend(apart::scenarios());
    all.extend(mirrored::scenarios());
    all
}

/// Makes an Application on the spoke and waits for its mirror.
pub(crate) async fn mirrored(pair: &Pair, name: &str) -> Result<Value> {
    let made = pair.spoke.applications().create(&application(name)).await?;
    pair.hub.applications().until(name, "a mirror", |mirror| source_uid(mirror) == uid(&made)).await
}

async fn mirror(pair: &mut Pair) -> Result<()> {
    let mut wanted = application("mirror");
    wanted["metadata"]["labels"] = json!({"team": "blue"});
    wanted["metadata"]["annotations"] = json!({"example.com/note": "<kept> & kept"});
    let made = pair.spoke.applications().create(&wanted).await?;
    let found = pair.hub.applications().until("mirror", "a mirror", |_| true).await?;
    let agent = pair.agent_name();
    ensure!(source_uid(&found) == uid(&made), "{found}");
    ensure!(text(&found, "/spec/project") == format!("{agent}-default"), "{found}");
    ensure!(text(&found, "/spec/destination/name") == agent, "{found}");
    ensure!(text(&found, "/spec/destination/server").is_empty(), "{found}");
    ensure!(found["spec"]["source"] == made["spec"]["source"], "{found}");
    ensure!(found["metadata"]["labels"]["team"] == "blue", "{found}");
    ensure!(found["metadata"]["annotations"]["example.com/note"] == "<kept> & kept", "{found}");
    Ok(())
}

async fn update_and_status(pair: &mut Pair) -> Result<()> {
    mirrored(pair, "changes").await?;
    let (hub, spoke) = (pair.hub.applications(), pair.spoke.applications());
    spoke.patch("changes", &revision("v2")).await?;
    hub.until("changes", "at the new revision", |app| at_revision(app, "v2")).await?;
    spoke.patch("changes", &status("Synced", "Healthy", "s1")).await?;
    let found = hub.until("changes", "at the new status", |app| status_at(app, "s1")).await?;
    ensure!(text(&found, "/status/health/status") == "Healthy", "{found}");
    for number in 0..30 {
        spoke.patch("changes", &revision(&format!("r{number}"))).await?;
        spoke.patch("changes", &status("Synced", "Healthy", &format!("r{number}"))).await?;
    }
    let last = |app: &Value| at_revision(app, "r29") && status_at(app, "r29");
    hub.until("changes", "at the last of many changes", last).await?;
    let found = spoke.until("changes", "untouched", last).await?;
    ensure!(text(&found, "/spec/project") == "default", "{found}");
    Ok(())
}

async fn edit_on_the_hub_is_reverted(pair: &mut Pair) -> Result<()> {
    mirrored(pair, "edited").await?;
    let edited = pair.hub.applications().patch("edited", &revision("theirs")).await?;
    let reverted = |app: &Value| {
        at_revision(app, "v1") && text(app, "/metadata/resourceVersion") != text(&edited, "/metadata/resourceVersion")
    };
    pair.hub.applications().until("edited", "as the spoke has it", reverted).await?;
    mirrored(pair, "after-edited").await?;
    let found = pair.spoke.applications().until("edited", "untouched", |app| at_revision(app, "v1")).await?;
    ensure!(found["metadata"]["generation"] == 1, "the truth was written to: {found}");
    Ok(())
}

async fn delete_on_the_hub_is_reverted(pair: &mut Pair) -> Result<()> {
    let old = mirrored(pair, "deleted").await?;
    pair.hub.applications().delete("deleted").await?;
    let again = |app: &Value| uid(app) != uid(&old) && source_uid(app) == source_uid(&old);
    pair.hub.applications().until("deleted", "made again", again).await?;
    pair.spoke.applications().patch("deleted", &revision("v2")).await?;
    pair.hub.applications().until("deleted", "updated", |app| at_revision(app, "v2")).await?;
    let found = pair.spoke.applications().get("deleted").await?;
    ensure!(found.is_some_and(|app| app.pointer("/metadata/deletionTimestamp").is_none()), "the truth is leaving");
    Ok(())
}

async fn delete(pair: &mut Pair) -> Result<()> {
    mirrored(pair, "delete").await?;
    pair.spoke.applications().delete("delete").await?;
    pair.hub.applications().until_gone("delete").await?;
    mirrored(pair, "after-delete").await?;
    pair.spoke.applications().ensure_absent("delete").await?;
    pair.hub.applications().ensure_absent("delete").await
}

async fn delete_with_finalizer(pair: &mut Pair) -> Result<()> {
    let mut wanted = application("cascade");
    wanted["metadata"]["finalizers"] = json!([CASCADE]);
    pair.spoke.applications().create(&wanted).await?;
    pair.hub.applications().until("cascade", "a mirror", |_| true).await?;
    pair.spoke.applications().delete("cascade").await?;
    mirrored(pair, "after-cascade").await?;
    // Argo CD prunes and then lets go.
    pair.spoke.applications().patch("cascade", &json!({"metadata": {"finalizers": null}})).await?;
    pair.spoke.applications().until_gone("cascade").await?;
    pair.hub.applications().until_gone("cascade").await
}

async fn mirror_of_a_project(pair: &mut Pair) -> Result<()> {
    let agent = pair.agent_name();
    let wanted = json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "team"},
        "spec": {
            "sourceRepos": ["https://git.example.com/*"],
            "destinations": [{"name": "in-cluster", "namespace": "guestbook", "server": "https://kubernetes.default.svc"}],
        },
    });
    let made = pair.spoke.projects().create(&wanted).await?;
    let name = format!("{agent}-team");
    let found = pair.hub.projects().until(&name, "a mirror", |it| source_uid(it) == uid(&made)).await?;
    ensure!(found["spec"]["sourceNamespaces"] == json!([agent]), "{found}");
    let destinations = json!([{"name": agent, "namespace": "guestbook", "server": "*"}]);
    ensure!(found["spec"]["destinations"] == destinations, "{found}");
    pair.spoke.projects().patch("team", &json!({"spec": {"description": "changed"}})).await?;
    pair.hub.projects().until(&name, "changed", |it| text(it, "/spec/description") == "changed").await?;
    pair.hub.projects().patch(&name, &json!({"spec": {"description": "theirs"}})).await?;
    pair.hub.projects().until(&name, "as the spoke has it", |it| text(it, "/spec/description") == "changed").await?;
    pair.hub.projects().delete(&name).await?;
    pair.hub.projects().until(&name, "made again", |it| uid(it) != uid(&found)).await?;
    pair.spoke.projects().delete("team").await?;
    pair.hub.projects().until_gone(&name).await
}

async fn policies_of_a_project(pair: &mut Pair) -> Result<()> {
    let agent = pair.agent_name();
    let wanted = json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "roles"},
        "spec": {
            "sourceRepos": ["*"],
            "destinations": [{"name": "in-cluster", "namespace": "*"}],
            "roles": [{"name": "reader", "policies": ["p, proj:roles:reader, applications, get, roles/*, allow"]}],
        },
    });
    pair.spoke.projects().create(&wanted).await?;
    let name = format!("{agent}-roles");
    let found = pair.hub.projects().until(&name, "a mirror", |_| true).await?;
    let policy = format!("p, proj:{name}:reader, applications, get, {name}/{agent}/*, allow");
    ensure!(found["spec"]["roles"][0]["policies"][0] == policy.as_str(), "{found}");
    Ok(())
}

async fn refresh_of_one_without_annotations(pair: &mut Pair) -> Result<()> {
    mirrored(pair, "refresh-bare").await?;
    operations::refreshed(pair, "refresh-bare").await
}
