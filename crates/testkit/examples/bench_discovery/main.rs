//! Discovery beside a real Consul: lookups, keys, registrations, one after the other on the same machine.
//!
//! Consul runs in development mode, in memory; ours is `thane up` with two clusters, on disk.

mod load;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use thane_testkit::bench::resident_bytes;
use thane_testkit::peer::{Consul, PeerHome, Thane};

use load::{Line, Load, request};

const TIME: Duration = Duration::from_secs(5);
const TOGETHER: usize = 64;
/// Instances of the service that is looked up.
const INSTANCES: usize = 10;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn main() -> Result<()> {
    let home = PeerHome::locate();
    let program = std::env::var_os("THANE_PROGRAM").map(PathBuf::from).context("THANE_PROGRAM says where thane is")?;
    let consul = Consul::start(&home, "n1").await?;
    let theirs = measure(consul.address(), consul.address(), &consul.processes()).await?;
    drop(consul);
    let thane = Thane::start(&program, &["--clusters", "2", "--ephemeral-ports"]).await?;
    let (near, far) = (thane.published("discovery")?, thane.published("discovery-cluster-2")?);
    let ours = measure(&near, &far, &thane.processes()).await?;
    println!("{:#}", json!({"consul": theirs, "thane": ours}));
    Ok(())
}

/// Everything, of an agent; `far` is where what was registered with `near` is to be seen.
async fn measure(near: &str, far: &str, processes: &[u32]) -> Result<Value> {
    let mut line = Line::open(near).await?;
    for number in 0..INSTANCES {
        let body = json!({"id": format!("web-{number}"), "name": "web", "port": 8000 + number, "tags": ["v1"]});
        line.exchange(&request("PUT", "/v1/agent/service/register", &body.to_string())).await?;
    }
    line.exchange(&request("PUT", "/v1/kv/bench/value", &"x".repeat(256))).await?;
    settle(far, INSTANCES).await?;
    let lookup = |_| request("GET", "/v1/health/service/web?passing", "");
    let cached = |_| request("GET", "/v1/health/service/web?passing&cached", "");
    let get = |_| request("GET", "/v1/kv/bench/value", "");
    let put = |number| request("PUT", &format!("/v1/kv/bench/put-{}", number % 1_000), &format!("value {number}"));
    let register = |number: usize| {
        let body = json!({"id": format!("job-{}", number % 1_000), "name": "job", "port": 1 + number % 60_000});
        request("PUT", "/v1/agent/service/register", &body.to_string())
    };
    let lookup_together = load::run(far, TOGETHER, TIME, lookup).await?;
    let lookup_alone = load::run(far, 1, TIME, lookup).await?;
    let cached_together = load::run(far, TOGETHER, TIME, cached).await?;
    let get_together = load::run(far, TOGETHER, TIME, get).await?;
    let get_alone = load::run(far, 1, TIME, get).await?;
    let put_together = load::run(near, TOGETHER, TIME, put).await?;
    let put_alone = load::run(near, 1, TIME, put).await?;
    let visible = visible(near, far).await?;
    let register_alone = load::run(near, 1, TIME, register).await?;
    Ok(json!({
        "lookup, 64 connections": value(lookup_together),
        "lookup, one connection": value(lookup_alone),
        "lookup ?cached, 64": value(cached_together),
        "KV get, 64": value(get_together),
        "KV get, one": value(get_alone),
        "KV put, 64": value(put_together),
        "KV put, one": value(put_alone),
        "registration answered, one": value(register_alone),
        "registered to seen by a blocked query elsewhere": {"p50 ms": ms(visible.0), "p99 ms": ms(visible.1)},
        "resident MB": resident_bytes(processes) / 1_000_000,
    }))
}

/// Waits until so many instances are seen.
async fn settle(address: &str, wanted: usize) -> Result<()> {
    let mut line = Line::open(address).await?;
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let body = line.exchange(&request("GET", "/v1/health/service/web?passing", "")).await?;
        let found: Value = serde_json::from_slice(&body)?;
        if found.as_array().is_some_and(|all| all.len() == wanted) {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < deadline, "only {found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// From asking for a registration to its being seen elsewhere by who waits for it.
async fn visible(near: &str, far: &str) -> Result<(Duration, Duration)> {
    let (mut writer, mut reader) = (Line::open(near).await?, Line::open(far).await?);
    let mut times = Vec::new();
    for number in 0..200 {
        let name = format!("new-{number}");
        let path = format!("/v1/health/service/{name}?index=1&wait=10s");
        let seeing = async {
            loop {
                let body = reader.exchange(&request("GET", &path, "")).await?;
                if body.len() > 4 {
                    return anyhow::Ok(Instant::now());
                }
            }
        };
        let writing = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let asked = Instant::now();
            let body = json!({"name": name, "port": 80}).to_string();
            writer.exchange(&request("PUT", "/v1/agent/service/register", &body)).await?;
            anyhow::Ok(asked)
        };
        let (seen, asked) = tokio::try_join!(seeing, writing)?;
        times.push(seen.saturating_duration_since(asked));
    }
    times.sort();
    Ok((times[times.len() / 2], times[times.len() * 99 / 100]))
}

fn value(load: Load) -> Value {
    json!({"per second": load.per_second.round(), "p50 ms": ms(load.p50), "p99 ms": ms(load.p99)})
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 1e2
}
