//! `thane agents resync`.

use clap::Args;
use serde_json::json;
use thane_api::code;
use thane_hub::role::RESYNC;
use thane_runtime::{Clock, SystemClock};

use super::{Common, cluster, record};
use crate::failure::Failure;
use crate::fleet::AGENTS;
use crate::fleet::objects::Objects;

/// Send an agent everything again
///
/// The hub sees the request at once, and does so as soon as the agent is connected.
#[derive(Debug, Args)]
pub(crate) struct Resync {
    /// The agent's name
    name: String,
    #[command(flatten)]
    common: Common,
}

impl Resync {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let session = self.common.hub.open().await?;
        let objects = Objects::new(&session);
        cluster(&objects, &self.name).await?;
        if record(&objects, &self.name).await?.is_none() {
            let message = format!("agent {} has never been connected to a hub of ours", self.name);
            return Err(Failure::new(code::AGENT_UNKNOWN, message).with_hint("look at `thane agents inspect`"));
        }
        let at = SystemClock::new().now().to_string();
        let patch = json!({"metadata": {"annotations": {RESYNC: at}}});
        objects.merge(&format!("{AGENTS}/{}", self.name), &patch).await?;
        self.common
            .report(&json!({"agent": self.name, "requested": at}), &format!("resync of agent {} requested", self.name))
    }
}
