//! Dropping history.

use thane_kv::{Error, Query};

use crate::harness::{Backend, delete, events, key, listed, put, value, write};

pub(crate) async fn the_present_stays(backend: &dyn Backend) {
    let store = backend.store();
    write(&store, &[put("a", "1"), put("b", "1")]).await;
    let revision = write(&store, &[put("a", "2"), delete("b")]).await;
    assert_eq!(store.compact(revision).await.unwrap().compacted, revision);
    assert_eq!(store.compacted(), revision);
    assert_eq!(store.revision(), revision);
    assert_eq!(listed(&store, "", None).await, ["a=2"]);
    assert_eq!(write(&store, &[put("a", "3")]).await, revision + 1);
    assert_eq!(value(&store, "a").await.unwrap(), "3");
}

pub(crate) async fn the_past_before_it_is_gone(backend: &dyn Backend) {
    let store = backend.store();
    let mut revisions = Vec::new();
    for step in 1..=5 {
        revisions.push(write(&store, &[put("a", &step.to_string())]).await);
    }
    store.compact(revisions[2]).await.unwrap();
    for gone in &revisions[..2] {
        let query = Query { at: Some(*gone), ..Query::prefix(key("a")) };
        let result = store.range(query).await;
        assert!(matches!(result, Err(Error::Compacted { compacted, .. }) if compacted == revisions[2]), "{result:?}");
        assert!(matches!(store.watch(key("a"), *gone), Err(Error::Compacted { .. })));
    }
    for (kept, expected) in revisions[2..].iter().zip(["a=3", "a=4", "a=5"]) {
        assert_eq!(listed(&store, "a", Some(*kept)).await, [expected]);
    }
    let mut watch = store.watch(key("a"), revisions[2]).unwrap();
    assert_eq!(events(&mut watch, revisions[2], 2).await, ["1 a=4<3", "2 a=5<4"]);
}

pub(crate) async fn it_never_goes_back(backend: &dyn Backend) {
    let store = backend.store();
    let first = write(&store, &[put("a", "1")]).await;
    let second = write(&store, &[put("a", "2")]).await;
    store.compact(second).await.unwrap();
    assert_eq!(store.compact(first).await.unwrap().compacted, second);
    assert_eq!(store.compact(second).await.unwrap().compacted, second);
}

pub(crate) async fn the_future_cannot_be_compacted(backend: &dyn Backend) {
    let store = backend.store();
    let revision = write(&store, &[put("a", "1")]).await;
    assert!(matches!(store.compact(revision + 1).await, Err(Error::Future { .. })));
}

pub(crate) async fn a_watcher_that_kept_up_goes_on(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    let mut watch = store.watch(key("a"), base).unwrap();
    let revision = write(&store, &[put("a", "1")]).await;
    events(&mut watch, base, 1).await;
    while watch.try_next().unwrap().is_some() {}
    store.compact(revision).await.unwrap();
    write(&store, &[put("a", "2")]).await;
    assert_eq!(events(&mut watch, base, 1).await, ["2 a=2<1"]);
}

pub(crate) async fn a_watcher_too_far_behind_is_told(backend: &dyn Backend) {
    let store = backend.store();
    write(&store, &[put("a", "0")]).await;
    let base = store.revision();
    write(&store, &[put("a", "1")]).await;
    // Starts in the past, so it has to read history, which goes away before it does.
    let mut watch = store.watch(key("a"), base).unwrap();
    let last = write(&store, &[put("a", "2")]).await;
    store.compact(last).await.unwrap();
    for _ in 0..2 {
        assert!(matches!(watch.next().await, Err(Error::Compacted { .. })));
        assert!(matches!(watch.try_next(), Err(Error::Compacted { .. })));
    }
}

pub(crate) async fn a_compacted_key_keeps_its_numbers(backend: &dyn Backend) {
    let store = backend.store();
    let created = write(&store, &[put("a", "1")]).await;
    let modified = write(&store, &[put("a", "2")]).await;
    let last = write(&store, &[put("b", "2")]).await;
    store.compact(last).await.unwrap();
    write(&store, &[put("c", "2")]).await;
    let entry = store.get(b"a").await.unwrap().unwrap();
    assert_eq!((entry.create_revision, entry.mod_revision, entry.version), (created, modified, 2));
}
