//! Heads of requests and answers: which headers pass.

use http::header::{CONNECTION, HeaderName, UPGRADE};
use http::{HeaderMap, HeaderValue};
use thane_api::wire::tunnel::Header;

use super::Broken;

/// Headers of a request that mean something to a Kubernetes API and nothing about who asks.
const ASKED: [&str; 12] = [
    "accept",
    "accept-encoding",
    "audit-id",
    "cache-control",
    "content-type",
    "if-modified-since",
    "if-none-match",
    "kubectl-command",
    "kubectl-session",
    "origin",
    "user-agent",
    "x-stream-protocol-version",
];
/// Headers of a request that asks for a WebSocket.
const SWITCHING: [&str; 6] = [
    "connection",
    "upgrade",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "sec-websocket-extensions",
];
/// Headers of an answer that are about one connection, or about who the agent is.
const KEPT_BACK: [&str; 9] = [
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authenticate",
    "set-cookie",
    "www-authenticate",
];
/// Headers of one head.
const HEADERS_MAX: usize = 100;

/// Whether a request asks for another protocol on its connection.
pub fn switches_protocol(headers: &HeaderMap) -> bool {
    let connection = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named = connection.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("upgrade"));
    named && headers.contains_key(UPGRADE)
}

/// Those headers of a request that pass.
pub fn request_headers(headers: &HeaderMap) -> Vec<Header> {
    let switching = switches_protocol(headers);
    written(headers, |name| ASKED.contains(&name.as_str()) || (switching && SWITCHING.contains(&name.as_str())))
}

/// Those headers of an answer that pass; with a switch of protocols, those that agree to it too.
pub fn answer_headers(headers: &HeaderMap, switched: bool) -> Vec<Header> {
    written(headers, |name| {
        (switched && (*name == CONNECTION || *name == UPGRADE)) || !KEPT_BACK.contains(&name.as_str())
    })
}

fn written(headers: &HeaderMap, passes: impl Fn(&HeaderName) -> bool) -> Vec<Header> {
    let passing = headers.iter().filter(|(name, _)| passes(name)).take(HEADERS_MAX);
    let header = |(name, value): (&HeaderName, &HeaderValue)| Header {
        name: name.as_str().to_owned(),
        value: bytes::Bytes::copy_from_slice(value.as_bytes()),
    };
    passing.map(header).collect()
}

/// Headers as they came; an error if they are none.
pub fn read_headers(headers: &[Header]) -> Result<HeaderMap, Broken> {
    if headers.len() > HEADERS_MAX {
        return Err(Broken::Order);
    }
    let mut read = HeaderMap::with_capacity(headers.len());
    for Header { name, value } in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Broken::Order)?;
        let value = HeaderValue::from_bytes(value).map_err(|_| Broken::Order)?;
        read.append(name, value);
    }
    Ok(read)
}
