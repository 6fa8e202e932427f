//! `thane pki issue`.

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use thane_runtime::config::units::Span;
use thane_runtime::pki::{LEAF_LIFETIME, Request, Subject, store};

use super::{AUTHORITY, Place};
use crate::failure::Failure;

/// Issue a certificate
#[derive(Debug, Args)]
pub(crate) struct Issue {
    /// What the certificate is for
    profile: Profile,
    /// Common name, and name of the files
    name: String,
    #[command(flatten)]
    place: Place,
    /// DNS name or IP address of a server; may be repeated
    #[arg(long = "san", value_name = "NAME")]
    names: Vec<String>,
    /// Organization: to Kubernetes the user's group
    #[arg(long, value_name = "O")]
    organization: Option<String>,
    /// Organizational unit
    #[arg(long, value_name = "OU")]
    unit: Option<String>,
    /// How long it is valid, such as 90d
    #[arg(long, value_name = "DURATION", default_value_t = Span(LEAF_LIFETIME))]
    lifetime: Span,
    /// Replace files that are already there
    #[arg(long)]
    force: bool,
}

/// What a certificate is for.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Profile {
    /// A server; needs at least one --san
    Server,
    /// A client, such as a user of the API
    Client,
    /// An agent
    Agent,
}

impl Issue {
    pub(super) fn run(&self, now: Timestamp) -> Result<(), Failure> {
        let paths = self.place.free(&self.name, self.force)?;
        let authority = store::load_authority(&self.place.paths(AUTHORITY)?)
            .map_err(|error| Failure::from(error).with_hint("create an authority with `thane pki init`"))?;
        let identity = authority.issue(&self.request(), now, self.lifetime.0)?;
        store::save(&paths, &identity)?;
        self.place.report("issued", &paths, &identity.cert_pem)
    }

    fn request(&self) -> Request {
        let subject = Subject {
            common_name: self.name.clone(),
            organization: self.organization.clone(),
            organizational_unit: self.unit.clone(),
        };
        let request = match self.profile {
            Profile::Server => Request { subject, ..Request::server("", Vec::<String>::new()) },
            Profile::Client => Request::client(subject),
            Profile::Agent => {
                let agent = Request::agent(&self.name);
                let organizational_unit = self.unit.clone().or(agent.subject.organizational_unit);
                Request::client(Subject { organizational_unit, ..subject })
            }
        };
        Request { names: self.names.clone(), ..request }
    }
}
