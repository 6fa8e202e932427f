//! `thane agents rotate`.

use clap::Args;
use serde_json::json;
use thane_hub::registration::Registration;
use thane_runtime::config::units::Span;
use thane_runtime::pki::{LEAF_LIFETIME, Request};
use thane_runtime::{Clock, SystemClock};

use super::block::add;
use super::{Common, cluster, record};
use crate::failure::Failure;
use crate::fleet::cluster::secret_name;
use crate::fleet::issue;
use crate::fleet::objects::Objects;
use crate::kubernetes::connection::AgentConnection;

/// Give an agent new certificates
///
/// Always the one Argo CD shows in its name; with --agent-context also its own, which it takes into use at once.
#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// The agent's name
    name: String,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    agent: AgentConnection,
    /// How long the new ones are valid, such as 90d
    #[arg(long, value_name = "DURATION", default_value_t = Span(LEAF_LIFETIME))]
    lifetime: Span,
    /// Stop believing the old ones, at once
    #[arg(long)]
    block_old: bool,
}

impl Rotate {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let hub = self.common.hub.open().await?;
        let objects = Objects::new(&hub);
        let (_, old) = cluster(&objects, &self.name).await?;
        let seen = record(&objects, &self.name).await?;
        let agent = self.common.hub.open_agent(&self.agent).await?;
        let (authority, now) = (issue::authority(&objects).await?, SystemClock::new().now());
        let mut given = None;
        if let Some(agent) = &agent {
            let agent = Objects::new(agent);
            let identity = issue::give_to_agent(&agent, &self.name, &authority, now, self.lifetime.0, true).await?;
            given = Some(thane_runtime::pki::inspect(&identity.cert_pem)?.swap_remove(0));
        }
        let identity = authority.issue(&Request::proxy(&self.name), now, self.lifetime.0)?;
        let registration = Registration {
            agent: &self.name,
            namespace: objects.namespace(),
            // What leads there stays as it is.
            proxy: "",
            ca_pem: authority.cert_pem(),
            identity: &identity,
        };
        let patch = json!({"data": {"config": registration.secret()["data"]["config"]}});
        objects.merge(&objects.path("secrets", &secret_name(&self.name)), &patch).await?;
        let mut blocked = Vec::new();
        if self.block_old {
            blocked.extend(old.certificate.as_ref().ok().map(super::fingerprint));
            // Its own is replaced only where its cluster could be reached.
            let own = seen.as_ref().and_then(|seen| seen["status"]["fingerprint"].as_str()).filter(|_| agent.is_some());
            blocked.extend(own.map(str::to_owned));
            add(&objects, &format!("{}, replaced at {now}", self.name), &blocked).await?;
        }
        let report = json!({
            "agent": self.name, "certificate": given.as_ref().map(super::fingerprint), "blocked": blocked,
        });
        let own = if given.is_some() { "" } else { "; its own stays, give --agent-context to replace it" };
        self.common.report(&report, &format!("agent {} has new certificates{own}", self.name))
    }
}
