use std::sync::Arc;

use futures::FutureExt;
use jiff::Timestamp;
use thane_runtime::ManualClock;

use super::*;
use crate::model::{Indexed, KvEntry};
use crate::topic::Row;

fn bed(entries: usize) -> (Followed, ManualClock) {
    let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
    let limits = Limits { entries, ..Limits::default() };
    (Followed::new(limits, Arc::new(clock.clone())), clock)
}

fn key(name: &str) -> Topic {
    Topic::Key(name.to_owned())
}

fn row(name: &str, index: Index) -> Row {
    let value = Arc::new(KvEntry { key: name.to_owned(), ..KvEntry::default() });
    Row::Key(Indexed { create_index: index, modify_index: index, value })
}

fn delta(topic: &Topic, since: Option<Index>, index: Index) -> Delta {
    let Topic::Key(name) = topic else { panic!() };
    Delta { topic: topic.clone(), since, index, changed: vec![row(name, index)], removed: Vec::new() }
}

fn nothing(topic: &Topic, index: Index) -> Delta {
    Delta { topic: topic.clone(), since: Some(index), index, changed: Vec::new(), removed: Vec::new() }
}

async fn read(followed: &Followed, topic: &Topic) -> Option<Reading> {
    followed.read(&followed.slot(topic).unwrap(), Duration::from_secs(1)).await
}

#[tokio::test(start_paused = true)]
async fn a_miss_is_asked_for_once_however_many_wait() {
    let (followed, _clock) = bed(10);
    followed.connected();
    let topic = key("a");
    let all = async { tokio::join!(read(&followed, &topic), read(&followed, &topic), read(&followed, &topic)) };
    let push = async {
        assert_eq!(followed.take_wants(10), [(topic.clone(), Want::Subscribe(0))]);
        assert_eq!(followed.take_wants(10), []);
        followed.apply(&delta(&topic, None, 7));
    };
    let ((first, second, third), ()) = tokio::join!(all, push);
    for reading in [first, second, third] {
        let reading = reading.unwrap();
        assert_eq!((reading.data.index, reading.freshness.hit), (7, None));
    }
    let hit = followed.ready(&topic, Consistency::Default).unwrap();
    assert_eq!(hit.freshness, Freshness { connected: true, last_contact: Duration::ZERO, hit: Some(Duration::ZERO) });
    assert_eq!(followed.ready(&topic, Consistency::Consistent).map(|_| ()), None);
    assert_eq!((followed.hits.load(Ordering::Relaxed), followed.misses.load(Ordering::Relaxed)), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn without_the_hub_what_is_held_is_served_with_its_honest_age() {
    let (followed, clock) = bed(10);
    let topic = key("a");
    assert!(read(&followed, &topic).await.is_none(), "nobody can say");
    followed.connected();
    followed.apply(&delta(&topic, None, 7));
    clock.advance(Duration::from_secs(100));
    followed.heard();
    // It may take a while until somebody notices.
    clock.advance(Duration::from_secs(20));
    assert_eq!(followed.silence(), Duration::ZERO);
    followed.disconnected();
    clock.advance(Duration::from_secs(5));
    let stale = followed.ready(&topic, Consistency::Default).unwrap();
    let age = Duration::from_secs(25);
    assert_eq!(followed.silence(), age);
    assert_eq!(stale.freshness, Freshness { connected: false, last_contact: age, hit: Some(age) });
    followed.connected();
    assert!(followed.ready(&topic, Consistency::Default).is_none(), "the new connection says what it is in a moment");
    assert!(followed.ready(&topic, Consistency::Stale).is_some());
    assert_eq!(followed.take_wants(10), [(topic.clone(), Want::Subscribe(7))], "resumed, not fetched again");
    followed.apply(&nothing(&topic, 7));
    assert_eq!(followed.ready(&topic, Consistency::Default).unwrap().freshness.hit, Some(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn only_a_change_of_the_topic_itself_wakes() {
    let (followed, _clock) = bed(10);
    followed.connected();
    let (a, b) = (key("a"), key("b"));
    followed.slot(&b);
    let mut wake = followed.wake(&a);
    followed.apply(&delta(&a, None, 3));
    assert!((&mut wake).now_or_never().is_some());
    let mut wake = followed.wake(&a);
    followed.apply(&delta(&b, None, 4));
    followed.apply(&nothing(&a, 3));
    followed.apply(&delta(&a, None, 3));
    assert!((&mut wake).now_or_never().is_none(), "the same again wakes nobody");
    followed.apply(&delta(&a, Some(3), 5));
    assert!((&mut wake).now_or_never().is_some());
}

#[test]
fn a_write_waits_only_if_what_it_changes_is_held() {
    let (followed, _clock) = bed(10);
    for topic in [key("app/a"), Topic::Keys("web/".to_owned()), Topic::Service("db".to_owned())] {
        followed.slot(&topic);
    }
    for (key, held) in
        [("app/a", true), ("app/b", false), ("web/", true), ("web/x/y", true), ("we", false), ("db", false)]
    {
        assert_eq!(followed.holds_key(key), held, "{key}");
    }
}

/// In Konsul a removed key lived on in caches until its time was up.
#[test]
fn defect_9_a_delete_reaches_what_is_held() {
    let (followed, _clock) = bed(10);
    followed.connected();
    let topic = key("a");
    followed.slot(&topic);
    followed.apply(&delta(&topic, None, 3));
    let gone = Delta { changed: Vec::new(), removed: vec![row("a", 0).key()], ..delta(&topic, Some(3), 4) };
    assert!(followed.apply(&gone).unwrap().rows.is_empty());
    assert_eq!(followed.ready(&topic, Consistency::Default).unwrap().data.index, 4);
}

#[test]
fn a_gap_is_asked_for_again_from_the_beginning() {
    let (followed, _clock) = bed(10);
    followed.connected();
    let topic = key("a");
    followed.slot(&topic);
    followed.apply(&delta(&topic, None, 3));
    followed.take_wants(10);
    assert!(followed.apply(&delta(&topic, Some(5), 6)).is_none());
    assert_eq!(followed.take_wants(10), [(topic, Want::Subscribe(0))]);
}

#[test]
fn the_least_recently_read_goes_first_and_what_is_waited_for_stays() {
    let (followed, clock) = bed(3);
    followed.connected();
    let names: Vec<Topic> = ["a", "b", "c"].map(key).to_vec();
    for topic in &names {
        followed.slot(topic);
        followed.apply(&delta(topic, None, 1));
        clock.advance(Duration::from_millis(10));
    }
    followed.ready(&names[0], Consistency::Default);
    let _waiting = followed.wake(&names[1]);
    followed.slot(&key("d"));
    assert!(followed.find(&names[2]).is_none());
    assert!(followed.find(&names[0]).is_some() && followed.find(&names[1]).is_some());
    assert!(followed.take_wants(10).contains(&(names[2].clone(), Want::Unsubscribe)));
}

#[test]
fn what_nobody_reads_is_let_go_after_its_time() {
    let (followed, clock) = bed(100);
    followed.connected();
    let service = Topic::Service("web".to_owned());
    for topic in [&service, &Topic::Checks, &key("a"), &Topic::Tokens] {
        followed.slot(topic);
    }
    followed.pin(&Topic::Tokens);
    let held = || {
        let counts = [Sort::Service, Sort::Kv, Sort::Health].map(|sort| followed.count(sort));
        (counts[0], counts[1], counts[2])
    };
    for (seconds, expected) in [(29, (1, 2, 1)), (30, (1, 2, 0)), (59, (1, 2, 0)), (60, (0, 2, 0)), (300, (0, 1, 0))] {
        let passed = clock_seconds(&followed);
        clock.advance(Duration::from_secs(seconds).saturating_sub(passed));
        followed.sweep();
        assert_eq!(held(), expected, "after {seconds} s");
    }
}

fn clock_seconds(followed: &Followed) -> Duration {
    Duration::from_millis(followed.now())
}

#[tokio::test(start_paused = true)]
async fn a_write_waits_for_its_own_push_but_not_for_ever() {
    let (followed, _clock) = bed(10);
    followed.connected();
    let waiting = followed.reached(9, Duration::from_secs(2));
    tokio::pin!(waiting);
    assert!((&mut waiting).now_or_never().is_none());
    followed.applied(9);
    waiting.await;
    followed.reached(100, Duration::from_secs(2)).await;
    let waiting = followed.reached(100, Duration::from_secs(1000));
    tokio::pin!(waiting);
    assert!((&mut waiting).now_or_never().is_none());
    followed.disconnected();
    waiting.await;
}

fn web(number: usize) -> (Topic, Delta) {
    let name = format!("web-{number}");
    let topic = Topic::Service(name.clone());
    let whole = held::tests::web(&name);
    (topic.clone(), Delta { topic, since: None, index: whole.index, changed: whole.rows, removed: Vec::new() })
}

#[test]
fn what_is_read_least_recently_is_folded_and_reads_the_same() {
    const TOPICS: usize = 400;
    let (followed, clock) = bed(1_000);
    followed.connected();
    let hot = web(0).0;
    for number in 0..TOPICS {
        let (topic, delta) = web(number);
        followed.slot(&topic);
        followed.apply(&delta);
        clock.advance(Duration::from_millis(1));
        followed.ready(&hot, Consistency::Default);
    }
    let folded = followed.folded();
    let fit = Limits::default().open_bytes / held::weight(&hot, &held::tests::web("web-0"));
    assert!(folded + fit >= TOPICS && folded < TOPICS - fit / 2, "{folded} folded, {fit} fit");
    assert!(followed.find(&hot).unwrap().opened().is_some(), "what is read stays open");
    for number in 0..TOPICS {
        let (topic, delta) = web(number);
        assert_eq!(followed.find(&topic).unwrap().index(), delta.index);
        let reading = followed.ready(&topic, Consistency::Default).unwrap();
        assert_eq!((reading.data.index, &reading.data.rows), (delta.index, &delta.changed));
    }
    assert!(followed.folded() + fit >= TOPICS, "opening some folds others");
}

#[test]
fn a_change_of_a_folded_topic_wakes_and_changes_only_what_it_says() {
    let (followed, _clock) = bed(10);
    followed.connected();
    let (topic, whole) = web(1);
    followed.slot(&topic);
    followed.apply(&whole);
    let slot = followed.find(&topic).unwrap();
    slot.fold();
    assert_eq!((followed.folded(), slot.index()), (1, whole.index));
    assert!(followed.apply(&nothing_of(&whole)).is_none(), "the same again is none");
    assert_eq!(followed.folded(), 1, "and opens nothing");
    let mut wake = followed.wake(&topic);
    let gone = Delta {
        since: Some(whole.index),
        index: whole.index + 1,
        changed: Vec::new(),
        removed: vec![whole.changed[3].key()],
        ..whole.clone()
    };
    assert_eq!(followed.apply(&gone).unwrap().rows.len(), 9);
    assert!((&mut wake).now_or_never().is_some());
    let held = followed.ready(&topic, Consistency::Default).unwrap().data;
    let left: Vec<Row> = whole.changed.iter().filter(|row| row.key() != gone.removed[0]).cloned().collect();
    assert_eq!((held.index, &held.rows), (gone.index, &left));
}

fn nothing_of(whole: &Delta) -> Delta {
    Delta { since: Some(whole.index), changed: Vec::new(), ..whole.clone() }
}

#[test]
fn what_is_held_is_asked_for_again_from_where_it_is() {
    let (followed, _clock) = bed(10);
    followed.connected();
    let (held, asked, large) = (key("held"), key("asked"), key("large"));
    for topic in [&held, &asked, &large] {
        followed.slot(topic);
    }
    followed.apply(&delta(&held, None, 7));
    followed.refused(&large);
    assert_eq!(followed.take_wants(10), []);
    followed.verify_all();
    let wants: BTreeMap<Topic, Want> = followed.take_wants(10).into_iter().collect();
    assert_eq!(
        wants,
        BTreeMap::from([(held, Want::Subscribe(7)), (large, Want::Subscribe(0))]),
        "the other is on its way"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_not_pushed_is_not_held_until_it_is() {
    let (followed, _clock) = bed(10);
    followed.connected();
    let topic = key("a");
    followed.slot(&topic);
    followed.apply(&delta(&topic, None, 7));
    let woken = followed.wake(&topic);
    followed.refused(&topic);
    woken.await;
    assert!(read(&followed, &topic).await.is_none() && followed.ready(&topic, Consistency::Stale).is_none());
    followed.wake(&topic).await;
    followed.apply(&delta(&topic, None, 9));
    assert_eq!(read(&followed, &topic).await.unwrap().data.index, 9);
}

fn value_of(topic: &Topic, bytes: usize) -> Delta {
    let Topic::Key(name) = topic else { panic!() };
    let value = Arc::new(KvEntry { key: name.clone(), value: vec![0; bytes].into(), ..KvEntry::default() });
    let row = Row::Key(Indexed { create_index: 1, modify_index: 1, value });
    Delta { topic: topic.clone(), since: None, index: 1, changed: vec![row], removed: Vec::new() }
}

#[test]
fn however_large_what_is_read_is_what_is_held_is_bounded() {
    let (followed, clock) = bed(1_000);
    followed.set_limits(Limits { bytes: 1 << 20, ..Limits::default() });
    followed.connected();
    let total = || {
        let slots = followed.slots.read();
        let counted: usize = slots.values().map(|slot| slot.bytes()).sum();
        assert_eq!(counted, followed.bytes.load(Ordering::Relaxed));
        counted
    };
    for number in 0..100 {
        let topic = key(&number.to_string());
        followed.slot(&topic);
        followed.apply(&value_of(&topic, 50_000));
        clock.advance(Duration::from_millis(1));
        assert!(total() <= 1 << 20);
    }
    assert!(followed.count(Sort::Kv) >= 18, "{}", followed.count(Sort::Kv));
    assert!(followed.ready(&key("99"), Consistency::Default).is_some(), "the oldest go first");
    assert!(followed.take_wants(100).contains(&(key("0"), Want::Unsubscribe)));
    followed.set_limits(Limits { bytes: 1 << 18, ..Limits::default() });
    followed.sweep();
    assert!(total() <= 1 << 18);
    for number in 0..50 {
        let (topic, delta) = web(number);
        followed.slot(&topic);
        followed.apply(&delta);
        assert!(total() <= 1 << 18, "services take room too");
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_asked_of_the_hub_each_time() {
    let (followed, _clock) = bed(10);
    followed.set_limits(Limits { bytes: 10_000, ..Limits::default() });
    followed.connected();
    let (large, pinned) = (key("large"), key("pinned"));
    followed.slot(&large);
    followed.take_wants(10);
    followed.apply(&value_of(&large, 20_000));
    assert!(read(&followed, &large).await.is_none());
    assert_eq!(followed.take_wants(10), [(large, Want::Unsubscribe)]);
    assert!(followed.bytes.load(Ordering::Relaxed) < 2_000);
    followed.pin(&pinned);
    followed.apply(&value_of(&pinned, 20_000));
    assert!(read(&followed, &pinned).await.is_some(), "what is held for ever is held");
}

#[test]
fn keys_that_are_held_are_asked_for_again_in_turn() {
    let (followed, _clock) = bed(10);
    followed.connected();
    let names: Vec<Topic> = ["a", "b", "c", "d", "e"].map(key).to_vec();
    for topic in &names {
        followed.slot(topic);
        followed.apply(&delta(topic, None, 7));
    }
    followed.slot(&key("asked"));
    followed.slot(&web(1).0);
    let mut last = None;
    for expected in [&names[..2], &names[2..4], &names[4..], &[], &names[..2]] {
        last = followed.verify_keys(last.as_ref(), 2);
        let wants: BTreeMap<Topic, Want> = followed.take_wants(10).into_iter().collect();
        let asked: BTreeMap<Topic, Want> = expected.iter().map(|topic| (topic.clone(), Want::Subscribe(7))).collect();
        assert_eq!(wants, asked);
    }
}
