//! How the agent proves who it is.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::Failure;

/// Bytes of the file with name and password.
const FILE_MAX: u64 = 16 * 1024;

/// How the agent proves who it is, written as argocd-agent writes it: `mtls:any` or `userpass:FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// By its certificate.
    Certificate,
    /// By the name and password in a file's first line, `name:password`; read anew for each attempt.
    Password(PathBuf),
}

/// A way to prove an identity that is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no way to authenticate; use mtls:any or userpass:FILE")]
pub struct UnknownCredentials(String);

impl FromStr for Credentials {
    type Err = UnknownCredentials;

    fn from_str(text: &str) -> Result<Self, UnknownCredentials> {
        match text.split_once(':') {
            Some(("mtls", _)) => Ok(Self::Certificate),
            None if text == "mtls" => Ok(Self::Certificate),
            Some(("userpass", file)) if !file.is_empty() => Ok(Self::Password(PathBuf::from(file))),
            _ => Err(UnknownCredentials(text.to_owned())),
        }
    }
}

impl Credentials {
    /// The method's name, and what it takes.
    pub(super) fn read(&self) -> Result<(&'static str, HashMap<String, String>), Failure> {
        match self {
            Self::Certificate => Ok(("mtls", HashMap::new())),
            Self::Password(file) => {
                let (name, password) = read_password(file)?;
                let pairs = [("clientid".to_owned(), name), ("clientsecret".to_owned(), password)];
                Ok(("userpass", HashMap::from(pairs)))
            }
        }
    }
}

fn read_password(file: &Path) -> Result<(String, String), Failure> {
    let failed = |reason: &dyn std::fmt::Display| Failure::Credentials(format!("{}: {reason}", file.display()));
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(|error| failed(&error))?;
    opened.take(FILE_MAX).read_to_string(&mut text).map_err(|error| failed(&error))?;
    let line = text.lines().next().unwrap_or_default().trim();
    let pair = line.split_once(':').filter(|(name, password)| !name.is_empty() && !password.is_empty());
    let (name, password) = pair.ok_or_else(|| failed(&"the first line is not name:password"))?;
    Ok((name.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_written_as_argocd_agent_writes_them() {
        assert_eq!("mtls:any".parse(), Ok(Credentials::Certificate));
        assert_eq!("userpass:/a:b".parse(), Ok(Credentials::Password("/a:b".into())));
        for bad in ["", "userpass:", "header:x", "userpass"] {
            assert!(bad.parse::<Credentials>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_first_line_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("credentials");
        let credentials = Credentials::Password(file.clone());
        assert!(matches!(credentials.read(), Err(Failure::Credentials(_))));
        std::fs::write(&file, "alice:se:cret\nbob:other\n").unwrap();
        let (method, pairs) = credentials.read().unwrap();
        assert_eq!((method, &*pairs["clientid"], &*pairs["clientsecret"]), ("userpass", "alice", "se:cret"));
        for bad in ["", "alice", "alice:", ":x"] {
            std::fs::write(&file, bad).unwrap();
            assert!(credentials.read().unwrap_err().to_string().contains("name:password"), "{bad}");
        }
    }
}
