//! What a certificate says, in words.

use std::fmt::Write;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::time::ASN1Time;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use super::{Error, Result, Subject, certificates, params};

/// What one certificate says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Whom it names.
    pub subject: Subject,
    /// Every O of the subject: Kubernetes reads each as a group.
    pub organizations: Vec<String>,
    /// The whole subject as one line.
    #[serde(rename = "subjectName")]
    pub subject_text: String,
    /// The whole issuer as one line.
    #[serde(rename = "issuerName")]
    pub issuer_text: String,
    /// DNS names, IP addresses, mail addresses and URIs it answers for.
    pub names: Vec<String>,
    /// Its first moment.
    pub not_before: Timestamp,
    /// Its last moment.
    pub not_after: Timestamp,
    /// Whether it may sign others.
    pub authority: bool,
    /// Uses it is limited to, in RFC 5280's words.
    pub usages: Vec<String>,
    /// Its serial number in hexadecimal.
    pub serial: String,
    /// SHA-256 of the whole certificate in hexadecimal.
    pub fingerprint: String,
    #[serde(skip)]
    pub(super) subject_key_id: Option<Vec<u8>>,
}

impl Details {
    /// Time left at `now`; none when it is over.
    pub fn time_left(&self, now: Timestamp) -> Option<Duration> {
        Duration::try_from(self.not_after.duration_since(now)).ok().filter(|left| !left.is_zero())
    }

    /// When two thirds of its life are over, which is when to renew it.
    pub fn renewal_at(&self) -> Timestamp {
        let life = self.not_after.duration_since(self.not_before);
        self.not_after.checked_sub(life / 3).unwrap_or(self.not_before)
    }

    /// Whether it is time to renew it.
    pub fn renewal_due(&self, now: Timestamp) -> bool {
        now > self.renewal_at()
    }
}

/// What every certificate in a PEM text says, in its order.
pub fn inspect(pem: &str) -> Result<Vec<Details>> {
    certificates(pem.as_bytes())?.iter().map(|der| inspect_der(der)).collect()
}

/// What one DER certificate says.
pub fn inspect_der(der: &[u8]) -> Result<Details> {
    let certificate = parse(der)?;
    let subject = certificate.subject();
    let organizations: Vec<String> = subject.iter_organization().filter_map(text).collect();
    Ok(Details {
        subject: Subject {
            common_name: subject.iter_common_name().filter_map(text).last().unwrap_or_default(),
            organization: organizations.first().cloned(),
            organizational_unit: subject.iter_organizational_unit().find_map(text),
        },
        organizations,
        subject_text: subject_of(&certificate),
        issuer_text: line(certificate.issuer()),
        names: names(&certificate),
        not_before: timestamp(certificate.validity().not_before)?,
        not_after: timestamp(certificate.validity().not_after)?,
        authority: certificate.is_ca(),
        usages: usages(&certificate),
        serial: hex(certificate.raw_serial()),
        fingerprint: hex(&Sha256::digest(der)),
        subject_key_id: certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
            _ => None,
        }),
    })
}

pub(super) fn parse(der: &[u8]) -> Result<X509Certificate<'_>> {
    let unreadable = |reason: String| Error::Unreadable { what: "certificate", reason };
    let (rest, certificate) =
        x509_parser::parse_x509_certificate(der).map_err(|error| unreadable(error.to_string()))?;
    if rest.is_empty() { Ok(certificate) } else { Err(unreadable("bytes follow the certificate".to_owned())) }
}

pub(super) fn subject_of(certificate: &X509Certificate<'_>) -> String {
    line(certificate.subject())
}

fn line(name: &X509Name<'_>) -> String {
    let text = name.to_string();
    if text.is_empty() { "nobody".to_owned() } else { text }
}

fn text(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    attribute.as_str().ok().map(str::to_owned)
}

fn timestamp(time: ASN1Time) -> Result<Timestamp> {
    Timestamp::from_second(time.timestamp())
        .map_err(|error| Error::Unreadable { what: "certificate", reason: error.to_string() })
}

fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return Vec::new() };
    extension
        .value
        .general_names
        .iter()
        .map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::RFC822Name(name) | GeneralName::URI(name) => (*name).to_owned(),
            GeneralName::IPAddress(bytes) => {
                params::address(bytes).map_or_else(|| hex(bytes), |address| address.to_string())
            }
            other => other.to_string(),
        })
        .collect()
}

fn usages(certificate: &X509Certificate<'_>) -> Vec<String> {
    let mut usages = Vec::new();
    let mut add = |set: bool, name: &str| {
        if set {
            usages.push(name.to_owned());
        }
    };
    if let Ok(Some(usage)) = certificate.key_usage() {
        add(usage.value.digital_signature(), "digitalSignature");
        add(usage.value.key_encipherment(), "keyEncipherment");
        add(usage.value.key_agreement(), "keyAgreement");
        add(usage.value.key_cert_sign(), "keyCertSign");
        add(usage.value.crl_sign(), "cRLSign");
    }
    if let Ok(Some(usage)) = certificate.extended_key_usage() {
        add(usage.value.any, "anyExtendedKeyUsage");
        add(usage.value.server_auth, "serverAuth");
        add(usage.value.client_auth, "clientAuth");
    }
    usages
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
