//! One connection to the socket: what it said, what waits to be said to it, what it follows.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use thane_executor::frame::{self, Data, Decoder, Frame, Stream};
use thane_executor::message::{Reply, Said};

use super::process::Process;

/// What may wait to be sent before output is no longer read for this connection.
pub(super) const WINDOW: usize = 256 * 1024;
/// Pieces output is sent in.
const PIECE: usize = 64 * 1024;
const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

/// A connection.
pub(super) struct Connection {
    pub(super) socket: UnixStream,
    decoder: Decoder,
    pub(super) out: VecDeque<u8>,
    pub(super) follows: BTreeMap<u64, [u64; 2]>,
    /// Content of files that are about to be written, by request.
    pub(super) content: BTreeMap<u64, Vec<u8>>,
    pub(super) broken: bool,
}

impl Connection {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            decoder: Decoder::default(),
            out: VecDeque::new(),
            follows: BTreeMap::new(),
            content: BTreeMap::new(),
            broken: false,
        }
    }

    /// Reads what has arrived, as frames.
    pub(super) fn read(&mut self) -> Vec<Frame> {
        let mut buffer = vec![0; PIECE];
        match rustix::io::read(&self.socket, &mut buffer) {
            Ok(0) => self.broken = true,
            Ok(count) => self.decoder.push(&buffer[..count]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.broken = true,
        }
        let mut frames = Vec::new();
        loop {
            match self.decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => return frames,
                Err(_) => {
                    self.broken = true;
                    return frames;
                }
            }
        }
    }

    /// Sends what it has room for.
    pub(super) fn flush(&mut self) {
        while !self.out.is_empty() {
            let (head, _) = self.out.as_slices();
            match rustix::net::send(&self.socket, head, rustix::net::SendFlags::NOSIGNAL) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => {
                    self.broken = true;
                    self.out.clear();
                }
            }
        }
    }

    pub(super) fn say(&mut self, said: &Said) {
        let json = serde_json::to_vec(said).unwrap_or_default();
        self.out.extend(Frame::Message(json).encode());
    }

    pub(super) fn reply(&mut self, id: u64, reply: Reply) {
        self.say(&Said::Reply { id, reply });
    }

    /// Sends a file's content in pieces.
    pub(super) fn send_content(&mut self, id: u64, mut offset: u64, bytes: &[u8]) {
        for piece in bytes.chunks(frame::DATA_MAX) {
            let data = Data { process: id, stream: Stream::File, offset, bytes: piece.to_vec() };
            self.out.extend(Frame::Data(data).encode());
            offset += piece.len() as u64;
        }
    }

    /// Moves output of a process it follows into what waits to be sent, and tells its end; whether there is more.
    pub(super) fn pump(&mut self, process: &Process) -> bool {
        let Some(mut known) = self.follows.get(&process.id).copied() else { return false };
        let mut complete = true;
        for (index, stream) in STREAMS.into_iter().enumerate() {
            let ring = &process.outputs[index].ring;
            while known[index] < ring.end() && self.out.len() < WINDOW {
                let (offset, bytes) = ring.read(known[index], PIECE);
                known[index] = offset + bytes.len() as u64;
                self.out.extend(Frame::Data(Data { process: process.id, stream, offset, bytes }).encode());
            }
            complete &= known[index] >= ring.end();
        }
        match process.exit().filter(|_| complete) {
            Some(exit) => {
                self.follows.remove(&process.id);
                self.say(&Said::Exited { process: process.id, exit: exit.clone() });
            }
            None => {
                self.follows.insert(process.id, known);
            }
        }
        !complete
    }
}
