//! People on the hub, people where they should not be, and Argo CD on each cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::objects::Objects;

/// Applications each agent has at most.
const APPLICATIONS: u64 = 5;

/// What users did and what became of it.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Set when users stop, so that things can settle.
    pub(crate) calm: AtomicBool,
    numbers: AtomicU64,
    /// Operations asked for on the hub, with the uid of their Application there.
    pub(crate) asked: Mutex<BTreeMap<String, String>>,
    /// How often Argo CD began each.
    pub(crate) begun: Mutex<BTreeMap<String, u32>>,
}

impl Ledger {
    /// What must never be, at any time.
    pub(crate) fn wrong(&self) -> Vec<String> {
        let (asked, begun) = (self.asked.lock(), self.begun.lock());
        let twice = begun.iter().filter(|(revision, times)| **times > 1 && asked.contains_key(*revision));
        twice.map(|(revision, times)| format!("operation {revision} was begun {times} times")).collect()
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }
}

fn application(name: &str, namespace: &str, number: u64, finalizer: bool) -> Value {
    let finalizers = if finalizer { json!(["resources-finalizer.argocd.argoproj.io"]) } else { json!([]) };
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "namespace": namespace, "finalizers": finalizers},
        "spec": {
            "project": "default", "source": {"repoURL": "https://example.com/r.git", "path": format!("v{number}")},
            "destination": {"name": namespace, "namespace": "default"}, "unknownField": {"kept": number},
        },
    })
}

/// Someone on the hub who makes, changes, syncs and deletes Applications of managed agents, and edits mirrors.
pub(crate) async fn hub_user(
    client: Client,
    managed: Vec<String>,
    mirrored: Vec<String>,
    seed: u64,
    ledger: Arc<Ledger>,
) {
    let mut rng = StdRng::seed_from_u64(seed);
    while !ledger.is_calm() {
        tokio::time::sleep(Duration::from_millis(rng.random_range(10..300))).await;
        if rng.random_ratio(1, 6) && !mirrored.is_empty() {
            let agent = &mirrored[rng.random_range(0..mirrored.len())];
            spoil(&Objects::applications(&client, agent), &mut rng, &ledger).await;
            continue;
        }
        let agent = &managed[rng.random_range(0..managed.len())];
        let name = format!("app-{}", rng.random_range(0..APPLICATIONS));
        let apps = Objects::applications(&client, agent);
        match apps.get(&name).await {
            None => {
                apps.create(application(&name, agent, ledger.number(), rng.random())).await;
            }
            Some(app) if app["metadata"]["deletionTimestamp"].is_null() => match rng.random_range(0..10) {
                0 => {
                    apps.delete(&name).await;
                }
                1..=4 => operate(&apps, app, &ledger).await,
                5 => {
                    let mut app = app;
                    app["spec"]["destination"]["namespace"] = json!(format!("n{}", ledger.number()));
                    apps.replace(app).await;
                }
                _ => {
                    let mut app = app;
                    app["spec"]["source"]["path"] = json!(format!("v{}", ledger.number()));
                    apps.replace(app).await;
                }
            },
            Some(_) => {}
        }
    }
}

/// Asks for an operation where none is asked for.
async fn operate(apps: &Objects, mut app: Value, ledger: &Ledger) {
    if !app["operation"].is_null() {
        return;
    }
    let revision = format!("op-{}", ledger.number());
    app["operation"] = json!({"sync": {"revision": revision}});
    let uid = app["metadata"]["uid"].as_str().unwrap().to_owned();
    if apps.replace(app).await {
        ledger.asked.lock().insert(revision, uid);
    }
}

/// Changes or deletes something that is not theirs.
async fn spoil(apps: &Objects, rng: &mut StdRng, ledger: &Ledger) {
    let all = apps.all().await;
    if all.is_empty() {
        return;
    }
    let mut app = all[rng.random_range(0..all.len())].clone();
    if rng.random_ratio(1, 3) {
        apps.delete(app["metadata"]["name"].as_str().unwrap()).await;
    } else {
        app["spec"]["source"]["path"] = json!(format!("tampered-{}", ledger.number()));
        apps.replace(app).await;
    }
}

/// Argo CD's controller on one cluster, and someone who meddles, or the owner of an autonomous one.
pub(crate) async fn cluster(client: Client, is_autonomous: bool, seed: u64, ledger: Arc<Ledger>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let apps = Objects::applications(&client, "argocd");
    loop {
        tokio::time::sleep(Duration::from_millis(rng.random_range(20..400))).await;
        for app in apps.all().await {
            reconcile(&apps, app, &mut rng, &ledger).await;
        }
        if ledger.is_calm() {
            continue;
        }
        if is_autonomous {
            own(&apps, &mut rng, &ledger).await;
        } else if rng.random_ratio(1, 8) {
            spoil(&apps, &mut rng, &ledger).await;
        }
    }
}

/// Makes, changes or deletes an Application of the cluster's own.
async fn own(apps: &Objects, rng: &mut StdRng, ledger: &Ledger) {
    let name = format!("own-{}", rng.random_range(0..APPLICATIONS));
    match apps.get(&name).await {
        None => {
            apps.create(application(&name, "argocd", ledger.number(), false)).await;
        }
        Some(_) if rng.random_ratio(1, 8) => {
            apps.delete(&name).await;
        }
        Some(mut app) => {
            app["spec"]["source"]["path"] = json!(format!("v{}", ledger.number()));
            apps.replace(app).await;
        }
    }
}

/// What Argo CD does: begins operations, reports, and lets go of what is deleted.
async fn reconcile(apps: &Objects, mut app: Value, rng: &mut StdRng, ledger: &Ledger) {
    if !app["metadata"]["deletionTimestamp"].is_null() {
        app["metadata"]["finalizers"] = json!([]);
        apps.replace(app).await;
        return;
    }
    let operation = app["operation"].take();
    let path = app["spec"]["source"]["path"].clone();
    if operation.is_null() {
        if app["status"]["sync"]["revision"] == path && (ledger.is_calm() || !rng.random_ratio(1, 20)) {
            return;
        }
        app["status"] = json!({"sync": {"status": "Synced", "revision": path}, "health": {"status": "Healthy"},
            "operationState": app["status"]["operationState"], "seen": ledger.number()});
        apps.replace(app).await;
        return;
    }
    if let Value::Object(fields) = &mut app {
        fields.remove("operation");
    }
    let started = format!("2026-01-01T00:00:00Z/{}", ledger.number());
    app["status"]["operationState"] = json!({"phase": "Succeeded", "operation": operation, "startedAt": started});
    let revision = operation["sync"]["revision"].as_str().unwrap_or_default().to_owned();
    if apps.replace(app).await {
        *ledger.begun.lock().entry(revision).or_default() += 1;
    }
}
