//! `thane agents remove`.

use clap::Args;
use serde_json::json;

use super::{Common, cluster};
use crate::failure::Failure;
use crate::fleet::AGENTS;
use crate::fleet::cluster::secret_name;
use crate::fleet::objects::Objects;

/// Remove an agent from the hub
///
/// Its connection ends, and what it has in its cluster stays. Its Applications on the hub stay too, unless their
/// namespace is deleted with it; block its certificates as well if they may be in wrong hands.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The agent's name
    name: String,
    #[command(flatten)]
    common: Common,
    /// Delete its namespace on the hub too, with everything in it
    #[arg(long)]
    with_namespace: bool,
}

impl Remove {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let session = self.common.hub.open().await?;
        let objects = Objects::new(&session);
        cluster(&objects, &self.name).await?;
        objects.delete(&objects.path("secrets", &secret_name(&self.name))).await?;
        objects.delete(&format!("{AGENTS}/{}", self.name)).await?;
        let namespace_deleted =
            self.with_namespace && objects.delete(&format!("/api/v1/namespaces/{}", self.name)).await?;
        let report = json!({"agent": self.name, "removed": true, "namespaceDeleted": namespace_deleted});
        self.common.report(&report, &format!("removed agent {}", self.name))
    }
}
