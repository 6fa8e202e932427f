//! What is open, and whose it is.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use thane_api::live::ResourceResponse;
use thane_api::wire::terminal::TerminalStreamData;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;

/// Requests of one agent that may wait for answers.
const ANSWERS_MAX: usize = 256;
/// Logs and terminals of one agent at once; the windows of its connection have room for so many slow readers.
const STREAMS_MAX: usize = 48;

/// What a session waits for.
pub(super) enum Wants {
    /// One answer.
    Answer(Option<oneshot::Sender<ResourceResponse>>),
    /// Pieces of a log.
    Log(LogSide),
    /// A terminal, once.
    Terminal(Option<TerminalSide>),
}

/// Where pieces of a log go.
pub(super) struct LogSide {
    pub(super) pieces: mpsc::Sender<(u64, Piece)>,
    /// Ends the stream that brings them now.
    pub(super) current: CancellationToken,
    /// Streams there were.
    pub(super) streams: u64,
}

/// The end of a log's session that a stream has.
#[derive(Debug)]
pub(super) struct LogInlet {
    pub(super) pieces: mpsc::Sender<(u64, Piece)>,
    /// Cancelled when another stream takes over.
    pub(super) replaced: CancellationToken,
    /// What it brings carries this number: of what a stream before it may still bring, nothing counts.
    pub(super) number: u64,
}

/// What a stream of a log brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// A stream is there; what was before may come again.
    Opened,
    Data(Bytes),
    /// It is over.
    End,
    /// The agent has no more, and says why.
    Failed(String),
    /// The stream broke; another may come.
    Broken,
}

/// What a terminal's stream is connected with.
pub(super) struct TerminalSide {
    pub(super) output: mpsc::Sender<TerminalStreamData>,
    pub(super) input: mpsc::Receiver<TerminalStreamData>,
    /// Told when the agent is there.
    pub(super) opened: oneshot::Sender<()>,
}

/// Why something that came belongs to no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// There is none of that id.
    Unknown,
    /// It is another agent's.
    Stranger,
    /// The session waits for something else.
    Unasked,
}

impl Mismatch {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Stranger => "stranger",
            Self::Unasked => "unasked",
        }
    }
}

/// All sessions.
#[derive(Clone)]
pub(super) struct Sessions {
    table: Arc<Mutex<Table>>,
    metrics: Metrics,
}

#[derive(Default)]
struct Table {
    all: HashMap<String, Entry>,
    counts: HashMap<(String, bool), usize>,
}

struct Entry {
    agent: String,
    wants: Wants,
}

/// A session; it ends when this is dropped.
pub(super) struct Session {
    sessions: Sessions,
    uuid: String,
}

impl Session {
    pub(super) fn uuid(&self) -> &str {
        &self.uuid
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.sessions.forget(&self.uuid);
    }
}

fn is_stream(wants: &Wants) -> bool {
    !matches!(wants, Wants::Answer(_))
}

impl Sessions {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { table: Arc::default(), metrics }
    }

    /// A new session with that agent; none if it has too many.
    pub(super) fn open(&self, agent: &str, wants: Wants) -> Option<Session> {
        let uuid = uuid::Uuid::new_v4().to_string();
        let is_stream = is_stream(&wants);
        let mut table = self.table.lock();
        let count = table.counts.entry((agent.to_owned(), is_stream)).or_default();
        if *count >= if is_stream { STREAMS_MAX } else { ANSWERS_MAX } {
            return None;
        }
        *count += 1;
        table.all.insert(uuid.clone(), Entry { agent: agent.to_owned(), wants });
        self.metrics.opened();
        Some(Session { sessions: self.clone(), uuid })
    }

    /// Ends a session, if it has not ended: whoever waits for what it brings learns that nothing more comes.
    pub(super) fn forget(&self, uuid: &str) {
        let mut table = self.table.lock();
        let Some(entry) = table.all.remove(uuid) else { return };
        let key = (entry.agent, is_stream(&entry.wants));
        if let Some(count) = table.counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                table.counts.remove(&key);
            }
        }
        self.metrics.ended();
    }

    pub(super) fn len(&self) -> usize {
        self.table.lock().all.len()
    }

    /// Where the answer to that request goes.
    pub(super) fn answer(&self, agent: &str, uuid: &str) -> Result<oneshot::Sender<ResourceResponse>, Mismatch> {
        self.with(agent, uuid, |wants| match wants {
            Wants::Answer(answer) => answer.take(),
            Wants::Log(_) | Wants::Terminal(_) => None,
        })
    }

    /// Where pieces of that log go; a stream that brought them before is ended by the token it was given.
    pub(super) fn log(&self, agent: &str, uuid: &str) -> Result<LogInlet, Mismatch> {
        self.with(agent, uuid, |wants| match wants {
            Wants::Log(side) => {
                side.current.cancel();
                side.current = CancellationToken::new();
                side.streams += 1;
                Some(LogInlet { pieces: side.pieces.clone(), replaced: side.current.clone(), number: side.streams })
            }
            Wants::Answer(_) | Wants::Terminal(_) => None,
        })
    }

    /// What that terminal is connected with.
    pub(super) fn terminal(&self, agent: &str, uuid: &str) -> Result<TerminalSide, Mismatch> {
        self.with(agent, uuid, |wants| match wants {
            Wants::Terminal(side) => side.take(),
            Wants::Answer(_) | Wants::Log(_) => None,
        })
    }

    fn with<T>(&self, agent: &str, uuid: &str, take: impl FnOnce(&mut Wants) -> Option<T>) -> Result<T, Mismatch> {
        let mut table = self.table.lock();
        let entry = table.all.get_mut(uuid).ok_or(Mismatch::Unknown)?;
        if entry.agent != agent {
            return Err(Mismatch::Stranger);
        }
        take(&mut entry.wants).ok_or(Mismatch::Unasked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions() -> Sessions {
        Sessions::new(Metrics::default())
    }

    #[test]
    fn a_session_is_its_agents_and_answered_once() {
        let sessions = sessions();
        let (answer, mut answered) = oneshot::channel();
        let session = sessions.open("a", Wants::Answer(Some(answer))).unwrap();
        assert_eq!(sessions.answer("b", session.uuid()).unwrap_err(), Mismatch::Stranger);
        assert_eq!(sessions.answer("a", "other").unwrap_err(), Mismatch::Unknown);
        assert_eq!(sessions.log("a", session.uuid()).unwrap_err(), Mismatch::Unasked);
        assert!(sessions.terminal("a", session.uuid()).is_err());
        sessions.answer("a", session.uuid()).unwrap().send(ResourceResponse::default()).unwrap();
        assert_eq!(answered.try_recv(), Ok(ResourceResponse::default()));
        assert_eq!(sessions.answer("a", session.uuid()).unwrap_err(), Mismatch::Unasked, "a second answer");
        let uuid = session.uuid().to_owned();
        drop(session);
        assert_eq!((sessions.answer("a", &uuid).unwrap_err(), sessions.len()), (Mismatch::Unknown, 0));
    }

    #[test]
    fn each_agent_has_so_many_and_no_more() {
        let sessions = sessions();
        let open: Vec<_> = (0..ANSWERS_MAX).map(|_| sessions.open("a", Wants::Answer(None)).unwrap()).collect();
        assert!(sessions.open("a", Wants::Answer(None)).is_none());
        assert!(sessions.open("a", Wants::Terminal(None)).is_some(), "streams are counted apart");
        assert!(sessions.open("b", Wants::Answer(None)).is_some());
        drop(open);
        assert_eq!(sessions.len(), 0);
        assert!(sessions.table.lock().counts.is_empty());
        assert!(sessions.open("a", Wants::Answer(None)).is_some());
    }

    #[test]
    fn a_new_stream_of_a_log_ends_the_one_before() {
        let sessions = sessions();
        let (pieces, _received) = mpsc::channel(1);
        let side = LogSide { pieces, current: CancellationToken::new(), streams: 0 };
        let session = sessions.open("a", Wants::Log(side)).unwrap();
        let first = sessions.log("a", session.uuid()).unwrap();
        let second = sessions.log("a", session.uuid()).unwrap();
        assert!(first.replaced.is_cancelled() && !second.replaced.is_cancelled());
        assert!(first.number < second.number);
    }
}
