//! Talking to the executor of a container, from tokio.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::exit::Exit;
use crate::frame::{BYTES_MAX, Data, Decoder, Frame, Stream};
use crate::message::{Call, Failure, FileInfo, Reply, Request, Said, Spawn};
use crate::plan::SOCKET;

/// A connection to an executor.
pub struct Executor {
    speaker: Speaker,
    listener: Listener,
}

/// The half of a connection that asks.
pub struct Speaker {
    stream: OwnedWriteHalf,
    next: u64,
}

/// The half of a connection that hears.
pub struct Listener {
    stream: OwnedReadHalf,
    decoder: Decoder,
    buffer: Vec<u8>,
}

/// What comes from an executor.
#[derive(Debug)]
pub enum Heard {
    /// Output.
    Data(Data),
    /// An answer or an end.
    Said(Said),
}

/// Why a conversation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection.
    #[error("talk to the executor: {0}")]
    Io(#[from] io::Error),
    /// The executor said no.
    #[error("{1}")]
    Refused(Failure, String),
}

impl Executor {
    /// Connects to the executor whose run directory this is.
    pub async fn connect(run: &Path) -> Result<Self, Error> {
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let directory = openat(CWD, run, flags, Mode::empty()).map_err(io::Error::from)?;
        // By number: the names of sockets have to be short.
        let path = format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd());
        let stream = UnixStream::connect(path).await?;
        let (read, write) = stream.into_split();
        let listener = Listener { stream: read, decoder: Decoder::default(), buffer: vec![0; 64 * 1024] };
        Ok(Self { speaker: Speaker { stream: write, next: 0 }, listener })
    }

    /// Both halves, so that neither waits for the other.
    pub fn split(self) -> (Speaker, Listener) {
        (self.speaker, self.listener)
    }

    /// Both halves of one connection, together again.
    pub fn join(speaker: Speaker, listener: Listener) -> Self {
        Self { speaker, listener }
    }

    /// Asks and waits for the answer; what comes before it is passed over.
    pub async fn call(&mut self, request: Request) -> Result<Reply, Error> {
        let wanted = self.speaker.send(request).await?;
        loop {
            if let Heard::Said(Said::Reply { id, reply }) = self.listener.hear().await?
                && id == wanted
            {
                return match reply {
                    Reply::Failed { failure, message } => Err(Error::Refused(failure, message)),
                    reply => Ok(reply),
                };
            }
        }
    }

    /// Sends input to a process.
    pub async fn input(&mut self, process: u64, bytes: Vec<u8>) -> Result<(), Error> {
        self.speaker.input(process, bytes).await
    }

    /// The same for a request about a file, with content that goes before it.
    pub async fn write(&mut self, content: Vec<u8>, request: Request) -> Result<Reply, Error> {
        self.speaker.content(content).await?;
        self.call(request).await
    }

    /// Asks for a piece of a file.
    pub async fn read(&mut self, path: &str, offset: u64, length: u64) -> Result<(FileInfo, Vec<u8>), Error> {
        let request = Request::ReadFile { path: path.to_owned(), offset, length };
        let wanted = self.speaker.send(request).await?;
        let mut content = Vec::new();
        loop {
            match self.listener.hear().await? {
                Heard::Data(data) if data.process == wanted && data.stream == Stream::File => {
                    content.extend_from_slice(&data.bytes);
                }
                Heard::Said(Said::Reply { id, reply }) if id == wanted => {
                    return match reply {
                        Reply::File { file } => Ok((file, content)),
                        Reply::Failed { failure, message } => Err(Error::Refused(failure, message)),
                        other => Err(Error::Refused(Failure::Other, format!("unexpected answer {other:?}"))),
                    };
                }
                _ => {}
            }
        }
    }

    /// Starts a process, follows it to its end and keeps the first of its output.
    pub async fn run(&mut self, mut spawn: Spawn, most: usize) -> Result<(Exit, Vec<u8>), Error> {
        spawn.attach = true;
        let Reply::Spawned { process: wanted, .. } = self.call(Request::Spawn(spawn)).await? else {
            return Err(Error::Refused(Failure::Other, "it did not start a process".to_owned()));
        };
        let mut output = Vec::new();
        loop {
            match self.listener.hear().await? {
                Heard::Data(data) => {
                    let room = most.saturating_sub(output.len());
                    output.extend_from_slice(&data.bytes[..data.bytes.len().min(room)]);
                }
                Heard::Said(Said::Exited { process, exit }) if process == wanted => {
                    self.speaker.send(Request::Forget { process }).await?;
                    return Ok((exit, output));
                }
                Heard::Said(_) => {}
            }
        }
    }
}

impl Speaker {
    /// Sends a request without waiting for its answer.
    pub async fn send(&mut self, request: Request) -> Result<u64, Error> {
        self.next += 1;
        let call = Call { id: self.next, request };
        let json = serde_json::to_vec(&call).map_err(io::Error::other)?;
        if json.len() > BYTES_MAX {
            let message = format!("the request has {} bytes; at most {BYTES_MAX} can be sent", json.len());
            return Err(Error::Refused(Failure::Invalid, message));
        }
        self.stream.write_all(&Frame::Message(json).encode()).await?;
        Ok(self.next)
    }

    /// Sends content of a file, at most [`DATA_MAX`](crate::frame::DATA_MAX) bytes, for the request that comes next.
    pub async fn content(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        let data = Data { process: self.next + 1, stream: Stream::File, offset: 0, bytes };
        Ok(self.stream.write_all(&Frame::Data(data).encode()).await?)
    }

    /// Sends input to a process.
    pub async fn input(&mut self, process: u64, bytes: Vec<u8>) -> Result<(), Error> {
        let data = Data { process, stream: Stream::Stdin, offset: 0, bytes };
        Ok(self.stream.write_all(&Frame::Data(data).encode()).await?)
    }
}

impl Listener {
    /// The next thing it says. Giving up waiting loses nothing.
    pub async fn hear(&mut self) -> Result<Heard, Error> {
        loop {
            match self.decoder.next_frame().map_err(io::Error::other)? {
                Some(Frame::Data(data)) => return Ok(Heard::Data(data)),
                Some(Frame::Message(json)) => {
                    return Ok(Heard::Said(serde_json::from_slice(&json).map_err(io::Error::other)?));
                }
                None => {}
            }
            let count = self.stream.read(&mut self.buffer).await?;
            if count == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            self.decoder.push(&self.buffer[..count]);
        }
    }
}
