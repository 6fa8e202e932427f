//! What both sides can do.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use thane_testkit::bench::resident_bytes;

use crate::load::{self, Line, Load, percentiles, request};
use crate::table::real;

const TIME: Duration = Duration::from_secs(5);
const TOGETHER: usize = 64;
/// Instances of the service that is looked up.
const INSTANCES: usize = 10;
const WATCHERS: usize = 1_000;
/// Instances that are registered again and again. An agent holds ten thousand in all.
const JOBS: usize = 1_000;
const ROUNDS: usize = 10;
/// Time for all watchers to be waiting: nobody tells that from outside.
const PARKED: Duration = Duration::from_secs(2);

/// One number.
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) value: f64,
    pub(crate) more_is_better: bool,
}

/// All numbers of one side, in the same order for both.
#[derive(Default)]
pub(crate) struct Side {
    pub(crate) figures: Vec<Figure>,
}

impl Side {
    pub(crate) fn value(&self) -> Value {
        let each = self.figures.iter().map(|it| (format!("{}, {}", it.name, it.unit), json!(it.value)));
        Value::Object(each.collect())
    }

    fn load(&mut self, name: &str, load: Load) {
        self.put(format!("{name}, per second"), "/s", load.per_second.round(), true);
        self.time(&format!("{name}, p99"), load.p99);
    }

    fn time(&mut self, name: &str, time: Duration) {
        self.put(name.to_owned(), "ms", ms(time), false);
    }

    fn put(&mut self, name: String, unit: &'static str, value: f64, more_is_better: bool) {
        self.figures.push(Figure { name, unit, value, more_is_better });
    }
}

/// Everything, of an agent; `far` is where what was registered with `near` is to be seen, by `processes`.
pub(crate) async fn measure(near: &str, far: &str, processes: &[u32]) -> Result<Side> {
    let mut line = Line::open(near).await?;
    for number in 0..INSTANCES {
        let body = json!({"id": format!("web-{number}"), "name": "web", "port": 8000 + number, "tags": ["v1"]});
        line.exchange(&request("PUT", "/v1/agent/service/register", &body.to_string())).await?;
    }
    line.exchange(&request("PUT", "/v1/kv/bench/value", &"x".repeat(256))).await?;
    settle(far, "web", INSTANCES).await?;
    let mut side = Side::default();
    let lookup = |_| request("GET", "/v1/health/service/web?passing", "");
    let cached = |_| request("GET", "/v1/health/service/web?passing&cached", "");
    let get = |_| request("GET", "/v1/kv/bench/value", "");
    let put = |number| request("PUT", &format!("/v1/kv/bench/put-{}", number % 1_000), &format!("value {number}"));
    let register = |number: usize| {
        let body = json!({"id": format!("job-{}", number % JOBS), "name": "job", "port": 1 + number % 60_000});
        request("PUT", "/v1/agent/service/register", &body.to_string())
    };
    side.load("lookup, 1 connection", load::run(far, 1, TIME, lookup).await?);
    side.load("lookup, 64 connections", load::run(far, TOGETHER, TIME, lookup).await?);
    side.load("lookup ?cached, 64 connections", load::run(far, TOGETHER, TIME, cached).await?);
    side.load("KV get, 1 connection", load::run(far, 1, TIME, get).await?);
    side.load("KV get, 64 connections", load::run(far, TOGETHER, TIME, get).await?);
    side.load("KV put, 1 connection", load::run(near, 1, TIME, put).await?);
    side.load("KV put, 64 connections", load::run(near, TOGETHER, TIME, put).await?);
    let (p50, p99) = visible(near, far).await?;
    side.time("registered to seen elsewhere, p50", p50);
    side.time("registered to seen elsewhere, p99", p99);
    side.time("one change to the last of 1,000 watchers", fan_out(near, far).await?);
    for held in [0, 10_000 - JOBS - 1_000] {
        hold(&mut line, held).await?;
        let name = format!("registration answered, 1 connection, {held} instances besides");
        let load = load::run(near, 1, TIME, register).await?;
        side.time(&format!("{name}, p50"), load.p50);
        side.load(&name, load);
    }
    side.put("memory".to_owned(), "MB", real(resident_bytes(processes)) / 1e6, false);
    Ok(side)
}

/// Registers so many instances that nobody looks up.
async fn hold(line: &mut Line, count: usize) -> Result<()> {
    for number in 0..count {
        let body = json!({"id": format!("held-{number}"), "name": "held", "port": 1 + number % 60_000});
        line.exchange(&request("PUT", "/v1/agent/service/register", &body.to_string())).await?;
    }
    Ok(())
}

/// Waits until so many instances are seen.
pub(crate) async fn settle(address: &str, service: &str, wanted: usize) -> Result<()> {
    let mut line = Line::open(address).await?;
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let body = line.exchange(&request("GET", &format!("/v1/health/service/{service}?passing"), "")).await?;
        let found: Value = serde_json::from_slice(body)?;
        let count = found.as_array().map_or(0, Vec::len);
        if count == wanted {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{count} of {wanted} instances of {service}");
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
    Ok(percentiles(times))
}

/// From asking for a change to the answer of the last of those who wait for it; the middle of several.
async fn fan_out(near: &str, far: &str) -> Result<Duration> {
    let mut writer = Line::open(near).await?;
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        watchers.push(Line::open(far).await?);
    }
    let mut times = Vec::new();
    for round in 0..=ROUNDS {
        let body = json!({"name": "fan", "port": 1_000 + round}).to_string();
        let change = request("PUT", "/v1/agent/service/register", &body);
        let asked = Instant::now();
        writer.exchange(&change).await?;
        let answers = watchers.iter_mut().map(|line| async move { line.receive().await.map(|_| Instant::now()) });
        if round > 0 {
            let last = futures::future::try_join_all(answers).await?.into_iter().max();
            times.extend(last.map(|last| last.saturating_duration_since(asked)));
        }
        let index = until_port(far, 1_000 + round).await?;
        let wait = request("GET", &format!("/v1/health/service/fan?index={index}&wait=60s"), "");
        for line in &mut watchers {
            line.send(&wait).await?;
        }
        tokio::time::sleep(PARKED).await;
    }
    Ok(percentiles(times).0)
}

/// Waits until the change is seen; the index it is seen at.
async fn until_port(address: &str, port: usize) -> Result<u64> {
    let mut line = Line::open(address).await?;
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        let found: Value = serde_json::from_slice(line.exchange(&request("GET", "/v1/health/service/fan", "")).await?)?;
        if found[0]["Service"]["Port"] == port {
            return line.index().context("a read has an index");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    anyhow::bail!("port {port} was not seen")
}

pub(crate) fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 1e2
}
