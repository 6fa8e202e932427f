//! Kubernetes' channels in a WebSocket: what a client sends and gets in a terminal.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::json;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;
/// What an exit code is told after.
const EXIT_CODE: &str = "command terminated with exit code ";

/// Versions of the protocol, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    V1,
    V2,
    V3,
    V4,
    V5,
}

const NAMES: [(&str, Protocol); 5] = [
    ("v5.channel.k8s.io", Protocol::V5),
    ("v4.channel.k8s.io", Protocol::V4),
    ("v3.channel.k8s.io", Protocol::V3),
    ("v2.channel.k8s.io", Protocol::V2),
    ("channel.k8s.io", Protocol::V1),
];

impl Protocol {
    /// The newest of those a client offers.
    pub(crate) fn choose<'a>(offered: impl Iterator<Item = &'a str>) -> Option<Self> {
        let known = |name: &str| NAMES.iter().find(|(known, _)| *known == name).map(|(_, protocol)| *protocol);
        offered.flat_map(|line| line.split(',')).filter_map(|name| known(name.trim())).max()
    }

    pub(super) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, protocol)| *protocol == self).map_or("", |(name, _)| name)
    }
}

/// What a client does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    Keys(Bytes),
    Size {
        cols: u32,
        rows: u32,
    },
    /// Nothing more is typed.
    End,
    Nothing,
}

#[derive(Deserialize)]
struct Size {
    #[serde(alias = "cols", alias = "Width")]
    width: u32,
    #[serde(alias = "rows", alias = "Height")]
    height: u32,
}

/// Reads a client's message.
pub(super) fn typed(protocol: Protocol, message: &Bytes) -> Typed {
    match message.first() {
        Some(&STDIN) if message.len() > 1 => Typed::Keys(message.slice(1..)),
        Some(&RESIZE) if protocol >= Protocol::V3 => match serde_json::from_slice::<Size>(&message[1..]) {
            Ok(size) if size.width > 0 || size.height > 0 => Typed::Size { cols: size.width, rows: size.height },
            _ => Typed::Nothing,
        },
        Some(&CLOSE) if protocol == Protocol::V5 && message.get(1) == Some(&STDIN) => Typed::End,
        _ => Typed::Nothing,
    }
}

/// What the command wrote.
pub(super) fn written(kind: &str, data: &[u8]) -> Bytes {
    framed(if kind == "stderr" { STDERR } else { STDOUT }, data)
}

/// How the command ended; nothing where the protocol has no words for a good end.
pub(crate) fn ended(protocol: Protocol, error: Option<&str>) -> Option<Bytes> {
    match (protocol >= Protocol::V4, error) {
        (true, None) => Some(framed(ERROR, br#"{"metadata":{},"status":"Success"}"#)),
        (true, Some(error)) => Some(framed(ERROR, failure(error).to_string().as_bytes())),
        (false, None) => None,
        (false, Some(error)) => Some(framed(ERROR, error.as_bytes())),
    }
}

fn failure(error: &str) -> serde_json::Value {
    let code = error.strip_prefix(EXIT_CODE).filter(|code| code.trim().parse::<u8>().is_ok());
    match code {
        Some(code) => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {}", code.trim()),
            "details": {"causes": [{"reason": "ExitCode", "message": code.trim()}]},
        }),
        None => json!({"metadata": {}, "status": "Failure", "reason": "InternalError", "message": error, "code": 500}),
    }
}

fn framed(channel: u8, data: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(data.len() + 1);
    frame.put_u8(channel);
    frame.put_slice(data);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_newest_protocol_both_know_is_spoken() {
        let cases = [
            (vec!["v4.channel.k8s.io, v5.channel.k8s.io"], Some("v5.channel.k8s.io")),
            (vec!["v4.channel.k8s.io", "channel.k8s.io"], Some("v4.channel.k8s.io")),
            (vec!["channel.k8s.io"], Some("channel.k8s.io")),
            (vec!["v9.channel.k8s.io", "SPDY/3.1"], None),
            (vec![], None),
        ];
        for (offered, expected) in cases {
            assert_eq!(Protocol::choose(offered.iter().copied()).map(Protocol::name), expected, "{offered:?}");
        }
    }

    #[test]
    fn channels_say_what_is_meant() {
        let size = Typed::Size { cols: 120, rows: 40 };
        let cases: [(Protocol, &'static [u8], Typed); 10] = [
            (Protocol::V5, b"\0ls\n", Typed::Keys(Bytes::from_static(b"ls\n"))),
            (Protocol::V5, b"\0", Typed::Nothing),
            (Protocol::V5, b"", Typed::Nothing),
            (Protocol::V4, br#"{"Width":120,"Height":40}"#, size.clone()),
            (Protocol::V4, br#"{"operation":"resize","cols":120,"rows":40}"#, size.clone()),
            (Protocol::V3, br#"{"Width":120,"Height":40}"#, size),
            (Protocol::V2, br#"{"Width":120,"Height":40}"#, Typed::Nothing),
            (Protocol::V4, br#"{"Width":0,"Height":0}"#, Typed::Nothing),
            (Protocol::V5, b"\xff\0", Typed::End),
            (Protocol::V4, b"\xff\0", Typed::Nothing),
        ];
        for (protocol, message, expected) in cases {
            let message =
                if message.first() == Some(&b'{') { framed(RESIZE, message) } else { Bytes::from_static(message) };
            assert_eq!(typed(protocol, &message), expected, "{message:?}");
        }
    }

    #[test]
    fn ends_carry_exit_codes() {
        let status = |error| {
            let frame = ended(Protocol::V4, error).unwrap();
            (frame[0], serde_json::from_slice::<serde_json::Value>(&frame[1..]).unwrap())
        };
        assert_eq!(status(None).1["status"], "Success");
        let (channel, exit) = status(Some("command terminated with exit code 7"));
        assert_eq!((channel, &exit["reason"]), (ERROR, &json!("NonZeroExitCode")));
        assert_eq!(exit["details"]["causes"][0], json!({"reason": "ExitCode", "message": "7"}));
        assert_eq!(status(Some("no shell")).1["message"], "no shell");
        assert_eq!(ended(Protocol::V1, None), None);
        assert_eq!(ended(Protocol::V2, Some("no")).unwrap(), Bytes::from_static(b"\x03no"));
        assert_eq!(written("stderr", b"x"), Bytes::from_static(b"\x02x"));
        assert_eq!(written("", b"x"), Bytes::from_static(b"\x01x"));
    }

    proptest! {
        #[test]
        fn nothing_a_client_sends_makes_trouble(message in proptest::collection::vec(any::<u8>(), 0..64)) {
            typed(Protocol::V5, &Bytes::from(message));
        }
    }
}
