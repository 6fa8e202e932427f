//! The steps of a sandbox on disk: facts one after the other, each durable before anybody is told.

mod branch;
mod frames;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use parking_lot::Mutex;
use thane_api::wire::sandbox::{BindRequest, Change, StepRecord};

use branch::Branches;
pub(super) use branch::NONE;
pub(super) use frames::Fact;
use frames::HEADER;

/// The file of a sandbox's records.
const FILE: &str = "steps";
/// Steps of one sandbox; no session comes near.
const STEPS_MAX: usize = 100_000;
/// Changes between two steps that are recorded, and their bytes: a record has to fit in an answer.
const CHANGES_MAX: usize = 1000;
const CHANGES_BYTES_MAX: usize = 8 << 20;

/// The steps of a sandbox.
pub(super) struct StepLog {
    /// Taken only where waiting for the disk harms nobody.
    writer: Mutex<Writer>,
    /// Taken for moments.
    index: Mutex<Index>,
}

struct Writer {
    file: File,
    end: u64,
}

/// What is known without reading the file.
#[derive(Debug, Default, Clone)]
struct Index {
    steps: BTreeMap<i64, Known>,
    operations: BTreeMap<String, i64>,
    branches: Branches,
    bound: Option<(String, Vec<u8>)>,
    /// Where the fact is that says what it was bound with.
    bound_at: Option<(u64, usize)>,
    changes: Changes,
    begun: Option<StepRecord>,
    lives: String,
}

/// What was changed since the last step; where the facts are that say it.
#[derive(Debug, Default, Clone)]
struct Changes {
    at: Vec<(u64, usize)>,
    bytes: usize,
    lost: bool,
}

/// Where a step is, and what is asked about it most.
#[derive(Debug, Clone)]
struct Known {
    offset: u64,
    length: usize,
    digest: Vec<u8>,
    snapshot: String,
}

impl StepLog {
    /// Opens the log of a sandbox; what was written only in part is cut off.
    pub(super) fn open(records: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(records)?;
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
        let file = options.open(records.join(FILE))?;
        let (index, end) = read_all(&file)?;
        file.set_len(end)?;
        Ok(Self { writer: Mutex::new(Writer { file, end }), index: Mutex::new(index) })
    }

    /// The steps up to one of another sandbox, oldest first; none if it has no such step.
    pub(super) fn branch_of(records: &Path, step: i64) -> io::Result<Option<Vec<StepRecord>>> {
        let file = File::open(records.join(FILE))?;
        let (index, end) = read_all(&file)?;
        let log = Self { writer: Mutex::new(Writer { file, end }), index: Mutex::new(index) };
        let steps = log.index.lock().branches.led_to(step);
        if steps.is_empty() {
            return Ok(None);
        }
        steps.into_iter().map(|step| log.read(step)).collect()
    }

    /// Writes facts; if it matters, they are on disk when this returns.
    pub(super) fn append_all(&self, facts: &[Fact], durable: bool) -> io::Result<()> {
        let mut held = self.writer.lock();
        let writer = &mut *held;
        let start = writer.end;
        let mut places = Vec::with_capacity(facts.len());
        for fact in facts {
            let bytes = fact.encode();
            let written = writer.file.seek(SeekFrom::Start(writer.end)).and_then(|_| writer.file.write_all(&bytes));
            if let Err(error) = written {
                // What is there in part is overwritten by the next.
                writer.end = start;
                return Err(error);
            }
            places.push((writer.end, bytes.len()));
            writer.end += bytes.len() as u64;
        }
        if durable {
            writer.file.sync_data()?;
        }
        let mut index = self.index.lock();
        for (fact, (offset, length)) in facts.iter().zip(places) {
            index.learn(fact, offset, length);
        }
        Ok(())
    }

    /// A recorded step.
    pub(super) fn read(&self, step: i64) -> io::Result<Option<StepRecord>> {
        let (known, live) = {
            let index = self.index.lock();
            let Some(known) = index.steps.get(&step).cloned() else { return Ok(None) };
            (known, index.branches.live().contains(&step))
        };
        match self.fact(known.offset, known.length)? {
            Some(Fact::Ended(record)) => Ok(Some(StepRecord { live, ..record })),
            _ => Err(damaged(&format!("the record of step {step}"))),
        }
    }

    fn fact(&self, offset: u64, length: usize) -> io::Result<Option<Fact>> {
        let mut bytes = vec![0; length];
        self.writer.lock().file.read_exact_at(&mut bytes, offset)?;
        let (header, content) = bytes.split_first_chunk::<HEADER>().ok_or(io::ErrorKind::InvalidData)?;
        Ok(Fact::decode(*header, content))
    }

    /// What it was bound with; nothing if it is not bound.
    pub(super) fn bound_with(&self) -> io::Result<BindRequest> {
        let Some((offset, length)) = self.index.lock().bound_at else { return Ok(BindRequest::default()) };
        match self.fact(offset, length)? {
            Some(Fact::Bound(bound, _)) => Ok(bound),
            _ => Err(damaged("what it was bound with")),
        }
    }

    /// Whether a change of so many bytes can be recorded before the next step.
    pub(super) fn can_change(&self, bytes: usize) -> bool {
        let changes = &self.index.lock().changes;
        !changes.lost && changes.at.len() < CHANGES_MAX && changes.bytes.saturating_add(bytes) <= CHANGES_BYTES_MAX
    }

    /// What was changed since the last step, in its order; none if that is more than is recorded.
    pub(super) fn changes(&self) -> io::Result<Option<Vec<Change>>> {
        let changes = self.index.lock().changes.clone();
        if changes.lost {
            return Ok(None);
        }
        let read = changes.at.into_iter().map(|(offset, length)| match self.fact(offset, length)? {
            Some(Fact::Changed(Some(change))) => Ok(change),
            _ => Err(damaged("a change between steps")),
        });
        read.collect::<io::Result<_>>().map(Some)
    }

    /// Indexes of recorded steps, oldest first.
    pub(super) fn steps(&self, live: bool, from: i64) -> Vec<i64> {
        let index = self.index.lock();
        let steps: BTreeSet<i64> = if live { index.branches.live() } else { index.steps.keys().copied().collect() };
        steps.into_iter().filter(|step| *step >= from).collect()
    }

    /// The step of an operation, and the digest of what it was asked.
    pub(super) fn operation(&self, name: &str) -> Option<(i64, Vec<u8>)> {
        let index = self.index.lock();
        let step = *index.operations.get(name)?;
        Some((step, index.steps.get(&step)?.digest.clone()))
    }

    /// What a step's files are called; none if there is no such step.
    pub(super) fn snapshot(&self, step: i64) -> Option<String> {
        self.index.lock().steps.get(&step).map(|known| known.snapshot.clone())
    }

    /// The step whose files are there now.
    pub(super) fn head(&self) -> i64 {
        self.index.lock().branches.head()
    }

    /// The next step's index.
    pub(super) fn next(&self) -> i64 {
        self.index.lock().branches.next()
    }

    /// Whether there is room for another step.
    pub(super) fn has_room(&self) -> bool {
        self.index.lock().steps.len() < STEPS_MAX
    }

    /// The session it belongs to, and the digest of what it was bound with.
    pub(super) fn bound(&self) -> Option<(String, Vec<u8>)> {
        self.index.lock().bound.clone()
    }

    /// A step that has begun and of which nothing more is known.
    pub(super) fn begun(&self) -> Option<StepRecord> {
        self.index.lock().begun.clone()
    }

    /// Where its executor was last found.
    pub(super) fn lives(&self) -> String {
        self.index.lock().lives.clone()
    }
}

impl Index {
    fn learn(&mut self, fact: &Fact, offset: u64, length: usize) {
        match fact {
            Fact::Ended(record) => {
                let known = Known { offset, length, digest: record.digest.to_vec(), snapshot: record.snapshot.clone() };
                if !record.operation.is_empty() {
                    self.operations.insert(record.operation.clone(), record.index);
                }
                self.steps.insert(record.index, known);
                self.branches.ended(record.index, record.parent);
                self.begun = None;
            }
            Fact::Began(record) => {
                self.branches.begun(record.index);
                self.begun = Some(record.clone());
                // They are the step's now.
                self.changes = Changes::default();
            }
            Fact::Bound(bound, digest) => {
                self.bound = Some((bound.session.clone(), digest.clone()));
                self.bound_at = Some((offset, length));
            }
            Fact::Changed(Some(_)) => {
                self.changes.at.push((offset, length));
                self.changes.bytes += length;
            }
            Fact::Changed(None) => self.changes = Changes { lost: true, ..Changes::default() },
            Fact::Moved(step) => {
                self.branches.moved(*step);
                self.changes = Changes::default();
            }
            Fact::Lives(place) => {
                if !self.lives.is_empty() && self.lives != *place {
                    self.branches.moved(NONE);
                }
                self.lives.clone_from(place);
            }
            Fact::Forgotten => {
                self.steps.clear();
                self.operations.clear();
                self.branches.forget();
                self.begun = None;
            }
        }
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} is damaged"))
}

/// Everything up to the first fact that is not whole, and where that is.
fn read_all(file: &File) -> io::Result<(Index, u64)> {
    let mut reader = BufReader::with_capacity(256 * 1024, file);
    reader.seek(SeekFrom::Start(0))?;
    let (mut index, mut end) = (Index::default(), 0);
    loop {
        let mut header = [0; HEADER];
        if !read_whole(&mut reader, &mut header)? {
            return Ok((index, end));
        }
        let Some(length) = Fact::length(header) else { return Ok((index, end)) };
        let mut content = Vec::new();
        (&mut reader).take(length as u64).read_to_end(&mut content)?;
        let Some(fact) = Fact::decode(header, &content).filter(|_| content.len() == length) else {
            return Ok((index, end));
        };
        index.learn(&fact, end, HEADER + length);
        end += (HEADER + length) as u64;
    }
}

fn read_whole(reader: &mut impl Read, into: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(into) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
