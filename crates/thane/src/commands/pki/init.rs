//! `thane pki init`.

use clap::Args;
use jiff::Timestamp;
use thane_runtime::config::units::Span;
use thane_runtime::pki::{AUTHORITY_LIFETIME, Authority, store};

use super::{AUTHORITY, Place};
use crate::failure::Failure;

/// Create a certificate authority
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
    #[arg(long)]
    force: bool,
}

impl Init {
    pub(super) fn run(&self, now: Timestamp) -> Result<(), Failure> {
        let paths = self.place.free(AUTHORITY, self.force)?;
        let authority = Authority::create(&self.name, now, self.lifetime.0)?;
        store::save(&paths, authority.identity())?;
        self.place.report("created", &paths, authority.cert_pem())
    }
}
