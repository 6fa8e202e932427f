//! A check that is pinged over HTTP/2: whoever sends the ping back passes.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::machine::Observation;
use super::{Tools, chain};
use crate::agent::dial::{self, BoxError};
use crate::model::{CheckDefinition, Status};

/// What a client says first: the protocol's own words, then settings that change nothing.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A ping: its head, and eight bytes that have to come back.
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0thane-hc";
const HEAD_BYTES: usize = 9;
const PING_KIND: u8 = 6;
const GOAWAY_KIND: u8 = 7;
const ACK: u8 = 1;
/// The largest frame that is read; nobody may send a larger one unless told.
const FRAME_MAX: usize = 16 * 1024;
/// Frames read before the ping comes back.
const FRAMES_MAX: usize = 64;

pub(super) async fn ask(tools: &Tools, definition: &CheckDefinition) -> Observation {
    match ping(tools, definition).await {
        Ok(()) => Observation::new(Status::Passing, "HTTP2 ping was successful"),
        Err(error) => Observation::new(Status::Critical, format!("HTTP2 ping failed: {}", chain(&*error))),
    }
}

async fn ping(tools: &Tools, definition: &CheckDefinition) -> Result<(), BoxError> {
    let (host, port) = dial::host_and_port(&definition.h2ping, None).ok_or("not a host and a port")?;
    let mut stream = tools.network.connect(&host, port).await?;
    if definition.h2ping_use_tls {
        let name = if definition.tls_server_name.is_empty() { &host } else { &definition.tls_server_name };
        stream = dial::tls(stream, name, &tools.trust.config(definition.tls_skip_verify)?, b"h2").await?;
    }
    stream.write_all(PREFACE).await?;
    stream.write_all(PING).await?;
    stream.flush().await?;
    for _ in 0..FRAMES_MAX {
        let mut head = [0; HEAD_BYTES];
        stream.read_exact(&mut head).await?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        if length > FRAME_MAX {
            return Err("what came back is not HTTP/2".into());
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        match (head[3], head[4] & ACK) {
            (PING_KIND, ACK) if body == PING[HEAD_BYTES..] => return Ok(()),
            (GOAWAY_KIND, _) => return Err("the connection was ended".into()),
            _ => {}
        }
    }
    Err("the ping did not come back".into())
}
