//! What a listener needs to speak TLS.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

use super::ask::AskForCertificate;
use super::reload::{Reloads, Swapped, digest, watch};
use super::{Error, Versions, provider, read};
use crate::pki::{self, Identity, Trust};
use crate::tasks::Tasks;

/// What is asked of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientAuth {
    /// Nothing.
    #[default]
    Off,
    /// A certificate, if the client has one; the application verifies it.
    Asked,
    /// A certificate, if the client has one; the handshake fails when it is not trusted.
    Optional,
    /// A trusted certificate.
    Required,
}

/// Choices a listener makes.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// Protocol versions.
    pub versions: Versions,
    /// What is asked of clients.
    pub client_auth: ClientAuth,
    /// Application protocols, best first, such as `h2` and `http/1.1`.
    pub protocols: Vec<&'static str>,
}

/// Where a listener's certificate is kept.
#[derive(Debug, Clone)]
pub struct ServerFiles {
    /// Certificate chain.
    pub cert: PathBuf,
    /// Private key.
    pub key: PathBuf,
    /// Authorities whose client certificates are believed.
    pub client_ca: Option<PathBuf>,
}

/// A listener's TLS configuration; clones follow the same reloads.
#[derive(Debug, Clone)]
pub struct ServerTls {
    current: Arc<ArcSwap<Loaded>>,
    options: Arc<ServerOptions>,
}

/// What was loaded together and is used together.
#[derive(Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    clients: Option<Arc<Trust>>,
}

impl ServerTls {
    /// A configuration that stays as it is until it is replaced.
    pub fn from_pem(identity: &Identity, client_ca: Option<&str>, options: &ServerOptions) -> Result<Self, Error> {
        let loaded = build_from(identity, client_ca, options)?;
        Ok(Self { current: Arc::new(ArcSwap::from_pointee(loaded)), options: Arc::new(options.clone()) })
    }

    /// Takes other certificates into use for new connections; on an error the old ones stay.
    pub fn replace(&self, identity: &Identity, client_ca: Option<&str>) -> Result<(), Error> {
        self.current.store(Arc::new(build_from(identity, client_ca, &self.options)?));
        Ok(())
    }

    /// A configuration that follows its files; a bad new file is logged and the old one stays in use.
    pub fn from_files(files: ServerFiles, options: ServerOptions, tasks: &Tasks) -> Result<(Self, Reloads), Error> {
        let paths: Vec<PathBuf> = [Some(files.cert), Some(files.key), files.client_ca].into_iter().flatten().collect();
        let options = Arc::new(options);
        let loading = Arc::clone(&options);
        let load = move |paths: &[PathBuf]| {
            let contents = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
            let loaded = build(&contents[0], &contents[1], contents.get(2).map(Vec::as_slice), &loading)?;
            Ok((loaded, digest(&contents)))
        };
        let (Swapped { current, .. }, reloads) = watch(paths, load, tasks)?;
        Ok((Self { current, options }, reloads))
    }

    /// The configuration in force now.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().config)
    }

    /// Whose client certificates are believed now; none without a bundle.
    pub fn clients(&self) -> Option<Arc<Trust>> {
        self.current.load().clients.clone()
    }

    /// An acceptor for one connection, with the configuration in force now.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config())
    }
}

fn build_from(identity: &Identity, client_ca: Option<&str>, options: &ServerOptions) -> Result<Loaded, Error> {
    let (cert, key) = (identity.cert_pem.as_bytes(), identity.key_pem.as_bytes());
    build(cert, key, client_ca.map(str::as_bytes), options)
}

fn build(cert: &[u8], key: &[u8], client_ca: Option<&[u8]>, options: &ServerOptions) -> Result<Loaded, Error> {
    let clients = client_ca.map(trusted).transpose()?;
    let builder =
        ServerConfig::builder_with_provider(provider()).with_protocol_versions(options.versions.supported())?;
    let builder = match options.client_auth {
        ClientAuth::Off => builder.with_no_client_auth(),
        ClientAuth::Asked => {
            let hints = clients.as_ref().map(|trust| trust.roots().subjects()).unwrap_or_default();
            builder.with_client_cert_verifier(Arc::new(AskForCertificate { provider: provider(), hints }))
        }
        checked => {
            let trust = clients.as_ref().ok_or_else(|| Error::Verifier("none was given".to_owned()))?;
            let verifier = WebPkiClientVerifier::builder_with_provider(trust.roots(), provider());
            let verifier = if checked == ClientAuth::Optional { verifier.allow_unauthenticated() } else { verifier };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| Error::Verifier(error.to_string()))?)
        }
    };
    let mut config = builder.with_single_cert(pki::certificates(cert)?, pki::private_key(key)?)?;
    config.alpn_protocols = options.protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(Loaded { config: Arc::new(config), clients })
}

fn trusted(bundle: &[u8]) -> Result<Arc<Trust>, Error> {
    Ok(Arc::new(Trust::from_der(pki::certificates(bundle)?)?))
}
