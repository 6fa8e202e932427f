//! `thane hub`.

use clap::Args;

use crate::cli::Global;
use crate::failure::Failure;
use crate::kubernetes::connection::RoleConnection;
use crate::roles::{self, words::HubWords};
use crate::settings::{self, Role};

/// Run the hub: keep Applications of many clusters in step from one API
///
/// Takes the flags and variables of `argocd-agent principal`. Started as `thane principal`, or with any variable
/// `ARGOCD_PRINCIPAL_…` set, its defaults are in force. Certificates and keys come from Secrets and are followed.
#[derive(Debug, Args)]
pub(crate) struct Hub {
    #[command(flatten)]
    connection: RoleConnection,
    #[command(flatten)]
    words: HubWords,
}

impl Hub {
    pub(crate) fn run(&self, global: &Global, as_principal: bool) -> Result<(), Failure> {
        let (settings, idle) = settings::load_role(global, Role::Hub { words: &self.words, as_principal })?;
        let levels = roles::begin(&settings, &idle)?;
        roles::block_on(roles::hub::run(settings, levels, self.connection.clone()))
    }
}
