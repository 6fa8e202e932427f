//! The same load on any server that speaks the Kubernetes API, for comparisons side by side.

mod figures;
mod load;
mod watchers;

use std::time::Duration;

use anyhow::Result;

use crate::client::HttpsClient;
use crate::endpoint::Endpoint;

pub use figures::resident_bytes;
pub use figures::{Figures, table};

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Objects in the end.
    pub objects: usize,
    /// Objects written by one client alone, and again updated by it.
    pub alone: usize,
    /// Clients that write together.
    pub clients: usize,
    /// Watchers of one namespace.
    pub watchers: usize,
    /// Writes whose arrival at the last watcher is timed.
    pub rounds: usize,
}

impl Scale {
    /// What the issue asks for.
    pub const FULL: Self = Self { objects: 10_000, alone: 500, clients: 64, watchers: 1_000, rounds: 20 };
    /// A tenth of it.
    pub const QUICK: Self = Self { objects: 1_000, alone: 100, clients: 64, watchers: 100, rounds: 5 };
}

/// Runs everything against one server. `processes` are those whose memory counts.
pub async fn measure(endpoint: &Endpoint, processes: &[u32], ready_after: Duration, scale: Scale) -> Result<Figures> {
    let client = HttpsClient::new(endpoint)?;
    // Both sides still tidy up right after their start.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let memory_at_rest = figures::resident_bytes(processes);
    load::make_namespace(&client, "bench").await?;
    load::make_namespace(&client, "bench-watch").await?;

    let creates_alone = load::write(&client, load::Kind::Create, 0..scale.alone, 1).await?;
    let creates_together = load::write(&client, load::Kind::Create, scale.alone..scale.objects, scale.clients).await?;
    let updates_alone = load::write(&client, load::Kind::Update, 0..scale.alone, 1).await?;
    let updates_together = load::write(&client, load::Kind::Update, scale.alone..scale.objects, scale.clients).await?;
    let list = load::list(&client, scale.objects).await?;
    let memory_full = figures::resident_bytes(processes);
    let last_watcher = watchers::delay_to_last(&client, scale).await?;
    Ok(Figures {
        ready: ready_after,
        memory_at_rest,
        creates_alone,
        creates_together,
        updates_alone,
        updates_together,
        list,
        memory_full,
        last_watcher,
    })
}

/// Lifts the limit of open files as far as allowed: a thousand watchers need two thousand.
pub fn lift_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it the watchers fail by themselves, with the reason.
    let _ = setrlimit(Resource::Nofile, limit);
}
