//! The cluster has the truth: one Application there makes others, and the hub shows them all.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use thane_testkit::fleet::object::{REFRESH, annotation, phase, source_uid, status_at, text, uid};
use thane_testkit::fleet::{Mode, Side};

use crate::Stage;
use crate::pods::Pods;
use crate::workload::{Sync, application, deployment, endless_hook, project, sync_now, terminate_now};

/// The agent's name.
const AGENT: &str = "autonomous-one";
/// One Application that makes the others.
const ROOT: &str = "root";
/// Synced by Argo CD.
const AUTOMATED: &str = "child-automated";
/// Synced when the hub asks for it.
const ON_REQUEST: &str = "child-on-request";
/// Synced when the hub asks for it, and never done.
const STUCK: &str = "child-stuck";
const CHILDREN: [(&str, Sync); 3] =
    [(AUTOMATED, Sync::Automated), (ON_REQUEST, Sync::OnRequest), (STUCK, Sync::OnRequest)];

pub(crate) async fn run(stage: &Stage<'_>) -> Result<()> {
    let argo = stage.argo().await?;
    let (hub, spoke) = (stage.fleet.hub(AGENT).await?, stage.fleet.spoke().await?);
    stage.step("an autonomous agent in a pod", &argo, stage.fleet.deploy_agent(AGENT, Mode::Autonomous)).await?;
    stage.step("an app of apps", &argo, app_of_apps(stage, &hub, &spoke)).await?;
    stage.step("a commit and a refresh from the hub, autonomous", &argo, refresh(stage, &hub, &spoke)).await?;
    stage.step("a sync from the hub, autonomous", &argo, sync(&hub, &spoke)).await?;
    stage.step("a terminate from the hub, autonomous", &argo, terminate(&hub, &spoke)).await?;
    stage.step("a deleted app of apps", &argo, delete(&hub, &spoke)).await?;
    stage.step("nobody complains, autonomous", &argo, stage.fleet.quiet()).await?;
    stage.fleet.remove_agent().await
}

async fn app_of_apps(stage: &Stage<'_>, hub: &Side, spoke: &Side) -> Result<()> {
    spoke.projects().create(&project()).await?;
    let url = stage.repository.url();
    let mut files = Vec::new();
    for (name, sync) in CHILDREN {
        files.push(deployment(name, "one"));
        files.push((format!("{ROOT}/{name}.yaml"), application(name, &url, sync).to_string()));
    }
    files.push(endless_hook(STUCK));
    stage.repository.commit("an app of apps", &files)?;
    let mut root = application(ROOT, &url, Sync::Automated);
    root["spec"]["destination"]["namespace"] = json!("argocd");
    spoke.applications().create(&root).await?;
    Pods::of(spoke.client(), AUTOMATED).until_version("one").await?;
    for name in [ROOT, AUTOMATED] {
        let app = hub.applications().until(name, "synced and healthy", is_well).await?;
        let truth = spoke.applications().until(name, "there", |_| true).await?;
        ensure!(source_uid(&app) == uid(&truth), "{app}");
        ensure!(text(&app, "/spec/project") == format!("{AGENT}-default"), "{app}");
        ensure!(text(&app, "/spec/destination/name") == AGENT, "{app}");
    }
    let waits = |app: &Value| text(app, "/status/sync/status") == "OutOfSync";
    hub.applications().until(ON_REQUEST, "out of sync", waits).await?;
    Ok(())
}

async fn refresh(stage: &Stage<'_>, hub: &Side, spoke: &Side) -> Result<()> {
    let commit = stage.repository.commit("two", &[deployment(AUTOMATED, "two")])?;
    hub.applications().patch(AUTOMATED, &json!({"metadata": {"annotations": {REFRESH: "normal"}}})).await?;
    Pods::of(spoke.client(), AUTOMATED).until_version("two").await?;
    let refreshed = |app: &Value| status_at(app, &commit) && is_well(app) && annotation(app, REFRESH).is_none();
    hub.applications().until(AUTOMATED, "at the new commit", refreshed).await?;
    Ok(())
}

async fn sync(hub: &Side, spoke: &Side) -> Result<()> {
    hub.applications().patch(ON_REQUEST, &sync_now()).await?;
    Pods::of(spoke.client(), ON_REQUEST).until_version("one").await?;
    let done = |app: &Value| phase(app) == "Succeeded" && is_well(app);
    hub.applications().until(ON_REQUEST, "synced on request", done).await?;
    // Its root must not take that for a change of its own.
    hub.applications().until(ROOT, "synced and healthy", is_well).await?;
    Ok(())
}

async fn terminate(hub: &Side, spoke: &Side) -> Result<()> {
    hub.applications().patch(STUCK, &sync_now()).await?;
    Pods::of(spoke.client(), STUCK).until_one().await?;
    hub.applications().until(STUCK, "running", |app| phase(app) == "Running").await?;
    hub.applications().patch(STUCK, &terminate_now()).await?;
    hub.applications().until(STUCK, "terminated", |app| phase(app) == "Failed").await?;
    Pods::of(spoke.client(), STUCK).until_gone().await
}

async fn delete(hub: &Side, spoke: &Side) -> Result<()> {
    spoke.applications().delete(ROOT).await?;
    for name in [ROOT, AUTOMATED, ON_REQUEST, STUCK] {
        hub.applications().until_gone(name).await?;
        spoke.applications().until_gone(name).await?;
    }
    for (name, _) in CHILDREN {
        Pods::of(spoke.client(), name).until_gone().await?;
    }
    spoke.projects().delete("default").await?;
    hub.projects().until_gone(&format!("{AGENT}-default")).await
}

fn is_well(app: &Value) -> bool {
    text(app, "/status/sync/status") == "Synced" && text(app, "/status/health/status") == "Healthy"
}
