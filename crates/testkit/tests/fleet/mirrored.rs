//! Mirrors are true again after hub or agent was away.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use thane_testkit::fleet::object::{at_revision, revision, source_uid};
use thane_testkit::fleet::{Pair, Stop};

use crate::autonomous::mirrored;
use crate::suite::{Scenario, scenario};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(mirror_changed_while_the_hub_was_away),
        scenario!(mirror_changed_while_the_agent_was_away),
        scenario!(project_changed_while_the_agent_was_away),
    ]
}

async fn mirror_changed_while_the_hub_was_away(pair: &mut Pair) -> Result<()> {
    let (changed, removed) = ("hub-away-changed", "hub-away-removed");
    mirrored(pair, changed).await?;
    let old = mirrored(pair, removed).await?;
    pair.stop_hub(Stop::Killed).await?;
    let hub = pair.hub.applications();
    hub.patch(changed, &revision("theirs")).await?;
    hub.delete(removed).await?;
    pair.start_hub().await?;
    pair.connected().await?;
    hub.until(changed, "as the spoke has it", |app| at_revision(app, "v1")).await?;
    hub.until(removed, "made again", |app| source_uid(app) == source_uid(&old)).await?;
    Ok(())
}

async fn mirror_changed_while_the_agent_was_away(pair: &mut Pair) -> Result<()> {
    let (changed, removed) = ("agent-away-changed", "agent-away-removed");
    mirrored(pair, changed).await?;
    let old = mirrored(pair, removed).await?;
    pair.stop_agent(Stop::Killed).await?;
    let hub = pair.hub.applications();
    hub.patch(changed, &revision("theirs")).await?;
    hub.delete(removed).await?;
    pair.start_agent()?;
    pair.connected().await?;
    hub.until(changed, "as the spoke has it", |app| at_revision(app, "v1")).await?;
    hub.until(removed, "made again", |app| source_uid(app) == source_uid(&old)).await?;
    let truth = pair.spoke.applications().get(removed).await?;
    ensure!(truth.is_some_and(|app| at_revision(&app, "v1")), "the truth was deleted");
    Ok(())
}

async fn project_changed_while_the_agent_was_away(pair: &mut Pair) -> Result<()> {
    let project = |name: &str| {
        json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "AppProject",
            "metadata": {"name": name},
            "spec": {"sourceRepos": ["*"], "destinations": [{"name": "in-cluster", "namespace": "*"}]},
        })
    };
    let mirror_of = |name: &str| format!("{}-{name}", pair.agent_name());
    let (mirror, mirror_deleted, mirror_made) = (mirror_of("away"), mirror_of("away-deleted"), mirror_of("away-made"));
    let (hub, spoke) = (pair.hub.projects(), pair.spoke.projects());
    for name in ["away", "away-deleted"] {
        spoke.create(&project(name)).await?;
    }
    hub.until(&mirror, "a mirror", |_| true).await?;
    hub.until(&mirror_deleted, "a mirror", |_| true).await?;
    pair.stop_agent(Stop::Killed).await?;
    spoke.patch("away", &json!({"spec": {"description": "changed"}})).await?;
    spoke.delete("away-deleted").await?;
    spoke.create(&project("away-made")).await?;
    pair.start_agent()?;
    pair.connected().await?;
    hub.until(&mirror, "changed", |it: &Value| it["spec"]["description"] == "changed").await?;
    hub.until(&mirror_made, "a mirror", |_| true).await?;
    hub.until_gone(&mirror_deleted).await
}
