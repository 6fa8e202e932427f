//! `thane doctor`.

use clap::Args;
use thane_api::code;

use crate::cli::Global;
use crate::doctor::{self, Address};
use crate::failure::Failure;
use crate::kubernetes::connection::{AgentConnection, HubConnection};
use crate::output::{Structured, print, print_structured};
use crate::settings::{self, Flags};

/// Look for what is wrong between a hub and an agent
///
/// Looks at the hub's API (--context, or --hub-context), with --agent-context at the agent's too, and with
/// --server-address calls the hub as the agent would. Says what to do about each finding; ends with 0 only if
/// nothing is wrong.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    hub: HubConnection,
    #[command(flatten)]
    agent: AgentConnection,
    /// Host name or address under which the agent calls the hub
    #[arg(long, value_name = "HOST")]
    server_address: Option<String>,
    /// Port under which the agent calls the hub
    #[arg(long, value_name = "PORT")]
    server_port: Option<u16>,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
}

impl Doctor {
    pub(crate) fn run(self, global: &Global) -> Result<(), Failure> {
        let agent = settings::load(global, Flags::new())?.value.agent;
        let host = self.server_address.clone().unwrap_or_else(|| agent.hub().to_owned());
        let port = self.server_port.unwrap_or(agent.server_port);
        let address = (!host.is_empty()).then_some(Address { host, port });
        super::block_on(global, self.look(address))
    }

    async fn look(self, address: Option<Address>) -> Result<(), Failure> {
        let report = doctor::examine(&self.hub, &self.agent, address.as_ref()).await;
        match self.output {
            Some(form) => print_structured(&report, form)?,
            None => print(&report.text())?,
        }
        if report.wrong == 0 {
            return Ok(());
        }
        Err(Failure::new(code::FLEET_IN_TROUBLE, "something is wrong").told())
    }
}
