//! Files that are not what they should be: refused with a reason, never emptied, never a panic.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use thane_kv::{Error, Mutation, Query, RedbOptions, RedbStore, Result, Store, Txn};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Bytes before redb's own part of a file that [`open`] made: the head and the journal.
const IMAGE_START: usize = 4096 + JOURNAL_BYTES;
const JOURNAL_BYTES: usize = 16 * 4096;

fn open(path: &Path) -> Result<Arc<RedbStore>> {
    RedbStore::open(path, options())
}

fn options() -> RedbOptions {
    RedbOptions { journal_bytes: JOURNAL_BYTES, ..RedbOptions::default() }
}

/// A sound file with some content, closed cleanly.
fn sound(directory: &Path) -> PathBuf {
    let path = directory.join("kv");
    let store = open(&path).unwrap();
    block_on(async {
        for index in 0..200_u8 {
            let key = Bytes::from(format!("key/{index:03}"));
            let mutations = vec![Mutation::Put { key, value: Bytes::from(vec![index; 600]), lease: None }];
            store.txn(Txn { compares: vec![], mutations }).await.unwrap();
        }
        store.close().await.unwrap();
    });
    path
}

/// Everything a reader can find out about a store.
fn content(store: &Arc<RedbStore>) -> Vec<String> {
    let page = block_on(store.range(Query::prefix(Bytes::new()))).unwrap();
    let mut found = vec![format!("{} {}", store.revision(), store.compacted())];
    found.extend(page.entries.iter().map(|entry| format!("{entry:?}")));
    let mut watch = store.watch(Bytes::new(), 0).unwrap();
    while let Some(batch) = watch.try_next().unwrap() {
        found.extend(batch.events.iter().map(|event| format!("{event:?}")));
    }
    found
}

/// Opens a file with the given bytes, which must be refused as damaged and left alone.
fn check_refused(what: &str, bytes: &[u8]) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kv");
    std::fs::write(&path, bytes).unwrap();
    match open(&path).err() {
        Some(Error::Damaged { path: named, reason }) => {
            assert_eq!(named, path.display().to_string());
            assert!(!reason.is_empty());
        }
        other => panic!("{what}: {other:?}"),
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes.len() as u64, "{what}: the file was changed");
}

#[test]
fn foreign_files_are_refused() {
    check_refused("empty", b"");
    check_refused("text", b"hello, world\n");
    check_refused("long text", &b"hello, world\n".repeat(10_000));
    check_refused("zeroes", &vec![0; 100_000]);
    check_refused("SQLite", &[b"SQLite format 3\0", &[1; 8192][..]].concat());
}

#[test]
fn a_file_of_another_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kv");
    let database = redb::Database::create(&path).unwrap();
    let table: redb::TableDefinition<'_, u64, u64> = redb::TableDefinition::new("log");
    let txn = database.begin_write().unwrap();
    txn.open_table(table).unwrap().insert(1, 1).unwrap();
    txn.commit().unwrap();
    drop(database);
    let refused = open(&path).err();
    assert!(
        matches!(refused, Some(Error::Damaged { ref reason, .. }) if reason.contains("another program")),
        "{refused:?}"
    );
}

#[test]
fn a_newer_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = sound(directory.path());
    let bytes = std::fs::read(&path).unwrap();
    let image = directory.path().join("image");
    std::fs::write(&image, &bytes[IMAGE_START..]).unwrap();
    let database = redb::Database::open(&image).unwrap();
    let table: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");
    let txn = database.begin_write().unwrap();
    txn.open_table(table).unwrap().insert("format", 2).unwrap();
    txn.commit().unwrap();
    drop(database);
    std::fs::write(&path, [&bytes[..IMAGE_START], &std::fs::read(&image).unwrap()].concat()).unwrap();
    let refused = open(&path).err();
    assert!(
        matches!(refused, Some(Error::Damaged { ref reason, .. }) if reason.contains("format is 2")),
        "{refused:?}"
    );
}

#[test]
fn a_shortened_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(sound(directory.path())).unwrap();
    for length in [
        1,
        63,
        64,
        320,
        511,
        4095,
        4096,
        5000,
        65_536,
        IMAGE_START,
        IMAGE_START + 1,
        IMAGE_START + 320,
        IMAGE_START + 5000,
        bytes.len() / 2,
        bytes.len() - 4096,
        bytes.len() - 1,
    ] {
        check_refused(&format!("{length} of {} bytes", bytes.len()), &bytes[..length]);
    }
}

/// Overwrites a part of each page in turn: either it is noticed or it was of no importance.
#[test]
fn overwritten_bytes_are_noticed_or_do_not_matter() {
    let directory = tempfile::tempdir().unwrap();
    let path = sound(directory.path());
    let expected = content(&open(&path).unwrap());
    let bytes = std::fs::read(&path).unwrap();
    let (mut noticed, mut harmless) = (0, 0);
    for start in (0..bytes.len()).step_by(4096).flat_map(|page| [page, page + 100, page + 2500]) {
        let mut damaged = bytes.clone();
        damaged[start..start + 64].iter_mut().for_each(|byte| *byte ^= 0x5a);
        std::fs::write(&path, &damaged).unwrap();
        match open(&path) {
            Ok(store) => {
                assert!(content(&store) == expected, "damage at {start} changed what is read");
                harmless += 1;
            }
            Err(Error::Damaged { .. }) => noticed += 1,
            Err(other) => panic!("damage at {start}: {other}"),
        }
    }
    assert!(noticed > 50, "{noticed} noticed, {harmless} harmless");
}

/// Changes one bit of each byte of the file's head in turn.
#[test]
fn a_changed_head_is_noticed_or_does_not_matter() {
    let directory = tempfile::tempdir().unwrap();
    let path = sound(directory.path());
    let expected = content(&open(&path).unwrap());
    let bytes = std::fs::read(&path).unwrap();
    for at in 0..320 {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, &damaged).unwrap();
        match open(&path) {
            Ok(store) => assert!(content(&store) == expected, "the byte at {at} changed what is read"),
            Err(Error::Damaged { .. }) => {}
            Err(other) => panic!("the byte at {at}: {other}"),
        }
    }
}

/// A file too large to be verified at once fails where it is read, in the answer and nowhere else.
#[test]
fn damage_found_later_is_an_answer() {
    let directory = tempfile::tempdir().unwrap();
    let path = sound(directory.path());
    let bytes = std::fs::read(&path).unwrap();
    let mut failures = 0;
    for start in (4096..bytes.len()).step_by(3 * 4096) {
        let mut damaged = bytes.clone();
        damaged[start..start + 64].iter_mut().for_each(|byte| *byte ^= 0x5a);
        std::fs::write(&path, &damaged).unwrap();
        let Ok(store) = RedbStore::open(&path, RedbOptions { verify_bytes: 0, ..options() }) else {
            failures += 1;
            continue;
        };
        let write = |index: u8| {
            let key = Bytes::from(format!("key/{index:03}"));
            let mutations = vec![Mutation::Put { key, value: Bytes::from(vec![index; 900]), lease: None }];
            store.txn(Txn { compares: vec![], mutations })
        };
        block_on(async {
            let read = store.range(Query::prefix(Bytes::new())).await;
            let mut watch = store.watch(Bytes::new(), 0).unwrap();
            let replayed = std::iter::from_fn(|| watch.try_next().transpose()).find_map(Result::err);
            let mut written = Ok(());
            for index in (0..200).step_by(20) {
                written = written.and(write(index).await.map(drop));
            }
            failures += usize::from(read.is_err() || replayed.is_some() || written.is_err());
        });
    }
    assert!(failures > 15, "{failures} of {}", bytes.len() / 4096 / 3);
}

#[test]
fn a_second_open_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = sound(directory.path());
    let store = open(&path).unwrap();
    let refused = open(&path).err();
    assert!(matches!(refused, Some(Error::Locked { path: ref named }) if *named == path.display().to_string()));
    block_on(store.close()).unwrap();
    // A test beside this one that starts a program at this moment hands the lock to it, until it is another program.
    let again = (0..500).find_map(|_| match open(&path) {
        Err(Error::Locked { .. }) => {
            std::thread::sleep(std::time::Duration::from_millis(10));
            None
        }
        opened => Some(opened),
    });
    again.unwrap().unwrap();
}

#[test]
fn a_missing_directory_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let refused = open(&directory.path().join("none").join("kv")).err();
    assert!(matches!(refused, Some(Error::Storage(_))), "{refused:?}");
}
