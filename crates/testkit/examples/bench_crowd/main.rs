//! Many agents on one hub: memory of an idle one, events per second, and how long after a crash of the hub all is well.
//!
//! The hub is a process; the agents are real ones in this process, each with its own connection and certificate.

mod counted;
mod crowd;
mod waves;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::{Value, json};
use thane_testkit::bench::resident_bytes;
use thane_testkit::fleet::{ApiKind, LoneHub, Program};
use thane_testkit::peer::PeerHome;

use crowd::Crowd;
use waves::Waves;

const USAGE: &str = "usage: bench_crowd [--hub go|thane] [--hub-api kubernetes|thane] [--agents N] [--applications N]";
/// Time to settle before memory and idle traffic are looked at.
const QUIET: Duration = Duration::from_secs(10);

struct Options {
    hub: Program,
    api: ApiKind,
    agents: usize,
    applications: usize,
}

fn options() -> Result<Options> {
    let mut options = Options { hub: Program::Thane, api: ApiKind::Thane, agents: 1_000, applications: 100 };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        match (name.as_str(), value.as_str()) {
            ("--hub", "go") => options.hub = Program::Go,
            ("--hub", "thane") => options.hub = Program::Thane,
            ("--hub-api", "kubernetes") => options.api = ApiKind::Kubernetes,
            ("--hub-api", "thane") => options.api = ApiKind::Thane,
            ("--agents", number) => options.agents = number.parse()?,
            ("--applications", number) => options.applications = number.parse()?,
            _ => bail!("{name} {value}: {USAGE}"),
        }
    }
    Ok(options)
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn main() -> Result<()> {
    let options = options()?;
    let home = PeerHome::locate();
    println!(
        "{:?} hub on {:?}: {} agents, {} Applications each",
        options.hub, options.api, options.agents, options.applications
    );
    let mut hub = LoneHub::prepare(&home, options.hub, options.api).await?;
    let mut crowd = Crowd::register(&hub, options.agents).await?;
    hub.start().await?;
    match run(&mut hub, &mut crowd, &options).await {
        Ok(figures) => println!("{figures:#}"),
        Err(error) => return Err(error.context(hub.last_words())),
    }
    crowd.stop().await
}

#[expect(clippy::print_stdout, reason = "a program for people")]
async fn run(hub: &mut LoneHub, crowd: &mut Crowd, options: &Options) -> Result<Value> {
    tokio::time::sleep(QUIET).await;
    let alone = resident_bytes(&hub.processes());
    crowd.start()?;
    let (connected, slowest) = crowd.connected().await?;
    println!("all connected after {connected:.1?}");
    tokio::time::sleep(QUIET).await;
    let idle = resident_bytes(&hub.processes());
    let before = crowd.network.bytes.load(Ordering::Relaxed);
    tokio::time::sleep(3 * QUIET).await;
    let idle_bytes = crowd.network.bytes.load(Ordering::Relaxed) - before;

    let waves = Waves { hub: hub.client.clone(), spoke: crowd.spoke.in_process("default") };
    let before = crowd.network.bytes.load(Ordering::Relaxed);
    let one = waves.create(&crowd.names[..1], 3_000, "one").await?;
    let bytes_per_event = (crowd.network.bytes.load(Ordering::Relaxed) - before) / 3_000;
    let hundred = waves.create(&crowd.names[..crowd.names.len().min(100)], 30, "hundred").await?;
    println!("one agent {one:?}, a hundred {hundred:?}");
    let all = waves.create(&crowd.names, options.applications, "app").await?;
    println!("all Applications there: {all:?}");
    let full = resident_bytes(&hub.processes());

    hub.kill().await?;
    crowd.disconnected().await?;
    waves.touch(&crowd.names, "app-0000").await?;
    let restarted = Instant::now();
    hub.start().await?;
    let ready = restarted.elapsed();
    let (reconnected, slowest_again) = crowd.connected().await?;
    waves.touched(&crowd.names, "app-0000").await?;
    let converged = restarted.elapsed();
    let first_event = crowd.slowest_first_event();
    let agents = options.agents as u64;
    Ok(json!({
        "connected": {"all after s": seconds(connected), "slowest attempt s": seconds(slowest)},
        "hub memory": {
            "alone MB": alone / 1_000_000,
            "idle agents MB": idle / 1_000_000,
            "KiB per idle agent": idle.saturating_sub(alone) / 1024 / agents.max(1),
            "with Applications MB": full / 1_000_000,
        },
        "idle bytes per second and agent": idle_bytes / agents.max(1) / (3 * QUIET.as_secs()),
        "bytes per event, both ways": bytes_per_event,
        "one agent": one.value(),
        "hundred agents": hundred.value(),
        "all agents": all.value(),
        "after a crash of the hub": {
            "ready s": seconds(ready),
            "all connected s": seconds(ready + reconnected),
            "slowest attempt s": seconds(slowest_again),
            "slowest from dial to first event s": seconds(first_event),
            "converged s": seconds(converged),
        },
    }))
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 100.0).round() / 100.0
}
