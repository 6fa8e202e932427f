//! The registry of agents: Argo CD's cluster secrets that carry an agent's name.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use thane_link::{Command, Observed};
use thane_runtime::Tasks;
use thane_sync::hub::{Hub, HubLink};
use thane_sync::mapping::is_dns_label;
use thane_sync::object::{self, AGENT_NAME, Object};
use tokio::sync::mpsc;

use super::Running;

/// Commands that wait for one connection.
const COMMANDS_MAX: usize = 1_024;

/// The running connection of one agent.
pub(super) struct Connection {
    pub(super) commands: mpsc::Sender<Command<Hub>>,
    /// The secret that made it.
    secret: String,
    cluster: String,
    tasks: Tasks,
}

impl Running {
    pub(super) async fn observe_clusters(&mut self, observed: Observed) {
        match observed {
            Observed::All(secrets, _) => {
                let named: Vec<String> = secrets.iter().map(|secret| object::name(secret).to_owned()).collect();
                let gone: Vec<String> = self
                    .links
                    .iter()
                    .filter(|(_, link)| !named.contains(&link.secret))
                    .map(|(agent, _)| agent.clone())
                    .collect();
                for agent in gone {
                    self.remove_agent(&agent).await;
                }
                for secret in secrets {
                    self.register(&secret).await;
                }
            }
            Observed::Applied(secret) => self.register(&secret).await,
            Observed::Deleted(secret) => {
                let name = object::name(&secret);
                let gone = self.links.iter().find(|(_, link)| link.secret == name).map(|(agent, _)| agent.clone());
                if let Some(agent) = gone {
                    self.remove_agent(&agent).await;
                }
            }
        }
    }

    async fn register(&mut self, secret: &Object) {
        let Some(agent) = object::label(secret, AGENT_NAME).filter(|name| is_dns_label(name)).map(str::to_owned) else {
            tracing::warn!(secret = object::name(secret), "a cluster secret names no agent that could be");
            return;
        };
        let cluster = decoded(&secret["data"]["name"]).unwrap_or_else(|| agent.clone());
        self.roster.registered(&agent, decoded(&secret["data"]["server"]).unwrap_or_default());
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
        let secret = object::name(secret).to_owned();
        self.links.insert(agent.clone(), Connection { commands, secret, cluster, tasks });
        let news = self.router.add_agent(&agent);
        self.tell(news).await;
    }

    async fn remove_agent(&mut self, agent: &str) {
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

fn decoded(field: &Value) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(field.as_str()?).ok()?;
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}
