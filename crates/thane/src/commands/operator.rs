//! `thane operator`.

use std::net::SocketAddr;

use clap::Args;

use crate::cli::Global;
use crate::failure::Failure;
use crate::kubernetes::connection::RoleConnection;
use crate::roles;
use crate::settings::{self, Flags};

/// Run the operator of sandboxes: keep pools warm, give sandboxes their pods
///
/// Several may run; one leads. Certificates are made at the first start and kept in Secrets of its namespace.
#[derive(Debug, Clone, Args)]
pub(crate) struct Operator {
    #[command(flatten)]
    pub(crate) connection: RoleConnection,
    /// Image of thane that executor and sidecar of each sandbox come from
    #[arg(long, env = "THANE_OPERATOR_IMAGE", value_name = "IMAGE")]
    pub(crate) image: String,
    /// Namespace of its lease and certificates; else the pod's
    #[arg(long, env = "THANE_OPERATOR_NAMESPACE", value_name = "NAME", default_value = "")]
    pub(crate) namespace: String,
    /// Also keep Workflows labelled workflows.argoproj.io/controller-instanceid=thane; needs Argo's kinds
    #[arg(long, env = "THANE_OPERATOR_WORKFLOWS")]
    pub(crate) workflows: bool,
    /// Where the validating webhook listens
    #[arg(long, env = "THANE_OPERATOR_WEBHOOK_ADDRESS", value_name = "ADDRESS")]
    pub(crate) webhook_address: Option<SocketAddr>,
    /// Service that leads to the webhook
    #[arg(long, value_name = "NAME", default_value = "thane-sandbox-webhook")]
    pub(crate) webhook_service: String,
}

impl Operator {
    pub(crate) fn run(&self, global: &Global) -> Result<(), Failure> {
        let settings = settings::load(global, Flags::new())?;
        let levels = roles::begin(&settings, &[])?;
        roles::block_on(roles::operator::run(settings, levels, self))
    }
}
