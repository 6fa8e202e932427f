//! Tests of the registry as it runs, on every store.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use thane_kv::{MemoryOptions, MemoryStore, Store};
use thane_runtime::{Clock, SharedClock, Tasks};

use super::*;
use crate::command::{KvOp, KvVerb, Outcome, Registration};
use crate::model::{Node, Service};

/// A clock that goes as tokio's does, so that a test that waits does not.
struct PausedClock(tokio::time::Instant);

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH.saturating_add(self.monotonic()).expect("not for ever")
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

fn clock() -> SharedClock {
    Arc::new(PausedClock(tokio::time::Instant::now()))
}

fn memory() -> Arc<dyn Store> {
    MemoryStore::new(MemoryOptions::default())
}

async fn open(store: &Arc<dyn Store>) -> (Arc<Registry>, Tasks) {
    let (tasks, _) = Tasks::root("test");
    let registry = Registry::open(Arc::clone(store), Options::default(), clock(), &tasks).await.expect("opens");
    (registry, tasks)
}

fn set(key: &str, value: &str) -> Command {
    Command::Kv(KvOp {
        verb: KvVerb::Set,
        key: key.to_owned(),
        value: Bytes::from(value.to_owned()),
        flags: 0,
        index: 0,
        session: String::new(),
    })
}

fn instance(node: &str, name: &str, id: &str) -> Command {
    let node = Node { name: node.to_owned(), address: "10.0.0.1".to_owned(), ..Node::default() };
    let service = Service { id: id.to_owned(), name: name.to_owned(), ..Service::default() };
    Command::Register(Box::new(Registration { node, keep_node: false, service: Some(service), checks: Vec::new() }))
}

#[tokio::test(start_paused = true)]
async fn a_write_is_read_wakes_its_topics_and_survives() {
    let store = memory();
    let (registry, _tasks) = open(&store).await;
    let (web, db) = (Topic::Service("web".to_owned()), Topic::Service("db".to_owned()));
    assert_eq!(registry.topic(&web).await.index, 0);
    let (woken, asleep) = (registry.changed(&web), registry.changed(&db));
    let done = registry.write_from(None, instance("n1", "Web", "w1")).await.expect("registers");
    assert_eq!((done.index, done.outcome), (1, Outcome::Nothing));
    woken.await;
    assert!(futures::FutureExt::now_or_never(asleep).is_none(), "nothing happened to it");
    let data = registry.topic(&web).await;
    assert_eq!((data.index, data.rows.len(), registry.index()), (1, 1, 1));
    registry.write_from(None, set("a/b", "1")).await.expect("sets");
    drop(registry);
    let (again, _tasks) = open(&store).await;
    assert_eq!(*again.topic(&web).await, *data);
    assert_eq!((again.index(), again.topic(&Topic::Keys("a/".to_owned())).await.rows.len()), (2, 1));
}
