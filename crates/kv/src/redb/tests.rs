//! Power cuts: a disk that keeps, of what was not synced, only what it likes.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::file::Disk;
use super::journal::Journal;
use super::*;
use crate::options::HistoryLimits;
use crate::store::Mutation;

const SECTOR: usize = 512;

/// A disk in memory.
#[derive(Debug)]
struct FragileDisk {
    state: Mutex<State>,
    /// How many writes were acknowledged to their caller.
    acknowledged: Arc<AtomicU64>,
}

#[derive(Debug)]
struct State {
    random: StdRng,
    durable: Vec<u8>,
    /// What a reader sees.
    present: Vec<u8>,
    /// Sectors that differ from what is durable, maybe.
    unsynced: BTreeSet<usize>,
    /// Operations until the power goes.
    life: u32,
    /// What was there when the power went, and how much had been acknowledged.
    cut: Option<(Vec<u8>, u64)>,
}

impl FragileDisk {
    fn new(bytes: Vec<u8>, seed: u64, acknowledged: &Arc<AtomicU64>) -> Arc<Self> {
        let mut random = StdRng::seed_from_u64(seed);
        let life = random.random_range(1..900);
        let (durable, present) = (bytes.clone(), bytes);
        let state = State { random, durable, present, unsynced: BTreeSet::new(), life, cut: None };
        Arc::new(Self { state: Mutex::new(state), acknowledged: Arc::clone(acknowledged) })
    }
}

impl State {
    /// Counts an operation; the power may go before it is done.
    fn step(&mut self, acknowledged: &AtomicU64) {
        self.life = self.life.saturating_sub(1);
        if self.life == 0 && self.cut.is_none() {
            let mut left = self.durable.clone();
            // A size that was not synced may have been kept or not.
            if self.random.random_bool(0.5) {
                left.resize(self.present.len(), 0);
            }
            for sector in &self.unsynced {
                let range = sector * SECTOR..((sector + 1) * SECTOR).min(self.present.len()).min(left.len());
                if !range.is_empty() && self.random.random_bool(0.5) {
                    left[range.clone()].copy_from_slice(&self.present[range]);
                }
            }
            self.cut = Some((left, acknowledged.load(Ordering::SeqCst)));
        }
    }
}

impl Disk for FragileDisk {
    fn length(&self) -> io::Result<u64> {
        Ok(self.state.lock().present.len() as u64)
    }

    fn resize(&self, length: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.step(&self.acknowledged);
        state.present.resize(usize::try_from(length).unwrap(), 0);
        Ok(())
    }

    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        let state = self.state.lock();
        let at = usize::try_from(at).unwrap();
        let bytes = state.present.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn write_at(&self, data: &[u8], at: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        let at = usize::try_from(at).unwrap();
        let end = at + data.len();
        if state.present.len() < end {
            state.present.resize(end, 0);
        }
        state.present[at..end].copy_from_slice(data);
        state.unsynced.extend(at / SECTOR..end.div_ceil(SECTOR));
        // In the midst of the write: any part of it may be there.
        state.step(&self.acknowledged);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.step(&self.acknowledged);
        state.durable = state.present.clone();
        state.unsynced.clear();
        Ok(())
    }
}

/// A disk that is full from one moment on.
#[derive(Debug)]
struct FullDisk {
    below: Arc<FragileDisk>,
    full: AtomicBool,
}

impl FullDisk {
    fn check(&self) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Disk for FullDisk {
    fn length(&self) -> io::Result<u64> {
        self.below.length()
    }

    fn resize(&self, length: u64) -> io::Result<()> {
        self.check()?;
        self.below.resize(length)
    }

    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.below.read_at(out, at)
    }

    fn write_at(&self, data: &[u8], at: u64) -> io::Result<()> {
        self.check()?;
        self.below.write_at(data, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.check()?;
        self.below.sync()
    }
}

fn options() -> RedbOptions {
    let history = HistoryLimits { revisions: 100, ..HistoryLimits::default() };
    RedbOptions { history, journal_bytes: 96 * 4096, ..RedbOptions::default() }
}

fn start(opened: Result<(Database, Journal), open::Refusal>) -> Arc<RedbStore> {
    let (database, journal) = opened.unwrap_or_else(|refusal| panic!("{refusal:?}"));
    let engine = open::recall(&database, &options()).unwrap();
    let lock = tempfile::tempfile().unwrap();
    RedbStore::start(Opened { path: "disk".into(), database, engine, journal, lock }, options()).unwrap()
}

/// The value a key has after so many writes: each write sets one key to its own number, and a few keys share the numbers.
fn mutation(number: u64) -> Mutation {
    let size = if number.is_multiple_of(37) { 30_000 } else { 300 };
    let value = [number.to_string().as_bytes(), &vec![b' '; size]].concat();
    Mutation::Put { key: Bytes::from(format!("key/{:02}", number % 23)), value: value.into(), lease: None }
}

/// How many of the writes a store has: all up to some number and nothing of the next.
async fn count(store: &RedbStore) -> u64 {
    let page = store.range(Query::prefix(Bytes::new())).await.unwrap();
    let number = |entry: &Entry| -> u64 { String::from_utf8_lossy(&entry.value).trim().parse().unwrap() };
    let numbers: Vec<u64> = page.entries.iter().map(number).collect();
    let last = numbers.iter().copied().max().unwrap_or(0);
    assert_eq!(store.revision(), last, "each write is a revision");
    for number in last.saturating_sub(22).max(1)..=last {
        assert!(numbers.contains(&number), "{number} of {last} is missing");
    }
    last
}

async fn cut_while_writing(seed: u64) {
    let acknowledged = Arc::new(AtomicU64::new(0));
    let fresh = FragileDisk::new(Vec::new(), seed, &acknowledged);
    let store = start(open::initialize(Arc::clone(&fresh) as Arc<dyn Disk>, &options()));
    store.close().await.unwrap();
    let mut bytes = fresh.state.lock().durable.clone();
    for life in 0..4 {
        let disk = FragileDisk::new(bytes, seed + 1000 * (life + 1), &acknowledged);
        let store = start(open::attach(Arc::clone(&disk) as Arc<dyn Disk>, &options()));
        let known = count(&store).await;
        assert!(known >= acknowledged.load(Ordering::SeqCst), "seed {seed}: {known} is not all that was acknowledged");
        let mut number = known;
        while disk.state.lock().cut.is_none() {
            number += 1;
            let txn = Txn { compares: vec![], mutations: vec![mutation(number)] };
            store.txn(txn).await.unwrap();
            acknowledged.store(number, Ordering::SeqCst);
        }
        let (left, told) = disk.state.lock().cut.clone().unwrap();
        acknowledged.store(told, Ordering::SeqCst);
        bytes = left;
    }
}

#[test]
fn a_power_cut_takes_nothing_acknowledged() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        for seed in 0..80 {
            cut_while_writing(seed).await;
        }
    });
}

fn put(number: u64) -> Txn {
    Txn { compares: vec![], mutations: vec![mutation(number)] }
}

#[tokio::test]
async fn a_store_that_failed_says_so_and_what_it_acknowledged_is_there_again() {
    let below = FragileDisk::new(Vec::new(), 0, &Arc::default());
    let disk = Arc::new(FullDisk { below, full: AtomicBool::new(false) });
    let store = start(open::initialize(Arc::clone(&disk) as Arc<dyn Disk>, &options()));
    store.txn(put(1)).await.unwrap();
    let stopped = store.stopped();
    disk.full.store(true, Ordering::SeqCst);
    assert!(matches!(store.txn(put(2)).await, Err(Error::Storage(_))));
    let failure = stopped.await.unwrap_err();
    assert!(failure.to_string().starts_with("the store disk stopped: storage failed: "), "{failure}");
    assert!(matches!(store.txn(put(2)).await, Err(Error::Storage(_))), "nothing is taken any more, and it is said why");

    disk.full.store(false, Ordering::SeqCst);
    let store = start(open::attach(disk, &options()));
    assert_eq!(count(&store).await, 1);
    let stopped = store.stopped();
    store.close().await.unwrap();
    stopped.await.unwrap();
}
