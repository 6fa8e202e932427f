//! Static bearer tokens, in the format of Kubernetes' token file: `token,user,uid,"group1,group2"`.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use sha2::{Digest, Sha256};

use super::authenticated;
use super::csv::{CsvError, records};
use crate::authz::User;

/// The tokens of a file. Only digests are kept, and all are compared, so that timing tells nothing.
#[derive(Default)]
pub struct TokenFile {
    entries: Vec<([u8; 32], User)>,
}

/// A token file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// Not comma-separated values.
    #[error("token file is malformed: {0}")]
    Malformed(#[from] CsvError),
    /// A record is too short.
    #[error("token file must have at least 3 columns (token, user name, user uid), found {found} on line {line}")]
    Columns {
        /// Where.
        line: usize,
        /// How many there are.
        found: usize,
    },
}

impl TokenFile {
    /// Reads the text of a file. Records with an empty token are skipped; of two with one token the later counts.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut entries: Vec<([u8; 32], User)> = Vec::new();
        for (line, record) in records(text)? {
            let [token, name, uid, rest @ ..] = record.as_slice() else {
                return Err(TokenFileError::Columns { line, found: record.len() });
            };
            if token.is_empty() {
                continue;
            }
            let groups = rest.first().map_or_else(Vec::new, |list| list.split(',').map(str::to_owned).collect());
            let user = authenticated(User { name: name.clone(), uid: uid.clone(), groups, ..User::default() });
            let digest = digest(token);
            entries.retain(|(known, _)| *known != digest);
            entries.push((digest, user));
        }
        Ok(Self { entries })
    }

    /// Whose token this is.
    pub fn user(&self, token: &str) -> Option<User> {
        let digest = digest(token);
        let mut found = None;
        for (known, user) in &self.entries {
            if verify_slices_are_equal(known, &digest).is_ok() {
                found = Some(user);
            }
        }
        found.cloned()
    }
}

impl std::fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenFile").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
