//! Whether what the agent's cluster has is the copy of what the hub has: taken over, made anew, or kept with a new source.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use thane_testkit::fleet::object::{SOURCE_UID, application, at_revision, source_uid, text, uid};
use thane_testkit::fleet::{Pair, Stop};

use crate::managed::{distributed, settled};
use crate::suite::{Scenario, scenario};

const PRINCIPAL_UID: &str = "argocd.argoproj.io/principal-uid";
const ADOPTION_POLICY: &str = "argocd.argoproj.io/adoption-policy";
const MISMATCH_POLICY: &str = "argocd.argoproj.io/source-uid-mismatch-policy";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(identity_is_decided_when_both_come_back),
        scenario!(
            what_was_there_is_taken_over_if_asked,
            Agent,
            "0.9.0 takes over nothing that was there before and is no copy"
        ),
    ]
}

/// An Application whose copy has another source, with what the agent is to do about it.
fn second(name: &str, policy: &str, word: &str) -> Value {
    let mut app = application(name);
    app["spec"]["source"]["targetRevision"] = json!("second");
    app["metadata"]["annotations"] = json!({policy: word});
    app
}

async fn what_was_there_is_taken_over_if_asked(pair: &mut Pair) -> Result<()> {
    let (hub, spoke) = (pair.hub.applications(), pair.spoke.applications());
    let local = spoke.create(&application("id-adopted")).await?;
    let source = hub.create(&second("id-adopted", ADOPTION_POLICY, "always")).await?;
    let is_copy = |app: &Value| source_uid(app) == uid(&source) && at_revision(app, "second");
    let found = spoke.until("id-adopted", "the copy of what the hub has", is_copy).await?;
    ensure!(uid(&found) == uid(&local), "it was made anew: {found}");
    spoke.create(&application("id-left")).await?;
    hub.create(&second("id-left", ADOPTION_POLICY, "never")).await?;
    settled(pair, "after-adoption").await?;
    let left = spoke.until("id-left", "there", |_| true).await?;
    ensure!(source_uid(&left).is_empty() && at_revision(&left, "v1"), "it was taken over: {left}");
    Ok(())
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
        hub.create(&second(name, MISMATCH_POLICY, policy)).await?;
    }
    // As if another hub had made the copy: its objects had other uids and mean the same.
    let other = json!({"metadata": {"annotations": {SOURCE_UID: "of-another", PRINCIPAL_UID: "another-hub"}}});
    spoke.patch("id-other-hub", &other).await?;
    hub.patch("id-other-hub", &json!({"spec": {"source": {"targetRevision": "second"}}})).await?;
    pair.start_hub().await?;
    pair.start_agent()?;
    pair.connected().await?;

    for (name, old) in [("id-kept", &before[0]), ("id-other-hub", &before[2])] {
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
