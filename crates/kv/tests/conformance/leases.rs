//! Keys that go when nobody keeps them alive.

use std::time::Duration;

use thane_kv::Error;

use crate::harness::{Backend, events, key, listed, put, put_on, txn, value, write};

const TTL: Duration = Duration::from_secs(10);

pub(crate) async fn expiry_deletes_all_keys_in_one_revision(backend: &dyn Backend) {
    let store = backend.store();
    let lease = store.grant(TTL).await.unwrap();
    write(&store, &[put_on("a", "1", lease), put("b", "1")]).await;
    let before = write(&store, &[put_on("c", "1", lease)]).await;
    let mut watch = store.watch(key(""), before).unwrap();
    backend.pass(TTL / 2).await;
    assert_eq!(listed(&store, "", None).await, ["a=1", "b=1", "c=1"]);
    backend.pass(TTL).await;
    assert_eq!(listed(&store, "", None).await, ["b=1"]);
    assert_eq!(store.revision(), before + 1);
    assert_eq!(events(&mut watch, before, 2).await, ["1 a=-<1", "1 c=-<1"]);
}

pub(crate) async fn keeping_alive_postpones(backend: &dyn Backend) {
    let store = backend.store();
    let lease = store.grant(TTL).await.unwrap();
    write(&store, &[put_on("a", "1", lease)]).await;
    for _ in 0..4 {
        backend.pass(TTL / 2).await;
        let status = store.keep_alive(lease).await.unwrap();
        assert_eq!((status.id, status.ttl, status.remaining), (lease, TTL, TTL));
    }
    assert_eq!(value(&store, "a").await.unwrap(), "1");
    backend.pass(TTL * 2).await;
    assert_eq!(value(&store, "a").await, None);
}

pub(crate) async fn an_expired_lease_is_gone(backend: &dyn Backend) {
    let store = backend.store();
    let lease = store.grant(TTL).await.unwrap();
    backend.pass(TTL * 2).await;
    let revision = store.revision();
    assert!(matches!(store.keep_alive(lease).await, Err(Error::LeaseNotFound(id)) if id == lease));
    assert!(matches!(store.revoke(lease).await, Err(Error::LeaseNotFound(_))));
    let result = store.txn(txn(&[], &[put("b", "1"), put_on("a", "1", lease)])).await;
    assert!(matches!(result, Err(Error::LeaseNotFound(_))));
    assert_eq!(store.revision(), revision);
    assert_eq!(value(&store, "b").await, None);
}

pub(crate) async fn revoking_deletes_the_keys(backend: &dyn Backend) {
    let store = backend.store();
    let lease = store.grant(TTL).await.unwrap();
    let before = write(&store, &[put_on("a", "1", lease), put_on("b", "1", lease), put("c", "1")]).await;
    store.revoke(lease).await.unwrap();
    assert_eq!(listed(&store, "", None).await, ["c=1"]);
    assert_eq!(store.revision(), before + 1);
    assert!(matches!(store.revoke(lease).await, Err(Error::LeaseNotFound(_))));
}

pub(crate) async fn an_unused_lease_ends_without_a_revision(backend: &dyn Backend) {
    let store = backend.store();
    let before = store.revision();
    let lease = store.grant(TTL).await.unwrap();
    store.revoke(lease).await.unwrap();
    store.grant(TTL).await.unwrap();
    backend.pass(TTL * 2).await;
    assert_eq!(store.revision(), before);
}

pub(crate) async fn a_write_without_a_lease_detaches(backend: &dyn Backend) {
    let store = backend.store();
    let lease = store.grant(TTL).await.unwrap();
    write(&store, &[put_on("a", "1", lease)]).await;
    assert_eq!(store.get(b"a").await.unwrap().unwrap().lease, Some(lease));
    write(&store, &[put("a", "2")]).await;
    assert_eq!(store.get(b"a").await.unwrap().unwrap().lease, None);
    store.revoke(lease).await.unwrap();
    assert_eq!(value(&store, "a").await.unwrap(), "2");
}

pub(crate) async fn a_key_moves_between_leases(backend: &dyn Backend) {
    let store = backend.store();
    let first = store.grant(TTL).await.unwrap();
    let second = store.grant(TTL * 10).await.unwrap();
    assert_ne!(first, second);
    write(&store, &[put_on("a", "1", first)]).await;
    write(&store, &[put_on("a", "2", second)]).await;
    backend.pass(TTL * 2).await;
    assert_eq!(value(&store, "a").await.unwrap(), "2");
    backend.pass(TTL * 10).await;
    assert_eq!(value(&store, "a").await, None);
}

pub(crate) async fn a_deleted_key_leaves_its_lease(backend: &dyn Backend) {
    let store = backend.store();
    let lease = store.grant(TTL).await.unwrap();
    write(&store, &[put_on("a", "1", lease)]).await;
    write(&store, &[crate::harness::delete("a")]).await;
    write(&store, &[put("a", "2")]).await;
    store.revoke(lease).await.unwrap();
    assert_eq!(value(&store, "a").await.unwrap(), "2");
}

pub(crate) async fn a_lease_without_time_is_refused(backend: &dyn Backend) {
    assert!(matches!(backend.store().grant(Duration::ZERO).await, Err(Error::Invalid(_))));
}
