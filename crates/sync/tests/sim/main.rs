//! The protocol on a bad day: both sides of many connections over model APIs, from one seed, with invariants at every
//! step and after everything heals.
//!
//! `SIM_SEED=7` runs one seed and prints what happened, `SIM_SEEDS=10000` that many.

mod api;
mod argo;
mod faults;
mod ledger;
mod machine;
mod rng;
mod setting;
mod trace;
mod users;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use world::World;

const SEEDS: u64 = 200;
/// Failing seeds after which no more are tried.
const FAILURES: usize = 20;
/// Simulated time within which both sides are in step after everything healed, in milliseconds.
const HEALING: u64 = 30 * 60_000;
/// Simulated time in which nothing more may happen then.
const SILENCE: u64 = 10 * 60_000;

/// Runs one seed; the hash of what happened, or what went wrong.
fn run(seed: u64, is_traced: bool) -> (Result<u64, String>, String) {
    let mut world = World::new(seed, is_traced);
    let result = catch_unwind(AssertUnwindSafe(|| scenario(&mut world)));
    let result = result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panicked: {}", text.unwrap_or_default()))
    });
    let setting = format!("{:?}\n", world.setting);
    (result.map(|()| world.trace.hash), setting + &world.trace.table())
}

fn scenario(world: &mut World) -> Result<(), String> {
    world.run_until(world.setting.chaos + 1)?;
    let deadline = world.now + HEALING;
    let mut wrong = None;
    while world.now < deadline {
        world.run_until(world.now + 1_000)?;
        wrong = world.difference().or_else(|| world.lost_operation());
        if wrong.is_none() {
            return silence(world);
        }
    }
    Err(format!("not in step {} s after healing: {}", HEALING / 1000, wrong.unwrap_or_default()))
}

/// Nothing happens any more, but for the comparisons that time brings.
fn silence(world: &mut World) -> Result<(), String> {
    // What Argo CD has just begun may end.
    world.run_until(world.now + 30_000)?;
    let versions = |world: &World| {
        let agents = world.agents.iter().map(|node| node.api.version);
        std::iter::once(world.hub_api.version).chain(agents).collect::<Vec<u64>>()
    };
    let (before, sent) = (versions(world), world.ledger.sent.clone());
    world.run_until(world.now + SILENCE)?;
    if versions(world) != before {
        return Err("something is still being written".to_owned());
    }
    for (kind, count) in &world.ledger.sent {
        let new = count - sent.get(kind).copied().unwrap_or_default();
        let is_comparison = kind.ends_with("digest");
        if new > 0 && !is_comparison {
            return Err(format!("{new} events {kind} were sent though everything was in step"));
        }
    }
    // A comparison may be under way just now.
    let mut wrong = None;
    for _ in 0..10 {
        wrong = world.difference().or_else(|| world.lost_operation());
        if wrong.is_none() {
            return Ok(());
        }
        world.run_until(world.now + 1_000)?;
    }
    Err(format!("fell out of step: {}", wrong.unwrap_or_default()))
}

fn fail(seed: u64, wrong: &str) -> ! {
    let (_, table) = run(seed, true);
    panic!(
        "seed {seed}: {wrong}\n\n{table}\nseed {seed}: {wrong}\nagain: SIM_SEED={seed} cargo test -p thane-sync --test sim\n\
         keep it: add {seed} to crates/sync/tests/sim/seeds.txt"
    );
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn both_sides_come_into_step_whatever_happens() {
    if let Some(seed) = number("SIM_SEED") {
        let (result, _) = run(seed, false);
        if let Err(wrong) = result {
            fail(seed, &wrong);
        }
        return;
    }
    let kept = include_str!("seeds.txt").lines().filter_map(|line| line.split_whitespace().next()?.parse().ok());
    let from = number("SIM_FROM").unwrap_or(1);
    let seeds = from..from + number("SIM_SEEDS").unwrap_or(SEEDS);
    let mut failed = Vec::new();
    for seed in kept.chain(seeds) {
        if let (Err(wrong), _) = run(seed, false) {
            failed.push((seed, wrong));
        }
        // All that fail are told of, the first in full.
        if failed.len() > FAILURES {
            break;
        }
    }
    if let Some((seed, wrong)) = failed.first() {
        let all: Vec<String> = failed.iter().map(|(seed, wrong)| format!("seed {seed}: {wrong}")).collect();
        let all = all.join("\n");
        fail(*seed, &format!("{wrong}\n{all}"));
    }
}

#[test]
fn a_seed_always_gives_the_same_run() {
    for seed in 1..=10 {
        assert_eq!(run(seed, false).0, run(seed, true).0, "seed {seed}");
    }
}
