//! Certificates and keys in a directory: `NAME.crt` and `NAME.key`, for the owner's eyes only.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{Authority, Identity};
use crate::files;

/// A certificate or key is never larger; anything beyond is the wrong file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What can go wrong with a file of the directory.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{}: {source}", path.display())]
    Pki {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: super::Error,
    },
}

/// Where an identity's two files are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The certificate.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Paths {
    /// `NAME.crt` and `NAME.key` in a directory.
    pub fn new(directory: &Path, name: &str) -> Self {
        Self { cert: directory.join(format!("{name}.crt")), key: directory.join(format!("{name}.key")) }
    }

    /// Whether either file is there.
    pub fn exist(&self) -> bool {
        self.cert.exists() || self.key.exists()
    }
}

/// Makes a directory that only its owner can enter, with its parents.
pub fn create_directory(path: &Path) -> Result<(), Error> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| Error::Io { path: path.to_owned(), source })
}

/// Writes both files; the key first, so that a certificate is never without one.
pub fn save(paths: &Paths, identity: &Identity) -> Result<(), Error> {
    for (path, text) in [(&paths.key, &identity.key_pem), (&paths.cert, &identity.cert_pem)] {
        files::write_private(path, text.as_bytes()).map_err(|source| Error::Io { path: path.clone(), source })?;
    }
    Ok(())
}

/// Reads both files.
pub fn load(paths: &Paths) -> Result<Identity, Error> {
    Ok(Identity { cert_pem: read(&paths.cert)?, key_pem: read(&paths.key)? })
}

/// Reads an authority from its two files.
pub fn load_authority(paths: &Paths) -> Result<Authority, Error> {
    let identity = load(paths)?;
    Authority::from_pem(&identity.cert_pem, &identity.key_pem)
        .map_err(|source| Error::Pki { path: paths.cert.clone(), source })
}

/// Reads a PEM file.
pub fn read(path: &Path) -> Result<String, Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let size = fs::metadata(path).map_err(io)?.len();
    if size > FILE_BYTES_MAX {
        return Err(io(io::Error::new(io::ErrorKind::FileTooLarge, "too large for a certificate or key")));
    }
    fs::read_to_string(path).map_err(io)
}
