//! A key.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::model::{Index, Indexed, KvEntry};

/// A key as `kv` and transactions show it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::consul) struct KvView<'a> {
    lock_index: u64,
    key: &'a str,
    flags: u64,
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    create_index: Index,
    modify_index: Index,
}

impl<'a> KvView<'a> {
    pub(in crate::consul) fn new(entry: &'a Indexed<KvEntry>) -> Self {
        let value = entry.value.as_ref();
        Self {
            lock_index: value.lock_index,
            key: &value.key,
            flags: value.flags,
            value: value_or_null(&value.value),
            session: value.session.as_deref(),
            create_index: entry.create_index,
            modify_index: entry.modify_index,
        }
    }
}

/// Base64; nothing at all is null.
pub(in crate::consul) fn value_or_null(value: &[u8]) -> Option<String> {
    (!value.is_empty()).then(|| STANDARD.encode(value))
}
