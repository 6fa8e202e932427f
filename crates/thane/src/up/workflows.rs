//! Workflows of every API whose pods run here.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use thane_apiserver::embedded::Embedded;
use thane_runtime::metrics;
use thane_workload::controller::{self, Metrics, Options};
use thane_workload::steps::Settings;
use thane_workload::steps::request::ApiAddress;

use super::fleet::Place;
use super::install::{self, Account};
use super::lodging::Lodging;
use super::sandboxes::{Runner, Sandboxes};
use crate::failure::Failure;
use crate::settings::workflows::WorkflowSettings;

/// What the controller may do, here as on Kubernetes.
const RIGHTS: &str = include_str!("../../../../deploy/workflow/20-rights.yaml");
/// What steps may do.
const STEPS: &str = include_str!("../../../../deploy/workflow/30-steps.yaml");
/// The claim in each namespace for artifacts without a place of their own.
const ARTIFACTS: &str = "thane-artifacts";
/// Where a node keeps its claims, in the directory of its API.
const CLAIMS: &str = "node/claims";
/// Where the controller has its account.
pub(super) const NAMESPACE: &str = "thane-workflows";
const CONTROLLER: Account = Account { namespace: NAMESPACE, name: "thane-workflows", may: "/api/v1/pods?limit=1" };
/// The image with this program in it, which every node has.
const IMAGE: &str = "thane";

/// Keeps the Workflows of every API that has none of another controller's marks.
pub(super) async fn start(
    place: &Place<'_>,
    names: &[String],
    apis: &[Embedded],
    runners: &[Runner<'_>],
    said: &WorkflowSettings,
    sandboxes: &Sandboxes,
    registry: &mut Registry,
) -> Result<(), Failure> {
    for runner in runners {
        let process = runner.server.client(install::process(), NAMESPACE);
        install::grant(&process, RIGHTS).await?;
        install::grant(&process, STEPS).await?;
        let client = install::entitled(runner.server, &CONTROLLER).await?;
        let address =
            names.iter().zip(apis).find(|(name, _)| *name == runner.name).and_then(|(_, api)| address(&api.url()));
        let artifacts = Some(ARTIFACTS.to_owned());
        let settings = Settings { image: IMAGE.to_owned(), api: address, artifacts, ..Settings::default() };
        let settings = said.over(settings);
        let lodging = Lodging {
            direct: sandboxes.direct(place, runner).await?,
            client: runner.server.client(install::process(), NAMESPACE),
            claims: place.directory.join(runner.name).join(CLAIMS),
            artifacts: ARTIFACTS,
        };
        let own = registry.sub_registry_with_prefix(metrics::PREFIX);
        let counts = Metrics::new(own.sub_registry_with_label(("server".into(), runner.name.to_owned().into())));
        let tasks = place.tasks.child(format!("workflows-{}", runner.name));
        let repository = said.repository.clone();
        let options = Options { instance: None, settings, repository, runner: Some(Arc::new(lodging)) };
        controller::start(client, options, Arc::clone(place.clock), &tasks, counts);
    }
    Ok(())
}

/// Host and port of `https://HOST:PORT`.
fn address(url: &str) -> Option<ApiAddress> {
    let (host, port) = url.rsplit_once("://")?.1.trim_end_matches('/').rsplit_once(':')?;
    Some(ApiAddress { host: host.to_owned(), port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_a_url() {
        let found = address("https://127.0.0.1:6443").expect("an address");
        assert_eq!((found.host.as_str(), found.port), ("127.0.0.1", 6443));
        assert!(address("https://host").is_none());
    }
}
