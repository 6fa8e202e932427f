//! Whether both sides have come to the same, and nothing was lost or done twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use thane_api::event::Mode;
use thane_runtime::{SystemClock, Tasks};
use thane_sync::mapping;

use crate::hosts::{Fleet, Host};
use crate::objects::Objects;

/// What is wrong; empty if nothing is.
pub(crate) async fn differences(hub: &Host, clusters: &[Arc<Host>], fleet: &Fleet) -> Vec<String> {
    let mut wrong = Vec::new();
    let (tasks, _supervisor) = Tasks::root("verdict");
    let hub = hub.api(SystemClock::shared(), &tasks).await;
    for (host, (agent, mode, _)) in clusters.iter().zip(&fleet.secrets.agents) {
        let cluster = host.api(SystemClock::shared(), &tasks).await;
        let on_hub = by_name(Objects::applications(&hub, agent).all().await, *mode, agent);
        let on_cluster = by_name(Objects::applications(&cluster, "argocd").all().await, *mode, agent);
        if on_hub != on_cluster {
            wrong.push(difference(agent, &on_hub, &on_cluster));
        }
        if *mode == Mode::Managed && Objects::projects(&cluster, "argocd").get("default").await.is_none() {
            wrong.push(format!("{agent} lacks the project"));
        }
        operations(&hub, agent, fleet, &mut wrong).await;
    }
    tasks.shutdown(std::time::Duration::from_secs(5)).await;
    wrong
}

/// Every operation asked for was begun once, unless its Application has gone since.
async fn operations(hub: &kube::Client, agent: &str, fleet: &Fleet, wrong: &mut Vec<String>) {
    let apps = Objects::applications(hub, agent).all().await;
    let alive: Vec<&str> = apps.iter().filter_map(|app| app["metadata"]["uid"].as_str()).collect();
    let begun = fleet.ledger.begun.lock().clone();
    for (revision, uid) in fleet.ledger.asked.lock().iter() {
        let times = begun.get(revision).copied().unwrap_or_default();
        if times > 1 || (times == 0 && alive.contains(&uid.as_str())) {
            wrong.push(format!("operation {revision} was begun {times} times"));
        }
    }
}

/// What both sides should have alike.
fn by_name(objects: Vec<Value>, mode: Mode, agent: &str) -> BTreeMap<String, Value> {
    let comparable = |object: Value| {
        let mut spec = object["spec"].clone();
        // The cluster has another name on each side.
        spec["destination"] = mapping::shared_destination(&object);
        if mode == Mode::Autonomous {
            let project = spec["project"].as_str().unwrap_or_default().to_owned();
            spec["project"] = json!(project.strip_prefix(&format!("{agent}-")).unwrap_or(&project));
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        (name, json!({"spec": spec, "status": object["status"], "operation": object["operation"]}))
    };
    objects.into_iter().map(comparable).collect()
}

fn difference(agent: &str, hub: &BTreeMap<String, Value>, cluster: &BTreeMap<String, Value>) -> String {
    let names: std::collections::BTreeSet<&String> = hub.keys().chain(cluster.keys()).collect();
    let differing = names.into_iter().filter(|name| hub.get(*name) != cluster.get(*name));
    let lines: Vec<String> = differing
        .map(|name| {
            let text = |side: Option<&Value>| side.map_or_else(|| "nothing".to_owned(), ToString::to_string);
            format!("  {name}\n    hub     {}\n    cluster {}", text(hub.get(name)), text(cluster.get(name)))
        })
        .collect();
    format!("{agent} differs\n{}", lines.join("\n"))
}
