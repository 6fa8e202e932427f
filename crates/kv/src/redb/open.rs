//! Opening the file: the lock, creation, and finding out whether it is sound.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redb::{Builder, Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable, StorageError};

use super::file::{Disk, Image, Layout};
use super::journal::Journal;
use super::reader::number;
use super::space::{CURRENT, FORMAT, LAST_LEASE, LEASES, LOG, META, fault};
use crate::engine::{Engine, Numbers};
use crate::fault::Fault;
use crate::history::Mark;
use crate::lease::Leases;
use crate::options::RedbOptions;
use crate::record::{decode_changes, encode_entry, log_bytes};
use crate::snapshot::Snapshot;
use crate::store::{Error, Result, Revision};

/// The layout of the tables. A file with another number is refused.
const FORMAT_NUMBER: u64 = 1;
/// Points of an existing history that are looked up when the file is opened.
const RECALLED_MARKS: u64 = 32;

/// An open file and what was found in it.
pub(super) struct Opened {
    pub(super) path: String,
    pub(super) database: Database,
    pub(super) engine: Engine,
    pub(super) journal: Journal,
    pub(super) lock: File,
}

pub(super) fn open(path: &Path, options: &RedbOptions) -> Result<Opened> {
    let name = path.display().to_string();
    let lock = lock(path, &name)?;
    // redb meets damage with an error where it looks for it and with a panic where it does not.
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let (database, journal) =
            if path.try_exists().map_err(medium)? { open_existing(path, options)? } else { create(path, options)? };
        let engine = recall(&database, options)?;
        Ok((database, journal, engine))
    }));
    match opened {
        Ok(Ok((database, journal, engine))) => Ok(Opened { path: name, database, engine, journal, lock }),
        Ok(Err(Refusal::Locked)) => Err(Error::Locked { path: name }),
        Ok(Err(Refusal::Fault(fault))) => Err(fault.into_error(&name)),
        Err(panic) => Err(Error::Damaged { path: name, reason: panic_text(panic.as_ref()) }),
    }
}

#[derive(Debug)]
pub(super) enum Refusal {
    Locked,
    Fault(Fault),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("its structure makes no sense").to_owned()
}

/// Takes the lock beside the file. The system releases it when the process ends, however it ends.
fn lock(path: &Path, name: &str) -> Result<File> {
    let beside = sibling(path, ".lock");
    let describe = |error| Error::Storage(format!("cannot lock {}: {error}", beside.display()));
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&beside).map_err(describe)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path: name.to_owned() }),
        Err(TryLockError::Error(error)) => Err(describe(error)),
    }
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(suffix);
    path.with_file_name(name)
}

/// Makes the file under another name first, so that under its own it is always complete.
fn create(path: &Path, options: &RedbOptions) -> Result<(Database, Journal), Refusal> {
    let unfinished = sibling(path, ".new");
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(medium(error).into()),
        _ => {}
    }
    let file = OpenOptions::new().create_new(true).read(true).write(true).open(&unfinished).map_err(medium)?;
    let (database, journal) = initialize(exclusive(file)?, options)?;
    std::fs::rename(&unfinished, path).map_err(medium)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(medium)?;
    Ok((database, journal))
}

/// Makes an empty file an empty store.
pub(super) fn initialize(disk: Arc<dyn Disk>, options: &RedbOptions) -> Result<(Database, Journal), Refusal> {
    let layout = Layout::new(options.journal_bytes);
    layout.write(&*disk).map_err(medium)?;
    let image = Image::new(Arc::clone(&disk), layout);
    let database = Builder::new().set_cache_size(options.cache_bytes).create_with_backend(image).map_err(refusal)?;
    let txn = database.begin_write().map_err(fault)?;
    {
        txn.open_table(CURRENT).map_err(fault)?;
        txn.open_table(LOG).map_err(fault)?;
        txn.open_table(LEASES).map_err(fault)?;
        txn.open_table(META).map_err(fault)?.insert(FORMAT, FORMAT_NUMBER).map_err(fault)?;
    }
    txn.commit().map_err(fault)?;
    Ok((database, Journal::new(disk, layout)))
}

/// Takes the file's own lock, against programs that do not know of the one beside it.
fn exclusive(file: File) -> Result<Arc<dyn Disk>, Refusal> {
    match file.try_lock() {
        Ok(()) => Ok(Arc::new(file)),
        Err(TryLockError::WouldBlock) => Err(Refusal::Locked),
        Err(TryLockError::Error(error)) => Err(medium(error).into()),
    }
}

fn open_existing(path: &Path, options: &RedbOptions) -> Result<(Database, Journal), Refusal> {
    attach(exclusive(OpenOptions::new().read(true).write(true).open(path).map_err(medium)?)?, options)
}

/// Takes a file as it was left.
pub(super) fn attach(disk: Arc<dyn Disk>, options: &RedbOptions) -> Result<(Database, Journal), Refusal> {
    let length = disk.length().map_err(medium)?;
    let layout = Layout::read(&*disk, length)?;
    // After an unclean end redb verifies everything by itself.
    let verified = Arc::new(AtomicBool::new(false));
    let mut builder = Builder::new();
    builder.set_cache_size(options.cache_bytes).set_repair_callback({
        let verified = Arc::clone(&verified);
        move |_| verified.store(true, Ordering::Relaxed)
    });
    let mut database = builder.create_with_backend(Image::new(Arc::clone(&disk), layout)).map_err(refusal)?;
    if length <= options.verify_bytes && !verified.load(Ordering::Relaxed) {
        // A repair at this point would mean that something durable is lost.
        let sound = database.check_integrity().map_err(refusal)?;
        if !sound {
            return Err(Fault::Damaged("its checksums do not match".into()).into());
        }
    }
    let txn = database.begin_read().map_err(fault)?;
    check_format(&txn)?;
    let known = txn.revision()?;
    drop(txn);
    let journal = Journal::new(disk, layout);
    replay(&database, &journal.recover(known)?)?;
    Ok((database, journal))
}

/// Applies what the journal has and redb has not.
fn replay(database: &Database, records: &[(Revision, Vec<u8>)]) -> Result<(), Fault> {
    if records.is_empty() {
        return Ok(());
    }
    let txn = database.begin_write().map_err(fault)?;
    {
        let mut current = txn.open_table(CURRENT).map_err(fault)?;
        let mut log = txn.open_table(LOG).map_err(fault)?;
        let (mut buffer, mut events) = (Vec::new(), Vec::new());
        for (revision, record) in records {
            decode_changes(*revision, record, &mut |_| true, &mut |event| events.push(event))?;
            for event in events.drain(..) {
                match &event.entry {
                    Some(entry) => {
                        encode_entry(&mut buffer, entry);
                        current.insert(&*event.key, buffer.as_slice()).map_err(fault)?;
                    }
                    None => drop(current.remove(&*event.key).map_err(fault)?),
                }
            }
            log.insert(revision, record.as_slice()).map_err(fault)?;
        }
    }
    txn.commit().map_err(fault)
}

fn check_format(txn: &ReadTransaction) -> Result<(), Fault> {
    let names: Vec<String> =
        txn.list_tables().map_err(fault)?.map(|table| redb::TableHandle::name(&table).to_owned()).collect();
    if !["current", "log", "leases", "meta"].iter().all(|name| names.iter().any(|found| found == name)) {
        return Err(Fault::Damaged("it was made by another program".into()));
    }
    match number(txn, FORMAT)? {
        FORMAT_NUMBER => Ok(()),
        other => Err(Fault::Damaged(format!("its format is {other}, this program reads {FORMAT_NUMBER}"))),
    }
}

/// Builds the engine's memory from the file.
pub(super) fn recall(database: &Database, options: &RedbOptions) -> Result<Engine, Fault> {
    let now = options.time.now();
    let txn = database.begin_read().map_err(fault)?;
    let numbers =
        Numbers { revision: txn.revision()?, compacted: txn.compacted()?, last_lease: number(&txn, LAST_LEASE)? };
    let leases = recall_leases(&txn, now)?;
    let mut engine = Engine::new(options.limits.clone(), options.history.clone(), numbers, leases);
    for mark in recall_marks(&txn, numbers, now)? {
        engine.recall(mark);
    }
    Ok(engine)
}

fn recall_leases(txn: &ReadTransaction, now: Duration) -> Result<Leases, Fault> {
    let mut leases = Leases::default();
    for row in txn.open_table(LEASES).map_err(fault)?.iter().map_err(fault)? {
        let (row, ttl) = row.map_err(fault)?;
        let (id, key) = row.value().split_first_chunk().ok_or_else(|| Fault::Damaged("a lease has no name".into()))?;
        let id = u64::from_be_bytes(*id);
        if key.is_empty() {
            leases.insert(id, Duration::from_millis(ttl.value()), now);
        } else {
            leases.attach(id, bytes::Bytes::copy_from_slice(key));
        }
    }
    Ok(leases)
}

/// A few points along the log, so that bounds on its size go on to hold.
fn recall_marks(txn: &ReadTransaction, numbers: Numbers, now: Duration) -> Result<Vec<Mark>, Fault> {
    let log = txn.open_table(LOG).map_err(fault)?;
    let length = numbers.revision.saturating_sub(numbers.compacted);
    let mut marks = Vec::new();
    for part in 1..=RECALLED_MARKS {
        let revision =
            numbers.compacted + length / RECALLED_MARKS * part + length % RECALLED_MARKS * part / RECALLED_MARKS;
        if revision > numbers.compacted
            && let Some(record) = log.get(revision).map_err(fault)?
        {
            marks.push(Mark { time: now, revision, log_bytes: log_bytes(record.value())? });
        }
    }
    Ok(marks)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn medium(error: std::io::Error) -> Fault {
    Fault::Medium(error.to_string())
}

fn refusal(error: DatabaseError) -> Refusal {
    match error {
        DatabaseError::DatabaseAlreadyOpen => Refusal::Locked,
        DatabaseError::UpgradeRequired(version) => {
            Fault::Damaged(format!("its redb format {version} is too old")).into()
        }
        DatabaseError::Storage(StorageError::Corrupted(reason)) => Fault::Damaged(reason).into(),
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
            Fault::Damaged(error.to_string()).into()
        }
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Fault::Damaged("it ends early".into()).into()
        }
        other => fault(other).into(),
    }
}
