//! The agent of an Application is the one that its destination names, whatever its namespace.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use thane_testkit::fleet::Pair;
use thane_testkit::fleet::object::{application, at_revision, revision, source_uid, status, status_at, text, uid};

use crate::suite::{Scenario, scenario};

/// A namespace of a team, on the hub only: the agent makes its own.
const TEAM: &str = "team-a";
/// Argo CD's on either side.
const OWN: &str = "argocd";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![scenario!(mapped_by_destination, Both, "the copy of an Application whose destination moves away stays")]
}

async fn mapped_by_destination(pair: &mut Pair) -> Result<()> {
    pair.restart_by_destination(true).await?;
    let outcome = by_destination(pair).await;
    pair.restart_by_destination(false).await?;
    outcome
}

fn destined(name: &str, agent: &str) -> Value {
    let mut app = application(name);
    app["spec"]["destination"] = json!({"name": agent, "namespace": "guestbook"});
    app
}

async fn by_destination(pair: &Pair) -> Result<()> {
    let agent = pair.agent_name();
    pair.hub.make_namespace(TEAM).await?;
    let (hub, spoke) = (pair.hub.applications_in(TEAM), pair.spoke.applications_in(TEAM));
    let made = hub.create(&destined("by-destination", agent)).await?;
    let copy = spoke.until("by-destination", "a copy", |copy| source_uid(copy) == uid(&made)).await?;
    ensure!(text(&copy, "/spec/destination/name") == "in-cluster", "{copy}");
    spoke.patch("by-destination", &status("Synced", "Healthy", "up")).await?;
    hub.until("by-destination", "with the agent's status", |app| status_at(app, "up")).await?;
    hub.patch("by-destination", &revision("v2")).await?;
    spoke.until("by-destination", "updated", |app| at_revision(app, "v2")).await?;

    // The hub's own namespace is the agent's own.
    let own = pair.hub.applications_in(OWN).create(&destined("in-own", agent)).await?;
    let copied = |copy: &Value| source_uid(copy) == uid(&own);
    pair.spoke.applications_in(OWN).until("in-own", "a copy", copied).await?;
    // What is for the hub's own cluster, or for nobody, stays there.
    hub.create(&destined("for-the-hub", "in-cluster")).await?;
    // Whoever loses an Application deletes its copy.
    hub.patch("by-destination", &json!({"spec": {"destination": {"name": "in-cluster"}}})).await?;
    spoke.until_gone("by-destination").await?;
    spoke.ensure_absent("for-the-hub").await?;
    ensure!(hub.get("by-destination").await?.is_some(), "the hub's own is gone");
    pair.hub.applications_in(OWN).delete("in-own").await?;
    pair.spoke.applications_in(OWN).until_gone("in-own").await
}
