//! Secrets at rest: sealed with AES-256-GCM under a key from a key file, bound to the storage key they lie under.
//!
//! A sealed value is `thane:enc:v1:KEYID:`, a nonce of 12 bytes, and the ciphertext with its tag. Nonces are random, so
//! one key should seal fewer than 2³² values; rotate by putting a new key first.

use std::collections::BTreeSet;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;

const PREFIX: &[u8] = b"thane:enc:v1:";
const KEY_ID_MAX: usize = 63;

/// The keys of a key file. Without any, values are stored as they are.
#[derive(Default)]
pub struct Encryption {
    /// The first seals; all open.
    keys: Vec<(String, RandomizedNonceKey)>,
}

/// Why a value cannot be sealed or opened, or a key file not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncryptionError {
    /// The key file is not what it should be.
    #[error("encryption key file is malformed: {0}")]
    KeyFile(String),
    /// A key of the file is unusable.
    #[error("encryption key {id:?}: {why}")]
    Key {
        /// Which.
        id: String,
        /// Why.
        why: &'static str,
    },
    /// The value was sealed with a key that is not in the file.
    #[error("value is encrypted with the key {0:?}, which is not in the encryption key file")]
    UnknownKey(String),
    /// The value was changed, or lies under another storage key than it was sealed for.
    #[error("value encrypted with the key {0:?} was tampered with or moved")]
    Tampered(String),
    /// The value is cut short.
    #[error("encrypted value is incomplete")]
    Incomplete,
    /// The cipher failed.
    #[error("cannot encrypt")]
    Seal,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    keys: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    id: String,
    secret: String,
}

impl Encryption {
    /// Reads a key file (YAML or JSON): `keys`, a list of `id` and `secret` (32 bytes in base64), the newest first.
    pub fn parse(text: &str) -> Result<Self, EncryptionError> {
        let file: KeyFile = serde_saphyr::from_str(text).map_err(|_| {
            // The parser's own message would show a part of the file, and with it a secret.
            EncryptionError::KeyFile("expected `keys`, a list of objects with `id` and `secret`".into())
        })?;
        if file.keys.is_empty() {
            return Err(EncryptionError::KeyFile("it has no keys".into()));
        }
        let mut seen = BTreeSet::new();
        let mut keys = Vec::with_capacity(file.keys.len());
        for Key { id, secret } in file.keys {
            let wrong = |why| EncryptionError::Key { id: id.clone(), why };
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            if id.is_empty() || id.len() > KEY_ID_MAX || !id.bytes().all(plain) {
                return Err(wrong("the id must be 1 to 63 letters, digits, '-', '_' or '.'"));
            }
            if !seen.insert(id.clone()) {
                return Err(wrong("the id is used twice"));
            }
            let bytes = STANDARD.decode(secret.trim()).map_err(|_| wrong("the secret is not base64"))?;
            let key =
                RandomizedNonceKey::new(&AES_256_GCM, &bytes).map_err(|_| wrong("the secret must be 32 bytes"))?;
            keys.push((id, key));
        }
        Ok(Self { keys })
    }

    /// Whether values are sealed at all.
    pub fn is_on(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Seals a value for a storage key; without keys the value passes unchanged.
    pub fn seal(&self, key: &[u8], value: Bytes) -> Result<Bytes, EncryptionError> {
        let Some((id, cipher)) = self.keys.first() else { return Ok(value) };
        let mut sealed = value.to_vec();
        let nonce = cipher.seal_in_place_append_tag(Aad::from(key), &mut sealed).map_err(|_| EncryptionError::Seal)?;
        Ok([PREFIX, id.as_bytes(), b":", nonce.as_ref(), &sealed].concat().into())
    }

    /// Opens a value that lies under a storage key; one that was never sealed passes unchanged.
    pub fn open(&self, key: &[u8], value: Bytes) -> Result<Bytes, EncryptionError> {
        let Some(rest) = value.strip_prefix(PREFIX) else { return Ok(value) };
        let (id, rest) = split_id(rest).ok_or(EncryptionError::Incomplete)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN).ok_or(EncryptionError::Incomplete)?;
        let Some((_, cipher)) = self.keys.iter().find(|(own, _)| own == id) else {
            return Err(EncryptionError::UnknownKey(id.to_owned()));
        };
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| EncryptionError::Incomplete)?;
        let mut opened = sealed.to_vec();
        let length = cipher
            .open_in_place(nonce, Aad::from(key), &mut opened)
            .map_err(|_| EncryptionError::Tampered(id.to_owned()))?
            .len();
        opened.truncate(length);
        Ok(opened.into())
    }

    /// Whether a stored value is as [`Encryption::seal`] would leave it today; if not, writing it again makes it so.
    pub fn is_current(&self, value: &[u8]) -> bool {
        let id = value.strip_prefix(PREFIX).and_then(split_id).map(|(id, _)| id);
        id == self.keys.first().map(|(id, _)| id.as_str())
    }
}

impl std::fmt::Debug for Encryption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|(id, _)| id)).finish()
    }
}

fn split_id(rest: &[u8]) -> Option<(&str, &[u8])> {
    let end = rest.iter().take(KEY_ID_MAX + 1).position(|byte| *byte == b':')?;
    Some((std::str::from_utf8(&rest[..end]).ok()?, &rest[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secret(byte: u8) -> String {
        STANDARD.encode([byte; 32])
    }

    fn with(keys: &[(&str, u8)]) -> Encryption {
        let keys = keys.iter().map(|(id, byte)| format!("- id: {id}\n  secret: {}\n", secret(*byte)));
        Encryption::parse(&format!("keys:\n{}", keys.collect::<String>())).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_and_cannot_be_read() {
        let keys = with(&[("a", 1)]);
        let sealed = keys.seal(b"/secrets/x", Bytes::from_static(b"password")).unwrap();
        assert!(sealed.starts_with(b"thane:enc:v1:a:"));
        assert!(!sealed.windows(8).any(|part| part == b"password"));
        assert_eq!(keys.open(b"/secrets/x", sealed.clone()).unwrap(), "password");
        assert_eq!(keys.open(b"/secrets/y", sealed), Err(EncryptionError::Tampered("a".into())));
    }

    #[test]
    fn keys_rotate() {
        let (old, new) = (with(&[("a", 1)]), with(&[("b", 2), ("a", 1)]));
        let sealed = old.seal(b"k", Bytes::from_static(b"v")).unwrap();
        assert_eq!(new.open(b"k", sealed.clone()).unwrap(), "v");
        assert!(old.is_current(&sealed) && !new.is_current(&sealed));
        let again = new.seal(b"k", Bytes::from_static(b"v")).unwrap();
        assert!(new.is_current(&again));
        assert_eq!(old.open(b"k", again), Err(EncryptionError::UnknownKey("b".into())));
        assert_eq!(with(&[("a", 9)]).open(b"k", sealed), Err(EncryptionError::Tampered("a".into())));
    }

    #[test]
    fn plain_values_pass() {
        let plain = Bytes::from_static(b"{\"kind\":\"Secret\"}");
        assert_eq!(Encryption::default().seal(b"k", plain.clone()).unwrap(), plain);
        assert_eq!(with(&[("a", 1)]).open(b"k", plain.clone()).unwrap(), plain);
        assert!(Encryption::default().is_current(&plain) && !with(&[("a", 1)]).is_current(&plain));
    }

    #[test]
    fn key_files_that_are_refused() {
        let check = |text: &str, expected: &str| {
            let message = Encryption::parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
            assert!(!message.contains("hunter2"), "{message}");
        };
        check("keys: []", "no keys");
        check("keys: hunter2", "malformed");
        check("keys: [{id: a, secret: hunter2, more: 1}]", "malformed");
        check("keys: [{id: a, secret: hunter2}]", "not base64");
        check("keys: [{id: a, secret: aHVudGVyMg==}]", "32 bytes");
        check("keys: [{id: 'a:b', secret: ''}]", "letters, digits");
        check(
            &format!("{{\"keys\": [{0}, {0}]}}", format_args!("{{\"id\": \"a\", \"secret\": \"{}\"}}", secret(1))),
            "twice",
        );
    }

    proptest! {
        #[test]
        fn any_stored_bytes_open_or_are_refused(tail in proptest::collection::vec(any::<u8>(), 0..100), sealed: bool) {
            let keys = with(&[("a", 1)]);
            let value = if sealed { [PREFIX, &tail].concat() } else { tail.clone() };
            let outcome = keys.open(b"k", value.into());
            if sealed {
                prop_assert!(outcome.is_err());
            } else {
                prop_assert_eq!(outcome.unwrap(), tail);
            }
        }

        #[test]
        fn a_changed_byte_is_noticed(value in proptest::collection::vec(any::<u8>(), 0..50), at: prop::sample::Index, flip in 1_u8..) {
            let keys = with(&[("a", 1)]);
            let mut sealed = keys.seal(b"k", value.clone().into()).unwrap().to_vec();
            let body = PREFIX.len() + 2;
            let at = body + at.index(sealed.len() - body);
            sealed[at] ^= flip;
            prop_assert_eq!(keys.open(b"k", sealed.into()), Err(EncryptionError::Tampered("a".into())));
        }
    }
}
