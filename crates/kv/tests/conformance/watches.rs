//! Following changes: from now, from the past, slowly.

use thane_kv::{Error, Revision, Watch};

use crate::harness::{Backend, delete, events, key, put, write};

pub(crate) async fn changes_arrive_with_both_sides(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    let mut watch = store.watch(key("a"), base).unwrap();
    write(&store, &[put("a", "1")]).await;
    write(&store, &[put("a", "2")]).await;
    write(&store, &[delete("a")]).await;
    assert_eq!(events(&mut watch, base, 3).await, ["1 a=1<-", "2 a=2<1", "3 a=-<2"]);
}

pub(crate) async fn the_past_is_replayed(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    for step in 1..=6 {
        write(&store, &[put("a", &step.to_string()), put(&format!("b{step}"), "x")]).await;
    }
    let mut watch = store.watch(key("a"), base + 3).unwrap();
    assert_eq!(events(&mut watch, base, 3).await, ["4 a=4<3", "5 a=5<4", "6 a=6<5"]);
    write(&store, &[delete("a")]).await;
    assert_eq!(events(&mut watch, base, 1).await, ["7 a=-<6"]);
}

pub(crate) async fn only_the_prefix_is_seen(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    let mut narrow = store.watch(key("pods/x/"), base).unwrap();
    let mut wide = store.watch(key("pods/"), base).unwrap();
    let mut all = store.watch(key(""), base).unwrap();
    write(&store, &[put("pods/x/1", "")]).await;
    write(&store, &[put("pods/y/1", ""), put("nodes/1", "")]).await;
    write(&store, &[put("pods", ""), put("pods/x/2", "")]).await;
    assert_eq!(events(&mut narrow, base, 2).await, ["1 pods/x/1=<-", "3 pods/x/2=<-"]);
    assert_eq!(events(&mut wide, base, 3).await, ["1 pods/x/1=<-", "2 pods/y/1=<-", "3 pods/x/2=<-"]);
    assert_eq!(events(&mut all, base, 5).await.len(), 5);
}

pub(crate) async fn a_revision_arrives_whole(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    let mutations: Vec<_> = (0..10).map(|index| put(&format!("k{index}"), "x")).collect();
    let mut live = store.watch(key("k"), base).unwrap();
    write(&store, &mutations).await;
    let mut late = store.watch(key("k"), base).unwrap();
    for watch in [&mut live, &mut late] {
        let batch = watch.next().await.unwrap();
        assert_eq!((batch.events.len(), batch.revision), (10, base + 1));
    }
}

pub(crate) async fn a_slow_watcher_misses_nothing(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    let mut watch = store.watch(key("a"), base).unwrap();
    for step in 1..=300 {
        write(&store, &[put("a", &step.to_string()), put("b", "x")]).await;
    }
    let seen = events(&mut watch, base, 300).await;
    let expected: Vec<_> = (2..=300).map(|step| format!("{step} a={step}<{}", step - 1)).collect();
    assert_eq!(seen[0], "1 a=1<-");
    assert_eq!(seen[1..], expected);
}

pub(crate) async fn reading_while_writing_leaves_no_gap(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    let mut watches: Vec<_> = (0..5).map(|_| store.watch(key("a"), base).unwrap()).collect();
    let writing = async {
        for step in 1..=200 {
            write(&store, &[put("a", &step.to_string())]).await;
        }
    };
    let reading = futures::future::join_all(watches.iter_mut().map(|watch| events(watch, base, 200)));
    let ((), all) = tokio::join!(writing, reading);
    for seen in all {
        let revisions: Vec<u64> = seen.iter().map(|event| event.split(' ').next().unwrap().parse().unwrap()).collect();
        assert_eq!(revisions, (1..=200).collect::<Vec<u64>>());
    }
}

pub(crate) async fn a_watch_may_not_start_in_the_future(backend: &dyn Backend) {
    let store = backend.store();
    let revision = write(&store, &[put("a", "1")]).await;
    assert!(matches!(store.watch(key("a"), revision + 1), Err(Error::Future { .. })));
    assert!(store.watch(key("a"), revision).is_ok());
}

/// Takes all that is ready; the newest progress and the events' revisions.
fn drain(watch: &mut Box<dyn Watch>) -> (Option<Revision>, Vec<Revision>) {
    let (mut progress, mut seen) = (None, Vec::new());
    while let Some(batch) = watch.try_next().unwrap() {
        assert!(progress < Some(batch.revision), "progress goes forward");
        assert!(batch.events.iter().all(|event| event.revision > progress.unwrap_or(0)), "no event after its progress");
        progress = Some(batch.revision);
        seen.extend(batch.events.iter().map(|event| event.revision));
    }
    (progress, seen)
}

pub(crate) async fn progress_is_told_without_events(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    let mut watch = store.watch(key("a"), base).unwrap();
    assert_eq!(drain(&mut watch), (None, vec![]));
    for _ in 0..20 {
        write(&store, &[put("b", "x")]).await;
    }
    assert_eq!(drain(&mut watch), (Some(base + 20), vec![]));
    assert_eq!(drain(&mut watch), (None, vec![]));
}

pub(crate) async fn progress_follows_the_events(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    let mut live = store.watch(key("a"), base).unwrap();
    for step in 0..20 {
        write(&store, &[put(if step % 4 == 0 { "a" } else { "b" }, "x")]).await;
    }
    let mut late = store.watch(key("a"), base).unwrap();
    let expected: Vec<_> = (0..5).map(|step| base + step * 4 + 1).collect();
    for watch in [&mut live, &mut late] {
        assert_eq!(drain(watch), (Some(base + 20), expected.clone()));
    }
}

pub(crate) async fn a_cancelled_wait_loses_nothing(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    let mut watch = store.watch(key("a"), base).unwrap();
    for step in 1..=20 {
        // Polled once and dropped, before and after there is something to take.
        let waited = futures::FutureExt::now_or_never(watch.next());
        assert!(waited.is_none(), "nothing was written yet");
        write(&store, &[put("a", "x")]).await;
        assert_eq!(events(&mut watch, base, 1).await[0].split(' ').next(), Some(step.to_string().as_str()));
    }
}

pub(crate) async fn many_watchers_see_the_same(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    let mut watches: Vec<_> = (0..100).map(|_| store.watch(key("a"), base).unwrap()).collect();
    drop(watches.split_off(90));
    write(&store, &[put("a", "1")]).await;
    write(&store, &[put("a", "2")]).await;
    for watch in &mut watches {
        assert_eq!(events(watch, base, 2).await, ["1 a=1<-", "2 a=2<1"]);
    }
}

pub(crate) async fn a_list_and_a_watch_meet(backend: &dyn Backend) {
    let store = backend.store();
    write(&store, &[put("a", "1")]).await;
    let page = store.range(thane_kv::Query::prefix(key("a"))).await.unwrap();
    let mut watch = store.watch(key("a"), page.revision).unwrap();
    write(&store, &[put("a", "2")]).await;
    assert_eq!(events(&mut watch, page.revision, 1).await, ["1 a=2<1"]);
}

pub(crate) async fn closing_ends_watches_after_their_events(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    let mut watch = store.watch(key("a"), base).unwrap();
    write(&store, &[put("a", "1")]).await;
    store.close().await.unwrap();
    assert_eq!(events(&mut watch, base, 1).await, ["1 a=1<-"]);
    assert!(matches!(watch.next().await, Err(Error::Closed)));
    assert!(matches!(watch.try_next(), Err(Error::Closed)));
}
