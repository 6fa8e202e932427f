//! Reading and decoding request bodies.

mod duplicate;
mod yaml;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::go;
use crate::media::{self, Content};
use crate::objects::depth;
pub(crate) use yaml::warnings;

/// How much of a body that is too large is read and dropped before the connection is cut.
const DRAINED_MAX: usize = 64 * 1024 * 1024;
/// A body of which nothing comes for so long is given up.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Reads a body of at most `limit` bytes.
pub(crate) async fn read<B>(body: B, limit: usize) -> Result<Bytes, Failure>
where
    B: HttpBody<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let too_large =
        || Failure::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"));
    let mut body = std::pin::pin!(body);
    let mut whole = BytesMut::new();
    let mut read = 0;
    let stalled = |_| {
        let why = format!("nothing of the request body came for {} seconds", PAUSE_MAX.as_secs());
        Failure::new(408, "Timeout", why)
    };
    while let Some(frame) = tokio::time::timeout(PAUSE_MAX, body.as_mut().frame()).await.map_err(stalled)? {
        let frame = frame.map_err(|error| Failure::bad_request(format!("unable to read the request body: {error}")))?;
        if let Ok(data) = frame.into_data() {
            read += data.len();
            if read > limit {
                // a client that is still sending would not see the answer: what is too much is read and dropped
                whole = BytesMut::new();
                if read > limit + DRAINED_MAX {
                    break;
                }
                continue;
            }
            if whole.is_empty() && body.is_end_stream() {
                return Ok(data);
            }
            whole.extend_from_slice(&data);
        }
    }
    if read > limit { Err(too_large()) } else { Ok(whole.freeze()) }
}

/// A decoded object and the duplicate fields its text had.
pub(crate) struct Decoded {
    /// The object.
    pub value: Value,
    /// What occurred twice, worded as strict decoding words it.
    pub duplicates: Vec<String>,
}

/// Decodes an object sent by a create, update or delete, which should be of the given type.
pub(crate) fn decode(headers: &HeaderMap, bytes: &Bytes, api_version: &str, kind: &str) -> Result<Decoded, Failure> {
    let unrecognised = |why: String| {
        let shown = shown(bytes);
        Failure::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({shown})"))
    };
    let typed = |why: String| unrecognised(format!("couldn't get version/kind; json parse error: {why}"));
    let decoded = match Content::of(headers) {
        Ok(Content::Json) => json(bytes).map_err(typed)?,
        Ok(Content::Yaml) => yaml(bytes).map_err(unrecognised)?,
        Ok(Content::Protobuf) => {
            let value = crate::protobuf::decode(bytes, api_version, kind)?;
            return Ok(Decoded { value, duplicates: Vec::new() });
        }
        _ => return Err(media::unsupported(media::OBJECT_TYPES)),
    };
    match decoded.value {
        Value::Object(_) => Ok(decoded),
        Value::Null => Ok(Decoded { value: Value::Object(Map::new()), duplicates: Vec::new() }),
        other => Err(typed(format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            go::json_type(&other)
        ))),
    }
}

/// The beginning of a body, as errors show it.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const LEN_MAX: usize = 30;
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    if !text.is_empty() && !text.starts_with('{') {
        let hex = go::hex(&bytes[..bytes.len().min(LEN_MAX)]);
        return if bytes.len() > LEN_MAX { format!("{hex} ...") } else { hex };
    }
    match text.char_indices().nth(LEN_MAX) {
        None if text.is_empty() => "<empty>".to_owned(),
        None => text.to_owned(),
        Some((end, _)) => format!("{} ...", &text[..end]),
    }
}

/// Decodes JSON with the wording of Go's decoder for the common mistakes. Bytes that are no UTF-8 are replaced, as in Go.
pub(crate) fn json(bytes: &[u8]) -> Result<Decoded, String> {
    let mut duplicates = Vec::new();
    let value = duplicate::parse(&String::from_utf8_lossy(bytes), &mut duplicates)?;
    shallow(&value)?;
    Ok(Decoded { value, duplicates })
}

/// Refuses what nests too deep to be stored with all that belongs to it.
fn shallow(value: &Value) -> Result<(), String> {
    if depth::is_deeper(value, depth::BODY_MAX) {
        return Err(format!("exceeded max depth: the object may nest at most {} levels deep", depth::BODY_MAX));
    }
    Ok(())
}

/// As [`json`], without a look at duplicates.
pub(crate) fn json_value(bytes: &[u8]) -> Result<Value, String> {
    json(bytes).map(|decoded| decoded.value)
}

/// Decodes YAML (or JSON, which a YAML body often is).
pub(crate) fn yaml(bytes: &[u8]) -> Result<Decoded, String> {
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        return json(bytes);
    }
    let wrong = |why: &str| format!("error converting YAML to JSON: yaml: {why}");
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("invalid UTF-8"))?;
    let decoded = yaml::parse(text).map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        // the parser's own position in front is not Kubernetes' wording
        wrong(line.rsplit_once(": ").map_or(line, |(_, why)| why))
    })?;
    shallow(&decoded.value).map_err(|why| wrong(&why))?;
    Ok(decoded)
}

/// As [`yaml`], with duplicates worded as YAML's also where the text is JSON: that is how Kubernetes reads what is applied.
pub(crate) fn applied(bytes: &[u8]) -> Result<Decoded, String> {
    let mut decoded = yaml(bytes)?;
    if !decoded.duplicates.is_empty()
        && let Ok(again) = yaml::parse(&String::from_utf8_lossy(bytes))
    {
        decoded.duplicates = again.duplicates;
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests;
