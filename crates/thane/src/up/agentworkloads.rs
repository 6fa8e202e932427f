//! `AgentWorkload`s of every API.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use thane_apiserver::embedded::Embedded;
use thane_workload::agent::Services;
use thane_workload::agent::controller::{self, Metrics, Options};

use super::fleet::Place;
use super::install::{self, Account};
use crate::failure::Failure;
use crate::judge::Apart;

/// What the operator may do, here as on Kubernetes.
const RIGHTS: &str = include_str!("../../../../deploy/workload/30-operator-rights.yaml");
/// Where it has its account, and where the platform's policies are.
pub(super) const NAMESPACE: &str = "agentic-system";
const OPERATOR: Account = Account {
    namespace: NAMESPACE,
    name: "thane-workloads",
    may: "/apis/agentic.clawdlinux.org/v1alpha1/agentworkloads?limit=1",
};

/// Follows the `AgentWorkload`s of every API.
pub(super) async fn start(
    place: &Place<'_>,
    names: &[String],
    apis: &[Embedded],
    registry: &mut Registry,
) -> Result<(), Failure> {
    for (name, api) in names.iter().zip(apis) {
        install::grant(&api.server.client(install::process(), NAMESPACE), RIGHTS).await?;
        let client = install::entitled(&api.server, &OPERATOR).await?;
        let own = registry.sub_registry_with_label(("server".into(), name.clone().into()));
        let options =
            Options { services: Services::default(), namespace: NAMESPACE.to_owned(), judge: Arc::new(Apart) };
        let tasks = place.tasks.child(format!("workloads-{name}"));
        controller::start(client, options, Arc::clone(place.clock), &tasks, Metrics::new(own));
    }
    Ok(())
}
