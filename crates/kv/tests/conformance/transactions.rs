//! Writing: revisions, conditions, all or nothing.

use thane_kv::{Compare, Error, Txn, TxnOutcome};

use crate::harness::{Backend, at, delete, key, put, txn, value, write};

pub(crate) async fn a_write_takes_the_next_revision(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    assert_eq!(write(&store, &[put("a", "1")]).await, base + 1);
    assert_eq!(write(&store, &[put("b", "1"), put("c", "1")]).await, base + 2);
    assert_eq!(store.revision(), base + 2);
}

pub(crate) async fn an_entry_counts_its_writes(backend: &dyn Backend) {
    let store = backend.store();
    let created = write(&store, &[put("a", "1")]).await;
    write(&store, &[put("other", "1")]).await;
    let modified = write(&store, &[put("a", "2")]).await;
    let entry = store.get(b"a").await.unwrap().unwrap();
    assert_eq!((entry.create_revision, entry.mod_revision, entry.version), (created, modified, 2));
    assert_eq!((entry.value, entry.lease), (key("2"), None));
}

pub(crate) async fn a_recreated_key_starts_over(backend: &dyn Backend) {
    let store = backend.store();
    write(&store, &[put("a", "1")]).await;
    write(&store, &[delete("a")]).await;
    let created = write(&store, &[put("a", "2")]).await;
    let entry = store.get(b"a").await.unwrap().unwrap();
    assert_eq!((entry.create_revision, entry.mod_revision, entry.version), (created, created, 1));
}

pub(crate) async fn an_absent_key_is_none(backend: &dyn Backend) {
    let store = backend.store();
    assert_eq!(store.get(b"a").await.unwrap(), None);
    write(&store, &[put("a", "1")]).await;
    write(&store, &[delete("a")]).await;
    assert_eq!(store.get(b"a").await.unwrap(), None);
}

pub(crate) async fn deleting_nothing_takes_no_revision(backend: &dyn Backend) {
    let store = backend.store();
    let revision = write(&store, &[put("a", "1")]).await;
    assert_eq!(write(&store, &[delete("b")]).await, revision);
    assert_eq!(write(&store, &[]).await, revision);
    assert_eq!(store.revision(), revision);
    assert_eq!(write(&store, &[delete("b"), delete("a")]).await, revision + 1);
}

pub(crate) async fn the_answer_holds_what_was_replaced(backend: &dyn Backend) {
    let store = backend.store();
    let first = write(&store, &[put("a", "1"), put("b", "1")]).await;
    let outcome = store.txn(txn(&[], &[put("c", "1"), put("a", "2"), delete("b"), delete("d")])).await.unwrap();
    let TxnOutcome::Committed { revision, previous } = outcome else { panic!("conflict") };
    assert_eq!(revision, first + 1);
    let previous: Vec<_> = previous.iter().map(|entry| entry.as_ref().map(|entry| entry.key.clone())).collect();
    assert_eq!(previous, [None, Some(key("a")), Some(key("b")), None]);
}

pub(crate) async fn compare_by_revision(backend: &dyn Backend) {
    let store = backend.store();
    let first = write(&store, &[put("a", "1")]).await;
    let outcome = store.txn(txn(&[at("a", first)], &[put("a", "2")])).await.unwrap();
    assert!(matches!(outcome, TxnOutcome::Committed { .. }));
    let outcome = store.txn(txn(&[at("a", first)], &[put("a", "3")])).await.unwrap();
    let TxnOutcome::Conflict { revision, current } = outcome else { panic!("no conflict") };
    assert_eq!(revision, first + 1);
    assert_eq!(current[0].as_ref().unwrap().value, key("2"));
    assert_eq!(value(&store, "a").await.unwrap(), "2");
}

pub(crate) async fn compare_absence(backend: &dyn Backend) {
    let store = backend.store();
    let create = txn(&[at("a", 0)], &[put("a", "1")]);
    assert!(matches!(store.txn(create.clone()).await.unwrap(), TxnOutcome::Committed { .. }));
    assert!(matches!(store.txn(create.clone()).await.unwrap(), TxnOutcome::Conflict { .. }));
    write(&store, &[delete("a")]).await;
    assert!(matches!(store.txn(create).await.unwrap(), TxnOutcome::Committed { .. }));
}

pub(crate) async fn compare_existence(backend: &dyn Backend) {
    let store = backend.store();
    let update = txn(&[Compare::Exists(key("a"))], &[put("a", "2")]);
    let TxnOutcome::Conflict { current, .. } = store.txn(update.clone()).await.unwrap() else { panic!("no conflict") };
    assert_eq!(current, [None]);
    write(&store, &[put("a", "1")]).await;
    assert!(matches!(store.txn(update).await.unwrap(), TxnOutcome::Committed { .. }));
}

pub(crate) async fn one_failed_compare_stops_all(backend: &dyn Backend) {
    let store = backend.store();
    let revision = write(&store, &[put("a", "1"), put("b", "1")]).await;
    let compares = [at("a", revision), at("b", revision + 7), at("c", 0)];
    let outcome = store.txn(txn(&compares, &[put("a", "2"), put("c", "2"), delete("b")])).await.unwrap();
    let TxnOutcome::Conflict { current, .. } = outcome else { panic!("no conflict") };
    assert_eq!(current.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(store.revision(), revision);
    assert_eq!(value(&store, "a").await.unwrap(), "1");
    assert_eq!(value(&store, "c").await, None);
}

pub(crate) async fn a_compare_alone_writes_nothing(backend: &dyn Backend) {
    let store = backend.store();
    let revision = write(&store, &[put("a", "1")]).await;
    let outcome = store.txn(txn(&[at("a", revision)], &[])).await.unwrap();
    assert_eq!(outcome, TxnOutcome::Committed { revision, previous: vec![] });
    assert_eq!(store.revision(), revision);
}

pub(crate) async fn a_conflict_takes_no_revision(backend: &dyn Backend) {
    let store = backend.store();
    let revision = write(&store, &[put("a", "1")]).await;
    store.txn(txn(&[at("a", revision + 1)], &[put("a", "2")])).await.unwrap();
    assert_eq!(write(&store, &[put("b", "1")]).await, revision + 1);
}

pub(crate) async fn a_key_written_twice_is_refused(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    for second in [put("a", "2"), delete("a")] {
        let outcome = store.txn(txn(&[], &[put("a", "1"), put("b", "1"), second])).await;
        assert!(matches!(outcome, Err(Error::Invalid(_))), "{outcome:?}");
    }
    assert_eq!(store.revision(), base);
}

pub(crate) async fn an_empty_key_is_refused(backend: &dyn Backend) {
    let store = backend.store();
    for bad in [txn(&[], &[put("", "1")]), txn(&[], &[delete("")]), txn(&[at("", 0)], &[])] {
        assert!(matches!(store.txn(bad).await, Err(Error::Invalid(_))));
    }
}

pub(crate) async fn oversized_requests_are_refused(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    let large = "x".repeat(4 * 1024 * 1024 + 1);
    let many: Vec<_> = (0..1025).map(|index| put(&format!("k{index}"), "")).collect();
    for bad in [txn(&[], &[put("a", &large)]), txn(&[], &[put(&large, "")]), txn(&[], &many)] {
        assert!(matches!(store.txn(bad).await, Err(Error::TooLarge { .. })));
    }
    assert_eq!(store.revision(), base);
}

pub(crate) async fn a_large_value_survives(backend: &dyn Backend) {
    let store = backend.store();
    let large = "x".repeat(1024 * 1024);
    write(&store, &[put("a", &large)]).await;
    assert_eq!(value(&store, "a").await.unwrap(), large);
}

pub(crate) async fn any_bytes_may_be_key_and_value(backend: &dyn Backend) {
    let store = backend.store();
    let all: Vec<u8> = (0..=255).collect();
    let (name, content) = (bytes::Bytes::from(all.clone()), bytes::Bytes::from(all));
    let mutation = thane_kv::Mutation::Put { key: name.clone(), value: content.clone(), lease: None };
    store.txn(Txn { compares: vec![], mutations: vec![mutation] }).await.unwrap();
    assert_eq!(store.get(&name).await.unwrap().unwrap().value, content);
}

pub(crate) async fn an_empty_value_is_a_value(backend: &dyn Backend) {
    let store = backend.store();
    write(&store, &[put("a", "")]).await;
    assert_eq!(value(&store, "a").await.unwrap(), "");
}

pub(crate) async fn concurrent_increments_lose_nothing(backend: &dyn Backend) {
    let store = backend.store();
    write(&store, &[put("n", "0")]).await;
    let increment = async || {
        loop {
            let entry = store.get(b"n").await.unwrap().unwrap();
            let next: u64 = crate::harness::text(&entry.value).parse::<u64>().unwrap() + 1;
            let attempt = txn(&[at("n", entry.mod_revision)], &[put("n", &next.to_string())]);
            if matches!(store.txn(attempt).await.unwrap(), TxnOutcome::Committed { .. }) {
                return;
            }
        }
    };
    futures::future::join_all((0..20).map(|_| increment())).await;
    assert_eq!(value(&store, "n").await.unwrap(), "20");
}

pub(crate) async fn a_write_is_read_back_at_once(backend: &dyn Backend) {
    let store = backend.store();
    for round in 0..50 {
        let revision = write(&store, &[put("a", &round.to_string())]).await;
        let entry = store.get(b"a").await.unwrap().unwrap();
        assert_eq!((crate::harness::text(&entry.value), entry.mod_revision), (round.to_string(), revision));
    }
}
