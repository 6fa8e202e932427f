//! Artifacts: files and directories that steps leave and take, in stores that outlive them.

pub mod archive;
mod directory;
mod git;
mod http;
pub mod s3;
mod web;
mod zip;

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::location;

/// Why an artifact was not brought or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not there, which may be fine.
    #[error("{0}")]
    Absent(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    fn failed(what: impl std::fmt::Display, why: impl std::fmt::Display) -> Self {
        Self::Failed(format!("{what}: {why}"))
    }

    fn file(path: &Path, error: &io::Error) -> Self {
        let text = format!("{}: {error}", path.display());
        if error.kind() == io::ErrorKind::NotFound { Self::Absent(text) } else { Self::Failed(text) }
    }
}

type Result<T, E = Error> = std::result::Result<T, E>;

/// Where stores find what they need on this machine.
#[derive(Debug, Clone)]
pub struct Stores {
    /// Secrets, each a directory with a file per key.
    pub secrets: PathBuf,
    /// The directory of artifacts.
    pub directory: PathBuf,
}

impl Stores {
    /// Brings an artifact, whose location is whole, to a path.
    pub async fn load(&self, artifact: &Value, to: &Path) -> Result<()> {
        match location::kind(artifact) {
            Some("s3") => s3::Store::open(&artifact["s3"], self)?.load(to).await,
            Some("http") => http::load(&artifact["http"], self, to).await,
            Some("git") => git::load(&artifact["git"], self, to).await,
            Some("raw") => {
                let data = artifact["raw"]["data"].as_str().unwrap_or_default();
                tokio::fs::write(to, data).await.map_err(|error| Error::file(to, &error))
            }
            Some("plugin") if location::is_directory(artifact) => {
                let (root, key) = (self.directory.clone(), key(artifact)?);
                let to = to.to_owned();
                blocking(move || directory::load(&root, &key, &to)).await
            }
            other => Err(unsupported(other)),
        }
    }

    /// Keeps what is at a path as an artifact, whose location is whole.
    pub async fn save(&self, from: &Path, artifact: &Value) -> Result<()> {
        match location::kind(artifact) {
            Some("s3") => s3::Store::open(&artifact["s3"], self)?.save(from).await,
            Some("http") => http::save(&artifact["http"], self, from).await,
            Some("plugin") if location::is_directory(artifact) => {
                let (root, key) = (self.directory.clone(), key(artifact)?);
                let from = from.to_owned();
                blocking(move || directory::save(&root, &key, &from)).await
            }
            Some(kind @ ("git" | "raw")) => Err(Error::Failed(format!("{kind} artifacts cannot be outputs"))),
            other => Err(unsupported(other)),
        }
    }

    /// One key of a secret that a location refers to; nothing if it refers to none.
    fn secret(&self, selector: &Value) -> Result<Option<String>> {
        let (Some(name), Some(key)) = (selector["name"].as_str(), selector["key"].as_str()) else { return Ok(None) };
        let is_name = |text: &str| !text.is_empty() && !text.contains('/') && text != "..";
        if !is_name(name) || !is_name(key) {
            return Err(Error::Failed(format!("{name:?} and {key:?} name no secret")));
        }
        let path = self.secrets.join(name).join(key);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) => Err(Error::Failed(format!("secret {name} has no key {key}: {error}"))),
        }
    }
}

fn key(artifact: &Value) -> Result<String> {
    location::key(artifact).map(str::to_owned).ok_or_else(|| Error::Failed("the artifact has no key".to_owned()))
}

fn unsupported(kind: Option<&str>) -> Error {
    Error::Failed(match kind {
        Some(kind) => format!("artifacts of kind {kind} are not supported; s3, http, git, raw and a directory are"),
        None => "the artifact has no location".to_owned(),
    })
}

/// Runs what waits for disks.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::Failed(format!("interrupted: {error}"))),
    }
}
