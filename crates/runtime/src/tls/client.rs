//! What a caller needs to speak TLS.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::reload::{Reloads, Swapped, digest, watch};
use super::{Error, Versions, provider, read};
use crate::pki::{self, Identity, Trust};
use crate::tasks::Tasks;

/// Choices a caller makes.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// Protocol versions.
    pub versions: Versions,
    /// Application protocols, best first.
    pub protocols: Vec<&'static str>,
}

/// Where a caller's certificates are kept.
#[derive(Debug, Clone)]
pub struct ClientFiles {
    /// Authorities whose servers are believed.
    pub ca: PathBuf,
    /// The caller's own certificate and key, if it has any.
    pub identity: Option<pki::store::Paths>,
}

/// A caller's TLS configuration; clones follow the same reloads.
#[derive(Debug, Clone)]
pub struct ClientTls {
    current: Arc<ArcSwap<Loaded>>,
    options: Arc<ClientOptions>,
}

/// A configuration, and the authorities it was made with.
#[derive(Debug)]
struct Loaded {
    config: Arc<ClientConfig>,
    authorities: Arc<RootCertStore>,
}

impl ClientTls {
    /// A configuration that stays as it is until it is replaced.
    pub fn from_pem(ca: &str, identity: Option<&Identity>, options: &ClientOptions) -> Result<Self, Error> {
        let config = build_from(ca, identity, options)?;
        Ok(Self { current: Arc::new(ArcSwap::from_pointee(config)), options: Arc::new(options.clone()) })
    }

    /// Takes other certificates into use for new connections; on an error the old ones stay.
    pub fn replace(&self, ca: &str, identity: Option<&Identity>) -> Result<(), Error> {
        self.current.store(Arc::new(build_from(ca, identity, &self.options)?));
        Ok(())
    }

    /// A configuration that follows its files; a bad new file is logged and the old one stays in use.
    pub fn from_files(files: ClientFiles, options: ClientOptions, tasks: &Tasks) -> Result<(Self, Reloads), Error> {
        let mut paths = vec![files.ca];
        paths.extend(files.identity.into_iter().flat_map(|paths| [paths.cert, paths.key]));
        let options = Arc::new(options);
        let loading = Arc::clone(&options);
        let load = move |paths: &[PathBuf]| {
            let contents = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
            let identity = (contents.len() == 3).then(|| (contents[1].as_slice(), contents[2].as_slice()));
            Ok((build(&contents[0], identity, &loading)?, digest(&contents)))
        };
        let (Swapped { current, .. }, reloads) = watch(paths, load, tasks)?;
        Ok((Self { current, options }, reloads))
    }

    /// The configuration in force now.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.current.load().config)
    }

    /// The authorities in force now.
    pub fn authorities(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.current.load().authorities)
    }

    /// A connector for one connection, with the configuration in force now.
    pub fn connector(&self) -> TlsConnector {
        TlsConnector::from(self.config())
    }
}

fn build_from(ca: &str, identity: Option<&Identity>, options: &ClientOptions) -> Result<Loaded, Error> {
    let identity = identity.map(|identity| (identity.cert_pem.as_bytes(), identity.key_pem.as_bytes()));
    build(ca.as_bytes(), identity, options)
}

fn build(ca: &[u8], identity: Option<(&[u8], &[u8])>, options: &ClientOptions) -> Result<Loaded, Error> {
    let trust = Trust::from_der(pki::certificates(ca)?)?;
    let authorities = trust.roots();
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(options.versions.supported())?
        .with_root_certificates(Arc::clone(&authorities));
    let mut config = match identity {
        Some((cert, key)) => builder.with_client_auth_cert(pki::certificates(cert)?, pki::private_key(key)?)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = options.protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(Loaded { config: Arc::new(config), authorities })
}
