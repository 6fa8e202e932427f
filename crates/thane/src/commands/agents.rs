//! `thane agents`.

mod block;
mod create;
mod inspect;
mod kubeconfig;
mod list;
mod remove;
mod resync;
mod rotate;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;
use thane_api::code;
use thane_runtime::pki::Details;

use crate::failure::Failure;
use crate::fleet::AGENTS;
use crate::fleet::cluster::{Cluster, secret_name};
use crate::fleet::objects::Objects;
use crate::kubernetes::connection::HubConnection;
use crate::output::{Structured, print_structured, tell};

/// Make, list, inspect and remove agents
#[derive(Debug, Subcommand)]
pub(crate) enum Agents {
    Create(create::Create),
    List(list::List),
    Inspect(inspect::Inspect),
    Kubeconfig(kubeconfig::Kubeconfig),
    Rotate(rotate::Rotate),
    Block(block::Block),
    Unblock(block::Unblock),
    Remove(remove::Remove),
    Resync(resync::Resync),
}

/// What all of them need.
#[derive(Debug, Args)]
struct Common {
    #[command(flatten)]
    hub: HubConnection,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
}

impl Agents {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Create(command) => command.run().await,
            Self::List(command) => command.run().await,
            Self::Inspect(command) => command.run().await,
            Self::Kubeconfig(command) => command.run().await,
            Self::Rotate(command) => command.run().await,
            Self::Block(command) => command.run().await,
            Self::Unblock(command) => command.run().await,
            Self::Remove(command) => command.run().await,
            Self::Resync(command) => command.run().await,
        }
    }
}

impl Common {
    /// Tells what was done: to a program on stdout, to a person on stderr.
    fn report<T: Serialize>(&self, value: &T, text: &str) -> Result<(), Failure> {
        if let Some(form) = self.output {
            return print_structured(value, form);
        }
        tell(text);
        Ok(())
    }
}

/// The agent's cluster Secret, which has to be there.
async fn cluster(objects: &Objects<'_>, agent: &str) -> Result<(Value, Cluster), Failure> {
    crate::kubernetes::connection::check_segment("name of an agent", agent)?;
    let unknown = || Failure::new(code::AGENT_UNKNOWN, format!("there is no agent {agent}"));
    let secret = objects.secret(&secret_name(agent)).await?.ok_or_else(unknown)?;
    let cluster = Cluster::read(&secret).filter(|cluster| cluster.agent == agent).ok_or_else(unknown)?;
    Ok((secret, cluster))
}

/// The agent as the hub last saw it.
async fn record(objects: &Objects<'_>, agent: &str) -> Result<Option<Value>, Failure> {
    objects.get(&format!("{AGENTS}/{agent}")).await
}

/// A fingerprint as the blocklist has it.
fn fingerprint(details: &Details) -> String {
    details.fingerprint.chars().filter(char::is_ascii_hexdigit).map(|c| c.to_ascii_uppercase()).collect()
}
