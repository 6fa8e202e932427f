//! Discovery beside a real Consul: lookups, keys, registrations, watchers, one after the other on the same machine; and
//! what only ours has: agents that answer instead of the hub.
//!
//! Consul is one server in development mode, in memory, asked directly. Ours is a hub (`thane up` with one cluster) and an
//! agent in a process of its own (`thane agent --fleet=false`), both on disk, with TLS between them.

#[path = "../bench_crowd/counted.rs"]
mod counted;
mod crowd;
mod load;
mod lone;
mod mix;
mod side;
mod table;

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;
use thane_testkit::bench::{lift_file_limit, resident_bytes};
use thane_testkit::peer::{Consul, PeerHome, Thane};

use lone::{Hub, LoneAgent};

/// What can be measured by itself.
const PARTS: [&str; 4] = ["side", "mix", "large", "crowd"];

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn main() -> Result<()> {
    lift_file_limit();
    let home = PeerHome::locate();
    let program = std::env::var_os("THANE_PROGRAM").map(PathBuf::from).context("THANE_PROGRAM says where thane is")?;
    let alone = std::env::args().any(|argument| argument == "--alone");
    let only = only()?;
    let wants = |part: &str| only.as_deref().is_none_or(|only| only == part);
    let theirs = if alone || !wants("side") {
        None
    } else {
        let consul = Consul::start_roomy(&home, "n1").await?;
        Some(side::measure(consul.address(), consul.address(), &consul.processes()).await?)
    };
    let thane = Thane::start(&program, &["--clusters", "1", "--ephemeral-ports"]).await?;
    let hub = Hub::of(&thane)?;
    let near = thane.published("discovery")?;
    let mut figures = json!({"consul": theirs.as_ref().map(side::Side::value)});
    if wants("side") {
        let far = LoneAgent::start(&program, &hub, "bench-far").await?;
        let ours = side::measure(&near, &far.address, &far.processes()).await?;
        println!("{}", table::beside(theirs.as_ref(), &ours));
        figures["thane"] = ours.value();
        far.stop().await;
    }
    if wants("mix") {
        let agent = LoneAgent::start(&program, &hub, "bench-mix").await?;
        let mix = mix::run(&near, &agent, &thane).await?;
        println!("{}", table::lines("a mix of requests on one agent", &mix));
        figures["mix"] = mix.into();
        agent.stop().await;
    }
    if wants("large") {
        let agent = LoneAgent::start(&program, &hub, "bench-large").await?;
        let large = mix::large(&near, &agent, &hub).await?;
        println!("{}", table::lines("10,000 instances, 1,000 services watched", &large));
        figures["large"] = large.into();
        agent.stop().await;
    }
    if wants("crowd") {
        let crowd = crowd::run(&near, &hub, || resident_bytes(&thane.processes())).await?;
        println!("{}", table::lines("1,000 agents on one hub", &crowd));
        figures["crowd"] = crowd.into();
    }
    println!("{figures}");
    Ok(())
}

/// The one part that is asked for, if not all are.
fn only() -> Result<Option<String>> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--only");
    if arguments.next().is_none() {
        return Ok(None);
    }
    let part = arguments.next().filter(|part| PARTS.contains(&part.as_str()));
    Ok(Some(part.with_context(|| format!("--only takes one of {}", PARTS.join(", ")))?))
}
