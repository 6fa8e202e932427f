//! `thane gateway`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::cli::Global;
use crate::failure::Failure;
use crate::kubernetes::connection::RoleConnection;
use crate::roles;
use crate::settings;

/// Run a gateway: sessions in warm sandboxes over REST
///
/// Keys of clients and its certificate for sidecars come from Secrets or files and are followed. Any of several gateways
/// serves any session.
#[derive(Debug, Args)]
pub(crate) struct Gateway {
    #[command(flatten)]
    connection: RoleConnection,
    /// Where clients arrive
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// File with the keys of clients; else the Secret thane-gateway-keys
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Ask for no keys; only on loopback
    #[arg(long)]
    anonymous: bool,
}

impl Gateway {
    pub(crate) fn run(&self, global: &Global) -> Result<(), Failure> {
        let flags = vec![
            ("gateway.address", "listen", self.listen.map(|address| json!(address))),
            ("gateway.keys", "keys", self.keys.as_ref().map(|keys| json!(keys))),
            ("gateway.anonymous", "anonymous", self.anonymous.then_some(json!(true))),
        ];
        let settings = settings::load(global, flags)?;
        let levels = roles::begin(&settings, &[])?;
        roles::block_on(roles::gateway::run(settings, levels, self.connection.clone()))
    }
}
