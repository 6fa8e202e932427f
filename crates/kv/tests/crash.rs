//! Kills a writing process again and again and looks at what it left.
//!
//! The writer is this same program, told by an environment variable where to write. Each of its clients writes
//! transactions that follow from the client's number and a counter alone, so whoever knows the counter of the last one
//! knows every entry that must be there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use thane_kv::{Entry, Error, HistoryLimits, Mutation, Query, RedbOptions, RedbStore, Store, Txn};

const FILE_VARIABLE: &str = "THANE_KV_CRASH_FILE";
const CLIENTS: u64 = 4;
const FILES: usize = 5;
const KILLS_PER_FILE: usize = 50;

fn open(path: &Path) -> Arc<RedbStore> {
    // Little history and a short journal, so that compaction and the journal's end are at work when the end comes.
    let history = HistoryLimits { revisions: 400, ..HistoryLimits::default() };
    RedbStore::open(path, RedbOptions { history, journal_bytes: 256 * 1024, ..RedbOptions::default() }).unwrap()
}

fn counter_key(client: u64) -> Bytes {
    Bytes::from(format!("{client}/counter"))
}

/// The transaction a client writes as its `counter`-th.
fn mutations(client: u64, counter: u64) -> Vec<Mutation> {
    let mut random = StdRng::seed_from_u64(client << 32 | counter);
    let mut changes = BTreeMap::new();
    for _ in 0..random.random_range(1..6) {
        let key = Bytes::from(format!("{client}/{:02}", random.random_range(0..30)));
        let size = if random.random_ratio(1, 50) { 100_000 } else { random.random_range(0..2000) };
        let value = Bytes::from([format!("{counter} ").as_bytes(), &vec![b'x'; size]].concat());
        let delete = random.random_ratio(1, 4);
        changes.insert(key, (!delete).then_some(value));
    }
    changes.insert(counter_key(client), Some(Bytes::from(counter.to_string())));
    let mutation = |(key, value)| match value {
        Some(value) => Mutation::Put { key, value, lease: None },
        None => Mutation::Delete { key },
    };
    changes.into_iter().map(mutation).collect()
}

async fn counter(store: &Arc<RedbStore>, client: u64) -> u64 {
    let entry = store.get(&counter_key(client)).await.unwrap();
    entry.map_or(0, |entry| std::str::from_utf8(&entry.value).unwrap().parse().unwrap())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(future)
}

/// The process that gets killed. Does nothing in an ordinary run of the tests.
#[test]
fn writer() {
    let Ok(path) = std::env::var(FILE_VARIABLE) else { return };
    say("starting");
    let store = open(Path::new(&path));
    say("open");
    block_on(async {
        let clients = (0..CLIENTS).map(|client| {
            let store = store.clone();
            async move {
                for counter in counter(&store, client).await + 1.. {
                    let txn = Txn { compares: vec![], mutations: mutations(client, counter) };
                    store.txn(txn).await.unwrap();
                    say(&format!("written {client} {counter}"));
                }
            }
        });
        futures::future::join_all(clients).await;
    });
}

/// Writes a line past the test harness, which would hold it back.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

fn spawn_writer(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["writer", "--exact", "--nocapture", "--test-threads=1"])
        .env(FILE_VARIABLE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Lets a writer run for a while and kills it; the counters it acknowledged, with their clients.
fn run_and_kill(path: &Path, life: Duration) -> Vec<(u64, u64)> {
    let mut child = spawn_writer(path);
    std::thread::sleep(life);
    child.kill().unwrap();
    let mut acknowledged = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let said = line.unwrap();
        let mut words = said.split(' ');
        if words.next() == Some("written") {
            let mut number = || words.next().unwrap().parse().unwrap();
            acknowledged.push((number(), number()));
        }
    }
    child.wait().unwrap();
    acknowledged
}

/// What must be there: each client's counter and entries.
#[derive(Default)]
struct Expected {
    counters: BTreeMap<u64, u64>,
    /// The newest counter each client was told is durable.
    acknowledged: BTreeMap<u64, u64>,
    values: BTreeMap<Bytes, Bytes>,
}

impl Expected {
    /// Takes note of acknowledgements. A writer that starts again before the last of them has lost it.
    fn note(&mut self, acknowledged: &[(u64, u64)]) {
        for (client, counter) in acknowledged {
            let last = self.acknowledged.entry(*client).or_default();
            assert!(counter > last, "client {client} wrote {counter} after it was told of {last}");
            *last = *counter;
        }
    }

    async fn check(&mut self, store: &Arc<RedbStore>) {
        for client in 0..CLIENTS {
            let known = self.counters.entry(client).or_default();
            let found = counter(store, client).await;
            let told = self.acknowledged.get(&client).copied().unwrap_or(0);
            assert!(found >= told.max(*known), "client {client} was told of {told}, the file ends at {found}");
            for counter in *known + 1..=found {
                for mutation in mutations(client, counter) {
                    match mutation {
                        Mutation::Put { key, value, .. } => drop(self.values.insert(key, value)),
                        Mutation::Delete { key } => drop(self.values.remove(&key)),
                    }
                }
            }
            *known = found;
        }
        let page = store.range(Query::prefix(Bytes::new())).await.unwrap();
        let found = page.entries.iter().map(|entry| (&entry.key, &entry.value));
        assert!(found.eq(self.values.iter()), "the entries are not those of whole transactions");
        check_log(store, &page.entries).await;
    }
}

/// The log must lead to the present: replayed from its beginning it ends in the entries.
async fn check_log(store: &Arc<RedbStore>, entries: &[Entry]) {
    // Whatever is to be compacted after opening is so now.
    store.tick().await.unwrap();
    let mut state: BTreeMap<Bytes, Entry> = BTreeMap::new();
    let query = Query { at: Some(store.compacted()), ..Query::prefix(Bytes::new()) };
    for entry in store.range(query).await.unwrap().entries {
        state.insert(entry.key.clone(), entry);
    }
    let mut watch = store.watch(Bytes::new(), store.compacted()).unwrap();
    while let Some(batch) = watch.try_next().unwrap() {
        for event in batch.events {
            assert_eq!(state.get(&event.key), event.previous.as_ref(), "the log has a gap");
            match &event.entry {
                Some(entry) => drop(state.insert(event.key.clone(), entry.clone())),
                None => drop(state.remove(&event.key)),
            }
        }
    }
    assert!(state.values().eq(entries), "the log does not lead to the present");
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_half_there() {
    if std::env::var(FILE_VARIABLE).is_ok() {
        return;
    }
    let mut random = rand::rng();
    let (mut kills, mut writes) = (0, 0);
    for _ in 0..FILES {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kv");
        let mut expected = Expected::default();
        for _ in 0..KILLS_PER_FILE {
            let acknowledged = run_and_kill(&path, Duration::from_millis(random.random_range(5..180)));
            kills += 1;
            expected.note(&acknowledged);
            // Sometimes the next writer has to cope with what the last one left, without us in between.
            if random.random_ratio(1, 4) {
                continue;
            }
            let store = open(&path);
            block_on(expected.check(&store));
        }
        writes += expected.counters.values().sum::<u64>();
    }
    assert!(kills >= 200 && writes > 1000, "{kills} kills, {writes} transactions");
}

#[test]
fn a_second_process_is_refused_until_the_first_is_dead() {
    if std::env::var(FILE_VARIABLE).is_ok() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kv");
    let mut child = spawn_writer(&path);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "open"), "the writer opens the file");
    let refused = RedbStore::open(&path, RedbOptions::default());
    assert!(matches!(refused.err(), Some(Error::Locked { path: named }) if named == path.display().to_string()));
    child.kill().unwrap();
    child.wait().unwrap();
    open(&path);
}
