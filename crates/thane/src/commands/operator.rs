//! `thane operator`.

use std::net::SocketAddr;

use clap::{ArgAction, Args};

use crate::cli::Global;
use crate::failure::Failure;
use crate::kubernetes::connection::RoleConnection;
use crate::roles;
use crate::settings::{self, Flags};

/// Run the operator: keep pools warm, give sandboxes their pods, follow workloads
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
    /// Keep pools and sandboxes
    #[arg(long, env = "THANE_OPERATOR_SANDBOXES", value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub(crate) sandboxes: bool,
    /// After so long without a sandbox, a pool that was made for an experiment goes
    #[arg(long, env = "THANE_OPERATOR_MANAGED_UNUSED_SECONDS", value_name = "SECONDS", default_value_t = 600)]
    pub(crate) managed_unused_seconds: u64,
    /// Also follow `AgentWorkload`s; needs its kind and Argo's
    #[arg(long, env = "THANE_OPERATOR_WORKLOADS")]
    pub(crate) workloads: bool,
    /// Also keep Workflows labelled workflows.argoproj.io/controller-instanceid=thane; needs Argo's kinds
    #[arg(long, env = "THANE_OPERATOR_WORKFLOWS")]
    pub(crate) workflows: bool,
    #[command(flatten)]
    pub(crate) services: Services,
    /// Where the validating webhook listens
    #[arg(long, env = "THANE_OPERATOR_WEBHOOK_ADDRESS", value_name = "ADDRESS")]
    pub(crate) webhook_address: Option<SocketAddr>,
    /// Service that leads to the webhook
    #[arg(long, value_name = "NAME", default_value = "thane-sandbox-webhook")]
    pub(crate) webhook_service: String,
}

/// What the steps of workloads call
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What the steps of workloads call")]
pub(crate) struct Services {
    /// Image of the agents
    #[arg(long, env = "THANE_WORKLOAD_AGENT_IMAGE", value_name = "IMAGE", default_value = "")]
    pub(crate) agent_image: String,
    /// Bucket of artifacts, where a workload names none
    #[arg(long, env = "THANE_WORKLOAD_BUCKET", value_name = "NAME", default_value = "")]
    pub(crate) bucket: String,
    /// Browserless
    #[arg(long, env = "THANE_WORKLOAD_BROWSERLESS_URL", value_name = "URL", default_value = "")]
    pub(crate) browserless_url: String,
    /// `LiteLLM`
    #[arg(long, env = "THANE_WORKLOAD_LITELLM_URL", value_name = "URL", default_value = "")]
    pub(crate) litellm_url: String,
    /// `PostgreSQL` with the checkpoints, without a password
    #[arg(long, env = "THANE_WORKLOAD_POSTGRES_DSN", value_name = "DSN", default_value = "")]
    pub(crate) postgres_dsn: String,
}

impl Operator {
    pub(crate) fn run(&self, global: &Global) -> Result<(), Failure> {
        let settings = settings::load(global, Flags::new())?;
        let levels = roles::begin(&settings, &[])?;
        roles::block_on(roles::operator::run(settings, levels, self))
    }
}
