//! Everything in one piece, and back.

use super::*;
use crate::hub::error::Error;
use crate::hub::snapshot;
use crate::registry::Tables;

#[tokio::test]
async fn a_restore_replaces_everything_and_the_index_goes_up() {
    let disk = Disk::new();
    for store in [memory(), disk.open()] {
        let running = Running::open(&store).await;
        let registry = &running.registry;
        running.run(instance("n1", "web", "w1")).await;
        running.run(session("s", "n1", None)).await;
        running.run(lock("held", "s")).await;
        let kept = running.rows(Topic::Service("web".to_owned())).await;
        let snapshot = registry.snapshot().await.expect("snapshots");

        running.run(instance("n2", "db", "d1")).await;
        running.run(set("new", "1")).await;
        running.run(kv(KvVerb::Delete, "held", "", "")).await;
        let topics = [Topic::Service("db".to_owned()), Topic::Key("held".to_owned()), Topic::Keys(String::new())];
        let mut before = Vec::new();
        for topic in &topics {
            before.push((registry.topic(topic).await, registry.changed(topic)));
        }
        let index = registry.index();
        let restored = registry.restore(snapshot).await.expect("restores");
        assert_eq!((restored, registry.index()), (index + 1, index + 1));
        for (topic, (old, wake)) in topics.iter().zip(before) {
            assert!(wake.now_or_never().is_some(), "{topic:?}");
            let new = registry.topic(topic).await;
            assert!(new.index > old.index, "{topic:?}");
            let delta = registry.delta(topic, old.index).await;
            assert_eq!((delta.since, old.apply(&delta).as_ref()), (None, Some(&*new)), "{topic:?}");
        }
        assert_eq!(running.rows(Topic::Service("web".to_owned())).await, kept);
        assert!(running.rows(Topic::Service("db".to_owned())).await.is_empty());
        assert!(is_true(&running.run(lock("held", "s")).await), "its session holds it again");
        assert_eq!(running.run(set("after", "1")).await.index, index + 2);
        let all = registry.topic(&Topic::Keys(String::new())).await;
        running.stop().await;
        let again = Running::open(&store).await;
        assert_eq!(again.registry.topic(&Topic::Keys(String::new())).await, all);
        again.stop().await;
        store.close().await.expect("closes");
    }
}

#[tokio::test]
async fn a_snapshot_moves_to_another_hub() {
    let (one, other) = (Running::open(&memory()).await, Running::open(&memory()).await);
    for number in 0..600 {
        one.run(set(&format!("k/{number}"), &number.to_string())).await;
    }
    for number in 0..5 {
        other.run(set("own", &number.to_string())).await;
    }
    let snapshot = one.registry.snapshot().await.expect("snapshots");
    assert_eq!(other.registry.restore(snapshot).await.expect("restores"), 601);
    assert_eq!(other.rows(Topic::Keys(String::new())).await, one.rows(Topic::Keys(String::new())).await);
}

#[tokio::test]
async fn nothing_of_a_damaged_snapshot_is_believed() {
    let running = Running::open(&memory()).await;
    running.run(set("a", "1")).await;
    let good = running.registry.snapshot().await.expect("snapshots");
    let mut damaged = vec![Bytes::new(), Bytes::from_static(b"hello"), good.slice(..good.len() - 1), good.slice(1..)];
    for at in 0..good.len() {
        let mut bytes = good.to_vec();
        bytes[at] ^= 1;
        damaged.push(bytes.into());
    }
    for (number, bytes) in damaged.into_iter().enumerate() {
        let refused = running.registry.restore(bytes).await;
        assert!(matches!(refused, Err(Error::Snapshot(_))), "{number}: {refused:?}");
    }
    assert_eq!((running.registry.index(), running.rows(Topic::Keys(String::new())).await.len()), (1, 1));
    running.registry.restore(good).await.expect("the whole one restores");
}

#[tokio::test]
async fn a_restore_that_was_cut_short_left_things_as_they_were() {
    use std::sync::atomic::Ordering;
    let inner = memory();
    let store = Moody::new(Arc::clone(&inner));
    let running = Running::open(&(Arc::clone(&store) as Arc<dyn Store>)).await;
    for number in 0..700 {
        running.run(set(&format!("k/{number}"), "1")).await;
    }
    let snapshot = running.registry.snapshot().await.expect("snapshots");
    running.run(set("later", "1")).await;
    store.fails.store(true, Ordering::Relaxed);
    assert!(matches!(running.registry.restore(snapshot.clone()).await, Err(Error::Store(_))));
    store.fails.store(false, Ordering::Relaxed);
    assert_eq!(running.rows(Topic::Keys(String::new())).await.len(), 701);
    assert_eq!(running.registry.restore(snapshot).await.expect("restores"), 702);
    assert_eq!(running.rows(Topic::Keys(String::new())).await.len(), 700);
    running.stop().await;
}

#[test]
fn an_index_out_of_all_bounds_is_no_index() {
    let mut tables = Tables::new("test");
    tables.load_state(crate::registry::State { index: u64::MAX, ..tables.state() });
    assert!(matches!(snapshot::read(snapshot::write(&tables)), Err(Error::Snapshot(_))));
}
