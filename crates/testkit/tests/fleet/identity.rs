//! Whether what the agent's cluster has is the copy of what the hub has: taken over, made anew, or kept with a new source.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use thane_testkit::fleet::object::{SOURCE_UID, application, at_revision, source_uid, text, uid};
use thane_testkit::fleet::{Pair, Stop};

use crate::managed::{distributed, settled};
use crate::suite::{Scenario, scenario};

const PRINCIPAL_UID: &str = "argocd.argoproj.io/principal-uid";
const MISMATCH_POLICY: &str = "argocd.argoproj.io/source-uid-mismatch-policy";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![scenario!(identity_is_decided_when_both_come_back)]
}

/// An Application that was made again on the hub, with what the agent is to do about it.
fn second(name: &str, policy: Option<&str>) -> Value {
    let mut app = application(name);
    app["spec"]["source"]["targetRevision"] = json!("second");
    if let Some(policy) = policy {
        app["metadata"]["annotations"] = json!({MISMATCH_POLICY: policy});
    }
    app
}

/// Neither sees what happens, so that only the uids tell.
async fn identity_is_decided_when_both_come_back(pair: &mut Pair) -> Result<()> {
    for name in ["id-kept", "id-anew", "id-other-hub"] {
        distributed(pair, name).await?;
    }
    pair.stop_agent(Stop::Asked).await?;
    pair.stop_hub(Stop::Asked).await?;
    let (hub, spoke) = (pair.hub.applications(), pair.spoke.applications());
    let copy = async |name: &str| spoke.until(name, "there", |_| true).await;
    let before = [copy("id-kept").await?, copy("id-anew").await?, copy("id-other-hub").await?];
    for (name, policy) in [("id-kept", "upsert"), ("id-anew", "recreate")] {
        hub.delete(name).await?;
        hub.until_gone(name).await?;
        hub.create(&second(name, Some(policy))).await?;
    }
    // As if another hub had made the copy: its objects had other uids and mean the same.
    let other = json!({"metadata": {"annotations": {SOURCE_UID: "of-another", PRINCIPAL_UID: "another-hub"}}});
    spoke.patch("id-other-hub", &other).await?;
    hub.patch("id-other-hub", &json!({"spec": {"source": {"targetRevision": "second"}}})).await?;
    // As if someone had it before there was a hub.
    let local = spoke.create(&application("id-adopted")).await?;
    hub.create(&second("id-adopted", None)).await?;
    pair.start_hub().await?;
    pair.start_agent()?;
    pair.connected().await?;

    for (name, old) in [("id-kept", &before[0]), ("id-other-hub", &before[2]), ("id-adopted", &local)] {
        let source = hub.until(name, "there", |_| true).await?;
        let is_copy = |app: &Value| source_uid(app) == uid(&source) && at_revision(app, "second");
        let found = spoke.until(name, "the copy of what the hub has", is_copy).await?;
        ensure!(uid(&found) == uid(old), "{name} was made anew: {found}");
        let principal = text(&found, "/metadata/annotations/argocd.argoproj.io~1principal-uid");
        ensure!(!principal.is_empty() && principal != "another-hub", "{name} does not name its hub: {found}");
    }
    let source = hub.until("id-anew", "there", |_| true).await?;
    let made_anew = |app: &Value| source_uid(app) == uid(&source) && uid(app) != uid(&before[1]);
    spoke.until("id-anew", "made anew", made_anew).await?;
    settled(pair, "after-identity").await
}
