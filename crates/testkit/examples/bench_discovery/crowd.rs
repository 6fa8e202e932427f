//! Real agents in this process, many of them, each with its own connection and certificate.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use thane_discovery::agent::{Adjustable, Agent, Options};
use thane_discovery::backend::{Backend, Consistency, LocalAgent};
use thane_discovery::model::Service;
use thane_discovery::topic::{Row, Topic};
use thane_kv::{MemoryOptions, MemoryStore};
use thane_runtime::pki::Request;
use thane_runtime::tls::{ClientOptions, ClientTls};
use thane_runtime::{SystemClock, Tasks};

use crate::counted::Counted;
use crate::load::{Line, percentiles, request};
use crate::lone::Hub;
use crate::side::{ms, settle};

const AGENTS: usize = 1_000;
const DAY: Duration = Duration::from_hours(24);
const PATIENCE: Duration = Duration::from_mins(3);
const ROUNDS: u16 = 10;
const QUIET: Duration = Duration::from_secs(20);

async fn agent(hub: &Hub, name: &str, network: &Counted, is_compressed: bool, tasks: &Tasks) -> Result<Arc<Agent>> {
    let clock = SystemClock::shared();
    let identity = hub.authority.issue(&Request::agent(name), clock.now(), DAY)?;
    let options = ClientOptions { protocols: vec!["h2"], ..ClientOptions::default() };
    let tls = ClientTls::from_pem(hub.authority.cert_pem(), Some(&identity), &options)?;
    let adjustable = Adjustable { hubs: vec![format!("127.0.0.1:{}", hub.port)], ..Adjustable::default() };
    let options = Options { adjustable, is_compressed, ..Options::new(name) };
    let store = MemoryStore::new(MemoryOptions::default());
    Ok(Agent::start(options, store, Arc::new(network.clone()), Some(tls), clock, tasks.child("agent")).await?)
}

async fn connected(agents: &[Arc<Agent>]) -> Result<Duration> {
    let started = Instant::now();
    while agents.iter().any(|agent| !agent.is_connected() || agent.pending() > 0) {
        ensure!(started.elapsed() < PATIENCE, "not all agents are connected in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(started.elapsed())
}

/// A thousand agents on one hub.
pub(crate) async fn run(near: &str, hub: &Hub, hub_memory: impl Fn() -> u64) -> Result<Map<String, Value>> {
    let (tasks, _supervisor) = Tasks::root("crowd");
    let network = Counted::default();
    let alone = hub_memory();
    let started = Instant::now();
    let mut agents = Vec::new();
    for number in 0..AGENTS {
        agents.push(agent(hub, &format!("crowd-{number:04}"), &network, true, &tasks).await?);
    }
    connected(&agents).await?;
    let joined = started.elapsed();

    let started = Instant::now();
    let registering = agents.iter().map(|agent| async {
        let service = Service { id: "crowd".to_owned(), name: "crowd".to_owned(), port: 80, ..Service::default() };
        agent.register(service, Vec::new(), false).await
    });
    futures::future::try_join_all(registering).await?;
    settle(near, "crowd", AGENTS).await?;
    let registered = started.elapsed();

    let last = last_of_all(near, &agents).await?;
    let before = network.bytes.load(Ordering::Relaxed);
    tokio::time::sleep(QUIET).await;
    let idle = network.bytes.load(Ordering::Relaxed) - before;
    let memory = hub_memory();
    tasks.shutdown(Duration::from_secs(10)).await;
    let count = AGENTS as u64;
    let figures = json!({
        "all connected after s": joined.as_secs_f64(),
        "one instance of each registered and seen after s": registered.as_secs_f64(),
        "one change to the last agent, p50 ms": ms(last.0),
        "one change to the last agent, worst ms": ms(last.1),
        "idle bytes per second and agent": idle / count / QUIET.as_secs(),
        "hub's memory before, MB": alone / 1_000_000,
        "hub's memory, MB": memory / 1_000_000,
        "hub's memory per agent, KB": memory.saturating_sub(alone) / count / 1_000,
    });
    figures.as_object().cloned().context("figures have names")
}

/// From asking for a change to its being in what the last agent holds.
async fn last_of_all(near: &str, agents: &[Arc<Agent>]) -> Result<(Duration, Duration)> {
    let topic = Topic::Service("beacon".to_owned());
    futures::future::try_join_all(agents.iter().map(|agent| agent.read(&topic, Consistency::Default))).await?;
    let mut line = Line::open(near).await?;
    let mut times = Vec::new();
    for round in 1..=ROUNDS {
        let seeing = agents.iter().map(|agent| seen(agent, &topic, round));
        let seeing = async { Ok(tokio::time::timeout(PATIENCE, futures::future::join_all(seeing)).await?) };
        let body = json!({"name": "beacon", "port": round}).to_string();
        let changing = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let asked = Instant::now();
            line.exchange(&request("PUT", "/v1/agent/service/register", &body)).await?;
            anyhow::Ok(asked)
        };
        let (seen, asked) = tokio::try_join!(seeing, changing)?;
        times.extend(seen.into_iter().max().map(|last| last.saturating_duration_since(asked)));
    }
    Ok(percentiles(times))
}

/// When an agent holds the change.
async fn seen(agent: &Agent, topic: &Topic, port: u16) -> Instant {
    loop {
        let wake = agent.wake(topic);
        let reading = agent.read(topic, Consistency::Stale).await;
        if reading.is_ok_and(|reading| has(&reading.data.rows, port)) {
            return Instant::now();
        }
        wake.await;
    }
}

fn has(rows: &[Row], port: u16) -> bool {
    rows.iter().any(|row| matches!(row, Row::Instance(it) if it.service.value.port == port))
}

/// Bytes an agent takes in to follow so many services, with and without compression.
pub(crate) async fn compression(hub: &Hub, services: usize) -> Result<(u64, u64)> {
    let mut bytes = Vec::new();
    for is_compressed in [true, false] {
        let (tasks, _supervisor) = Tasks::root("compression");
        let network = Counted::default();
        let name = format!("squeeze-{is_compressed}");
        let agent = agent(hub, &name, &network, is_compressed, &tasks).await?;
        connected(std::slice::from_ref(&agent)).await?;
        let before = network.bytes.load(Ordering::Relaxed);
        let topics: Vec<Topic> = (0..services).map(|number| Topic::Service(format!("large-{number}"))).collect();
        futures::future::try_join_all(topics.iter().map(|topic| agent.read(topic, Consistency::Default))).await?;
        bytes.push(network.bytes.load(Ordering::Relaxed) - before);
        tasks.shutdown(Duration::from_secs(5)).await;
    }
    Ok((bytes[0], bytes[1]))
}
