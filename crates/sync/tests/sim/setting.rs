//! What a seed decides at the start.

use std::time::Duration;

use thane_sync::inbox;
use thane_sync::link::Options;
use thane_sync::mapping::{Adoption, AgentSide, HubSide, Mismatch, Mode, OnRecreate, Pattern, Placement};
use thane_sync::outbox::{self, Rate};

use crate::rng::Rng;
use crate::world::NAMESPACE;

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct Setting {
    pub(crate) agents: Vec<(String, Mode)>,
    /// Whether both sides compare by digest.
    pub(crate) digest: bool,
    /// Whether that changes when an agent starts again.
    pub(crate) versions_change: bool,
    pub(crate) chaos: u64,
    pub(crate) options: Options,
    pub(crate) mismatch: Mismatch,
    pub(crate) slow_watch: bool,
    pub(crate) slow_writes: bool,
    pub(crate) write_failures: u64,
    pub(crate) duplicates: u64,
    pub(crate) latency: u64,
    pub(crate) room: usize,
    /// Milliseconds between faults; none for none.
    pub(crate) faults: Option<u64>,
    pub(crate) users: u64,
    /// Whether people change what is not theirs to change.
    pub(crate) tampering: bool,
    /// How often Argo CD syncs by itself, in percent.
    pub(crate) autosync: u64,
    pub(crate) is_verbose: bool,
}

impl Setting {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let names = ["alpha", "beta", "gamma"];
        let count = rng.pick(&[1, 1, 2, 3]);
        let agents = names.iter().take(count).map(|name| {
            let mode = if rng.percent(60) { Mode::Managed } else { Mode::Autonomous };
            ((*name).to_owned(), mode)
        });
        let agents: Vec<(String, Mode)> = agents.collect();
        let digest = rng.percent(75);
        let versions_change = rng.percent(15);
        let is_upstream = !digest || versions_change;
        Self {
            agents,
            digest,
            versions_change,
            chaos: rng.between(10_000, 90_000),
            options: options(rng),
            mismatch: rng.pick(&[Mismatch::Recreate, Mismatch::Recreate, Mismatch::Upsert]),
            slow_watch: rng.percent(30),
            slow_writes: rng.percent(30),
            write_failures: rng.pick(&[0, 2, 15]),
            duplicates: rng.pick(&[0, 5, 20]),
            latency: rng.pick(&[5, 50, 1_000]),
            room: rng.pick(&[1, 8, 256]),
            faults: rng.pick(&[None, Some(20_000), Some(4_000)]),
            users: rng.pick(&[100, 400, 1_500]),
            tampering: rng.percent(60),
            // Upstream's hub takes an acknowledged operation for one that has begun: an agent that dies before the one
            // that runs has ended loses it.
            autosync: if is_upstream { 0 } else { rng.pick(&[0, 0, 4]) },
            is_verbose: std::env::var_os("SIM_VERBOSE").is_some(),
        }
    }

    pub(crate) fn hub_side() -> HubSide {
        HubSide {
            namespace: NAMESPACE.into(),
            placement: Placement::Namespace,
            allowed_namespaces: vec![Pattern::glob("*")],
        }
    }

    pub(crate) fn agent_side(&self, name: &str, mode: Mode) -> AgentSide {
        AgentSide {
            name: name.into(),
            mode,
            namespace: NAMESPACE.into(),
            hub_namespace: NAMESPACE.into(),
            placement: Placement::Namespace,
            allowed_namespaces: Vec::new(),
            mismatch: self.mismatch,
            adoption: Adoption::Always,
            on_recreate: OnRecreate::Ignore,
        }
    }
}

fn options(rng: &mut Rng) -> Options {
    let queue_max = rng.pick(&[4, 16, 10_000]);
    let rate = rng.percent(20).then_some(Rate { per_second: 20, burst: 5 });
    Options {
        outbox: outbox::Options {
            queue_max,
            retry_first: Duration::from_millis(rng.between(500, 5_000)),
            retry_max: Duration::from_secs(rng.between(10, 60)),
            window: rng.pick(&[1, 4, 1_000]),
            rate,
            needs_wait: Duration::from_secs(rng.between(1, 10)),
        },
        inbox: inbox::Options {
            queue_max: rng.pick(&[2, 16, 1_000]),
            concurrency: rng.pick(&[1, 4, 64]),
            paused_max: rng.pick(&[1, 10_000]),
            ..inbox::Options::default()
        },
        hold: Duration::from_secs(rng.pick(&[3, 30, 600])),
        compare_every: rng.pick(&[Some(20), Some(120), None]).map(Duration::from_secs),
        drift_percent: rng.pick(&[1, 50, 100]),
    }
}
