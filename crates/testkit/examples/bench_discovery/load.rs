//! The same request over and over on connections that stay open, as cheaply as can be: whoever measures uses the same
//! processors as what is measured.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes that are there for an answer from the beginning.
const ROOM: usize = 16 * 1024;

/// What came of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

/// Sends a request on so many connections for a while; `request` makes the one of a number.
pub(crate) async fn run(
    address: &str,
    connections: usize,
    time: Duration,
    request: impl Fn(usize) -> Vec<u8> + Clone + Send + 'static,
) -> Result<Load> {
    let started = Instant::now();
    let each = (0..connections).map(|number| {
        let (address, request) = (address.to_owned(), request.clone());
        async move {
            let mut line = Line::open(&address).await?;
            let mut times = Vec::new();
            while started.elapsed() < time {
                let wanted = request(number + times.len() * connections);
                let asked = Instant::now();
                line.exchange(&wanted).await?;
                times.push(asked.elapsed());
            }
            anyhow::Ok(times)
        }
    });
    let times: Vec<Duration> = futures::future::try_join_all(each).await?.into_iter().flatten().collect();
    let count = f64::from(u32::try_from(times.len()).unwrap_or(u32::MAX));
    let per_second = count / started.elapsed().as_secs_f64();
    let (p50, p99) = percentiles(times);
    Ok(Load { per_second, p50, p99 })
}

/// The middle one, and the one that one in a hundred is above.
pub(crate) fn percentiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    let at = |hundredths: usize| times.get(times.len() * hundredths / 100).copied().unwrap_or_default();
    (at(50), at(99))
}

/// One connection.
pub(crate) struct Line {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Bytes of the last answer's head.
    head: usize,
}

/// What the head of an answer says about its body.
enum Extent {
    Length(usize),
    Chunks,
}

impl Line {
    pub(crate) async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| address.to_owned())?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(ROOM), head: 0 })
    }

    /// Sends a request and reads its answer, which must be a good one; its body.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.send(request).await?;
        self.receive().await
    }

    pub(crate) async fn send(&mut self, request: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(request).await?)
    }

    pub(crate) async fn receive(&mut self) -> Result<&[u8]> {
        self.buffer.clear();
        let head = loop {
            let begin = self.buffer.len().saturating_sub(3);
            self.more().await?;
            if let Some(end) = self.buffer[begin..].windows(4).position(|four| four == b"\r\n\r\n") {
                break begin + end + 4;
            }
        };
        self.head = head;
        ensure!(self.buffer.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&self.buffer));
        match extent(&self.buffer[..head])? {
            Extent::Length(length) => {
                while self.buffer.len() < head + length {
                    self.more().await?;
                }
                Ok(&self.buffer[head..head + length])
            }
            Extent::Chunks => self.chunks(head).await,
        }
    }

    /// At which index the last answer was.
    pub(crate) fn index(&self) -> Option<u64> {
        std::str::from_utf8(value(&self.buffer[..self.head], b"x-consul-index")?).ok()?.trim().parse().ok()
    }

    async fn more(&mut self) -> Result<()> {
        self.buffer.reserve(ROOM);
        let read = self.stream.read_buf(&mut self.buffer).await?;
        ensure!(read > 0, "the connection ended");
        Ok(())
    }

    /// A body in pieces, put together where it is.
    async fn chunks(&mut self, head: usize) -> Result<&[u8]> {
        let (mut at, mut end) = (head, head);
        loop {
            let line = loop {
                match self.buffer[at..].windows(2).position(|two| two == b"\r\n") {
                    Some(length) => break at + length,
                    None => self.more().await?,
                }
            };
            let length = usize::from_str_radix(std::str::from_utf8(&self.buffer[at..line])?.trim(), 16)?;
            let (from, to) = (line + 2, line + 2 + length);
            while self.buffer.len() < to + 2 {
                self.more().await?;
            }
            if length == 0 {
                return Ok(&self.buffer[head..end]);
            }
            self.buffer.copy_within(from..to, end);
            (at, end) = (to + 2, end + length);
        }
    }
}

fn extent(head: &[u8]) -> Result<Extent> {
    if let Some(length) = value(head, b"content-length") {
        return Ok(Extent::Length(std::str::from_utf8(length)?.trim().parse()?));
    }
    Ok(value(head, b"transfer-encoding").map_or(Extent::Length(0), |_| Extent::Chunks))
}

/// The value of a header.
fn value<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        line[..colon].eq_ignore_ascii_case(name).then_some(&line[colon + 1..])
    })
}

/// A request with a body.
pub(crate) fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}
