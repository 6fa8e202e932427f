//! A client certificate as a user: common name, organisations, uid.

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

use super::{CREDENTIAL_ID, TokenError, authenticated, extra};
use crate::authz::User;

/// The object identifier under which Kubernetes puts a user's uid.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

/// A client certificate, and what came of verifying its chain. It is read once for its connection; because a connection can
/// outlive a certificate, its dates are checked with every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    not_before: i64,
    not_after: i64,
    user: Result<Option<User>, TokenError>,
}

impl ClientCertificate {
    /// Reads DER. What is wrong with it is told when it is used.
    pub fn read(der: &[u8]) -> Self {
        match X509Certificate::from_der(der) {
            Ok((_, certificate)) => {
                let validity = certificate.validity();
                Self {
                    not_before: validity.not_before.timestamp(),
                    not_after: validity.not_after.timestamp(),
                    user: user(der, certificate.subject()),
                }
            }
            Err(error) => Self::refused(format!("cannot be read: {error}")),
        }
    }

    /// One that no authority in force vouches for, with why: a request that shows it is not a request without one.
    pub fn refused(why: impl Into<String>) -> Self {
        Self { not_before: i64::MIN, not_after: i64::MAX, user: Err(TokenError::Certificate(why.into())) }
    }

    /// Its user at a time; `None` when it names nobody.
    pub fn user(&self, now: Timestamp) -> Result<Option<User>, TokenError> {
        if now.as_second() > self.not_after {
            return Err(TokenError::Certificate("has expired".into()));
        }
        if now.as_second() < self.not_before {
            return Err(TokenError::Certificate("is not yet valid".into()));
        }
        self.user.clone()
    }
}

fn user(der: &[u8], subject: &X509Name<'_>) -> Result<Option<User>, TokenError> {
    // Go takes the last common name where there are several.
    let name = subject.iter_common_name().filter_map(|part| part.as_str().ok()).last().unwrap_or_default();
    if name.is_empty() {
        return Ok(None);
    }
    let fingerprint = crate::go::hex(&Sha256::digest(der));
    Ok(Some(authenticated(User {
        name: name.to_owned(),
        uid: uid(subject)?,
        groups: subject.iter_organization().filter_map(|part| part.as_str().ok()).map(str::to_owned).collect(),
        extra: extra([(CREDENTIAL_ID, format!("X509SHA256={fingerprint}"))]),
    })))
}

fn uid(subject: &X509Name<'_>) -> Result<String, TokenError> {
    let mut uids = subject.iter_attributes().filter(|part| part.attr_type().to_id_string() == UID_OID);
    let Some(first) = uids.next() else { return Ok(String::new()) };
    let wrong = |why: &str| TokenError::Certificate(why.to_owned());
    if uids.next().is_some() {
        return Err(wrong("has more than one UID"));
    }
    match first.as_str() {
        Ok("") => Err(wrong("has an empty UID")),
        Ok(uid) => Ok(uid.to_owned()),
        Err(_) => Err(wrong("has a UID that is no text")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use thane_runtime::pki::{Authority, Request, Subject};

    use super::*;

    #[test]
    fn a_certificate_is_its_user_between_its_dates() {
        let made: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let day = Duration::from_hours(24);
        let subject =
            Subject { common_name: "ann".into(), organization: Some("builders".into()), organizational_unit: None };
        let authority = Authority::create("test", made, 30 * day).unwrap();
        let identity = authority.issue(&Request::client(subject), made, 10 * day).unwrap();
        let der = CertificateDer::from_pem_slice(identity.cert_pem.as_bytes()).unwrap();
        let certificate = ClientCertificate::read(&der);
        let user = certificate.user(made).unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.groups), ("ann", vec!["builders".into(), "system:authenticated".into()]));
        assert!(user.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="));
        let refused = |time: Timestamp| certificate.user(time).unwrap_err().to_string();
        assert!(refused(made + 11 * day).contains("has expired"));
        assert!(refused(made - 11 * day).contains("is not yet valid"));
    }

    #[test]
    fn bytes_that_are_no_certificate_are_refused() {
        assert!(ClientCertificate::read(b"nonsense").user(Timestamp::UNIX_EPOCH).is_err());
    }
}
