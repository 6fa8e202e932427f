//! Copies on the spoke, projects and repositories are right again after hub or agent was away.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use thane_testkit::fleet::object::{application, at_revision, revision, source_uid, uid};
use thane_testkit::fleet::{Pair, Stop};

use crate::managed::{distributed, settled};
use crate::shared;
use crate::suite::{Scenario, scenario};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(tampered_with_while_the_agent_was_away),
        scenario!(
            recreated_while_the_agent_was_away,
            Both,
            "the hub sends the old one's delete after the new one's create, and the agent deletes by name"
        ),
        scenario!(project_changed_while_the_agent_was_away),
        scenario!(repository_changed_while_the_agent_was_away),
        scenario!(storm),
    ]
}

async fn tampered_with_while_the_agent_was_away(pair: &mut Pair) -> Result<()> {
    let (changed, removed) = ("away-changed", "away-removed");
    distributed(pair, changed).await?;
    distributed(pair, removed).await?;
    pair.stop_agent(Stop::Killed).await?;
    let spoke = pair.spoke.applications();
    spoke.patch(changed, &revision("theirs")).await?;
    let old = spoke.until(removed, "there", |_| true).await?;
    spoke.delete(removed).await?;
    pair.start_agent()?;
    pair.connected().await?;
    spoke.until(changed, "as the hub has it", |app| at_revision(app, "v1")).await?;
    spoke.until(removed, "made again", |app| source_uid(app) == source_uid(&old)).await?;
    Ok(())
}

async fn recreated_while_the_agent_was_away(pair: &mut Pair) -> Result<()> {
    let name = "away-again";
    distributed(pair, name).await?;
    pair.stop_agent(Stop::Killed).await?;
    pair.hub.applications().delete(name).await?;
    let mut second = application(name);
    second["spec"]["source"]["targetRevision"] = json!("second");
    let second = pair.hub.applications().create(&second).await?;
    pair.start_agent()?;
    pair.connected().await?;
    let arrived = |app: &Value| source_uid(app) == uid(&second) && at_revision(app, "second");
    pair.spoke.applications().until(name, "the second of its name", arrived).await?;
    settled(pair, "after-away-again").await?;
    let found = pair.spoke.applications().get(name).await?;
    ensure!(found.as_ref().is_some_and(arrived), "{found:?}");
    Ok(())
}

async fn project_changed_while_the_agent_was_away(pair: &mut Pair) -> Result<()> {
    let project = |name: &str| {
        json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "AppProject",
            "metadata": {"name": name},
            "spec": {
                "sourceRepos": ["*"],
                "sourceNamespaces": ["*"],
                "destinations": [{"name": "agent-*", "namespace": "*", "server": "*"}],
            },
        })
    };
    let (hub, spoke) = (pair.hub.projects(), pair.spoke.projects());
    for name in ["away-project", "away-project-deleted"] {
        hub.create(&project(name)).await?;
        spoke.until(name, "a copy", |_| true).await?;
    }
    pair.stop_agent(Stop::Killed).await?;
    hub.patch("away-project", &json!({"spec": {"description": "changed"}})).await?;
    hub.delete("away-project-deleted").await?;
    hub.create(&project("away-project-made")).await?;
    pair.start_agent()?;
    pair.connected().await?;
    spoke.until("away-project", "changed", |it| it["spec"]["description"] == "changed").await?;
    spoke.until("away-project-made", "a copy", |_| true).await?;
    spoke.until_gone("away-project-deleted").await
}

async fn repository_changed_while_the_agent_was_away(pair: &mut Pair) -> Result<()> {
    let (changed, deleted, made) = ("away-repository", "away-repository-deleted", "away-repository-made");
    shared::distributed(pair, "away-repositories").await?;
    let secret = |name| shared::secret(name, "repository", Some("away-repositories"), "one");
    let (hub, spoke) = (pair.hub.secrets(), pair.spoke.secrets());
    for name in [changed, deleted] {
        hub.create(&secret(name)).await?;
        spoke.until(name, "a copy", |_| true).await?;
    }
    pair.stop_agent(Stop::Killed).await?;
    hub.patch(changed, &json!({"stringData": {"password": "two"}})).await?;
    hub.delete(deleted).await?;
    hub.create(&secret(made)).await?;
    pair.start_agent()?;
    pair.connected().await?;
    let wanted = hub.until(changed, "there", |_| true).await?;
    spoke.until(changed, "changed", |it| it["data"] == wanted["data"]).await?;
    spoke.until(made, "a copy", |_| true).await?;
    spoke.until_gone(deleted).await
}

/// Applications that change while both programs are killed again and again.
const STORM: usize = 20;
/// Changes of each.
const GUSTS: usize = 30;

async fn storm(pair: &mut Pair) -> Result<()> {
    let name = |number: usize| format!("storm-{number}");
    for number in 0..STORM {
        pair.hub.applications().create(&application(&name(number))).await?;
    }
    for gust in 0..GUSTS {
        for number in 0..STORM {
            pair.hub.applications().patch(&name(number), &revision(&format!("g{gust}"))).await?;
        }
        match gust {
            5 | 15 => pair.stop_agent(Stop::Killed).await?,
            7 | 17 => pair.start_agent()?,
            10 | 16 => pair.stop_hub(Stop::Killed).await?,
            12 | 20 => pair.start_hub().await?,
            _ => {}
        }
    }
    pair.connected().await?;
    let last = format!("g{}", GUSTS - 1);
    for number in 0..STORM {
        pair.spoke.applications().until(&name(number), "at the last revision", |app| at_revision(app, &last)).await?;
    }
    Ok(())
}
