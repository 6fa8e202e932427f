//! What an agent costs, and saves, while services ask it what services ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};
use thane_testkit::bench::resident_bytes;
use thane_testkit::peer::Thane;

use crate::crowd;
use crate::load::{Line, percentiles, request};
use crate::lone::{Hub, LoneAgent};
use crate::side::{ms, settle};
use crate::table::real;

const TIME: Duration = Duration::from_secs(30);
/// Before that, so long, nearly everything is asked for for the first time.
const WARM_UP: Duration = Duration::from_secs(10);
/// Those who ask, and how often each does.
const CLIENTS: u64 = 20;
const PAUSE: Duration = Duration::from_millis(100);
const SERVICES: usize = 200;
const KEYS: usize = 100;
/// Instances are on so many nodes that no agent owns.
const NODES: usize = 100;
const CHANGES: u64 = 200;

/// Twenty clients of one agent that look services up (85 of 100), read keys (12), write one (1) and say that they are
/// well (2), while elsewhere something changes twice a second.
pub(crate) async fn run(near: &str, agent: &LoneAgent, thane: &Thane) -> Result<Map<String, Value>> {
    fill(near, SERVICES, 5, "mix").await?;
    let mut line = Line::open(near).await?;
    for key in 0..KEYS {
        line.exchange(&request("PUT", &format!("/v1/kv/mix/{key}"), &"x".repeat(100))).await?;
    }
    let metrics = thane.published("metrics")?;
    let before = hub_requests(&metrics).await?;
    let asked = Arc::new(AtomicU64::new(0));
    let until = Instant::now() + WARM_UP + TIME;
    let clients = (0..CLIENTS).map(|seed| client(agent.address.clone(), seed, until, Arc::clone(&asked)));
    let warm = async {
        let cold = agent.bytes();
        tokio::time::sleep(WARM_UP).await;
        anyhow::Ok((agent.bytes() - cold, agent.bytes(), agent.processor()))
    };
    let all = futures::future::try_join_all(clients);
    let (times, warm, ()) = tokio::try_join!(all, warm, changes(near, until))?;
    let asked = asked.load(Ordering::Relaxed);
    let hub = hub_requests(&metrics).await? - before;
    let hit = sample(&agent.address, "/agent/metrics", "konsul_agent_cache_hit_ratio").await?;
    let (p50, p99) = percentiles(times.into_iter().flatten().collect());
    let seconds = TIME.as_secs_f64();
    let figures = json!({
        "requests of clients": asked,
        "requests of clients, per second": (real(asked) / (WARM_UP + TIME).as_secs_f64()).round(),
        "answered, p50 ms": ms(p50),
        "answered, p99 ms": ms(p99),
        "requests to the hub": hub,
        "requests saved, %": share(1.0 - hub / real(asked)),
        "hits, %": share(hit),
        "bytes until warm": warm.0,
        "bytes per second to and from the hub, warm": (real(agent.bytes() - warm.1) / seconds).round(),
        "processor, thousandths of a core, warm": ((agent.processor() - warm.2) / seconds * 1e3).round(),
        "memory, MB": resident_bytes(&agent.processes()) / 1_000_000,
    });
    figures.as_object().cloned().context("figures have names")
}

async fn client(address: String, seed: u64, until: Instant, asked: Arc<AtomicU64>) -> Result<Vec<Duration>> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut line = Line::open(&address).await?;
    let check = json!({"name": format!("client-{seed}"), "check": {"ttl": "60s", "checkid": format!("alive-{seed}")}});
    line.exchange(&request("PUT", "/v1/agent/service/register", &check.to_string())).await?;
    let mut times = Vec::new();
    while Instant::now() < until {
        tokio::time::sleep(PAUSE.mul_f64(rng.random_range(0.5..1.5))).await;
        // Few services are asked for by most.
        let rarest = rng.random_range(0..SERVICES);
        let service = rng.random_range(0..=rarest);
        let key = rng.random_range(0..KEYS);
        let wanted = match rng.random_range(0..100) {
            0..85 => request("GET", &format!("/v1/health/service/mix-{service}?passing"), ""),
            85..97 => request("GET", &format!("/v1/kv/mix/{key}"), ""),
            97 => request("PUT", &format!("/v1/kv/mix/{key}"), "another value"),
            _ => request("PUT", &format!("/v1/agent/check/pass/alive-{seed}"), ""),
        };
        let started = Instant::now();
        line.exchange(&wanted).await?;
        times.push(started.elapsed());
        asked.fetch_add(1, Ordering::Relaxed);
    }
    Ok(times)
}

/// Changes an instance twice a second.
async fn changes(near: &str, until: Instant) -> Result<()> {
    let mut line = Line::open(near).await?;
    let mut number = 0;
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(500)).await;
        number += 1;
        line.exchange(&registration("mix", number % SERVICES, number % 5, 20_000 + number)).await?;
    }
    Ok(())
}

/// An agent that follows a thousand services with ten instances each, and what a change of one costs.
pub(crate) async fn large(near: &str, agent: &LoneAgent, hub: &Hub) -> Result<Map<String, Value>> {
    const SERVICES: usize = 1_000;
    let (at_rest, own_at_rest) = (resident_bytes(&agent.processes()), agent.own_bytes());
    fill(near, SERVICES, 10, "large").await?;
    let mut line = Line::open(&agent.address).await?;
    let (before, started) = (agent.bytes(), Instant::now());
    for service in 0..SERVICES {
        line.exchange(&request("GET", &format!("/v1/health/service/large-{service}"), "")).await?;
    }
    let (fetched, took) = (agent.bytes() - before, started.elapsed());
    settle(&agent.address, "large-999", 10).await?;
    let (memory, own) = (resident_bytes(&agent.processes()), agent.own_bytes());
    let mut writer = Line::open(near).await?;
    let (before, processor) = (agent.bytes(), agent.processor());
    for number in 0..CHANGES {
        let service = usize::try_from(number)? % SERVICES;
        writer.exchange(&registration("large", service, 0, 30_000 + usize::try_from(number)?)).await?;
        // One at a time: changes that come together are sent together.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let change = (agent.bytes() - before) / CHANGES;
    let (packed, plain) = crowd::compression(hub, SERVICES).await?;
    let figures = json!({
        "memory before, MB": real(at_rest) / 1e6,
        "memory, MB": real(memory) / 1e6,
        "of that its own before, MB": real(own_at_rest) / 1e6,
        "of that its own, MB": real(own) / 1e6,
        "bytes to fetch all": fetched,
        "time to fetch all, ms": ms(took),
        "bytes per change": change,
        "processor per change, ms": (agent.processor() - processor) * 1e3 / real(CHANGES),
        "bytes to follow all at once": packed,
        "the same without compression": plain,
        "saved by compression, %": share(1.0 - real(packed) / real(plain)),
    });
    figures.as_object().cloned().context("figures have names")
}

/// Makes so many services with so many instances each, on nodes that no agent owns.
async fn fill(near: &str, services: usize, instances: usize, prefix: &str) -> Result<()> {
    let mut line = Line::open(near).await?;
    for service in 0..services {
        for instance in 0..instances {
            line.exchange(&registration(prefix, service, instance, 8_000 + instance)).await?;
        }
    }
    Ok(())
}

fn registration(prefix: &str, service: usize, instance: usize, port: usize) -> Vec<u8> {
    let node = (service * 10 + instance) % NODES;
    let name = format!("{prefix}-{service}");
    let body = json!({
        "Node": format!("machine-{node}"), "Address": format!("10.1.0.{node}"),
        "Service": {"ID": format!("{name}-{instance}"), "Service": name, "Port": port, "Tags": ["v1", "http"],
            "Meta": {"version": "1.4.2"}},
        "Check": {"CheckID": format!("service:{name}-{instance}"), "Name": "http", "Status": "passing",
            "ServiceID": format!("{name}-{instance}"), "Output": "HTTP GET http://10.1.0.1/health: 200 OK"},
    });
    request("PUT", "/v1/catalog/register", &body.to_string())
}

/// Calls of agents, and what they ask for on the streams they are pushed by.
async fn hub_requests(metrics: &str) -> Result<f64> {
    let calls = sample(metrics, "/metrics", "konsul_server_agent_sync_requests_total").await?;
    Ok(calls + sample(metrics, "/metrics", "konsul_server_agent_stream_messages_total").await?)
}

/// The sum of a metric's samples.
async fn sample(address: &str, path: &str, name: &str) -> Result<f64> {
    let mut line = Line::open(address).await?;
    let text = String::from_utf8_lossy(line.exchange(&request("GET", path, "")).await?).into_owned();
    let samples = text.lines().filter(|line| line.starts_with(name));
    Ok(samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}

fn share(part: f64) -> f64 {
    (part * 1e4).round() / 1e2
}
