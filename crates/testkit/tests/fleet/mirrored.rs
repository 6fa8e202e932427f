//! Mirrors are true again after hub or agent was away.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use thane_testkit::fleet::object::{application, at_revision, revision, source_uid, status, status_at, uid};
use thane_testkit::fleet::{Pair, Stop};

use crate::autonomous::mirrored;
use crate::suite::{Scenario, scenario};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(agent_asked_to_stop),
        scenario!(agent_killed),
        scenario!(hub_asked_to_stop),
        scenario!(hub_killed),
        scenario!(both_killed),
        scenario!(mirror_changed_while_the_hub_was_away),
        scenario!(mirror_changed_while_the_agent_was_away),
        scenario!(status_written_while_the_agent_was_away),
        scenario!(status_written_while_the_hub_was_away),
        scenario!(project_changed_while_the_agent_was_away),
    ]
}

/// The names of one scenario's Applications.
struct Names {
    kept: String,
    changed: String,
    deleted: String,
    made: String,
    after: String,
}

impl Names {
    fn new(scenario: &str) -> Self {
        let name = |what: &str| format!("{scenario}-{what}");
        Self {
            kept: name("kept"),
            changed: name("changed"),
            deleted: name("deleted"),
            made: name("made"),
            after: name("after"),
        }
    }

    async fn before(&self, pair: &Pair) -> Result<()> {
        for name in [&self.kept, &self.changed, &self.deleted] {
            mirrored(pair, name).await?;
        }
        Ok(())
    }

    /// What users do on the spoke meanwhile.
    async fn meanwhile(&self, pair: &Pair) -> Result<()> {
        let spoke = pair.spoke.applications();
        spoke.patch(&self.changed, &revision("v2")).await?;
        spoke.delete(&self.deleted).await?;
        spoke.create(&application(&self.made)).await?;
        Ok(())
    }

    async fn converged(&self, pair: &Pair) -> Result<()> {
        let (hub, spoke) = (pair.hub.applications(), pair.spoke.applications());
        for (name, wanted) in [(&self.kept, "v1"), (&self.changed, "v2"), (&self.made, "v1")] {
            hub.until(name, wanted, |app| at_revision(app, wanted)).await?;
        }
        hub.until_gone(&self.deleted).await?;
        mirrored(pair, &self.after).await?;
        hub.ensure_absent(&self.deleted).await?;
        spoke.ensure_absent(&self.deleted).await?;
        for (name, wanted) in [(&self.kept, "v1"), (&self.changed, "v2"), (&self.made, "v1")] {
            let (mirror, truth) = (hub.get(name).await?, spoke.get(name).await?);
            let (Some(mirror), Some(truth)) = (mirror, truth) else { anyhow::bail!("{name} is not on both sides") };
            ensure!(at_revision(&mirror, wanted) && at_revision(&truth, wanted), "{mirror}\n{truth}");
            ensure!(source_uid(&mirror) == uid(&truth), "{mirror}\n{truth}");
        }
        Ok(())
    }
}

async fn without_agent(pair: &mut Pair, how: Stop, scenario: &str) -> Result<()> {
    let names = Names::new(scenario);
    names.before(pair).await?;
    pair.stop_agent(how).await?;
    names.meanwhile(pair).await?;
    pair.start_agent()?;
    pair.connected().await?;
    names.converged(pair).await
}

async fn without_hub(pair: &mut Pair, how: Stop, scenario: &str) -> Result<()> {
    let names = Names::new(scenario);
    names.before(pair).await?;
    pair.stop_hub(how).await?;
    names.meanwhile(pair).await?;
    pair.start_hub().await?;
    pair.connected().await?;
    names.converged(pair).await
}

async fn agent_asked_to_stop(pair: &mut Pair) -> Result<()> {
    without_agent(pair, Stop::Asked, "agent-asked").await
}

async fn agent_killed(pair: &mut Pair) -> Result<()> {
    without_agent(pair, Stop::Killed, "agent-killed").await
}

async fn hub_asked_to_stop(pair: &mut Pair) -> Result<()> {
    without_hub(pair, Stop::Asked, "hub-asked").await
}

async fn hub_killed(pair: &mut Pair) -> Result<()> {
    without_hub(pair, Stop::Killed, "hub-killed").await
}

async fn both_killed(pair: &mut Pair) -> Result<()> {
    let names = Names::new("both-killed");
    names.before(pair).await?;
    pair.stop_hub(Stop::Killed).await?;
    pair.stop_agent(Stop::Killed).await?;
    names.meanwhile(pair).await?;
    // The agent comes up first and must wait for its hub.
    pair.start_agent()?;
    pair.start_hub().await?;
    pair.connected().await?;
    names.converged(pair).await
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

async fn status_written_while_the_agent_was_away(pair: &mut Pair) -> Result<()> {
    mirrored(pair, "agent-away").await?;
    pair.stop_agent(Stop::Killed).await?;
    pair.spoke.applications().patch("agent-away", &status("Synced", "Healthy", "away")).await?;
    pair.start_agent()?;
    pair.connected().await?;
    pair.hub.applications().until("agent-away", "at the status of meanwhile", |app| status_at(app, "away")).await?;
    Ok(())
}

async fn status_written_while_the_hub_was_away(pair: &mut Pair) -> Result<()> {
    mirrored(pair, "hub-away").await?;
    pair.stop_hub(Stop::Killed).await?;
    pair.spoke.applications().patch("hub-away", &status("Synced", "Healthy", "away")).await?;
    pair.start_hub().await?;
    pair.connected().await?;
    pair.hub.applications().until("hub-away", "at the status of meanwhile", |app| status_at(app, "away")).await?;
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
