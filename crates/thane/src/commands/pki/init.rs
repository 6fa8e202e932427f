//! `thane pki init`.

use clap::Args;
use jiff::Timestamp;
use thane_runtime::config::units::Span;
use thane_runtime::pki::{AUTHORITY_LIFETIME, Authority, store};

use super::{AUTHORITY, Place, replaceable, report_secret};
use crate::failure::Failure;
use crate::fleet::objects::Objects;
use crate::fleet::{CA, issue};
use crate::kubernetes::connection::HubConnection;

/// Create a certificate authority
///
/// In files, or with --kubeconfig or --context in the Secret argocd-agent-ca of the hub's namespace.
#[derive(Debug, Args)]
pub(crate) struct Init {
    #[command(flatten)]
    place: Place,
    /// Common name of the authority
    #[arg(long, value_name = "CN", default_value = "thane fleet")]
    name: String,
    /// How long it is valid, such as 3650d
    #[arg(long, value_name = "DURATION", default_value_t = Span(AUTHORITY_LIFETIME))]
    lifetime: Span,
    /// Replace an authority that is already there: nothing it signed will be trusted any more
    #[arg(long, alias = "upsert", short_alias = 'u')]
    force: bool,
    #[command(flatten)]
    hub: HubConnection,
}

impl Init {
    pub(super) fn run(&self, now: Timestamp) -> Result<(), Failure> {
        let paths = self.place.free(AUTHORITY, self.force)?;
        let authority = Authority::create(&self.name, now, self.lifetime.0)?;
        store::save(&paths, authority.identity())?;
        self.place.report("created", &paths, authority.cert_pem())
    }

    pub(super) fn is_on_api(&self) -> bool {
        self.hub.is_given()
    }

    pub(super) async fn run_on_api(&self, now: Timestamp) -> Result<(), Failure> {
        let session = self.hub.open().await?;
        let objects = Objects::new(&session);
        let authority = Authority::create(&self.name, now, self.lifetime.0)?;
        issue::save_authority(&objects, &authority, self.force).await.map_err(replaceable)?;
        report_secret(self.place.output, "created", &objects, CA, authority.cert_pem())
    }
}
