//! The hub has the truth, once with the whole of Argo CD beside the agent, once with its stores on the hub's side.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use thane_testkit::argo::Argo;
use thane_testkit::fleet::object::{REFRESH, annotation, phase, source_uid, status_at, text, uid};
use thane_testkit::fleet::{Mode, Side};

use crate::Stage;
use crate::pods::Pods;
use crate::workload::{Sync, application, deployment, endless_hook, project, sync_now, terminate_now};

/// The agent's name.
const AGENT: &str = "managed-one";

pub(crate) async fn run(stage: &Stage<'_>) -> Result<()> {
    let sides = Sides { hub: stage.fleet.hub(AGENT).await?, spoke: stage.fleet.spoke().await? };
    let whole = stage.argo().await?;
    stage.step("an agent in a pod", &whole, stage.fleet.deploy_agent(AGENT, Mode::Managed)).await?;
    stage.step("doctor", &whole, stage.fleet.doctor()).await?;
    stage.step("a project goes down", &whole, sides.project()).await?;
    sides.scenario(stage, &whole, "whole").await?;
    drop(whole);

    let shared = stage.shared_argo().await?;
    sides.scenario(stage, &shared, "shared").await?;
    stage.step("nobody complains", &shared, stage.fleet.quiet()).await?;
    stage.step("new pods of hub and agent", &shared, sides.restart(stage, "restarted")).await?;
    sides.hub.projects().delete("default").await?;
    sides.spoke.projects().until_gone("default").await?;
    stage.fleet.remove_controller().await?;
    stage.fleet.remove_agent().await
}

/// Where argocd-agent was deployed, it is enough to change the image.
pub(crate) async fn run_switched(stage: &Stage<'_>) -> Result<()> {
    let sides = Sides { hub: stage.fleet.hub(AGENT).await?, spoke: stage.fleet.spoke().await? };
    let argo = stage.argo().await?;
    stage.step("a switched agent", &argo, stage.fleet.deploy_agent(AGENT, Mode::Managed)).await?;
    stage.step("a project goes down", &argo, sides.project()).await?;
    sides.scenario(stage, &argo, "switched").await?;
    stage.step("nobody complains, switched", &argo, stage.fleet.quiet()).await
}

/// The two APIs.
struct Sides {
    hub: Side,
    spoke: Side,
}

/// Synced and healthy at a commit.
fn settled(commit: &str) -> impl Fn(&Value) -> bool {
    move |app| {
        text(app, "/status/sync/status") == "Synced"
            && text(app, "/status/health/status") == "Healthy"
            && status_at(app, commit)
    }
}

impl Sides {
    fn pods(&self, application: &str) -> Pods {
        Pods::of(self.spoke.client(), application)
    }

    /// Three Applications from their creation to their end.
    async fn scenario(&self, stage: &Stage<'_>, argo: &Argo, prefix: &str) -> Result<()> {
        let [first, second, third] = ["guestbook", "on-request", "stuck"].map(|name| format!("{prefix}-{name}"));
        stage.step(&format!("{first} becomes a pod"), argo, self.create(stage, &first)).await?;
        stage.step(&format!("a commit rolls out for {first}"), argo, self.commit(stage, &first, "two")).await?;
        stage.step(&format!("the hub syncs {second}"), argo, self.sync(stage, &second)).await?;
        stage.step(&format!("the hub terminates {third}"), argo, self.terminate(stage, &third)).await?;
        for name in [first, second, third] {
            stage.step(&format!("a cascading delete of {name}"), argo, self.delete(&name)).await?;
        }
        Ok(())
    }

    /// Hub and agent are replaced while an Application runs, and are in step afterwards.
    async fn restart(&self, stage: &Stage<'_>, name: &str) -> Result<()> {
        self.create(stage, name).await?;
        stage.fleet.restart().await?;
        self.commit(stage, name, "two").await?;
        self.delete(name).await
    }

    async fn project(&self) -> Result<()> {
        let made = self.hub.projects().create(&project()).await?;
        self.spoke.projects().until("default", "a copy", |copy| source_uid(copy) == uid(&made)).await?;
        Ok(())
    }

    /// Makes an Application on the hub; its namespace there is the agent's.
    async fn make(&self, stage: &Stage<'_>, name: &str, sync: Sync) -> Result<()> {
        let mut wanted = application(name, &stage.repository.url(), sync);
        wanted["metadata"]["namespace"] = json!(AGENT);
        self.hub.applications().create(&wanted).await?;
        Ok(())
    }

    async fn create(&self, stage: &Stage<'_>, name: &str) -> Result<()> {
        let commit = stage.repository.commit("first", &[deployment(name, "one")])?;
        self.make(stage, name, Sync::Automated).await?;
        self.pods(name).until_version("one").await?;
        self.hub.applications().until(name, "synced and healthy", settled(&commit)).await?;
        Ok(())
    }

    /// Argo CD asks git every two minutes; nobody waits that long who can ask for a refresh.
    async fn commit(&self, stage: &Stage<'_>, name: &str, version: &str) -> Result<()> {
        let commit = stage.repository.commit(version, &[deployment(name, version)])?;
        let refresh = json!({"metadata": {"annotations": {REFRESH: "normal"}}});
        self.hub.applications().patch(name, &refresh).await?;
        self.pods(name).until_version(version).await?;
        let refreshed = |app: &Value| settled(&commit)(app) && annotation(app, REFRESH).is_none();
        self.hub.applications().until(name, "at the new commit", refreshed).await?;
        Ok(())
    }

    async fn sync(&self, stage: &Stage<'_>, name: &str) -> Result<()> {
        let commit = stage.repository.commit("on request", &[deployment(name, "one")])?;
        self.make(stage, name, Sync::OnRequest).await?;
        let missing = |app: &Value| text(app, "/status/sync/status") == "OutOfSync";
        self.hub.applications().until(name, "out of sync", missing).await?;
        self.hub.applications().patch(name, &sync_now()).await?;
        self.pods(name).until_version("one").await?;
        let done = |app: &Value| phase(app) == "Succeeded" && settled(&commit)(app);
        let app = self.hub.applications().until(name, "synced on request", done).await?;
        ensure!(text(&app, "/status/operationState/operation/initiatedBy/username") == "admin", "{app}");
        ensure!(app.get("operation").is_none(), "{app}");
        Ok(())
    }

    async fn terminate(&self, stage: &Stage<'_>, name: &str) -> Result<()> {
        stage.repository.commit("stuck", &[deployment(name, "one"), endless_hook(name)])?;
        self.make(stage, name, Sync::OnRequest).await?;
        let compared = |app: &Value| !text(app, "/status/sync/status").is_empty();
        self.hub.applications().until(name, "compared", compared).await?;
        self.hub.applications().patch(name, &sync_now()).await?;
        self.pods(name).until_one().await?;
        self.hub.applications().until(name, "running", |app| phase(app) == "Running").await?;
        self.hub.applications().patch(name, &terminate_now()).await?;
        let app = self.hub.applications().until(name, "terminated", |app| phase(app) == "Failed").await?;
        ensure!(text(&app, "/status/operationState/message").contains("terminated"), "{app}");
        self.pods(name).until_gone().await
    }

    async fn delete(&self, name: &str) -> Result<()> {
        self.hub.applications().delete(name).await?;
        self.hub.applications().until_gone(name).await?;
        self.spoke.applications().until_gone(name).await?;
        self.pods(name).until_gone().await
    }
}
