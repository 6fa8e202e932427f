//! Sandboxes as a client of the gateway sees them, beside what else starts a process apart from others.
//!
//! `THANE_PROGRAM=… bench_sandboxes [--quick]`, as root; the table is Markdown.
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

mod beside;
mod figures;
mod gateway;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use serde_json::json;
use thane_testkit::peer::Thane;

use figures::{Times, kernel_kib, pss_kib, pss_of};
use gateway::Gateway;

/// How much of everything.
struct Scale {
    warm: usize,
    claims: usize,
    execs: usize,
    cold: usize,
    rounds: usize,
}

const FULL: Scale = Scale { warm: 100, claims: 300, execs: 1000, cold: 30, rounds: 20 };
const QUICK: Scale = Scale { warm: 10, claims: 20, execs: 50, cold: 3, rounds: 3 };
/// Who claim at once.
const CLIENTS: usize = 10;
/// What is aimed at: a claim of a warm one, a step, and a sandbox that waits.
const CLAIM_P99: Duration = Duration::from_millis(10);
const STEP_P50: Duration = Duration::from_millis(3);
const WAITING_KIB: f64 = 2048.0;
/// What is in the directory of a sandbox, in MiB, a file for each.
const SIZES: [usize; 3] = [1, 64, 512];

#[tokio::main]
async fn main() -> Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let scale = if quick { QUICK } else { FULL };
    let program = std::env::var_os("THANE_PROGRAM").map(PathBuf::from).context("THANE_PROGRAM says where thane is")?;
    let thane = Thane::start(&program, &["--ephemeral-ports", "--clusters", "0"]).await?;
    let gateway = Gateway::new(thane.published("gateway").context("no pods run here: that takes root")?);
    println!("| what | p50 | p99 | |\n|---|---|---|---|");
    pool(&thane, &gateway, &scale).await?;
    steps(&gateway, &scale).await?;
    snapshots(&gateway, &scale).await?;
    beside::measure(scale.rounds * 5)?;
    Ok(())
}

/// What is aimed at, and whether it is so.
fn aim(what: &str, holds: bool) -> String {
    format!("aim {what}: {}", if holds { "holds" } else { "misses" })
}

fn row(what: &str, times: &Times, note: &str) {
    println!(
        "| {what} | {} | {} | {note} |",
        figures::shown(times.percentile(50)),
        figures::shown(times.percentile(99))
    );
}

/// How fast a pool fills, what those that wait cost, and how long it takes to have one of them.
async fn pool(thane: &Thane, gateway: &Gateway, scale: &Scale) -> Result<()> {
    let (before, kernel) = (pss_kib(&thane.processes()), kernel_kib());
    let began = Instant::now();
    gateway.ask("POST", "/v1/pools", &json!({"name": "bench", "image": "host", "replicas": scale.warm})).await?;
    gateway.full("bench", scale.warm).await?;
    let (took, count) = (began.elapsed(), scale.warm);
    println!("| {count} sandboxes made warm | {} | | {:.0} a second |", figures::shown(took), rate(count, took));
    let place = thane.directory().join("hub/node").canonicalize()?;
    let (inside, outside) = (pss_of(&place), pss_kib(&thane.processes()).saturating_sub(before));
    let inside_kernel = kernel_kib().saturating_sub(kernel);
    let share = |kib: u64| f64::from(u32::try_from(kib).unwrap_or(u32::MAX)) / approximate(count);
    let each = |kib: u64| format!("{:.0} KiB", share(kib));
    println!("| memory of one that waits | {} | | its own processes |", each(inside));
    println!("| | {} | | more in thane |", each(outside));
    println!("| | {} | | more in the kernel |", each(inside_kernel));
    let all = inside + outside + inside_kernel;
    println!("| | {} | | together; {} |", each(all), aim("2 MiB", share(all) <= WAITING_KIB));
    let mut claims = Times::default();
    for _ in 0..scale.claims {
        let session = claim(gateway, "bench", &json!({}), &mut claims).await?;
        gateway.end(&session).await?;
        gateway.full("bench", scale.warm).await?;
    }
    let holds = aim("p99 10 ms", claims.percentile(99) <= CLAIM_P99);
    row("claim of a warm one", &claims, &format!("{} of a full pool; {holds}", scale.claims));
    let mut claims = Times::default();
    let began = Instant::now();
    for _ in 0..scale.claims {
        let session = claim(gateway, "bench", &json!({}), &mut claims).await?;
        gateway.end(&session).await?;
    }
    let note = format!("{:.0} a second, each ended and replaced meanwhile", rate(scale.claims, began.elapsed()));
    row("claims one after the other", &claims, &note);
    gateway.full("bench", scale.warm).await?;
    at_once(gateway, scale).await?;
    gateway.ask("POST", "/v1/pools", &json!({"name": "empty", "image": "host", "replicas": 0})).await?;
    let mut cold = Times::default();
    for _ in 0..scale.cold {
        let session = claim(gateway, "empty", &json!({"onEmpty": "cold"}), &mut cold).await?;
        gateway.end(&session).await?;
    }
    row("claim where none is warm", &cold, "made for it");
    Ok(())
}

/// Claims of several clients at the same time.
async fn at_once(gateway: &Gateway, scale: &Scale) -> Result<()> {
    let began = Instant::now();
    let clients = (0..CLIENTS).map(|_| async {
        let mut claims = Times::default();
        for _ in 0..scale.claims / CLIENTS {
            let session = claim(gateway, "bench", &json!({}), &mut claims).await?;
            gateway.end(&session).await?;
        }
        anyhow::Ok(claims)
    });
    let mut claims = Times::default();
    for of_one in join_all(clients).await {
        claims.extend(of_one?);
    }
    let rate = rate(scale.claims / CLIENTS * CLIENTS, began.elapsed());
    let holds = aim("p99 10 ms", claims.percentile(99) <= CLAIM_P99);
    row(&format!("claims by {CLIENTS} clients at once"), &claims, &format!("{rate:.0} a second; {holds}"));
    gateway.full("bench", scale.warm).await
}

/// A session, and how long it took to have it.
async fn claim(gateway: &Gateway, pool: &str, more: &serde_json::Value, times: &mut Times) -> Result<String> {
    let began = Instant::now();
    let session = gateway.begin(pool, more).await?;
    times.push(began.elapsed());
    Ok(session)
}

/// One step from request to answer.
async fn steps(gateway: &Gateway, scale: &Scale) -> Result<()> {
    gateway.full("bench", scale.warm).await?;
    let session = gateway.begin("bench", &json!({})).await?;
    for (what, command, note) in [
        ("`true` in a sandbox", "true", "through the gateway; nothing written, so nothing kept"),
        ("`touch` in a sandbox", "touch x", "the same with a shell and a snapshot"),
    ] {
        let mut times = Times::default();
        for _ in 0..scale.execs.min(if command == "true" { usize::MAX } else { 300 }) {
            times.push(gateway.step(&session, command).await?);
        }
        let holds = aim("p50 3 ms", times.percentile(50) <= STEP_P50);
        row(what, &times, &format!("{note}; {holds}"));
    }
    gateway.end(&session).await
}

/// What it costs to keep files, to bring them back and to go on from them elsewhere, by how much there is.
async fn snapshots(gateway: &Gateway, scale: &Scale) -> Result<()> {
    for size in SIZES {
        let session = gateway.begin("bench", &json!({})).await?;
        let fill = format!("for i in $(seq {size}); do head -c 1M /dev/urandom > file-$i; done");
        gateway.step(&session, &fill).await?;
        let (mut kept, mut back, mut forks) = (Times::default(), Times::default(), Times::default());
        for _ in 0..scale.rounds {
            kept.push(gateway.step(&session, "touch x").await?);
            let began = Instant::now();
            gateway.ask("POST", &format!("/v1/sessions/{session}/restore"), &json!({"snapshotID": "0"})).await?;
            back.push(began.elapsed());
            let began = Instant::now();
            let path = format!("/v1/sessions/{session}/fork");
            let fork = gateway.ask("POST", &path, &json!({"snapshotID": "0", "count": 1})).await?;
            forks.push(began.elapsed());
            let fork = fork["sessions"][0]["id"].as_str().context("a fork")?.to_owned();
            let seen = gateway.said(&fork, "ls | wc -l").await?;
            ensure!(seen.trim() == size.to_string(), "the fork has {seen}");
            gateway.end(&fork).await?;
        }
        row(&format!("step with a snapshot, {size} MiB there"), &kept, "");
        row(&format!("restore, {size} MiB there"), &back, "");
        row(&format!("fork, {size} MiB there"), &forks, "");
        gateway.end(&session).await?;
    }
    Ok(())
}

fn approximate(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn rate(count: usize, took: Duration) -> f64 {
    approximate(count) / took.as_secs_f64()
}
