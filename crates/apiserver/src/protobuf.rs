//! Requests in `application/vnd.kubernetes.protobuf`, turned into the JSON a Go client would have sent instead.

mod message;
mod special;
mod table;
mod wire;

use serde_json::Value;

use crate::failure::{Failure, Result};
use table::Table;
use wire::{Broken, Payload, fields};

/// What every such body starts with.
const PREFIX: &[u8] = b"k8s\0";

/// Why a body cannot be decoded, as Go words it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Undecodable {
    /// The bytes are no protobuf message, or not of the expected types.
    #[error(transparent)]
    Wire(#[from] Broken),
    /// More or deeper messages than any real object has.
    #[error("message is too large or nested too deep")]
    TooLarge,
    /// A field that holds JSON holds something else.
    #[error("invalid JSON in field {0}: {1}")]
    Json(String, String),
}

/// Decodes a body. `api_version` and `kind` are what the request expects: they name the type where the body does not,
/// and stand in errors. The result may be of another kind, as a JSON body may be.
pub(crate) fn decode(body: &[u8], api_version: &str, kind: &str) -> Result<Value> {
    let unrecognized = |why: &str| {
        let shown = crate::body::shown(body);
        Failure::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({shown})"))
    };
    if body.is_empty() {
        return Err(unrecognized("empty data"));
    }
    let Some(envelope) = body.strip_prefix(PREFIX) else {
        return Err(unrecognized(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ));
    };
    if envelope.is_empty() {
        return Err(unrecognized("empty body"));
    }
    let unknown = Unknown::read(envelope).map_err(|error| unrecognized(&error.to_string()))?;
    let version_of = if unknown.api_version.is_empty() { api_version } else { &unknown.api_version };
    let kind_of = if unknown.kind.is_empty() { kind } else { &unknown.kind };
    let refused = |why: String| {
        Failure::bad_request(format!("{kind_of} in version {version_of:?} cannot be handled as a {kind}: {why}"))
    };
    let table = Table::get();
    let Some(message) = table.message_of(version_of, kind_of) else {
        return Err(refused(format!(
            "no kind {kind_of:?} is registered for version {version_of:?} in scheme \"pkg/runtime/scheme.go:110\""
        )));
    };
    let mut object = message::decode(table, message, unknown.raw).map_err(|error| refused(error.to_string()))?;
    object.insert("apiVersion".into(), version_of.into());
    object.insert("kind".into(), kind_of.into());
    Ok(Value::Object(object))
}

/// `runtime.Unknown`, the envelope.
#[derive(Default)]
struct Unknown<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

impl<'a> Unknown<'a> {
    fn read(bytes: &'a [u8]) -> std::result::Result<Self, Broken> {
        let mut out = Self::default();
        for field in fields(bytes) {
            match field? {
                (1, Payload::Bytes(bytes)) => {
                    for field in fields(bytes) {
                        match field? {
                            (1, Payload::Bytes(text)) => out.api_version = String::from_utf8_lossy(text).into_owned(),
                            (2, Payload::Bytes(text)) => out.kind = String::from_utf8_lossy(text).into_owned(),
                            _ => {}
                        }
                    }
                }
                (2, Payload::Bytes(raw)) => out.raw = raw,
                _ => {}
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
