//! Scripted request sequences, run against two servers, their answers normalised and compared.
//!
//! The scripts are in `sequences/*.yaml`; [`Sequence`] says what they may contain.

mod compare;
mod consul;
mod normalise;
mod report;
mod run;
mod sequence;
mod substitute;

pub use compare::{Difference, compare};
pub use consul::run_consul;
pub use normalise::Normaliser;
pub(crate) use normalise::sorted;
pub use report::{Report, Verdict};
pub use run::{Recording, Runner, run_all};
pub use sequence::{Accepted, Identity, Keep, Sequence, Step, Until, Watch, load_all, parse};

use crate::endpoint::Endpoint;

/// A server that sequences run against.
pub trait Target: Send + Sync {
    /// What reports call it.
    fn name(&self) -> &str;

    /// Where it is; the client must be a cluster administrator.
    fn endpoint(&self) -> &Endpoint;
}

/// A server that is known by name and address alone.
#[derive(Debug, Clone)]
pub struct NamedEndpoint {
    /// What reports call it.
    pub name: String,
    /// Where it is.
    pub endpoint: Endpoint,
}

impl Target for NamedEndpoint {
    fn name(&self) -> &str {
        &self.name
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Target for crate::peer::KubeApiServer {
    fn name(&self) -> &'static str {
        "kube-apiserver"
    }

    fn endpoint(&self) -> &Endpoint {
        crate::peer::KubeApiServer::endpoint(self)
    }
}

impl Target for crate::peer::Thane {
    fn name(&self) -> &'static str {
        "thane"
    }

    fn endpoint(&self) -> &Endpoint {
        crate::peer::Thane::endpoint(self)
    }
}

impl Target for crate::peer::EmbeddedApi {
    fn name(&self) -> &'static str {
        "thane in this process"
    }

    fn endpoint(&self) -> &Endpoint {
        crate::peer::EmbeddedApi::endpoint(self)
    }
}
