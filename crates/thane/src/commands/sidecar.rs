//! `thane sidecar`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::cli::Global;
use crate::failure::Failure;
use crate::roles;
use crate::settings::{self, Flags};

/// Run the sidecar of a sandbox, beside its executor in a pod
#[derive(Debug, Clone, Args)]
pub(crate) struct Sidecar {
    /// Directory with the executor's socket
    #[arg(long, value_name = "DIR")]
    pub(crate) run: PathBuf,
    /// Directory that steps are recorded in
    #[arg(long, value_name = "DIR")]
    pub(crate) records: PathBuf,
    /// Directory with ca.crt, tls.crt and tls.key
    #[arg(long, value_name = "DIR")]
    pub(crate) certificates: PathBuf,
    /// Where steps start
    #[arg(long, value_name = "DIR", default_value = "/workspace")]
    pub(crate) work_dir: String,
    /// Where health and metrics are served; nowhere unless said, for the sandbox has the same addresses
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Where gateways call
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:50051")]
    pub(crate) listen: SocketAddr,
}

impl Sidecar {
    pub(crate) fn run(&self, global: &Global) -> Result<(), Failure> {
        let settings = settings::load(global, Flags::new())?;
        let levels = roles::begin(&settings, &[])?;
        roles::block_on(roles::sidecar::run(settings, levels, self))
    }
}
