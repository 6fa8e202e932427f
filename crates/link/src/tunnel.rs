//! One request in the tunnel, as either end sees it: data both ways at once, each way within credit.

mod head;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prometheus_client::metrics::counter::Counter;
use thane_api::wire::tunnel::frame::Part;
use thane_api::wire::tunnel::{End, Frame};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

pub use head::{answer_headers, read_headers, request_headers, switches_protocol};

/// What may be under way to one end of one request, in bytes.
pub const WINDOW: usize = 512 * 1024;
/// Bytes of one frame of data.
pub const CHUNK: usize = 32 * 1024;
/// Bytes of any frame, heads with their headers above all.
pub const FRAME_MAX: usize = 256 * 1024;
/// Frames that wait to be written, of one request.
pub const OUTGOING_MAX: usize = 8;
/// What a frame of data costs at least: small ones take memory too.
const COST_MIN: usize = 1024;
/// Credit is given back when this much has been used.
const CREDIT_STEP: usize = WINDOW / 4;

/// Why a request ended before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The other side, or the connection, went away.
    #[error("the other side went away")]
    Gone,
    /// The other side sent more than it was given credit for.
    #[error("the other side sent more than it may")]
    Credit,
    /// The other side sent what has no place there.
    #[error("the other side sent what it was not asked for")]
    Order,
}

/// Bytes of data, counted.
#[derive(Debug, Clone, Default)]
pub struct Bytecounts {
    /// Given to the other side.
    pub sent: Counter,
    /// Taken from it.
    pub received: Counter,
}

/// Gives data to the other side.
#[derive(Debug)]
pub struct Sending {
    out: mpsc::Sender<Frame>,
    credit: Arc<Semaphore>,
    sent: Counter,
    /// Dropped with this: nobody needs credit any more.
    _open: oneshot::Sender<()>,
}

/// Takes data from the other side, and gives it credit for more.
#[derive(Debug)]
pub struct Receiving {
    pieces: mpsc::Receiver<Piece>,
    /// Weak: whoever only reads does not keep a request open.
    out: mpsc::WeakSender<Frame>,
    progress: Progress,
    owed: usize,
    has_ended: bool,
    received: Counter,
}

/// Where frames of the other side are put.
#[derive(Debug)]
pub struct Inlet {
    pieces: Option<mpsc::Sender<Piece>>,
    credit: Arc<Semaphore>,
    progress: Progress,
    /// Ends when nothing is sent any more.
    sending: oneshot::Receiver<()>,
}

/// How what has come is taken.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Bytes that wait to be taken.
    held: Arc<AtomicUsize>,
    /// Pieces that were.
    taken: Arc<AtomicUsize>,
}

impl Progress {
    /// Completes when something has waited for so long and nothing was taken all the time. Looks some times in between,
    /// so that it may take a little longer.
    pub async fn stuck(self, most: Duration) {
        let mut last = 0;
        let mut since = Instant::now();
        loop {
            tokio::time::sleep(most / 8).await;
            let taken = self.taken.load(Ordering::Acquire);
            if self.held.load(Ordering::Acquire) == 0 || taken != last {
                (last, since) = (taken, Instant::now());
            } else if since.elapsed() >= most {
                return;
            }
        }
    }
}

#[derive(Debug)]
enum Piece {
    Data(Bytes),
    End,
}

/// The parts of one end of a request; frames to the other side go to `out`.
pub fn ends(out: &mpsc::Sender<Frame>, counts: &Bytecounts) -> (Sending, Receiving, Inlet) {
    // One more, so that the end always has a place.
    let (pieces, taken) = mpsc::channel(WINDOW / COST_MIN + 1);
    let credit = Arc::new(Semaphore::new(WINDOW));
    let progress = Progress::default();
    let (open, over) = oneshot::channel();
    let sending = Sending { out: out.clone(), credit: Arc::clone(&credit), sent: counts.sent.clone(), _open: open };
    let receiving = Receiving {
        pieces: taken,
        out: out.downgrade(),
        progress: progress.clone(),
        owed: 0,
        has_ended: false,
        received: counts.received.clone(),
    };
    (sending, receiving, Inlet { pieces: Some(pieces), credit, progress, sending: over })
}

/// One part as a frame.
pub fn frame(part: Part) -> Frame {
    Frame { part: Some(part) }
}

fn cost(bytes: &Bytes) -> usize {
    bytes.len().max(COST_MIN)
}

impl Sending {
    /// Sends bytes as the other side has room for them.
    pub async fn data(&self, mut bytes: Bytes) -> Result<(), Broken> {
        while !bytes.is_empty() {
            let chunk = bytes.split_to(bytes.len().min(CHUNK));
            let price = u32::try_from(cost(&chunk)).unwrap_or(u32::MAX);
            let permit = tokio::select! {
                permit = self.credit.acquire_many(price) => permit.map_err(|_| Broken::Gone)?,
                () = self.out.closed() => return Err(Broken::Gone),
            };
            permit.forget();
            self.sent.inc_by(u64::try_from(chunk.len()).unwrap_or_default());
            self.out.send(frame(Part::Data(chunk))).await.map_err(|_| Broken::Gone)?;
        }
        Ok(())
    }

    /// Says that there is no more.
    pub async fn end(self) -> Result<(), Broken> {
        self.out.send(frame(Part::End(End {}))).await.map_err(|_| Broken::Gone)
    }
}

impl Receiving {
    /// The next bytes; none at the end, an error where they broke off.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Broken> {
        if self.has_ended {
            return Ok(None);
        }
        let bytes = match self.pieces.recv().await.ok_or(Broken::Gone)? {
            Piece::Data(bytes) => bytes,
            Piece::End => {
                self.has_ended = true;
                return Ok(None);
            }
        };
        self.received.inc_by(u64::try_from(bytes.len()).unwrap_or_default());
        let price = cost(&bytes);
        self.progress.held.fetch_sub(price, Ordering::AcqRel);
        self.progress.taken.fetch_add(1, Ordering::AcqRel);
        self.owed += price;
        if self.owed >= CREDIT_STEP
            && let Some(out) = self.out.upgrade()
        {
            let credit = u32::try_from(std::mem::take(&mut self.owed)).unwrap_or(u32::MAX);
            // Nobody to give it to is found out by whoever reads on.
            let _ = out.send(frame(Part::Credit(credit))).await;
        }
        Ok(Some(bytes))
    }

    /// Everything up to the end, if it is no more than that.
    pub async fn collect(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Broken> {
        let mut whole = BytesMut::new();
        while let Some(bytes) = self.next().await? {
            if whole.len() + bytes.len() > bytes_max {
                return Ok(None);
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(Some(whole.freeze()))
    }
}

impl Inlet {
    /// Takes one frame; what is no data, no credit and no end is given back.
    pub fn take(&mut self, frame: Frame) -> Result<Option<Part>, Broken> {
        match frame.part.ok_or(Broken::Order)? {
            Part::Data(bytes) => {
                let pieces = self.pieces.as_ref().ok_or(Broken::Order)?;
                let price = cost(&bytes);
                if self.progress.held.fetch_add(price, Ordering::AcqRel) + price > WINDOW {
                    return Err(Broken::Credit);
                }
                match pieces.try_send(Piece::Data(bytes)) {
                    Ok(()) => Ok(None),
                    Err(mpsc::error::TrySendError::Full(_)) => Err(Broken::Credit),
                    Err(mpsc::error::TrySendError::Closed(_)) => Err(Broken::Gone),
                }
            }
            Part::Credit(credit) => {
                let credit = usize::try_from(credit).unwrap_or(usize::MAX);
                if self.credit.available_permits().saturating_add(credit) > WINDOW {
                    return Err(Broken::Credit);
                }
                self.credit.add_permits(credit);
                Ok(None)
            }
            Part::End(_) => {
                let pieces = self.pieces.take().ok_or(Broken::Order)?;
                // Whoever has left needs no end.
                let _ = pieces.try_send(Piece::End);
                Ok(None)
            }
            head @ (Part::Request(_) | Part::Answer(_) | Part::Refusal(_)) => Ok(Some(head)),
        }
    }

    /// How what is put here is taken.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Whether the other side has said that there is no more.
    pub fn has_ended(&self) -> bool {
        self.pieces.is_none()
    }

    /// Completes when frames are of no use any more: nobody takes the data, or, after its end, nobody sends any for which
    /// there could be credit.
    pub async fn abandoned(&mut self) {
        match &self.pieces {
            Some(pieces) => pieces.closed().await,
            // Nothing is ever put in it.
            None => drop((&mut self.sending).await),
        }
    }
}

/// Copies bytes both ways until either side ends.
pub async fn exchange<S: AsyncRead + AsyncWrite>(stream: S, sending: Sending, receiving: Receiving) {
    let (reader, writer) = tokio::io::split(stream);
    tokio::select! {
        _ = upward(reader, sending) => {}
        _ = downward(writer, receiving) => {}
    }
}

/// Copies bytes both ways, each until its own end: who has said everything may still listen. What breaks off, breaks both.
pub async fn relay<S: AsyncRead + AsyncWrite>(stream: S, sending: Sending, receiving: Receiving) {
    let (reader, writer) = tokio::io::split(stream);
    let both = async { tokio::try_join!(upward(reader, sending), downward(writer, receiving)) };
    // Whoever is at either end sees what became of it.
    let _ = both.await;
}

async fn upward(mut reader: impl AsyncRead + Unpin, sending: Sending) -> Result<(), Broken> {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(CHUNK);
        match reader.read_buf(&mut buffer).await {
            Ok(0) => return sending.end().await,
            Ok(_) => sending.data(buffer.split().freeze()).await?,
            // A stream that breaks off has no end on the other side either.
            Err(_) => return Err(Broken::Gone),
        }
    }
}

async fn downward(mut writer: impl AsyncWrite + Unpin, mut receiving: Receiving) -> Result<(), Broken> {
    while let Some(bytes) = receiving.next().await? {
        let written = async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        };
        written.await.map_err(|_| Broken::Gone)?;
    }
    // What was copied is whole; how the stream closes is the reader's affair.
    let _ = writer.shutdown().await;
    Ok(())
}
