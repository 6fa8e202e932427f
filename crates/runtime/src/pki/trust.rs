//! Whether a certificate leads to an authority one trusts.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, RootCertStore};

use super::details::{Details, inspect_der};
use super::{Error, Result, certificates, params};
use crate::tls::provider;

/// A set of authorities whose signatures are believed.
#[derive(Debug, Clone)]
pub struct Trust {
    roots: Arc<RootCertStore>,
    servers: Arc<WebPkiServerVerifier>,
    clients: Arc<dyn ClientCertVerifier>,
}

impl Trust {
    /// Trusts every certificate in a PEM bundle.
    pub fn from_pem(bundle: &str) -> Result<Self> {
        Self::from_der(certificates(bundle.as_bytes())?)
    }

    /// Trusts the given certificates.
    pub fn from_der(authorities: impl IntoIterator<Item = CertificateDer<'static>>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(|error| Error::refused("trust an authority", error))?;
        }
        let roots = Arc::new(roots);
        let refused = |error| Error::refused("trust a bundle", error);
        let servers = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), provider());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider());
        Ok(Self { servers: servers.build().map_err(refused)?, clients: clients.build().map_err(refused)?, roots })
    }

    /// The authorities, for a TLS configuration.
    pub fn roots(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.roots)
    }

    /// Checks a chain a client showed, its own certificate first, and says what that one contains.
    pub fn verify_client(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> Result<Details> {
        let (leaf, rest) = split(chain)?;
        let details = inspect_der(leaf)?;
        let checked = self.clients.verify_client_cert(leaf, rest, moment(now)?);
        checked.map(|_| ()).map_err(|error| explain(error, &details))?;
        Ok(details)
    }

    /// Checks a chain a server showed, its own certificate first, for the name it was called by.
    pub fn verify_server(&self, chain: &[CertificateDer<'_>], name: &str, now: Timestamp) -> Result<Details> {
        let (leaf, rest) = split(chain)?;
        let details = inspect_der(leaf)?;
        let server = ServerName::try_from(name)
            .map_err(|_| Error::BadRequest(format!("{name:?} is neither a DNS name nor an IP address")))?;
        let checked = self.servers.verify_server_cert(leaf, rest, &server, &[], moment(now)?);
        checked.map(|_| ()).map_err(|error| explain(error, &details))?;
        Ok(details)
    }

    /// Checks a certificate of whichever kind it says it is; a server's for its own first name.
    pub fn verify(&self, cert_pem: &str, now: Timestamp) -> Result<Details> {
        let chain = certificates(cert_pem.as_bytes())?;
        let details = inspect_der(&chain[0])?;
        let is_server = details.usages.iter().any(|usage| usage == "serverAuth");
        match details.names.first().filter(|_| is_server) {
            Some(name) => self.verify_server(&chain, &name.replace('*', "any"), now),
            None => self.verify_client(&chain, now),
        }
    }
}

fn split<'a, 'der>(
    chain: &'a [CertificateDer<'der>],
) -> Result<(&'a CertificateDer<'der>, &'a [CertificateDer<'der>])> {
    chain.split_first().ok_or_else(|| Error::BadRequest("no certificate was shown".to_owned()))
}

fn moment(now: Timestamp) -> Result<UnixTime> {
    params::since_epoch(now).map(UnixTime::since_unix_epoch)
}

fn explain(error: rustls::Error, details: &Details) -> Error {
    let subject = details.subject_text.clone();
    let rustls::Error::InvalidCertificate(reason) = error else {
        return Error::refused("verify a certificate", error);
    };
    match reason {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            Error::Expired { subject, at: details.not_after }
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Error::NotYetValid { subject, at: details.not_before }
        }
        // A signature that does not fit means the issuer only shares a name with one we trust.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => Error::UnknownIssuer(subject),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            Error::WrongPurpose(subject)
        }
        CertificateError::NotValidForName => {
            Error::WrongName { wanted: "that name".to_owned(), presented: details.names.clone() }
        }
        CertificateError::NotValidForNameContext { expected, .. } => {
            Error::WrongName { wanted: expected.to_str().into_owned(), presented: details.names.clone() }
        }
        other => Error::refused("verify a certificate", other),
    }
}
