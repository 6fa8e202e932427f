//! The operator role: everything that keeps pools and sandboxes as they should be.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use prometheus_client::registry::Registry;
use thane_runtime::tls::ClientTls;
use thane_runtime::{SharedClock, Tasks};

use crate::certificates::Certificates;
use crate::claims::Claims;
use crate::lease::{self, Candidate};
use crate::pods::Shape;
use crate::reconciled::Reconciliations;
use crate::{ask, pools, sandboxes};

/// What an operator is told.
#[derive(Clone)]
pub struct Options {
    /// What pods are made for.
    pub shape: Shape,
    /// Certificates that sidecars believe.
    pub sidecars: ClientTls,
    /// Which lease it must hold, where there are several operators.
    pub lease: Option<Candidate>,
    /// Who issues certificates to the pods of a cluster; a node of ours has its own way.
    pub certificates: Option<Arc<Certificates>>,
    /// Claims that this process has already; otherwise it has its own.
    pub claims: Option<Claims>,
    /// A pool that was made for an experiment goes when no sandbox of it was there for so long.
    pub managed_unused: Duration,
}

/// How long that is unless somebody says otherwise.
pub const MANAGED_UNUSED: Duration = Duration::from_mins(10);

/// Keeps pools and sandboxes until the tasks end, and does so alone where there is a lease.
pub fn start(client: Client, options: Options, clock: SharedClock, tasks: &Tasks, registry: &mut Registry) {
    let claims = options.claims.unwrap_or_else(|| {
        let claims = Claims::start_shaped(client.clone(), options.shape.clone(), clock.clone(), &tasks.child("claims"));
        claims.register(registry);
        claims
    });
    let reconciled = Reconciliations::new(registry);
    let pool_counts = pools::Metrics::new(registry, reconciled.clone());
    let sandbox_counts = sandboxes::Metrics::new(registry, reconciled);
    let (shape, certificates, ask) = (options.shape, options.certificates, ask::with(options.sidecars));
    let (api, time, managed_unused) = (client.clone(), clock.clone(), options.managed_unused);
    let lead = move |tasks: &Tasks| {
        let site = pools::Site { shape: shape.clone(), certificates: certificates.clone(), managed_unused };
        pools::start(api.clone(), site, time.clone(), tasks, pool_counts.clone());
        sandboxes::start(api.clone(), claims.clone(), ask.clone(), time.clone(), tasks, sandbox_counts.clone());
    };
    match options.lease {
        None => lead(&tasks.child("controllers")),
        Some(candidate) => tasks.spawn_essential("lease", lease::run(client, candidate, clock, tasks.clone(), lead)),
    }
}
