//! Discovery's hub and agents as they are, with real TLS, on the same bad network: no registration is lost or doubled, an
//! index never goes back and stands for one content, no lock is held twice, nothing deleted comes back, and everybody sees
//! the same in the end.
//!
//! `SIM_SEED=7 cargo test -p thane-testkit --test simulation discovery` replays one; `SIM_SEEDS=1000` runs more.

mod book;
mod hosts;
mod keys;
mod locks;
mod readers;
mod services;
mod stalling;
mod verdict;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::faults::{Fault, Loss, Storm};
use book::Tally;
use hosts::World;

const AGENTS: usize = 3;
/// Faults and users; long enough for leases to lapse.
const STORM: Duration = Duration::from_secs(70);
/// Then everything heals; within this all must agree.
const SETTLE: Duration = Duration::from_mins(2);
/// How long they must stay so.
const STEADY: Duration = Duration::from_secs(8);
const SEEDS: u64 = 30;

#[test]
fn agents_and_the_registry_agree_whatever_happened_between_them() {
    let key = thane_hub::gate::generate_short_key().unwrap();
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kept =
        include_str!("discovery/seeds.txt").lines().filter_map(|line| line.split_whitespace().next()?.parse().ok());
    let seeds: Vec<u64> = match number("SIM_SEED") {
        Some(seed) => vec![seed],
        None => kept.chain(0..number("SIM_SEEDS").unwrap_or(SEEDS)).collect(),
    };
    let is_whole = seeds.len() >= usize::try_from(SEEDS).unwrap();
    let tally = Tally::default();
    for seed in seeds {
        let wrong = run(seed, &key, &tally);
        assert!(
            wrong.is_empty(),
            "seed {seed}; replay: SIM_SEED={seed} cargo test -p thane-testkit --test simulation discovery\n\
             keep it: add {seed} to crates/testkit/tests/simulation/discovery/seeds.txt\n{}",
            wrong.join("\n")
        );
    }
    // A world in which nothing happens has nothing wrong with it.
    let happened = tally.lock().clone();
    for what in [
        "registered",
        "deregistered",
        "written",
        "unsure",
        "counted",
        "too late",
        "locked",
        "not locked",
        "renewed",
        "lapsed",
        "stale",
        "wiped",
        "stalled",
    ] {
        assert!(!is_whole || happened.get(what).is_some_and(|times| *times > 0), "never {what}: {happened:?}");
    }
}

fn faults(rng: &mut StdRng, world: &Arc<World>) -> Vec<(Duration, Fault)> {
    let mut faults: Vec<(Duration, Fault)> = (0..rng.random_range(2..12))
        .map(|_| {
            let at = Duration::from_millis(rng.random_range(0..STORM.as_secs() * 1_000));
            let lasts = Duration::from_millis(if rng.random_ratio(1, 5) {
                rng.random_range(30_000..60_000)
            } else {
                rng.random_range(100..15_000)
            });
            let agent = rng.random_range(0..AGENTS);
            let place = if rng.random_ratio(1, 3) { &world.hub } else { &world.agents[agent] };
            let name = world.agents[agent].name.clone();
            let lost = Arc::clone(world);
            let fault = match rng.random_range(0..12) {
                0..=2 => Fault::Partition(name, lasts),
                3 => Fault::OneWay("hub".to_owned(), name, lasts),
                4 => Fault::OneWay(name, "hub".to_owned(), lasts),
                5 => Fault::Hold(name, lasts),
                6 | 7 => Fault::Crash(place.name.clone(), lasts),
                8 => Fault::Crash("hub".to_owned(), lasts.min(Duration::from_secs(10))),
                9 => Fault::Wipe(name, lasts.min(Duration::from_secs(10)), Loss(Box::new(move || lost.wipe(agent)))),
                10 => Fault::Stall(Arc::clone(&world.hub.stalled_until), lasts.min(Duration::from_secs(45))),
                _ => Fault::Skew(Arc::clone(&place.skew_seconds), rng.random_range(-400..400)),
            };
            (at, fault)
        })
        .collect();
    faults.sort_by_key(|(at, _)| *at);
    faults
}

fn run(seed: u64, key: &str, tally: &Tally) -> Vec<String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let world = World::new(seed, AGENTS, key, tally);
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .simulation_duration(Duration::from_hours(1))
        .tick_duration(Duration::from_millis(5))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(rng.random_range(2..200)))
        .tcp_capacity(4_096)
        .build();
    let shared = Arc::clone(&world);
    sim.host("hub", move || hosts::hub(Arc::clone(&shared)));
    for number in 0..AGENTS {
        let shared = Arc::clone(&world);
        sim.host(world.agents[number].name.as_str(), move || hosts::agent(Arc::clone(&shared), number));
    }
    let mut storm = Storm::new(faults(&mut rng, &world), STORM);
    let mut agreed_at = None;
    while sim.elapsed() < STORM + SETTLE {
        let is_over = storm.blow(&mut sim);
        if is_over && !world.book.calm.swap(true, Ordering::Relaxed) {
            world.book.views.lock().clear();
        }
        if let Err(error) = sim.step() {
            return vec![format!("a host ended: {error}")];
        }
        let broken = world.book.wrong.lock().clone();
        if !broken.is_empty() {
            return broken;
        }
        if is_over && sim.elapsed().subsec_millis() < 5 {
            match (verdict::differences(&world).is_empty(), agreed_at) {
                (true, None) => agreed_at = Some(sim.elapsed()),
                (true, Some(at)) if sim.elapsed() >= at + STEADY => return Vec::new(),
                (true, Some(_)) => {}
                // A session that ran out, perhaps, and not everybody has heard of it yet.
                (false, _) => agreed_at = None,
            }
        }
    }
    verdict::differences(&world)
}
