//! Keeps Workflows going on any Kubernetes API.
//!
//! Everything is watched, nothing is polled. What one Workflow does next is decided by [`crate::engine`]; here it is done:
//! one look at a time for each Workflow, many Workflows side by side. Nothing but the API's objects is kept, so another
//! controller, or this one after a crash, goes on from them.

pub mod actions;
mod done;
mod elsewhere;
mod lodging;
mod make;
mod metrics;
mod queue;
mod repository;
mod store;
#[cfg(test)]
mod tests;
mod watches;
mod work;
mod write;

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use parking_lot::Mutex;
use serde_json::Value;
use thane_runtime::{SharedClock, Tasks};

use crate::steps::Settings;
use crate::steps::runner::StepRunner;
use lodging::Lodging;
pub use metrics::Metrics;
use queue::Queue;
use store::Store;
pub(crate) use write::is_too_large;

/// Workflows looked at side by side.
const WORKERS: usize = 16;

/// What a controller is told.
#[derive(Clone, Default)]
pub struct Options {
    /// Whose Workflows it takes: those with this instance id, or those with none.
    pub instance: Option<String>,
    /// How steps are run.
    pub settings: Settings,
    /// Where artifacts without a location go.
    pub repository: Option<Value>,
    /// Who has warm sandboxes for steps that ask for one.
    pub runner: Option<Arc<dyn StepRunner>>,
}

/// All that looks at Workflows share.
struct Shared {
    client: Client,
    options: Options,
    clock: SharedClock,
    store: Store,
    queue: Queue,
    metrics: Metrics,
    lodging: Lodging,
    tasks: Tasks,
    /// Namespaces that have the claim for artifacts.
    claimed: Mutex<BTreeSet<String>>,
}

/// Keeps Workflows going until the tasks end.
pub fn start(client: Client, options: Options, clock: SharedClock, tasks: &Tasks, metrics: Metrics) {
    let shared = Arc::new(Shared {
        client,
        options,
        store: Store::default(),
        queue: Queue::new(Arc::clone(&clock)),
        clock,
        metrics,
        lodging: Lodging::default(),
        tasks: tasks.clone(),
        claimed: Mutex::default(),
    });
    watches::start(&shared, tasks);
    let alarm = Arc::clone(&shared);
    let stop = tasks.token();
    tasks.spawn_essential("alarm", async move {
        stop.run_until_cancelled(alarm.queue.ring()).await;
    });
    for _ in 0..WORKERS {
        let (shared, stop) = (Arc::clone(&shared), tasks.token());
        // What a look was doing when it is cut off is found by the next, here or elsewhere.
        tasks.spawn_essential("worker", async move {
            Box::pin(stop.run_until_cancelled(work::run(&shared))).await;
        });
    }
}

/// One of Argo's kinds.
pub fn argo(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("argoproj.io", "v1alpha1", kind))
}
