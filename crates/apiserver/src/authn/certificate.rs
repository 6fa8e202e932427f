//! A client certificate as a user: common name, organisations, uid.

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

use super::{CREDENTIAL_ID, TokenError, authenticated, extra};
use crate::authz::User;

/// The object identifier under which Kubernetes puts a user's uid.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

/// The user of a certificate whose chain has been verified; `None` when it names nobody. A connection can outlive a
/// certificate, so its dates are checked here, with every request.
pub fn certificate_user(der: &[u8], now: Timestamp) -> Result<Option<User>, TokenError> {
    let (_, certificate) =
        X509Certificate::from_der(der).map_err(|error| TokenError::Certificate(format!("cannot be read: {error}")))?;
    let validity = certificate.validity();
    if now.as_second() > validity.not_after.timestamp() {
        return Err(TokenError::Certificate("has expired".into()));
    }
    if now.as_second() < validity.not_before.timestamp() {
        return Err(TokenError::Certificate("is not yet valid".into()));
    }
    let subject = certificate.subject();
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
