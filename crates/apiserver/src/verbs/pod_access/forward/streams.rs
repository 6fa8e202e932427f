//! Which streams a client has open, and which two of them make a connection to a port.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::spdy::{Frame, Headers, status};

/// Connections that may be open over one socket.
pub(super) const CONNECTIONS_MAX: usize = 128;
const STREAMS_MAX: usize = CONNECTIONS_MAX * 2;
/// Ticks that a stream waits for its other half.
const PATIENCE: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Error,
}

/// A stream without its other half.
#[derive(Debug, Clone, Copy)]
struct Half {
    kind: Kind,
    stream: u32,
    port: u16,
    age: u8,
}

/// Two streams that make a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Connection {
    /// For its bytes.
    pub(super) data: u32,
    /// For what goes wrong.
    pub(super) error: u32,
    /// Where it goes.
    pub(super) port: u16,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A frame is to be sent.
    Send(Frame),
    /// A stream is there whose bytes are to be kept until its connection is.
    Open(u32),
    /// A connection is to be made.
    Connect(Connection),
    /// Bytes for a connection, by its data stream.
    Input(u32, Bytes),
    /// No more of them come.
    EndInput(u32),
    /// The client wants nothing more of it.
    Abort(u32),
}

/// The open streams of a client.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: BTreeMap<u32, Kind>,
    halves: BTreeMap<String, Half>,
    last: u32,
    leaving: bool,
}

impl Streams {
    /// The last stream that was taken.
    pub(super) fn last(&self) -> u32 {
        self.last
    }

    /// What follows from a frame.
    pub(super) fn take(&mut self, frame: Frame) -> Vec<Step> {
        match frame {
            Frame::SynStream { stream, fin, headers, .. } => self.opened(stream, fin, &headers),
            Frame::Data { stream, fin, bytes } => self.data(stream, fin, bytes),
            Frame::Headers { stream, fin: true, .. } if self.open.get(&stream) == Some(&Kind::Data) => {
                vec![Step::EndInput(stream)]
            }
            Frame::Reset { stream, .. } => self.reset(stream),
            // Odd numbers are the client's, and go back to it.
            Frame::Ping(number) if number % 2 == 1 => vec![Step::Send(Frame::Ping(number))],
            Frame::GoAway { .. } => {
                self.leaving = true;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn opened(&mut self, stream: u32, fin: bool, headers: &Headers) -> Vec<Step> {
        let refuse = |status| vec![Step::Send(Frame::Reset { stream, status })];
        if stream.is_multiple_of(2) || stream <= self.last {
            return refuse(status::PROTOCOL_ERROR);
        }
        self.last = stream;
        if self.leaving || self.open.len() >= STREAMS_MAX {
            return refuse(status::REFUSED_STREAM);
        }
        let port = headers.get("port").and_then(|port| port.parse().ok()).filter(|port| *port != 0_u16);
        let kind = match headers.get("streamtype").map(String::as_str) {
            Some("data") => Some(Kind::Data),
            Some("error") => Some(Kind::Error),
            _ => None,
        };
        let (Some(kind), Some(port)) = (kind, port) else { return refuse(status::PROTOCOL_ERROR) };
        let request = headers.get("requestid").filter(|request| !request.is_empty()).cloned();
        // Clients that number no requests open the error stream first and the other right after.
        let request = request.unwrap_or_else(|| match kind {
            Kind::Error => stream.to_string(),
            Kind::Data => stream.saturating_sub(2).to_string(),
        });
        let before = self.halves.get(&request).copied();
        if before.is_some_and(|before| before.kind == kind) {
            return refuse(status::PROTOCOL_ERROR);
        }
        self.open.insert(stream, kind);
        let mut steps = vec![Step::Send(Frame::SynReply { stream, fin: false, headers: Headers::new() })];
        if kind == Kind::Data {
            steps.push(Step::Open(stream));
        }
        match before {
            Some(before) => {
                self.halves.remove(&request);
                steps.push(Step::Connect(match kind {
                    Kind::Data => Connection { data: stream, error: before.stream, port },
                    Kind::Error => Connection { data: before.stream, error: stream, port: before.port },
                }));
            }
            None => drop(self.halves.insert(request, Half { kind, stream, port, age: 0 })),
        }
        if fin && kind == Kind::Data {
            steps.push(Step::EndInput(stream));
        }
        steps
    }

    fn data(&self, stream: u32, fin: bool, bytes: Bytes) -> Vec<Step> {
        match self.open.get(&stream) {
            Some(Kind::Data) => {
                let input = (!bytes.is_empty()).then_some(Step::Input(stream, bytes));
                input.into_iter().chain(fin.then_some(Step::EndInput(stream))).collect()
            }
            Some(Kind::Error) => Vec::new(),
            // It was open once: what is on its way for it is of no use.
            None if stream <= self.last => Vec::new(),
            None => vec![Step::Send(Frame::Reset { stream, status: status::INVALID_STREAM })],
        }
    }

    fn reset(&mut self, stream: u32) -> Vec<Step> {
        self.halves.retain(|_, half| half.stream != stream);
        match self.open.remove(&stream) {
            Some(Kind::Data) => vec![Step::Abort(stream)],
            Some(Kind::Error) | None => Vec::new(),
        }
    }

    /// A connection is over.
    pub(super) fn finished(&mut self, connection: Connection) {
        self.open.remove(&connection.data);
        self.open.remove(&connection.error);
    }

    /// Some time has passed: streams that still wait for their other half are given up.
    pub(super) fn tick(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        self.halves.retain(|_, half| {
            half.age += 1;
            if half.age <= PATIENCE {
                return true;
            }
            self.open.remove(&half.stream);
            steps.push(Step::Send(Frame::Reset { stream: half.stream, status: status::CANCEL }));
            if half.kind == Kind::Data {
                steps.push(Step::Abort(half.stream));
            }
            false
        });
        steps
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn open(stream: u32, kind: &str, port: &str, request: &str) -> Frame {
        let headers = headers(&[("streamtype", kind), ("port", port), ("requestid", request)]);
        Frame::SynStream { stream, associated: 0, priority: 0, fin: false, unidirectional: false, headers }
    }

    fn reply(stream: u32) -> Step {
        Step::Send(Frame::SynReply { stream, fin: false, headers: Headers::new() })
    }

    fn reset(stream: u32, status: u32) -> Step {
        Step::Send(Frame::Reset { stream, status })
    }

    #[test]
    fn two_streams_make_a_connection() {
        let mut streams = Streams::default();
        assert_eq!(streams.take(open(1, "error", "80", "0")), [reply(1)]);
        let connection = Connection { data: 3, error: 1, port: 80 };
        assert_eq!(streams.take(open(3, "data", "80", "0")), [reply(3), Step::Open(3), Step::Connect(connection)]);
        // The other way round, and without numbers.
        assert_eq!(streams.take(open(5, "data", "81", "x")), [reply(5), Step::Open(5)]);
        let other = Connection { data: 5, error: 7, port: 81 };
        assert_eq!(streams.take(open(7, "error", "81", "x")), [reply(7), Step::Connect(other)]);
        streams.take(open(9, "error", "82", ""));
        let last = Connection { data: 11, error: 9, port: 82 };
        assert!(streams.take(open(11, "data", "82", "")).contains(&Step::Connect(last)));
        let data = |stream, fin, bytes: &'static [u8]| Frame::Data { stream, fin, bytes: Bytes::from_static(bytes) };
        assert_eq!(streams.take(data(1, true, b"")), []);
        let input = Step::Input(3, Bytes::from_static(b"hi"));
        assert_eq!(streams.take(data(3, true, b"hi")), [input, Step::EndInput(3)]);
        assert_eq!(streams.take(Frame::Reset { stream: 3, status: status::CANCEL }), [Step::Abort(3)]);
        streams.finished(connection);
        assert_eq!(streams.take(data(3, false, b"late")), []);
        assert_eq!(streams.take(data(99, false, b"never")), [reset(99, status::INVALID_STREAM)]);
        assert_eq!(streams.take(Frame::Ping(7)), [Step::Send(Frame::Ping(7))]);
        assert_eq!(streams.take(Frame::Ping(2)), []);
    }

    #[test]
    fn what_breaks_the_rules_is_reset() {
        let mut streams = Streams::default();
        for (frame, status) in [
            (open(2, "data", "80", "0"), status::PROTOCOL_ERROR),
            (open(3, "data", "0", "0"), status::PROTOCOL_ERROR),
            (open(5, "data", "65536", "0"), status::PROTOCOL_ERROR),
            (open(7, "stdin", "80", "0"), status::PROTOCOL_ERROR),
            (open(5, "data", "80", "0"), status::PROTOCOL_ERROR),
        ] {
            let Frame::SynStream { stream, .. } = frame else { panic!("{frame:?}") };
            assert_eq!(streams.take(frame), [reset(stream, status)]);
        }
        streams.take(open(9, "data", "80", "0"));
        assert_eq!(streams.take(open(11, "data", "80", "0")), [reset(11, status::PROTOCOL_ERROR)]);
        streams.take(Frame::GoAway { last: 0, status: 0 });
        assert_eq!(streams.take(open(13, "error", "80", "0")), [reset(13, status::REFUSED_STREAM)]);
    }

    #[test]
    fn a_half_is_given_up_in_time() {
        let mut streams = Streams::default();
        streams.take(open(1, "data", "80", "0"));
        assert_eq!((streams.tick(), streams.tick()), (vec![], vec![]));
        assert_eq!(streams.tick(), [reset(1, status::CANCEL), Step::Abort(1)]);
        assert!(streams.open.is_empty() && streams.halves.is_empty());
    }

    proptest! {
        #[test]
        fn there_is_a_bound_and_each_stream_gets_one_answer(
            opened in proptest::collection::vec((any::<bool>(), 0..400_u32, 0..3_u32), 0..600),
        ) {
            let mut streams = Streams::default();
            for (index, (data, request, skip)) in opened.into_iter().enumerate() {
                let stream = u32::try_from(index).unwrap() * 2 + skip;
                let kind = if data { "data" } else { "error" };
                let steps = streams.take(open(stream.max(1), kind, "80", &request.to_string()));
                let answers = steps.iter().filter(|step| matches!(step, Step::Send(_))).count();
                prop_assert_eq!(answers, 1);
                prop_assert!(streams.open.len() <= STREAMS_MAX && streams.halves.len() <= streams.open.len());
            }
        }
    }
}
