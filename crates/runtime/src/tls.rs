//! TLS configurations with an explicit crypto provider, reloaded when their files change.

mod ask;
mod client;
mod public;
mod reload;
mod server;
#[cfg(test)]
mod tests;
mod unverified;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::SupportedProtocolVersion;
use rustls::crypto::CryptoProvider;

pub use client::{ClientFiles, ClientOptions, ClientTls};
pub use public::public_client;
pub use reload::{Contents, Reloads};
pub use server::{ClientAuth, ServerFiles, ServerOptions, ServerTls};
pub use unverified::unverified_client;

/// Which protocol versions are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Versions {
    /// TLS 1.3 alone: between parts of Thane.
    #[default]
    Tls13,
    /// TLS 1.2 as well: for the Kubernetes API, whose clients we do not choose.
    Tls12AndTls13,
}

impl Versions {
    fn supported(self) -> &'static [&'static SupportedProtocolVersion] {
        static BOTH: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS13, &rustls::version::TLS12];
        match self {
            Self::Tls13 => &BOTH[..1],
            Self::Tls12AndTls13 => &BOTH,
        }
    }
}

/// Why a TLS configuration could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A certificate, key or bundle is not usable.
    #[error(transparent)]
    Pki(#[from] crate::pki::Error),
    /// The TLS library refused the combination.
    #[error("certificate and key cannot be used together: {0}")]
    Tls(#[from] rustls::Error),
    /// The verifier of peers' certificates could not be built.
    #[error("client authority bundle: {0}")]
    Verifier(String),
    /// The directory of the files cannot be watched.
    #[error("watch {}: {source}", path.display())]
    Watch {
        /// Which directory.
        path: PathBuf,
        /// Why.
        source: notify::Error,
    },
}

/// The one crypto provider of the process, named where it is used and never installed globally.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}
