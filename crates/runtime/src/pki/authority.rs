//! A certificate authority held in memory.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{CertificateParams, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};

use super::details::{Details, inspect_der, parse};
use super::{Error, Identity, Request, Result, certificates, params};

/// Signs certificates.
pub struct Authority {
    identity: Identity,
    details: Details,
    issuer: Issuer<'static, KeyPair>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("details", &self.details).finish_non_exhaustive()
    }
}

impl Authority {
    /// Makes a new self-signed authority.
    pub fn create(common_name: &str, now: Timestamp, lifetime: Duration) -> Result<Self> {
        let mut wanted = params::authority(common_name)?;
        params::set_dates(&mut wanted, now, lifetime, None)?;
        self_signed(&wanted, &new_key()?)
    }

    /// Loads an authority; the certificate must be one and the key must be its own.
    pub fn from_pem(cert_pem: &str, key_pem: &str) -> Result<Self> {
        let chain = certificates(cert_pem.as_bytes())?;
        let certificate = &chain[0];
        let key = read_key(key_pem)?;
        let details = inspect_der(certificate)?;
        if !details.authority {
            return Err(Error::NotAuthority(details.subject_text));
        }
        same_pair(certificate, &key)?;
        let issuer =
            Issuer::from_ca_cert_der(certificate, key).map_err(|error| Error::refused("use an authority", error))?;
        let identity = Identity { cert_pem: cert_pem.to_owned(), key_pem: key_pem.to_owned() };
        Ok(Self { identity, details, issuer })
    }

    /// The authority's certificate and key.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The authority's certificate, to be given to those who should trust it.
    pub fn cert_pem(&self) -> &str {
        &self.identity.cert_pem
    }

    /// What the authority's certificate says.
    pub fn details(&self) -> &Details {
        &self.details
    }

    /// Signs a certificate for a new key; it ends no later than the authority.
    pub fn issue(&self, request: &Request, now: Timestamp, lifetime: Duration) -> Result<Identity> {
        self.sign(request.params()?, &new_key()?, now, lifetime)
    }

    /// Signs the same subject, names and usages for the same key with new dates.
    pub fn renew(&self, current: &Identity, now: Timestamp, lifetime: Duration) -> Result<Identity> {
        let chain = certificates(current.cert_pem.as_bytes())?;
        let key = read_key(&current.key_pem)?;
        same_pair(&chain[0], &key)?;
        let details = inspect_der(&chain[0])?;
        if details.authority {
            return Err(Error::BadRequest("an authority renews itself, it is not renewed by another".to_owned()));
        }
        self.sign(params::repeat(&chain[0])?, &key, now, lifetime)
    }

    /// The same authority with the same key and new dates: what it signed before stays valid.
    pub fn renew_self(&self, now: Timestamp, lifetime: Duration) -> Result<Self> {
        let chain = certificates(self.identity.cert_pem.as_bytes())?;
        let mut wanted = params::repeat(&chain[0])?;
        if let Some(id) = self.details.subject_key_id.clone() {
            wanted.key_identifier_method = rcgen::KeyIdMethod::PreSpecified(id);
        }
        params::set_dates(&mut wanted, now, lifetime, None)?;
        self_signed(&wanted, &read_key(&self.identity.key_pem)?)
    }

    fn sign(
        &self,
        mut wanted: CertificateParams,
        key: &KeyPair,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<Identity> {
        let end = self.details.not_after;
        if end <= now {
            return Err(Error::Expired { subject: self.details.subject_text.clone(), at: end });
        }
        params::set_dates(&mut wanted, now, lifetime, Some(end))?;
        let certificate =
            wanted.signed_by(key, &self.issuer).map_err(|error| Error::refused("sign a certificate", error))?;
        Ok(Identity { cert_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}

fn self_signed(wanted: &CertificateParams, key: &KeyPair) -> Result<Authority> {
    let certificate = wanted.self_signed(key).map_err(|error| Error::refused("sign an authority", error))?;
    Authority::from_pem(&certificate.pem(), &key.serialize_pem())
}

fn new_key() -> Result<KeyPair> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| Error::refused("generate a key", error))
}

fn read_key(pem: &str) -> Result<KeyPair> {
    let der = super::private_key(pem.as_bytes())?;
    KeyPair::try_from(&der).map_err(|error| Error::Unreadable { what: "private key", reason: error.to_string() })
}

fn same_pair(certificate: &[u8], key: &KeyPair) -> Result<()> {
    let parsed = parse(certificate)?;
    if parsed.public_key().raw == key.subject_public_key_info() {
        Ok(())
    } else {
        Err(Error::KeyMismatch(super::details::subject_of(&parsed)))
    }
}
