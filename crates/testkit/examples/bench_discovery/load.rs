//! The same request over and over on connections that stay open, as cheaply as can be.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes of an answer's head.
const HEAD_MAX: usize = 16 * 1024;

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
                let asked = Instant::now();
                line.exchange(&request(number + times.len() * connections)).await?;
                times.push(asked.elapsed());
            }
            anyhow::Ok(times)
        }
    });
    let mut times: Vec<Duration> = futures::future::try_join_all(each).await?.into_iter().flatten().collect();
    let elapsed = started.elapsed();
    times.sort();
    let at = |hundredths: usize| times[(times.len() * hundredths / 100).min(times.len() - 1)];
    let count = f64::from(u32::try_from(times.len()).unwrap_or(u32::MAX));
    Ok(Load { per_second: count / elapsed.as_secs_f64(), p50: at(50), p99: at(99) })
}

/// One connection.
pub(crate) struct Line {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Line {
    pub(crate) async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| address.to_owned())?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; HEAD_MAX] })
    }

    /// Sends a request and reads its answer, which must be a good one; its body.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        let end = loop {
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            ensure!(read > 0, "the connection ended");
            filled += read;
            let head = &self.buffer[..filled];
            if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).to_lowercase();
        ensure!(head.starts_with("http/1.1 2"), "{head}");
        if head.contains("transfer-encoding: chunked") {
            let begun = self.buffer[end..filled].to_vec();
            return self.chunks(begun).await;
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.map_or(Ok(0), |text| text.trim().parse())?;
        let mut body = self.buffer[end..filled].to_vec();
        let there = body.len();
        body.resize(length, 0);
        if there < length {
            self.stream.read_exact(&mut body[there..]).await?;
        }
        Ok(body)
    }
}

impl Line {
    /// A body in pieces, of which some are here.
    async fn chunks(&mut self, mut raw: Vec<u8>) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        let mut at = 0;
        loop {
            let size = raw[at..].windows(2).position(|two| two == b"\r\n").map(|length| at + length);
            if let Some(line) = size {
                let length = usize::from_str_radix(std::str::from_utf8(&raw[at..line])?.trim(), 16)?;
                let (from, to) = (line + 2, line + 2 + length);
                if raw.len() >= to + 2 {
                    if length == 0 {
                        return Ok(body);
                    }
                    body.extend_from_slice(&raw[from..to]);
                    at = to + 2;
                    continue;
                }
            }
            let read = self.stream.read(&mut self.buffer).await?;
            ensure!(read > 0, "the connection ended");
            raw.extend_from_slice(&self.buffer[..read]);
        }
    }
}

/// A request with a body.
pub(crate) fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}
