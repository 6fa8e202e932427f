//! The agent: what is registered near it, checked and durable here before the hub knows, and what it holds of the rest.

pub mod checks;
pub mod config;
mod connection;
mod core;
mod dial;
mod edge;
mod followed;
mod keepsake;
mod ledger;
mod metrics;
mod options;
pub mod pending;
pub mod state;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use thane_kv::Store;
use thane_runtime::metrics::Registry;
use thane_runtime::net::SharedNetwork;
use thane_runtime::tls::ClientTls;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::{Notify, watch};

use self::checks::{Patient, Runners, Tools};
use self::connection::Line;
use self::core::Core;
use self::followed::Followed;
use self::keepsake::Keepsakes;
use self::ledger::Ledger;
use self::metrics::Metrics;
use self::pending::{Pending, Sequence};
use crate::backend::Place;
use crate::model::{Index, Node};
use crate::topic::{Row, Topic, TopicData};

pub use followed::Limits;
pub use options::{Adjustable, Options, Reloaded, Reread};
pub use pending::Cadence;

/// An agent that runs.
pub struct Agent {
    core: Arc<Core>,
    options: Options,
    /// Hubs are called without TLS, which only those on this machine are.
    is_plain: bool,
    services: edge::Snapshot<edge::Services>,
    checks: edge::Snapshot<edge::Checks>,
}

impl Agent {
    /// Starts with what was kept, whether a hub is there or not.
    ///
    /// `store` is the agent's own and nobody else's; `tls` is how hubs are called, `None` only towards this machine.
    pub async fn start(
        options: Options,
        store: Arc<dyn Store>,
        network: SharedNetwork,
        tls: Option<ClientTls>,
        clock: SharedClock,
        tasks: Tasks,
    ) -> Result<Arc<Self>, thane_kv::Error> {
        let core = open(&options, &store, &network, tls.as_ref(), &clock, &tasks).await?;
        let reserved: Option<u64> = core.keepsakes.get(keepsake::SEQUENCE).await?;
        recall(&core).await?;
        pin(&core);
        let state = Arc::new(Mutex::new(ledger::load(store.as_ref()).await?));
        let restored: Vec<_> = state.lock().checks().values().cloned().collect();
        let committed = {
            let core = Arc::downgrade(&core);
            Box::new(move |edits: &[state::Edit]| {
                if let Some(core) = core.upgrade() {
                    core.committed(edits);
                }
            })
        };
        let ledger = Ledger::start(store, state, options.is_script_allowed, committed, &tasks);
        let _ = core.ledger.set(ledger);
        let patient: Arc<dyn Patient> = Arc::clone(&core) as _;
        for kept in restored {
            // Spread over their interval: after a restart they would all run at once.
            let first = checks::plan::interval(&kept.check.definition);
            core.runners.start(&kept.check, kept.generation, first, &Arc::downgrade(&patient));
        }
        let sequence = Sequence::after(reserved.unwrap_or(0));
        let (is_plain, line) = (tls.is_none(), Line { network, tls });
        tasks.spawn("hub", connection::run(Arc::clone(&core), line, sequence, tasks.clone()));
        let (services, checks) = (edge::Snapshot::default(), edge::Snapshot::default());
        Ok(Arc::new(Self { core, options, is_plain, services, checks }))
    }

    /// Makes what the agent counts visible.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.core.metrics.register(Arc::downgrade(&self.core), registry);
    }

    /// Whether a hub is there.
    pub fn is_connected(&self) -> bool {
        self.core.followed.is_connected()
    }

    /// How often a check runs that does not say.
    pub fn check_interval(&self) -> Duration {
        self.core.adjustable.load().check_interval
    }

    /// How many items the hub may not have as they are.
    pub fn pending(&self) -> usize {
        self.core.pending.lock().len()
    }

    /// Resolves when something registered here may have changed, or the hub has taken something.
    pub fn local_change(&self) -> crate::backend::Wake {
        let mut changes = self.core.changes.subscribe();
        Box::pin(async move { drop(changes.changed().await) })
    }

    /// Takes other settings into use. Settings that name no hub leave those there are.
    pub fn adjust(&self, mut adjustable: Adjustable) {
        let core = &self.core;
        if adjustable.hubs.is_empty() {
            adjustable.hubs = core.hubs();
        }
        core.followed.set_limits(adjustable.limits.clone());
        core.pending.lock().set_cadence(core.clock.monotonic(), adjustable.cadence);
        let is_elsewhere = core.hubs() != adjustable.hubs;
        core.adjustable.store(Arc::new(adjustable));
        if is_elsewhere {
            core.moved.notify_waiters();
        }
        pin(core);
        core.stirred.notify_one();
        core.changes.send_modify(|changes| *changes += 1);
    }
}

async fn open(
    options: &Options,
    store: &Arc<dyn Store>,
    network: &SharedNetwork,
    tls: Option<&ClientTls>,
    clock: &SharedClock,
    tasks: &Tasks,
) -> Result<Arc<Core>, thane_kv::Error> {
    let keepsakes = Keepsakes(Arc::clone(store));
    let uuid = || uuid::Uuid::new_v4().to_string();
    let node_id = keepsakes.get_or(keepsake::NODE_ID, uuid).await?;
    let incarnation = keepsakes.get_or(keepsake::INCARNATION, uuid).await?;
    let node = Node {
        name: options.node_name.clone(),
        id: node_id.clone(),
        address: options.address.clone(),
        datacenter: options.datacenter.clone(),
        tagged_addresses: labelled(&options.address),
        meta: options.meta.clone(),
        owner: None,
    };
    let place = Place {
        datacenter: options.datacenter.clone(),
        node: options.node_name.clone(),
        node_id,
        address: options.address.clone(),
    };
    let adjustable = options.adjustable.clone();
    let tools = Tools::new(Arc::clone(network), Arc::clone(clock), tls.cloned(), tasks.child("checks"));
    Ok(Arc::new(Core {
        id: options.id.clone(),
        node,
        place,
        clock: Arc::clone(clock),
        metrics: Metrics::default(),
        followed: Followed::new(adjustable.limits.clone(), Arc::clone(clock)),
        pending: Mutex::new(Pending::new(adjustable.cadence)),
        stirred: Notify::new(),
        moved: Notify::new(),
        keepsakes,
        runners: Runners::new(tools),
        adjustable: ArcSwap::from_pointee(adjustable),
        incarnation: ArcSwap::from_pointee(incarnation),
        ledger: OnceLock::new(),
        changes: watch::Sender::new(0),
        client: Mutex::new(None),
        popular: Mutex::default(),
        is_compressed: options.is_compressed,
    }))
}

/// An address under the labels that Consul's agents give theirs.
fn labelled(address: &str) -> BTreeMap<String, String> {
    let family = address.parse().map(|ip: IpAddr| if ip.is_ipv4() { "ipv4" } else { "ipv6" });
    let both = ["lan", "wan"].into_iter().flat_map(|side| {
        let of_family = family.as_ref().ok().map(|family| format!("{side}_{family}"));
        std::iter::once(side.to_owned()).chain(of_family)
    });
    both.map(|label| (label, address.to_owned())).collect()
}

/// Takes up what was held before a restart.
async fn recall(core: &Core) -> Result<(), thane_kv::Error> {
    if let Some((index, rows)) = core.keepsakes.get::<(Index, Vec<Row>)>(keepsake::TOKENS).await?
        && rows.is_sorted_by_key(Row::key)
    {
        core.followed.preset(&Topic::Tokens, TopicData::new(index, rows));
    }
    let popular: Vec<Topic> = core.keepsakes.get(keepsake::POPULAR).await?.unwrap_or_default();
    for topic in &popular {
        core.followed.slot(topic);
    }
    *core.popular.lock() = popular;
    Ok(())
}

/// Holds what is always held.
fn pin(core: &Core) {
    let prefixes = core.watched_prefixes().into_iter().map(Topic::Keys);
    let topics: Vec<Topic> = prefixes.chain([Topic::Tokens]).collect();
    core.followed.pin_only(&topics);
}
