//! Heads of requests and answers: which headers pass.

use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    ORIGIN, PROXY_AUTHENTICATE, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue};
use thane_api::wire::tunnel::Header;

use super::Broken;

/// Headers of a request that mean something to a Kubernetes API and nothing about who asks.
const ASKED: [HeaderName; 8] =
    [ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_TYPE, IF_MODIFIED_SINCE, IF_NONE_MATCH, USER_AGENT, ORIGIN];
/// The same without names of their own in the library.
const ASKED_ELSE: [&str; 4] = ["audit-id", "kubectl-command", "kubectl-session", "x-stream-protocol-version"];
/// Headers of a request that asks for a WebSocket.
const SWITCHING: [HeaderName; 6] =
    [CONNECTION, UPGRADE, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_EXTENSIONS];
/// Headers of an answer that are about one connection, or about whom the agent is.
const KEPT_BACK: [HeaderName; 8] =
    [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, PROXY_AUTHENTICATE, SET_COOKIE, WWW_AUTHENTICATE];
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
    written(headers, |name| {
        ASKED.contains(name) || ASKED_ELSE.contains(&name.as_str()) || (switching && SWITCHING.contains(name))
    })
}

/// Those headers of an answer that pass; with a switch of protocols, those that agree to it too.
pub fn answer_headers(headers: &HeaderMap, switched: bool) -> Vec<Header> {
    written(headers, |name| (switched && (*name == CONNECTION || *name == UPGRADE)) || !KEPT_BACK.contains(name))
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
