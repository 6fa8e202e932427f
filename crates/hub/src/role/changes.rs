//! How often the hub's own objects changed, under argocd-agent's names.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use thane_sync::object::Kind;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Created,
    Updated,
    Deleted,
}

/// Counts by kind and change; shown as gauges because their names do not end as a counter's must.
#[derive(Debug, Default)]
pub(super) struct Changes {
    counts: [[Gauge; 3]; 3],
}

impl Changes {
    pub(super) fn register(&self, registry: &mut Registry) {
        let kinds = [Kind::AppProject, Kind::Repository, Kind::Application];
        for kind in kinds {
            let noun = match kind {
                Kind::AppProject => "app_projects",
                Kind::Repository => "repositories",
                Kind::Application => "applications",
            };
            for (change, verb) in
                [(Change::Created, "created"), (Change::Updated, "updated"), (Change::Deleted, "deleted")]
            {
                let name = format!("principal_{noun}_{verb}");
                registry.register(name, format!("How many {noun} were {verb}"), self.of(kind, change).clone());
            }
        }
    }

    pub(super) fn count(&self, kind: Kind, change: Change) {
        self.of(kind, change).inc();
    }

    fn of(&self, kind: Kind, change: Change) -> &Gauge {
        &self.counts[kind as usize][change as usize]
    }
}
