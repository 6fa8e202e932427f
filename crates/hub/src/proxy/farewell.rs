//! What a client is told when the agent of its session is lost: a WebSocket that just breaks off says nothing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use crate::live::{Protocol, ended};

/// How long a client may take to be told.
const TOLD_MAX: Duration = Duration::from_secs(5);
const FIN: u8 = 0x80;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
/// Codes of a close.
const NORMAL: u16 = 1_000;
const FAILED: u16 = 1_011;
/// Bytes of the reason of a close.
const REASON_MAX: usize = 120;

/// The client's end of a session, in which it is seen where frames to it begin and end.
pub(super) struct Session<S> {
    io: S,
    frames: Frames,
}

/// How a session ends for its client when nobody else says so.
pub(super) struct Farewell {
    why: String,
    /// The channels of a terminal, if that is what it is.
    terminal: Option<Protocol>,
}

impl Farewell {
    /// For a request for that path, answered with that protocol.
    pub(super) fn new(agent: &str, target: &str, protocol: Option<&str>) -> Self {
        let path = target.split('?').next().unwrap_or_default();
        let is_terminal = path.ends_with("/exec") || path.ends_with("/attach");
        let terminal = protocol.filter(|_| is_terminal).and_then(|name| Protocol::choose(std::iter::once(name)));
        Self { why: format!("the connection to agent {agent} was lost"), terminal }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let last = self.terminal.and_then(|protocol| ended(protocol, Some(&self.why)));
        if let Some(last) = &last {
            bytes.extend(frame(BINARY, last));
        }
        // With any other code, clients do not believe what they have just been told.
        let code = if last.is_some() { NORMAL } else { FAILED };
        let reason = &self.why.as_bytes()[..self.why.floor_char_boundary(REASON_MAX)];
        bytes.extend(frame(CLOSE, &[&code.to_be_bytes()[..], reason].concat()));
        bytes
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    pub(super) fn new(io: S) -> Self {
        Self { io, frames: Frames::default() }
    }

    /// Tells the client that it is over, unless it has been told, or is in the middle of something.
    pub(super) async fn end(mut self, farewell: &Farewell) {
        if !self.frames.may_add() {
            return;
        }
        let telling = async {
            self.io.write_all(&farewell.bytes()).await?;
            self.io.shutdown().await
        };
        // A client that has gone does not want to know.
        let _ = tokio::time::timeout(TOLD_MAX, telling).await;
    }
}

fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![FIN | opcode];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ ..126), _) => frame.push(length),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend_from_slice(&length.to_be_bytes());
        }
        // Nothing that is told here is as long.
        _ => return Vec::new(),
    }
    frame.extend_from_slice(payload);
    frame
}

/// Where in a stream of frames one is.
#[derive(Debug, Default)]
struct Frames {
    header: Vec<u8>,
    /// Bytes of the frame's content that are still to come.
    left: u64,
    /// A message of several frames has not ended.
    is_within: bool,
    is_closed: bool,
}

impl Frames {
    fn passed(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let here = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                self.left -= u64::try_from(here).unwrap_or_default();
                bytes = &bytes[here..];
                continue;
            }
            self.header.push(*first);
            bytes = rest;
            self.begin();
        }
    }

    /// Begins a frame once its header is whole.
    fn begin(&mut self) {
        let [kind, length, rest @ ..] = self.header.as_slice() else { return };
        let mask = if length & 0x80 == 0 { 0 } else { 4 };
        let used = match length & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if rest.len() < used + mask {
            return;
        }
        let told = rest[..used].iter().fold(0, |length, byte| (length << 8) | u64::from(*byte));
        self.left = if used == 0 { u64::from(length & 0x7f) } else { told };
        match kind & 0x0f {
            CLOSE => self.is_closed = true,
            0..=BINARY => self.is_within = kind & FIN == 0,
            _ => {}
        }
        self.header.clear();
    }

    fn may_add(&self) -> bool {
        self.header.is_empty() && self.left == 0 && !self.is_within && !self.is_closed
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Session<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Session<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(cx, data))?;
        self.frames.passed(&data[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    /// What a client reads of a session whose agent has sent that before it was lost.
    async fn read(target: &str, protocol: Option<&str>, sent: &[u8]) -> Vec<Message> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let mut session = Session::new(near);
        for byte in sent {
            session.write_all(&[*byte]).await.unwrap();
        }
        session.end(&Farewell::new("one", target, protocol)).await;
        let client = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
        client.take_while(|message| std::future::ready(message.is_ok())).map(Result::unwrap).collect().await
    }

    #[tokio::test]
    async fn who_has_a_session_is_told_that_its_agent_is_lost() {
        let output = frame(BINARY, &[&[1][..], &[b'x'; 300]].concat());
        let exec = "/api/v1/namespaces/a/pods/p/exec?command=sh";
        let told = read(exec, Some("v5.channel.k8s.io"), &output).await;
        let [Message::Binary(shown), Message::Binary(status), Message::Close(Some(close))] = &told[..] else {
            panic!("{told:?}")
        };
        assert_eq!((shown.len(), status[0], u16::from(close.code)), (301, 3, NORMAL));
        let status: serde_json::Value = serde_json::from_slice(&status[1..]).unwrap();
        assert_eq!(
            (&status["status"], &status["message"]),
            (&"Failure".into(), &"the connection to agent one was lost".into())
        );
        // Its channels are other ones.
        let forward = "/api/v1/namespaces/a/pods/p/portforward?ports=80";
        for protocol in ["v4.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"] {
            let told = read(forward, Some(protocol), &output).await;
            let [Message::Binary(_), Message::Close(Some(close))] = &told[..] else { panic!("{told:?}") };
            assert_eq!(
                (u16::from(close.code), close.reason.as_str()),
                (FAILED, "the connection to agent one was lost")
            );
        }
    }

    #[tokio::test]
    async fn nothing_is_said_within_a_message_or_after_the_last() {
        let exec = "/api/v1/namespaces/a/pods/p/exec";
        let (whole, close) = (frame(BINARY, &[1; 300]), frame(CLOSE, &NORMAL.to_be_bytes()));
        let mut first = frame(BINARY, b"\x01x");
        first[0] &= !FIN;
        for sent in [&whole[..200], &whole[..2], &first, &[&whole[..], &close].concat()] {
            let told = read(exec, Some("v5.channel.k8s.io"), sent).await;
            let is_told = |message: &Message| matches!(message, Message::Binary(bytes) if bytes.first() == Some(&3));
            assert!(!told.iter().any(is_told), "{told:?}");
        }
    }
}
