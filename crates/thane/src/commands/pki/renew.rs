//! `thane pki renew`.

use clap::Args;
use jiff::Timestamp;
use thane_runtime::config::units::Span;
use thane_runtime::pki::{AUTHORITY_LIFETIME, LEAF_LIFETIME, store};

use super::{AUTHORITY, Place};
use crate::failure::Failure;

/// Renew a certificate: same subject, names, uses and key, new dates
#[derive(Debug, Args)]
pub(crate) struct Renew {
    /// Name of the files; ca renews the authority itself
    name: String,
    #[command(flatten)]
    place: Place,
    /// How long it is valid from now; the default is that of a new one
    #[arg(long, value_name = "DURATION")]
    lifetime: Option<Span>,
}

impl Renew {
    pub(super) fn run(&self, now: Timestamp) -> Result<(), Failure> {
        let authority = store::load_authority(&self.place.paths(AUTHORITY)?)?;
        let paths = self.place.paths(&self.name)?;
        let lifetime = |default| self.lifetime.map_or(default, |span| span.0);
        let renewed = if self.name == AUTHORITY {
            authority.renew_self(now, lifetime(AUTHORITY_LIFETIME))?.identity().clone()
        } else {
            authority.renew(&store::load(&paths)?, now, lifetime(LEAF_LIFETIME))?
        };
        store::save(&paths, &renewed)?;
        self.place.report("renewed", &paths, &renewed.cert_pem)
    }
}
