//! The certificates a real kube-apiserver is started with.

use std::path::Path;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::endpoint::ClientIdentity;

/// Where the machine is for pods, and where their node is.
const NODE_SIDE: &str = "10.99.0.1";
const NODE: &str = "10.99.0.2";

/// Authority, server certificate, administrator, kubelet and service-account key of one cluster.
pub(super) struct ClusterPki {
    pub(super) ca: String,
    pub(super) admin: ClientIdentity,
}

impl ClusterPki {
    /// Makes everything and writes it below `folder` under the names the programs are given.
    pub(super) fn create(folder: &Path) -> Result<Self> {
        let ca_key = KeyPair::generate()?;
        let mut params = subject(CertificateParams::default(), "peers", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca = params.self_signed(&ca_key)?.pem();
        let issuer = Issuer::new(params, ca_key);

        let names = ["127.0.0.1", NODE_SIDE, "10.98.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
        let server = issue(
            &issuer,
            subject(CertificateParams::new(names)?, "kube-apiserver", None),
            ExtendedKeyUsagePurpose::ServerAuth,
        )?;
        let admin = subject(CertificateParams::default(), "admin", Some("system:masters"));
        let admin = issue(&issuer, admin, ExtendedKeyUsagePurpose::ClientAuth)?;

        let kubelet = subject(CertificateParams::new([NODE.to_owned()])?, "system:node:node", Some("system:nodes"));
        let kubelet = issue(&issuer, kubelet, ExtendedKeyUsagePurpose::ServerAuth)?;

        let accounts = KeyPair::generate()?;
        for (name, text) in [
            ("ca.crt", &ca),
            ("server.crt", &server.certificate),
            ("server.key", &server.key),
            ("admin.crt", &admin.certificate),
            ("admin.key", &admin.key),
            ("kubelet.crt", &kubelet.certificate),
            ("kubelet.key", &kubelet.key),
            ("sa.key", &accounts.serialize_pem()),
            ("sa.pub", &accounts.public_key_pem()),
        ] {
            std::fs::write(folder.join(name), text)?;
        }
        Ok(Self { ca, admin })
    }
}

fn subject(mut params: CertificateParams, name: &str, organisation: Option<&str>) -> CertificateParams {
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(organisation) = organisation {
        params.distinguished_name.push(DnType::OrganizationName, organisation);
    }
    params
}

fn issue(
    issuer: &Issuer<'_, KeyPair>,
    mut params: CertificateParams,
    usage: ExtendedKeyUsagePurpose,
) -> Result<ClientIdentity> {
    let key = KeyPair::generate()?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    Ok(ClientIdentity { certificate: params.signed_by(&key, issuer)?.pem(), key: key.serialize_pem() })
}
