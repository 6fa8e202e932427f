//! `thane workflow logs`.

use clap::Args;
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::LogParams;
use thane_workload::status::{NodeStatus, NodeType};
use thane_workload::steps::names::{MAIN, log_name, pod_name};

use super::{fetch, status};
use crate::failure::Failure;
use crate::kubernetes::connection::Connection;
use crate::output::{print, tell};

/// Show what the steps of a Workflow printed
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Its name
    name: String,
    /// Only of the step with this name
    #[arg(long, value_name = "NAME")]
    step: Option<String>,
    /// The container
    #[arg(short, long, value_name = "NAME", default_value = MAIN)]
    container: String,
    /// Go on as long as the steps that run do
    #[arg(short, long)]
    follow: bool,
    /// Lines without the name of their step
    #[arg(long)]
    no_prefix: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Logs {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let session = self.connection.open().await?;
        let status = status(&fetch(&session, &self.name).await?)?;
        let wanted = |node: &&NodeStatus| {
            node.kind == NodeType::Pod
                && self.step.as_ref().is_none_or(|step| node.display_name == *step || node.name == *step)
        };
        let mut steps: Vec<&NodeStatus> = status.nodes.iter().filter(wanted).collect();
        steps.sort_by_key(|node| (node.started_at, node.name.clone()));
        let pods: Api<Pod> = Api::namespaced(session.client.clone(), &session.namespace);
        let kept: Api<ConfigMap> = Api::namespaced(session.client.clone(), &session.namespace);
        for node in steps {
            let pod = pod_name(&self.name, node.template(), &node.name);
            let wanted = LogParams {
                container: Some(self.container.clone()),
                follow: self.follow && !node.is_ended(),
                ..LogParams::default()
            };
            match pods.log_stream(&pod, &wanted).await {
                Ok(log) => {
                    let mut lines = log.lines();
                    while let Some(line) =
                        lines.try_next().await.map_err(|error| Failure::from(kube::Error::Service(error.into())))?
                    {
                        self.show(node, &line)?;
                    }
                }
                // A step in a warm sandbox has no pod.
                Err(kube::Error::Api(refused)) => match kept.get_opt(&log_name(&node.id)).await? {
                    Some(map) => {
                        let said = map.data.unwrap_or_default().remove(&self.container).unwrap_or_default();
                        said.lines().try_for_each(|line| self.show(node, line))?;
                    }
                    None => tell(&format!("{}: {}", node.display_name, refused.message)),
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn show(&self, node: &NodeStatus, line: &str) -> Result<(), Failure> {
        let prefix = if self.no_prefix { String::new() } else { format!("{}: ", node.display_name) };
        print(&format!("{prefix}{line}\n"))
    }
}
