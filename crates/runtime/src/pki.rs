//! Certificates: create an authority, issue, inspect, renew and verify. ECDSA P-256 throughout.
//!
//! Everything takes the current time as an argument; only [`store`] and [`kept`] touch files.

mod authority;
mod details;
pub mod kept;
mod params;
pub mod store;
#[cfg(test)]
mod tests;
mod trust;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub use authority::Authority;
pub use details::{Details, inspect, inspect_der};
pub use params::{AGENT_UNIT, PROXY_UNIT, Request, Subject};
pub use trust::Trust;

/// How long an authority lasts unless told otherwise.
pub const AUTHORITY_LIFETIME: Duration = Duration::from_hours(10 * 365 * 24);
/// How long an issued certificate lasts unless told otherwise.
pub const LEAF_LIFETIME: Duration = Duration::from_hours(365 * 24);
/// A certificate is valid from a little before it was made, for peers whose clock is behind.
const SKEW: Duration = Duration::from_mins(5);

/// Result of PKI operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can be wrong with a certificate, a key or a request for one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The PEM text holds nothing usable.
    #[error("{what}: {reason}")]
    Unreadable {
        /// What was read: certificate or private key.
        what: &'static str,
        /// Why it could not be.
        reason: String,
    },
    /// Certificate and key belong to different pairs.
    #[error("private key does not belong to the certificate of {0}")]
    KeyMismatch(String),
    /// A certificate that may not sign was given as an authority.
    #[error("certificate of {0} is not a certificate authority")]
    NotAuthority(String),
    /// The request cannot be put into a certificate.
    #[error("{0}")]
    BadRequest(String),
    /// The certificate is past its end.
    #[error("certificate of {subject} expired at {at}")]
    Expired {
        /// Whose certificate.
        subject: String,
        /// When it ended.
        at: Timestamp,
    },
    /// The certificate has not begun.
    #[error("certificate of {subject} is not valid before {at}")]
    NotYetValid {
        /// Whose certificate.
        subject: String,
        /// When it begins.
        at: Timestamp,
    },
    /// Signed by nobody that is trusted.
    #[error("certificate of {0} was signed by an unknown authority")]
    UnknownIssuer(String),
    /// Signed for another use.
    #[error("certificate of {0} is not meant for this use")]
    WrongPurpose(String),
    /// Signed for another name.
    #[error("certificate is valid for {}, not for {wanted}", list(.presented))]
    WrongName {
        /// The name asked for.
        wanted: String,
        /// The names it has.
        presented: Vec<String>,
    },
    /// The library that makes or checks certificates refused.
    #[error("{action}: {reason}")]
    Refused {
        /// What was being done.
        action: &'static str,
        /// What it said.
        reason: String,
    },
}

impl Error {
    fn refused(action: &'static str, reason: impl fmt::Display) -> Self {
        Self::Refused { action, reason: reason.to_string() }
    }
}

/// A certificate (and the chain to show with it) and its private key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, then intermediates if any.
    pub cert_pem: String,
    /// The private key, PKCS#8.
    pub key_pem: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("cert_pem", &self.cert_pem).finish_non_exhaustive()
    }
}

/// Every certificate in a PEM text; at least one.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let unreadable = |reason: String| Error::Unreadable { what: "certificate", reason };
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unreadable(error.to_string()))?;
    if certificates.is_empty() {
        return Err(unreadable("no CERTIFICATE block found".to_owned()));
    }
    Ok(certificates)
}

/// The first private key in a PEM text.
pub fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| Error::Unreadable {
        what: "private key",
        reason: match error {
            rustls::pki_types::pem::Error::NoItemsFound => "no PRIVATE KEY block found".to_owned(),
            other => other.to_string(),
        },
    })
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "no name".to_owned() } else { names.join(", ") }
}
