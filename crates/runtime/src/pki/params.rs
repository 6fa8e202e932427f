//! What a certificate is asked to say, and how that is put to the library that writes it.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa,
    KeyUsagePurpose, SanType, SerialNumber,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{ExtendedKeyUsage, GeneralName, KeyUsage};

use super::details::{parse, subject_of};
use super::{Error, Result, SKEW};

/// Serial numbers are 16 random bytes, so that a renewed certificate differs from the one before.
const SERIAL_BYTES: usize = 16;
/// The organizational unit that marks an agent's certificate.
pub const AGENT_UNIT: &str = "agent";
/// The organizational unit that marks what Argo CD shows to the resource proxy.
pub const PROXY_UNIT: &str = "resource-proxy";

/// Whom a certificate names.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// CN: the user name to Kubernetes.
    pub common_name: String,
    /// O: the group to Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// OU: the role within the fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organizational_unit: Option<String>,
}

/// What a new certificate should say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Whom it names.
    pub subject: Subject,
    /// DNS names and IP addresses it answers for.
    pub names: Vec<String>,
    /// It may be shown by a server.
    pub server: bool,
    /// It may be shown by a client.
    pub client: bool,
}

impl Request {
    /// A server's certificate for DNS names and IP addresses.
    pub fn server(common_name: impl Into<String>, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let subject = Subject { common_name: common_name.into(), ..Subject::default() };
        Self { subject, names: names.into_iter().map(Into::into).collect(), server: true, client: false }
    }

    /// A client's certificate.
    pub fn client(subject: Subject) -> Self {
        Self { subject, names: Vec::new(), server: false, client: true }
    }

    /// An agent's certificate: a client whose unit says that it is an agent.
    pub fn agent(name: impl Into<String>) -> Self {
        Self::client(Subject {
            common_name: name.into(),
            organization: None,
            organizational_unit: Some(AGENT_UNIT.to_owned()),
        })
    }

    /// What Argo CD shows to the resource proxy in the name of an agent.
    pub fn proxy(agent: impl Into<String>) -> Self {
        Self::client(Subject {
            common_name: agent.into(),
            organization: None,
            organizational_unit: Some(PROXY_UNIT.to_owned()),
        })
    }

    pub(super) fn params(&self) -> Result<CertificateParams> {
        self.check()?;
        let mut params = blank()?;
        params.distinguished_name = distinguished_name(&self.subject);
        params.subject_alt_names = self.names.iter().map(|name| alternative(name)).collect::<Result<_>>()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if self.server {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        if self.client {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        Ok(params)
    }

    fn check(&self) -> Result<()> {
        let bad = |reason: &str| Err(Error::BadRequest(reason.to_owned()));
        if self.subject.common_name.trim().is_empty() {
            return bad("a certificate needs a common name");
        }
        if self.server && self.names.is_empty() {
            return bad("a server certificate needs at least one DNS name or IP address");
        }
        if !self.server && !self.client {
            return bad("a certificate must be for a server, a client or both");
        }
        Ok(())
    }
}

/// Parameters of a self-signed authority that signs leaves only.
pub(super) fn authority(common_name: &str) -> Result<CertificateParams> {
    if common_name.trim().is_empty() {
        return Err(Error::BadRequest("an authority needs a common name".to_owned()));
    }
    let mut params = blank()?;
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// Parameters that repeat an existing certificate: subject, names, usages; not its dates and serial number.
pub(super) fn repeat(der: &[u8]) -> Result<CertificateParams> {
    let certificate = parse(der)?;
    let mut params = blank()?;
    params.distinguished_name = same_name(&certificate)?;
    params.subject_alt_names = same_alternatives(&certificate)?;
    let unreadable = |error| Error::Unreadable { what: "certificate", reason: format!("{error}") };
    if let Some(usage) = certificate.key_usage().map_err(unreadable)? {
        params.key_usages = same_usages(*usage.value);
    }
    if let Some(usage) = certificate.extended_key_usage().map_err(unreadable)? {
        params.extended_key_usages = same_purposes(usage.value)?;
    }
    params.is_ca = match certificate.basic_constraints().map_err(unreadable)? {
        Some(constraints) if constraints.value.ca => IsCa::Ca(path_length(constraints.value.path_len_constraint)?),
        Some(_) => IsCa::ExplicitNoCa,
        None => IsCa::NoCa,
    };
    params.use_authority_key_identifier_extension = !certificate.is_ca();
    Ok(params)
}

/// Sets the dates: from a little before `now`, for `lifetime`, but not past `limit`.
pub(super) fn set_dates(
    params: &mut CertificateParams,
    now: Timestamp,
    lifetime: Duration,
    limit: Option<Timestamp>,
) -> Result<()> {
    if lifetime.is_zero() {
        return Err(Error::BadRequest("a certificate needs a lifetime above zero".to_owned()));
    }
    let begin = now.saturating_sub(SKEW).unwrap_or(Timestamp::MIN);
    let end = now.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
    let end = limit.map_or(end, |limit| end.min(limit));
    params.not_before = rcgen::date_time_ymd(1970, 1, 1) + since_epoch(begin)?;
    params.not_after = rcgen::date_time_ymd(1970, 1, 1) + since_epoch(end)?;
    Ok(())
}

pub(super) fn since_epoch(time: Timestamp) -> Result<Duration> {
    u64::try_from(time.as_second())
        .map(Duration::from_secs)
        .map_err(|_| Error::BadRequest(format!("the clock shows {time}, before certificates were invented")))
}

fn blank() -> Result<CertificateParams> {
    let mut serial = [0_u8; SERIAL_BYTES];
    aws_lc_rs::rand::fill(&mut serial).map_err(|error| Error::refused("draw a serial number", error))?;
    // Positive and never zero, as RFC 5280 asks.
    serial[0] = (serial[0] & 0x3f) | 0x40;
    let mut params = CertificateParams::default();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name = DistinguishedName::new();
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn distinguished_name(subject: &Subject) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    let parts = [
        (DnType::OrganizationName, subject.organization.as_deref()),
        (DnType::OrganizationalUnitName, subject.organizational_unit.as_deref()),
        (DnType::CommonName, Some(subject.common_name.as_str())),
    ];
    for (kind, value) in parts {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            name.push(kind, value);
        }
    }
    name
}

fn alternative(name: &str) -> Result<SanType> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._*".contains(c);
    if name.is_empty() || name.len() > 253 || !name.chars().all(plain) {
        return Err(Error::BadRequest(format!("{name:?} is neither a DNS name nor an IP address")));
    }
    dns(name)
}

fn dns(name: &str) -> Result<SanType> {
    name.try_into().map(SanType::DnsName).map_err(|error| Error::refused("use a DNS name", error))
}

fn same_name(certificate: &X509Certificate<'_>) -> Result<DistinguishedName> {
    let cannot = || {
        let subject = subject_of(certificate);
        Error::BadRequest(format!("the subject of {subject} has a form renewal cannot repeat; issue a new one"))
    };
    let mut name = DistinguishedName::new();
    for relative in certificate.subject().iter() {
        let mut attributes = relative.iter();
        let (Some(attribute), None) = (attributes.next(), attributes.next()) else { return Err(cannot()) };
        let oid: Vec<u64> = attribute.attr_type().iter().ok_or_else(cannot)?.collect();
        let kind = DnType::from_oid(&oid);
        let value = attribute.as_str().map_err(|_| cannot())?;
        if name.get(&kind).is_some() {
            return Err(cannot());
        }
        name.push(kind, DnValue::Utf8String(value.to_owned()));
    }
    Ok(name)
}

fn same_alternatives(certificate: &X509Certificate<'_>) -> Result<Vec<SanType>> {
    let extension = certificate
        .subject_alternative_name()
        .map_err(|error| Error::Unreadable { what: "certificate", reason: error.to_string() })?;
    let Some(extension) = extension else { return Ok(Vec::new()) };
    let refused = |error| Error::refused("repeat a subject alternative name", error);
    extension
        .value
        .general_names
        .iter()
        .map(|name| match name {
            GeneralName::DNSName(name) => dns(name),
            GeneralName::RFC822Name(name) => (*name).try_into().map(SanType::Rfc822Name).map_err(refused),
            GeneralName::URI(name) => (*name).try_into().map(SanType::URI).map_err(refused),
            GeneralName::IPAddress(bytes) => address(bytes)
                .map(SanType::IpAddress)
                .ok_or_else(|| Error::BadRequest("an IP address in the certificate has the wrong length".to_owned())),
            other => Err(Error::BadRequest(format!("renewal cannot repeat the alternative name {other}"))),
        })
        .collect()
}

pub(super) fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

fn same_usages(usage: KeyUsage) -> Vec<KeyUsagePurpose> {
    [
        (usage.digital_signature(), KeyUsagePurpose::DigitalSignature),
        (usage.non_repudiation(), KeyUsagePurpose::ContentCommitment),
        (usage.key_encipherment(), KeyUsagePurpose::KeyEncipherment),
        (usage.data_encipherment(), KeyUsagePurpose::DataEncipherment),
        (usage.key_agreement(), KeyUsagePurpose::KeyAgreement),
        (usage.key_cert_sign(), KeyUsagePurpose::KeyCertSign),
        (usage.crl_sign(), KeyUsagePurpose::CrlSign),
        (usage.encipher_only(), KeyUsagePurpose::EncipherOnly),
        (usage.decipher_only(), KeyUsagePurpose::DecipherOnly),
    ]
    .into_iter()
    .filter_map(|(set, purpose)| set.then_some(purpose))
    .collect()
}

fn same_purposes(usage: &ExtendedKeyUsage<'_>) -> Result<Vec<ExtendedKeyUsagePurpose>> {
    let mut purposes: Vec<_> = [
        (usage.any, ExtendedKeyUsagePurpose::Any),
        (usage.server_auth, ExtendedKeyUsagePurpose::ServerAuth),
        (usage.client_auth, ExtendedKeyUsagePurpose::ClientAuth),
        (usage.code_signing, ExtendedKeyUsagePurpose::CodeSigning),
        (usage.email_protection, ExtendedKeyUsagePurpose::EmailProtection),
        (usage.time_stamping, ExtendedKeyUsagePurpose::TimeStamping),
        (usage.ocsp_signing, ExtendedKeyUsagePurpose::OcspSigning),
    ]
    .into_iter()
    .filter_map(|(set, purpose)| set.then_some(purpose))
    .collect();
    for other in &usage.other {
        let oid = other.iter().ok_or_else(|| Error::BadRequest(format!("renewal cannot repeat the usage {other}")))?;
        purposes.push(ExtendedKeyUsagePurpose::Other(oid.collect()));
    }
    Ok(purposes)
}

fn path_length(limit: Option<u32>) -> Result<BasicConstraints> {
    let Some(limit) = limit else { return Ok(BasicConstraints::Unconstrained) };
    u8::try_from(limit)
        .map(BasicConstraints::Constrained)
        .map_err(|_| Error::BadRequest("the certificate's path length is too large to repeat".to_owned()))
}
