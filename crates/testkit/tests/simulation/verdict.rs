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

/// Whoever looks at everything while it happens.
pub(crate) struct Watcher {
    hub: kube::Client,
    clusters: Vec<kube::Client>,
    tasks: Tasks,
    /// Whose Application has that uid, of all that were seen.
    owners: BTreeMap<String, String>,
}

impl Watcher {
    pub(crate) async fn new(hub: &Host, clusters: &[Arc<Host>]) -> Self {
        let (tasks, _supervisor) = Tasks::root("watcher");
        let api = hub.api(SystemClock::shared(), &tasks).await;
        let mut apis = Vec::new();
        for host in clusters {
            apis.push(host.api(SystemClock::shared(), &tasks).await);
        }
        Self { hub: api, clusters: apis, tasks, owners: BTreeMap::new() }
    }

    /// Copies and mirrors that are where another agent's belong.
    pub(crate) async fn strays(&mut self, fleet: &Fleet) -> Vec<String> {
        let mut copies = Vec::new();
        for (cluster, (agent, mode, _)) in self.clusters.iter().zip(&fleet.secrets.agents) {
            let (there, here) = (Objects::applications(&self.hub, agent), Objects::applications(cluster, "argocd"));
            let (sources, targets) = if *mode == Mode::Managed { (there, here) } else { (here, there) };
            let uid = |app: &Value| app["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            self.owners.extend(sources.all().await.iter().map(|app| (uid(app), agent.clone())));
            copies.extend(targets.all().await.into_iter().map(|app| (agent.clone(), app)));
        }
        let stray = copies.iter().filter_map(|(agent, copy)| {
            let owner = thane_sync::object::source_uid(copy).and_then(|source| self.owners.get(source))?;
            let name = copy["metadata"]["name"].as_str().unwrap_or_default();
            (owner != agent).then(|| format!("{name} of {owner} is at {agent}"))
        });
        stray.collect()
    }

    pub(crate) async fn end(self) {
        self.tasks.shutdown(std::time::Duration::from_secs(5)).await;
    }
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
