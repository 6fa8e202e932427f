//! `thane agent`.

use clap::Args;

use crate::cli::Global;
use crate::failure::Failure;
use crate::kubernetes::connection::RoleConnection;
use crate::roles::{self, words::AgentWords};
use crate::settings::{self, Role};

/// Run an agent: keep this cluster's Applications in step with the hub
///
/// Takes the flags and variables of `argocd-agent agent`; with any variable `ARGOCD_AGENT_…` set, its defaults are in
/// force, among them autonomous mode. It only dials out. Certificates come from Secrets and are followed.
#[derive(Debug, Args)]
pub(crate) struct Agent {
    #[command(flatten)]
    connection: RoleConnection,
    #[command(flatten)]
    words: AgentWords,
}

impl Agent {
    pub(crate) fn run(&self, global: &Global) -> Result<(), Failure> {
        let (settings, idle) = settings::load_role(global, Role::Agent { words: &self.words })?;
        let levels = roles::begin(&settings, &idle)?;
        roles::block_on(roles::agent::run(settings, levels, self.connection.clone()))
    }
}
