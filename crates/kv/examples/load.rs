//! Measures durable transactions per second: `cargo run --release -p thane-kv --example load [directory] [value bytes]`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use thane_kv::{Compare, Mutation, RedbOptions, RedbStore, Store, Txn, TxnOutcome};

const PERIOD: Duration = Duration::from_secs(5);

#[expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "a program for people")]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let size = arguments.next().and_then(|size| size.parse().ok()).unwrap_or(1024);
    let directory = tempfile::tempdir_in(directory).expect("a directory to write in");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    println!("values of {size} bytes, {PERIOD:?} each");
    for clients in [1, 64, 512] {
        for update in [false, true] {
            let path = directory.path().join(format!("{clients}-{update}"));
            let store = RedbStore::open(path, RedbOptions::default()).expect("a store");
            let (count, elapsed) = runtime.block_on(load(&store, clients, size, update));
            let kind = if update { "updates" } else { "creates" };
            println!(
                "{clients:>4} clients: {:>8.0} {kind}/s, {}",
                count as f64 / elapsed.as_secs_f64(),
                batches(&store)
            );
        }
    }
}

/// How large the batches were and how long their commits took.
fn batches(store: &RedbStore) -> String {
    let mut registry = Registry::default();
    store.metrics().register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes all");
    let number = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(f64::NAN)
    };
    let size = number("kv_batch_requests_sum") / number("kv_batch_requests_count");
    let micros = 1e6 * number("kv_commit_seconds_sum") / number("kv_commit_seconds_count");
    format!("{size:.1} per batch of {micros:.0} us")
}

/// Lets clients write as fast as they are answered and counts what was committed.
async fn load(store: &Arc<RedbStore>, clients: usize, size: usize, update: bool) -> (u64, Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let count = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    let start = Instant::now();
    for client in 0..clients {
        let (store, stop, count) = (store.clone(), stop.clone(), count.clone());
        tasks.spawn(async move {
            let value = Bytes::from(vec![b'x'; size]);
            let (mut number, mut last) = (0_u64, 0);
            while !stop.load(Ordering::Relaxed) {
                let name = if update { 0 } else { number };
                let key = Bytes::from(format!("/registry/configmaps/default/client-{client:03}-{name:08}"));
                let compares = vec![Compare::ModRevision(key.clone(), if update { last } else { 0 })];
                let mutations = vec![Mutation::Put { key, value: value.clone(), lease: None }];
                let outcome = store.txn(Txn { compares, mutations }).await.expect("a durable write");
                let TxnOutcome::Committed { revision, .. } = outcome else { panic!("nobody else writes this key") };
                last = revision;
                number += 1;
            }
            count.fetch_add(number, Ordering::Relaxed);
        });
    }
    tokio::time::sleep(PERIOD).await;
    stop.store(true, Ordering::Relaxed);
    while tasks.join_next().await.is_some() {}
    (count.load(Ordering::Relaxed), start.elapsed())
}
