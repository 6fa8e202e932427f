//! Ten thousand updates and hundreds of operations while hub and agent are killed again and again, never asked to stop.
//!
//! In the end both sides are equal, and every operation ran exactly once.
#![expect(clippy::print_stderr, reason = "how hard the storm was is part of the result")]

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use thane_testkit::fleet::object::{application, at_revision, phase, revision, text};
use thane_testkit::fleet::{ApiKind, Mode, Objects, Options, Pair, Program, Stop};
use thane_testkit::peer::PeerHome;
use tokio_util::sync::CancellationToken;

/// Applications.
const APPLICATIONS: usize = 100;
/// Updates of each.
const UPDATES: usize = 100;
/// Of so many Applications operations are asked for, one after the other.
const OPERATED: usize = 40;
/// Operations of each.
const OPERATIONS: usize = 5;
/// Updates under way at once.
const WRITERS: usize = 16;
/// Time between one kill and the next.
const CALM: Duration = Duration::from_millis(700);

fn name(number: usize) -> String {
    format!("storm-{number:03}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_in_a_storm() {
    let options = Options {
        hub: Program::Thane,
        agent: Program::Thane,
        hub_api: ApiKind::Thane,
        spoke_api: ApiKind::Thane,
        mode: Mode::Managed,
    };
    let home = PeerHome::locate();
    if let Err(absence) = options.require(&home) {
        return absence.tell();
    }
    let mut pair = Pair::start(&home, options).await.unwrap();
    if let Err(error) = weather(&mut pair).await {
        panic!("{error:#}\n{}", pair.last_words());
    }
    pair.stop().await.unwrap();
}

async fn weather(pair: &mut Pair) -> Result<()> {
    let (hub, spoke) = (pair.hub.applications(), pair.spoke.applications());
    for number in 0..APPLICATIONS {
        hub.create(&application(&name(number))).await?;
    }
    let over = CancellationToken::new();
    let storm = async {
        let kills = storm(pair, &hub, &spoke).await;
        over.cancel();
        kills
    };
    let (ran, kills) = tokio::join!(controller(spoke.watchable(), over.clone()), storm);
    let (ran, kills) = (ran?, kills?);
    let wanted: Vec<String> =
        (0..OPERATED).flat_map(|number| (0..OPERATIONS).map(move |turn| operation(number, turn))).collect();
    for operation in &wanted {
        ensure!(ran.get(operation) == Some(&1), "{operation} ran {:?} times", ran.get(operation).unwrap_or(&0));
    }
    ensure!(ran.len() == wanted.len(), "operations nobody asked for ran: {ran:?}");
    eprintln!("{} updates, {} operations, {kills} kills", APPLICATIONS * UPDATES, wanted.len());
    Ok(())
}

/// How often something was killed until all was written and both sides had the last of it.
async fn storm(pair: &mut Pair, hub: &Objects, spoke: &Objects) -> Result<usize> {
    let finished = CancellationToken::new();
    let work = async {
        let done = tokio::try_join!(updates(hub), operations(hub));
        finished.cancel();
        done.map(|_| ())
    };
    let (kills, worked) = tokio::join!(killer(pair, &finished), work);
    worked?;
    let last = mark(UPDATES);
    for number in 0..APPLICATIONS {
        for side in [spoke, hub] {
            side.until(&name(number), "at the last revision", |app| at_revision(app, &last)).await?;
        }
    }
    kills
}

fn mark(update: usize) -> String {
    format!("update-{update}")
}

fn operation(number: usize, turn: usize) -> String {
    format!("operation-{number:03}-{turn}")
}

/// Kills the hub, the agent or both, and starts them again, until the work is done.
async fn killer(pair: &mut Pair, finished: &CancellationToken) -> Result<usize> {
    let mut kills = 0;
    while tokio::time::timeout(CALM, finished.cancelled()).await.is_err() {
        let (hub, agent) = [(true, false), (false, true), (true, true)][kills % 3];
        if hub {
            pair.stop_hub(Stop::Killed).await?;
        }
        if agent {
            pair.stop_agent(Stop::Killed).await?;
        }
        if hub {
            pair.start_hub().await?;
        }
        if agent {
            pair.start_agent()?;
        }
        kills += 1;
    }
    pair.connected().await?;
    Ok(kills)
}

async fn updates(hub: &Objects) -> Result<()> {
    let all = (1..=UPDATES).flat_map(|update| (0..APPLICATIONS).map(move |number| (update, number)));
    let writes = all.map(async |(update, number)| hub.patch(&name(number), &revision(&mark(update))).await.map(|_| ()));
    futures::stream::iter(writes).buffered(WRITERS).try_collect().await
}

/// Asks for operations as a person would: the next one when the last has ended.
async fn operations(hub: &Objects) -> Result<()> {
    let each = (0..OPERATED).map(async |number| {
        for turn in 0..OPERATIONS {
            let wanted = operation(number, turn);
            hub.patch(&name(number), &json!({"operation": {"sync": {"revision": wanted}}})).await?;
            let ended =
                |app: &Value| ran_last(app) == wanted && phase(app) == "Succeeded" && app.get("operation").is_none();
            hub.until(&name(number), &format!("done with {wanted}"), ended).await?;
        }
        anyhow::Ok(())
    });
    futures::future::try_join_all(each).await.map(|_| ())
}

fn ran_last(app: &Value) -> &str {
    text(app, "/status/operationState/operation/sync/revision")
}

/// Argo CD's controller: takes every operation it sees, once, and says so. What it took is counted by name.
async fn controller(api: Api<DynamicObject>, over: CancellationToken) -> Result<BTreeMap<String, usize>> {
    let mut ran = BTreeMap::new();
    let stream = watcher(api.clone(), watcher::Config::default()).default_backoff().applied_objects();
    let mut stream = pin!(stream.take_until(over.cancelled_owned()));
    while let Some(app) = stream.next().await {
        let Ok(app) = app else { continue };
        let value = serde_json::to_value(&app)?;
        let asked = text(&value, "/operation/sync/revision");
        if asked.is_empty() {
            continue;
        }
        let done = json!({
            "metadata": {"resourceVersion": app.resource_version()},
            "operation": null,
            "status": {"operationState": {
                "phase": "Succeeded", "operation": value["operation"],
                "startedAt": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:04:06Z",
            }},
        });
        // whoever changed it in between is seen next
        if api.patch(&app.name_any(), &PatchParams::default(), &Patch::Merge(&done)).await.is_ok() {
            *ran.entry(asked.to_owned()).or_insert(0) += 1;
        }
    }
    Ok(ran)
}
