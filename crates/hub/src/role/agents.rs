//! The registry of agents: Argo CD's cluster secrets that carry an agent's name.

use std::collections::BTreeSet;

use thane_link::{Command, Observed};
use thane_runtime::Tasks;
use thane_sync::hub::{Hub, HubLink};
use thane_sync::object;
use tokio::sync::mpsc;

use super::Running;
use super::secrets::Cluster;

/// Commands that wait for one connection.
const COMMANDS_MAX: usize = 1_024;

/// The running connection of one agent.
pub(super) struct Connection {
    pub(super) commands: mpsc::Sender<Command<Hub>>,
    cluster: String,
    tasks: Tasks,
}

impl Running {
    pub(super) async fn observe_clusters(&mut self, observed: Observed) {
        let agents: BTreeSet<String> = match observed {
            Observed::All(secrets, _) => {
                let gone = self.secrets.listed(&secrets);
                secrets.iter().flat_map(|secret| self.secrets.applied(secret)).chain(gone).collect()
            }
            Observed::Applied(secret) => self.secrets.applied(&secret),
            Observed::Deleted(secret) => self.secrets.deleted(object::name(&secret)),
        };
        for agent in agents {
            match self.secrets.cluster(&agent).cloned() {
                Some(cluster) => self.register(agent, cluster).await,
                None => self.remove_agent(&agent).await,
            }
        }
    }

    async fn register(&mut self, agent: String, cluster: Cluster) {
        let Cluster { name: cluster, server } = cluster;
        self.roster.registered(&agent, server);
        if let Some(link) = self.links.get_mut(&agent) {
            if link.cluster != cluster {
                link.cluster.clone_from(&cluster);
                let change = Box::new(move |link: &mut HubLink, _| link.set_cluster(cluster));
                let _ = link.commands.send(Command::Change(change)).await;
            }
            return;
        }
        let (commands, received) = mpsc::channel(COMMANDS_MAX);
        let tasks = self.tasks.child(agent.clone());
        tasks.spawn("link", self.driver(&agent, &cluster).run(received, tasks.clone()));
        self.links.insert(agent.clone(), Connection { commands, cluster, tasks });
        let news = self.router.add_agent(&agent);
        self.tell(news).await;
    }

    async fn remove_agent(&mut self, agent: &str) {
        if !self.links.contains_key(agent) {
            return;
        }
        self.router.remove_agent(agent);
        self.records.removed(agent);
        self.roster.removed(agent);
        if let Some(link) = self.links.remove(agent) {
            tracing::info!(agent, "the agent's cluster secret is gone; its connection ends");
            link.tasks.shutdown(std::time::Duration::from_secs(5)).await;
        }
        self.figures.forget(agent);
    }
}
