//! The end of a store.

use std::time::Duration;

use thane_kv::{Error, Query};

use crate::harness::{Backend, key, put, txn, write};

pub(crate) async fn a_closed_store_refuses_everything(backend: &dyn Backend) {
    let store = backend.store();
    let revision = write(&store, &[put("a", "1")]).await;
    store.close().await.unwrap();
    assert!(matches!(store.get(b"a").await, Err(Error::Closed)));
    assert!(matches!(store.range(Query::prefix(key(""))).await, Err(Error::Closed)));
    assert!(matches!(store.txn(txn(&[], &[put("a", "2")])).await, Err(Error::Closed)));
    assert!(matches!(store.compact(revision).await, Err(Error::Closed)));
    assert!(matches!(store.grant(Duration::from_secs(1)).await, Err(Error::Closed)));
}

pub(crate) async fn closing_twice_is_fine(backend: &dyn Backend) {
    let store = backend.store();
    store.close().await.unwrap();
    store.close().await.unwrap();
}

pub(crate) async fn accepted_writes_are_finished(backend: &dyn Backend) {
    let store = backend.store();
    let writes = (0..20).map(|index| {
        let store = store.clone();
        async move { store.txn(txn(&[], &[put(&format!("k{index}"), "x")])).await }
    });
    let all = futures::future::join_all(writes);
    let (outcomes, closed) = tokio::join!(all, store.close());
    closed.unwrap();
    for outcome in outcomes {
        assert!(matches!(outcome, Ok(_) | Err(Error::Closed)), "{outcome:?}");
    }
}
