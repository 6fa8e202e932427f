//! An agent with a valid certificate of its own tries whatever the protocol has on another agent's objects: nothing of
//! theirs changes, nothing of theirs is told, and the hub counts what it refused.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use kube::Client;
use serde_json::{Value, json};
use thane_agent::connection::{self, Dialer, Opened};
use thane_api::event::{Event, Mode, Target, Type};
use thane_hub::registration::Registration;
use thane_runtime::net::Tcp;
use thane_runtime::pki::{Authority, Request};
use thane_runtime::tls::{ClientOptions, ClientTls};
use thane_runtime::{SystemClock, Tasks};
use thane_testkit::fleet::{ApiKind, LoneHub, Program, Programs};
use thane_testkit::peer::PeerHome;
use tokio::sync::mpsc;

/// Its name begins like the victim's, so that names made of both could be taken for each other.
const INTRUDER: &str = "edge";
const VICTIM: &str = "edge-one";
/// What nobody but the victim may see.
const SECRET: &str = "only-the-victim-may-see-this";
const DAY: Duration = Duration::from_hours(24);
const PATIENCE: Duration = Duration::from_secs(30);

const APPLICATIONS: &str = "/apis/argoproj.io/v1alpha1/namespaces";
const PROJECTS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects";
const SECRETS: &str = "/api/v1/namespaces/argocd/secrets";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_gets_nothing_of_another() {
    let home = PeerHome::locate();
    if let Err(absence) = home.require(&["argocd-agentctl", "redis-server"]) {
        return absence.tell();
    }
    if let Err(absence) = Programs::locate(&home).require(Program::Thane) {
        return absence.tell();
    }
    let prepared = LoneHub::prepare(&home, Program::Thane, ApiKind::Thane).await;
    let mut hub = prepared.unwrap_or_else(|error| panic!("{error:#}"));
    if let Err(error) = attempt(&mut hub).await {
        panic!("{error:#}\n{}", hub.last_words());
    }
}

async fn attempt(hub: &mut LoneHub) -> Result<()> {
    let authority = Authority::from_pem(&hub.authority[0], &hub.authority[1])?;
    for agent in [VICTIM, INTRUDER] {
        register(hub, &authority, agent).await?;
    }
    let things = belongings(&hub.client).await?;
    hub.start().await?;
    for mode in [Mode::Managed, Mode::Autonomous] {
        let (tasks, _) = Tasks::root("intruder");
        let mut stream = connect(hub, &authority, INTRUDER, mode, &tasks).await?;
        let before = everything(&hub.client).await?;
        let events = forgeries(&things);
        let count = events.len();
        for event in events {
            stream.outgoing.send(event).await?;
        }
        let told = until_all_is_heard(&mut stream).await?;
        for event in &told {
            let text = String::from_utf8_lossy(&event.data);
            ensure!(!text.contains(SECRET), "the hub told what is not the intruder's: {event:?}");
        }
        let after = everything(&hub.client).await?;
        ensure!(before == after, "{mode} changed something:\n{before:#?}\n{after:#?}");
        ensure!(!stream.close.is_cancelled(), "{count} forgeries ended the stream");
        tasks.shutdown(PATIENCE).await;
    }
    let refused = hub.counted("thane_fleet_events_processed_total{peer=\"edge\"", "result=\"refused\"").await?;
    ensure!(refused > 0.0, "what was refused is not counted");
    // The same questions get an answer when the victim itself asks, whatever the intruder acknowledged.
    let (tasks, _) = Tasks::root("victim");
    let mut stream = connect(hub, &authority, VICTIM, Mode::Managed, &tasks).await?;
    for event in things.values().flat_map(questions) {
        stream.outgoing.send(event).await?;
    }
    let mut told = until_all_is_heard(&mut stream).await?;
    told.retain(|event| event.target == Target::Application && String::from_utf8_lossy(&event.data).contains(SECRET));
    ensure!(!told.is_empty(), "the victim did not get its own Application");
    tasks.shutdown(PATIENCE).await;
    Ok(())
}

async fn register(hub: &LoneHub, authority: &Authority, agent: &str) -> Result<()> {
    let proxy = authority.issue(&Request::agent("proxy"), SystemClock::shared().now(), DAY)?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": agent}});
    post(&hub.client, "/api/v1/namespaces", &namespace).await?;
    let registration = Registration {
        agent,
        namespace: "argocd",
        proxy: "127.0.0.1:9090",
        ca_pem: authority.cert_pem(),
        identity: &proxy,
    };
    post(&hub.client, SECRETS, &registration.secret()).await.map(|_| ())
}

async fn connect(hub: &LoneHub, authority: &Authority, name: &str, mode: Mode, tasks: &Tasks) -> Result<Opened> {
    let clock = SystemClock::shared();
    let identity = authority.issue(&Request::agent(name), clock.now(), DAY)?;
    let options = ClientOptions { protocols: vec!["h2"], ..ClientOptions::default() };
    let tls = ClientTls::from_pem(authority.cert_pem(), Some(&identity), &options)?;
    let config = connection::Config::new("127.0.0.1", hub.port, mode);
    let (on, mut opened) = mpsc::channel(1);
    tasks.spawn("dialer", connection::run(Dialer::new(config, Tcp::shared(), Some(tls), clock), on, tasks.clone()));
    let opened = tokio::time::timeout(PATIENCE, opened.recv()).await.context("not connected in time")?;
    opened.context("the connection ended")
}

/// What the victim has on the hub, by target.
async fn belongings(client: &Client) -> Result<BTreeMap<&'static str, Value>> {
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "shop", "namespace": VICTIM},
        "spec": {
            "project": "secret",
            "source": {"repoURL": "https://example.com/repo.git", "path": SECRET, "targetRevision": "v1"},
            "destination": {"name": VICTIM, "namespace": "shop"},
        },
    });
    let project = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": "secret", "namespace": "argocd"},
        "spec": {
            "description": SECRET, "sourceRepos": ["*"], "sourceNamespaces": [VICTIM],
            "destinations": [{"name": VICTIM, "server": "*", "namespace": "*"}],
        },
    });
    let repository = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "repo", "namespace": "argocd", "labels": {"argocd.argoproj.io/secret-type": "repository"}},
        "stringData": {"project": "secret", "url": "https://example.com/repo.git", "password": SECRET},
    });
    // as if the victim were autonomous, too, and had mirrored a project
    let mirrored = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": format!("{VICTIM}-team"), "namespace": "argocd",
            "annotations": {"argocd.argoproj.io/source-uid": "11111111-2222-3333-4444-555555555555"}},
        "spec": {"description": SECRET, "destinations": [{"name": VICTIM, "server": "*", "namespace": "*"}]},
    });
    Ok(BTreeMap::from([
        ("application", post(client, &format!("{APPLICATIONS}/{VICTIM}/applications"), &application).await?),
        ("project", post(client, PROJECTS, &project).await?),
        ("repository", post(client, SECRETS, &repository).await?),
        ("mirrored", post(client, PROJECTS, &mirrored).await?),
    ]))
}

/// Everything on the hub that the intruder has no right to touch.
async fn everything(client: &Client) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for path in ["/apis/argoproj.io/v1alpha1/applications", PROJECTS, SECRETS] {
        let list: Value = client.request(http::Request::get(path).body(Vec::new())?).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let own = |item: &Value| item["metadata"]["namespace"] == INTRUDER;
        all.extend(items.into_iter().filter(|item| !own(item)));
    }
    // What an autonomous intruder says about its own projects is written under its own name; `edge-one-team` is not its.
    let made_of_own = |item: &Value| {
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        item["kind"] == "AppProject"
            && [format!("{INTRUDER}-secret"), format!("{INTRUDER}-default")].iter().any(|own| own == name)
    };
    all.retain(|item| !made_of_own(item));
    Ok(all)
}

/// Everything the protocol has, said about what is the victim's.
fn forgeries(things: &BTreeMap<&'static str, Value>) -> Vec<Event> {
    let targets = [
        ("application", Target::Application),
        ("project", Target::AppProject),
        ("repository", Target::Repository),
        ("mirrored", Target::AppProject),
    ];
    let types = [
        Type::Create,
        Type::SpecUpdate,
        Type::StatusUpdate,
        Type::SetOperation,
        Type::TerminateOperation,
        Type::Error,
        Type::Delete,
    ];
    let mut events = Vec::new();
    for (thing, target) in targets {
        let original = &things[thing];
        for kind in &types {
            for object in variants(original) {
                events.push(event(target.clone(), kind.clone(), original, object.to_string()));
            }
            events.push(event(target.clone(), kind.clone(), original, String::new()));
        }
        for kind in [Type::Processed, Type::Response, Type::RedisResponse] {
            for number in 0..3 {
                let mut forged = event(target.clone(), kind.clone(), original, original.to_string());
                let uid = original["metadata"]["uid"].as_str().unwrap_or_default();
                forged.event_id = format!("{uid}_{number}");
                events.push(forged.acknowledgement());
                events.push(forged);
            }
        }
        events.extend(questions(original));
    }
    events
}

/// The victim's object as it is, changed, moved to the intruder's namespace, and under names that lead to the victim's.
fn variants(original: &Value) -> Vec<Value> {
    let mut changed = original.clone();
    changed["spec"]["description"] = json!("forged");
    changed["status"] = json!({"sync": {"status": "Synced"}, "health": {"status": "Healthy"}});
    changed["operation"] = json!({"sync": {"revision": "forged"}});
    changed["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let renamed = |name: &str| {
        let mut object = changed.clone();
        object["metadata"]["name"] = json!(name);
        object
    };
    let mut source = changed.clone();
    source["metadata"]["annotations"] = json!({"argocd.argoproj.io/source-uid": original["metadata"]["uid"]});
    vec![
        original.clone(),
        changed.clone(),
        source,
        renamed("one-team"),
        renamed("one/shop"),
        renamed("../edge-one/shop"),
        json!([original]),
    ]
}

/// Whether the victim has this, and how it is.
fn questions(original: &Value) -> Vec<Event> {
    let (name, uid) = (&original["metadata"]["name"], &original["metadata"]["uid"]);
    let kind = &original["kind"];
    let namespaces = [json!(VICTIM), json!("argocd"), json!(INTRUDER)];
    let mut events = Vec::new();
    for namespace in namespaces {
        let asked = json!({"name": name, "namespace": namespace, "uid": uid, "kind": kind, "checksum": ""});
        for r#type in [Type::RequestUpdate, Type::ResponseSyncedResource, Type::RequestSyncedResourceList] {
            events.push(event(Target::ResourceResync, r#type, original, asked.to_string()));
        }
    }
    events.push(event(Target::ResourceResync, Type::RequestResourceResync, original, String::new()));
    events
}

fn event(target: Target, kind: Type, about: &Value, data: String) -> Event {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let text = |path: &str| about.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (namespace, name, uid) = (text("/metadata/namespace"), text("/metadata/name"), text("/metadata/uid"));
    Event {
        target,
        kind,
        resource_id: format!("{name}_{uid}"),
        event_id: format!("forged-{number}"),
        subject: Some(format!("{namespace}/{name}")),
        data: Bytes::from(data),
        extensions: BTreeMap::new(),
    }
}

/// What the hub says until it has answered a question asked after everything else, and is quiet.
async fn until_all_is_heard(stream: &mut Opened) -> Result<Vec<Event>> {
    let mut told = Vec::new();
    while let Ok(next) = tokio::time::timeout(Duration::from_secs(2), stream.incoming.recv()).await {
        let event = next.context("the hub ended the stream")??;
        if event.wants_acknowledgement() {
            stream.outgoing.send(event.acknowledgement()).await?;
        }
        told.push(event);
    }
    Ok(told)
}

async fn post(client: &Client, path: &str, object: &Value) -> Result<Value> {
    let request = http::Request::post(path).header("content-type", "application/json");
    client.request(request.body(object.to_string().into_bytes())?).await.with_context(|| path.to_owned())
}
