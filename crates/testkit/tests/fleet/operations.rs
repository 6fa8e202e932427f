//! Sync, terminate and refresh start on the hub and run on the spoke, in both modes; here the test is Argo CD's controller.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use thane_testkit::fleet::object::{REFRESH, annotation, application, phase, source_uid, text, uid};
use thane_testkit::fleet::{Mode, Pair, Program, Stop};

use crate::suite::{Scenario, scenario};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(sync_operation),
        scenario!(two_operations_in_a_row),
        scenario!(terminate_operation),
        scenario!(
            refresh,
            Agent,
            "0.9.0 now and then misses a change that follows its own write at once, or writes over it: a refresh that was done comes back, beside a Go hub too"
        ),
        scenario!(operation_asked_for_while_the_agent_was_away),
    ]
}

/// An Application that both sides have, wherever its truth is.
async fn shared(pair: &Pair, name: &str) -> Result<()> {
    let (from, to) = match pair.options.mode {
        Mode::Managed => (&pair.hub, &pair.spoke),
        Mode::Autonomous => (&pair.spoke, &pair.hub),
    };
    let mut wanted = application(name);
    wanted["metadata"]["annotations"] = json!({"example.com/note": "kept"});
    let made = from.applications().create(&wanted).await?;
    to.applications().until(name, "a copy", |copy| source_uid(copy) == uid(&made)).await?;
    Ok(())
}

fn sync(revision: &str) -> Value {
    json!({"operation": {
        "initiatedBy": {"username": "admin"},
        "sync": {"revision": revision, "syncStrategy": {"hook": {}}},
    }})
}

fn asked_for(app: &Value, revision: &str) -> bool {
    text(app, "/operation/sync/revision") == revision
}

/// What Argo CD's controller writes about an operation: it takes the request away when it has begun.
fn state(phase: &str, revision: &str) -> Value {
    let mut state = json!({
        "phase": phase,
        "message": format!("{phase} by the test"),
        "startedAt": "2026-01-02T03:04:05Z",
        "operation": sync(revision)["operation"],
    });
    if phase != "Running" {
        state["finishedAt"] = json!("2026-01-02T03:04:06Z");
    }
    json!({"operation": null, "status": {"operationState": state}})
}

fn in_phase(wanted: &str, revision: &str) -> impl Fn(&Value) -> bool {
    move |app| {
        phase(app) == wanted && text(app, "/status/operationState/operation/sync/revision") == revision && is_idle(app)
    }
}

fn is_idle(app: &Value) -> bool {
    app.get("operation").is_none_or(Value::is_null)
}

/// The operation arrives, runs and ends; the hub sees both.
async fn operate(pair: &Pair, name: &str, revision: &str) -> Result<()> {
    pair.hub.applications().patch(name, &sync(revision)).await?;
    carried_out(pair, name, revision).await
}

/// The operation that the hub was asked for runs on the spoke.
async fn carried_out(pair: &Pair, name: &str, revision: &str) -> Result<()> {
    let (hub, spoke) = (pair.hub.applications(), pair.spoke.applications());
    spoke.until(name, "asked to sync", |app| asked_for(app, revision)).await?;
    for phase in ["Running", "Succeeded"] {
        spoke.patch(name, &state(phase, revision)).await?;
        let told = hub.until(name, phase, in_phase(phase, revision));
        if pair.options.agent == Program::Thane {
            told.await?;
            continue;
        }
        // Its agent cannot tell an operation it is told again, after a resync, from a new one; Argo CD then runs it again.
        let again = async {
            loop {
                spoke.until(name, "asked to sync again", |app| asked_for(app, revision)).await?;
                spoke.patch(name, &state(phase, revision)).await?;
            }
        };
        tokio::select! {
            told = told => drop(told?),
            failed = again => return failed,
        }
    }
    Ok(())
}

async fn sync_operation(pair: &mut Pair) -> Result<()> {
    shared(pair, "sync").await?;
    operate(pair, "sync", "one").await
}

async fn two_operations_in_a_row(pair: &mut Pair) -> Result<()> {
    shared(pair, "sync-twice").await?;
    operate(pair, "sync-twice", "one").await?;
    operate(pair, "sync-twice", "two").await?;
    let spoke = pair.spoke.applications().until("sync-twice", "idle", is_idle).await?;
    ensure!(phase(&spoke) == "Succeeded", "{spoke}");
    Ok(())
}

async fn terminate_operation(pair: &mut Pair) -> Result<()> {
    let name = "terminate";
    shared(pair, name).await?;
    pair.hub.applications().patch(name, &sync("long")).await?;
    pair.spoke.applications().until(name, "asked to sync", |app| asked_for(app, "long")).await?;
    pair.spoke.applications().patch(name, &state("Running", "long")).await?;
    pair.hub.applications().until(name, "running", in_phase("Running", "long")).await?;
    // Argo CD's API server asks for an end by the phase.
    let end = json!({"status": {"operationState": {"phase": "Terminating"}}});
    pair.hub.applications().patch(name, &end).await?;
    pair.spoke.applications().until(name, "terminating", |app| phase(app) == "Terminating").await?;
    pair.spoke.applications().patch(name, &state("Failed", "long")).await?;
    pair.hub.applications().until(name, "failed", in_phase("Failed", "long")).await?;
    Ok(())
}

async fn refresh(pair: &mut Pair) -> Result<()> {
    shared(pair, "refresh").await?;
    refreshed(pair, "refresh").await
}

/// Both kinds of refresh, there and back.
pub(crate) async fn refreshed(pair: &Pair, name: &str) -> Result<()> {
    for kind in ["normal", "hard"] {
        let ask = json!({"metadata": {"annotations": {REFRESH: kind}}});
        pair.hub.applications().patch(name, &ask).await?;
        let asked = |app: &Value| annotation(app, REFRESH) == Some(kind);
        pair.spoke.applications().until(name, "asked to refresh", asked).await?;
        let done = json!({
            "metadata": {"annotations": {REFRESH: null}},
            "status": {"sync": {"status": "Synced", "revision": kind}, "health": {"status": "Healthy"}},
        });
        pair.spoke.applications().patch(name, &done).await?;
        let refreshed = |app: &Value| annotation(app, REFRESH).is_none() && text(app, "/status/sync/revision") == kind;
        pair.hub.applications().until(name, "refreshed", refreshed).await?;
        let quiet = |app: &Value| annotation(app, REFRESH).is_none();
        pair.spoke.applications().until(name, "at rest", quiet).await?;
    }
    Ok(())
}

/// One write that changes the spec and asks for an operation: both arrive.
pub(crate) async fn operation_with_a_change_of_spec(pair: &mut Pair) -> Result<()> {
    shared(pair, "both").await?;
    let mut change = sync("with");
    change["spec"] = json!({"source": {"targetRevision": "v2"}});
    pair.hub.applications().patch("both", &change).await?;
    let arrived = |app: &Value| asked_for(app, "with") && text(app, "/spec/source/targetRevision") == "v2";
    pair.spoke.applications().until("both", "changed and asked to sync", arrived).await?;
    pair.spoke.applications().patch("both", &state("Succeeded", "with")).await?;
    pair.hub.applications().until("both", "succeeded", in_phase("Succeeded", "with")).await?;
    Ok(())
}

async fn operation_asked_for_while_the_agent_was_away(pair: &mut Pair) -> Result<()> {
    shared(pair, "sync-without-agent").await?;
    pair.stop_agent(Stop::Killed).await?;
    pair.hub.applications().patch("sync-without-agent", &sync("away")).await?;
    pair.start_agent()?;
    pair.connected().await?;
    carried_out(pair, "sync-without-agent", "away").await
}

pub(crate) async fn operation_asked_for_while_the_hub_was_away(pair: &mut Pair) -> Result<()> {
    shared(pair, "sync-without-hub").await?;
    pair.stop_hub(Stop::Killed).await?;
    pair.hub.applications().patch("sync-without-hub", &sync("away")).await?;
    pair.start_hub().await?;
    pair.connected().await?;
    carried_out(pair, "sync-without-hub", "away").await
}
