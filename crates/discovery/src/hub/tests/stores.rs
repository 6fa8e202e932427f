//! What is the same on every store.

use std::sync::atomic::Ordering;

use super::*;
use crate::command::Deregistration;

fn every_topic() -> Vec<Topic> {
    let own = |text: &str| text.to_owned();
    vec![
        Topic::Services,
        Topic::Instances,
        Topic::Nodes,
        Topic::Checks,
        Topic::Sessions,
        Topic::Service(own("web")),
        Topic::Service(own("gone")),
        Topic::Node(own("n1")),
        Topic::Key(own("a/b")),
        Topic::Key(own("deleted")),
        Topic::Keys(own("a/")),
        Topic::Keys(String::new()),
    ]
}

async fn fill(running: &Running) {
    for command in [
        instance("n1", "Web", "w1"),
        instance("n2", "web", "w2"),
        instance("n2", "gone", "g"),
        Command::Deregister(Deregistration { node: "n2".to_owned(), service_id: Some("g".to_owned()), check_id: None }),
        session("s", "n1", None),
        set("a/b", "1"),
        set("deleted", "1"),
        kv(KvVerb::Delete, "deleted", "", ""),
        lock("a/lock", "s"),
        batch("agent-1", 1, true, &["w3"]),
    ] {
        running.run(command).await;
    }
}

/// Everything is the same after a restart, indexes and what can be resumed included.
async fn survives(mut open: impl FnMut() -> Arc<dyn Store>) {
    let store = open();
    let running = Running::open(&store).await;
    let lineage = running.registry.lineage();
    fill(&running).await;
    let mut before = Vec::new();
    for topic in every_topic() {
        before.push((running.registry.topic(&topic).await, running.registry.delta(&topic, 3).await));
    }
    let index = running.registry.index();
    running.stop().await;
    store.close().await.expect("closes");
    drop(store);

    let store = open();
    let running = Running::open(&store).await;
    assert_eq!((running.registry.index(), running.registry.lineage()), (index, lineage));
    for (topic, (data, delta)) in every_topic().into_iter().zip(before) {
        assert_eq!(running.registry.topic(&topic).await, data, "{topic:?}");
        assert_eq!(running.registry.delta(&topic, 3).await, delta, "{topic:?}");
    }
    assert_eq!(running.run(batch("agent-1", 1, true, &[])).await.index, index, "said before, also before the restart");
    assert_eq!(running.run(set("a/b", "2")).await.index, index + 1);
    running.stop().await;
    store.close().await.expect("closes");
}

#[tokio::test]
async fn a_restart_changes_nothing() {
    let disk = Disk::new();
    survives(|| disk.open()).await;
}

#[tokio::test]
async fn what_is_too_large_for_one_transaction_is_stored_in_several() {
    let disk = Disk::new();
    for store in [memory(), disk.open()] {
        let running = Running::open(&store).await;
        let ids: Vec<String> = (0..1500).map(|number| format!("w{number:04}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        running.run(batch("agent-1", 1, true, &ids)).await;
        assert_eq!(running.statuses("web").await.len(), 1500);
        for number in 0..1200 {
            running.registry.write_from(None, set(&format!("tree/{number}"), "x")).await.expect("sets");
        }
        let deleted = running.run(kv(KvVerb::DeleteTree, "tree/", "", "")).await;
        assert!(is_true(&deleted) && running.rows(Topic::Keys("tree/".to_owned())).await.is_empty());
        running.run(batch("agent-1", 2, true, &["w0000"])).await;
        let data = running.registry.topic(&Topic::Instances).await;
        assert_eq!(data.rows.len(), 1);
        running.stop().await;
        let again = Running::open(&store).await;
        assert_eq!(again.registry.topic(&Topic::Instances).await, data);
        again.stop().await;
        store.close().await.expect("closes");
    }
}

#[tokio::test]
async fn those_who_wait_together_are_stored_together() {
    let store = Moody::new(memory());
    let running = Running::open(&(Arc::clone(&store) as Arc<dyn Store>)).await;
    let before = store.txns.load(Ordering::Relaxed);
    let writes = (0..200).map(|number| running.registry.write_from(None, set(&format!("k{number}"), "v")));
    let done = futures::future::join_all(writes).await;
    let mut indexes: Vec<Index> = done.into_iter().map(|done| done.expect("sets").index).collect();
    let txns = store.txns.load(Ordering::Relaxed) - before;
    assert!(txns < 20, "{txns} transactions for 200 writes");
    indexes.sort_unstable();
    assert_eq!(indexes, (1..=200).collect::<Vec<Index>>(), "each has an index of its own");
}

#[tokio::test]
async fn what_could_not_be_stored_did_not_happen() {
    let store = Moody::new(memory());
    let running = Running::open(&(Arc::clone(&store) as Arc<dyn Store>)).await;
    running.run(set("a", "1")).await;
    store.fails.store(true, Ordering::Relaxed);
    let refused = running.registry.write_from(None, set("a", "2")).await;
    assert!(matches!(&refused, Err(Refusal::Failed(why)) if why.contains("no space left")), "{refused:?}");
    let data = running.registry.topic(&Topic::Key("a".to_owned())).await;
    assert_eq!((data.index, running.registry.index()), (1, 1));
    store.fails.store(false, Ordering::Relaxed);
    assert_eq!(running.run(set("a", "3")).await.index, 2);
    running.stop().await;
}

#[tokio::test]
async fn a_second_writer_is_noticed_before_it_does_harm() {
    let store = memory();
    let (first, second) = (Running::open(&store).await, Running::open(&store).await);
    first.run(set("a", "1")).await;
    assert!(second.registry.write_from(None, set("a", "2")).await.is_err());
    assert_eq!(second.registry.write_from(None, set("a", "3")).await, Err(Refusal::NoHub), "it has stopped");
    first.run(set("a", "4")).await;
}

#[tokio::test]
async fn the_hub_is_in_the_catalog_until_an_agent_is_there() {
    let store = memory();
    let place = Place { node: "node-of-hub".to_owned(), address: "10.0.0.9".to_owned(), ..Place::default() };
    let open = || Running::open_with(&store, Options { place: place.clone(), ..Options::default() }, clock());
    let running = open().await;
    assert_eq!((running.registry.index(), running.rows(Topic::Nodes).await.len()), (1, 1));
    running.run(instance("node-of-hub", "web", "w1")).await;
    let index = running.run(session("s", "Node-of-Hub", None)).await.index;
    running.stop().await;
    let running = open().await;
    assert_eq!(running.registry.index(), index + 1, "the address it was told meanwhile is put right");
    running.run(batch("hub", 1, true, &[])).await;
    let index = running.registry.index();
    running.stop().await;
    assert_eq!(open().await.registry.index(), index, "now it is the agent's");
}
