use std::collections::BTreeSet;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::json;
use thane_api::event::SENT_AT;

use super::*;

/// An outbox with a clock.
struct Bench {
    outbox: Outbox,
    at: Duration,
}

impl Bench {
    fn new(options: Options) -> Self {
        Self { outbox: Outbox::new(options, "salt".to_owned()), at: Duration::from_secs(100) }
    }

    fn connected(options: Options) -> Self {
        let mut bench = Self::new(options);
        bench.outbox.connected(bench.now());
        bench
    }

    fn now(&self) -> Now {
        moment(self.at)
    }

    fn push(&mut self, out: Outgoing) -> Pushed {
        let now = self.now();
        self.outbox.push(now, out)
    }

    fn send(&mut self) -> Vec<Event> {
        let now = self.now();
        let events = self.outbox.due(now, usize::MAX);
        assert!(self.outbox.next_due(now).is_none_or(|at| at > self.at), "with room for all, nothing is due after due");
        events
    }

    fn ack(&mut self, event: &Event) -> Option<Acknowledged> {
        let now = self.now();
        self.outbox.acknowledge(now, &event.resource_id, &event.event_id)
    }

    /// Lets time pass until something is due.
    fn wait(&mut self) -> Duration {
        let next = self.outbox.next_due(self.now()).expect("something waits for time");
        let waited = next.saturating_sub(self.at);
        self.at = next;
        waited
    }

    /// Acknowledges everything as it comes.
    fn drain(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let events = self.send();
            if events.is_empty() {
                return seen;
            }
            for event in events {
                seen.push(shown(&event));
                self.ack(&event).expect("it is in flight");
            }
        }
    }
}

fn moment(at: Duration) -> Now {
    let wall = Timestamp::from_second(1_700_000_000).unwrap() + at;
    Now { monotonic: at, wall }
}

fn shown(event: &Event) -> String {
    format!("{} {:?} {}", event.resource_id, event.kind, String::from_utf8_lossy(&event.data))
}

fn lane(name: &str) -> Lane {
    Lane::new(name)
}

/// An event about `name`; a recreated object is written `name'`.
fn out(name: &str, kind: Type, version: u32) -> Outgoing {
    Outgoing {
        lane: lane(name.trim_end_matches('\'')),
        target: Target::Application,
        kind,
        resource_id: name.to_owned(),
        event_id: "id".to_owned(),
        subject: None,
        body: Body::Json(Bytes::from(version.to_string())),
        extensions: BTreeMap::new(),
        needs: Vec::new(),
    }
}

fn needing(name: &str, needs: &[&str]) -> Outgoing {
    Outgoing { needs: needs.iter().map(|need| lane(need)).collect(), ..out(name, Type::Create, 0) }
}

fn untracked(id: &str) -> Outgoing {
    Outgoing {
        target: Target::Processed,
        kind: Type::Processed,
        event_id: id.to_owned(),
        body: Body::Empty,
        ..out("a", Type::Processed, 0)
    }
}

/// A name, what is pushed while disconnected, what is sent then.
type Coalescing = (&'static str, Vec<(&'static str, Type)>, Vec<&'static str>);

#[test]
fn unsent_events_are_coalesced() {
    use Type::{Create, Delete, Error, SetOperation, SpecUpdate, StatusUpdate, TerminateOperation};
    let cases: Vec<Coalescing> = vec![
        ("newest spec", vec![("a", SpecUpdate), ("a", SpecUpdate), ("a", SpecUpdate)], vec!["a SpecUpdate 2"]),
        ("newest status", vec![("a", StatusUpdate), ("a", StatusUpdate)], vec!["a StatusUpdate 1"]),
        (
            "spec and status apart, in their first places",
            vec![("a", SpecUpdate), ("a", StatusUpdate), ("a", SpecUpdate), ("a", StatusUpdate)],
            vec!["a SpecUpdate 2", "a StatusUpdate 3"],
        ),
        ("create takes the spec", vec![("a", Create), ("a", SpecUpdate)], vec!["a Create 1"]),
        ("create twice", vec![("a", Create), ("a", Create)], vec!["a Create 1"]),
        (
            "no stale create behind a spec",
            vec![("a", SpecUpdate), ("a", Create), ("a", SpecUpdate)],
            vec!["a Create 2"],
        ),
        (
            "an operation keeps its place",
            vec![("a", SpecUpdate), ("a", SetOperation), ("a", SpecUpdate), ("a", SetOperation)],
            vec!["a SpecUpdate 2", "a SetOperation 1", "a SetOperation 3"],
        ),
        (
            "terminate and error stay",
            vec![("a", TerminateOperation), ("a", Error), ("a", TerminateOperation), ("a", Error)],
            vec!["a TerminateOperation 0", "a Error 1", "a TerminateOperation 2", "a Error 3"],
        ),
        (
            "delete clears all",
            vec![("a", Create), ("a", SetOperation), ("a", StatusUpdate), ("a", Error), ("a", Delete)],
            vec!["a Delete 4"],
        ),
        ("delete twice", vec![("a", Delete), ("a", Delete)], vec!["a Delete 1"]),
        (
            "create stays behind delete",
            vec![("a", SpecUpdate), ("a", Delete), ("a'", Create), ("a'", SpecUpdate)],
            vec!["a Delete 1", "a' Create 3"],
        ),
        (
            "a deletion of the object before is not lost",
            vec![("a", Delete), ("a'", Create), ("a'", Delete), ("a'", Delete)],
            vec!["a Delete 0", "a' Delete 3"],
        ),
        ("lanes are apart", vec![("a", SpecUpdate), ("b", SpecUpdate)], vec!["a SpecUpdate 0", "b SpecUpdate 1"]),
    ];
    for (name, pushes, expected) in cases {
        let mut bench = Bench::new(Options::default());
        for (version, (object, kind)) in (0..).zip(pushes) {
            bench.push(out(object, kind, version));
        }
        assert!(bench.send().is_empty(), "{name}: nothing is sent while disconnected");
        bench.outbox.connected(bench.now());
        assert_eq!(bench.drain(), expected, "{name}");
        assert_eq!((bench.outbox.len(), bench.outbox.lanes.len(), bench.outbox.window_used), (0, 0, 0), "{name}");
    }
}

#[test]
fn one_event_per_lane_is_in_flight_and_sent_at_once() {
    let mut bench = Bench::connected(Options::default());
    assert_eq!(bench.push(out("a", Type::SpecUpdate, 1)), Pushed::Queued);
    let first = bench.send().remove(0);
    assert_eq!(bench.push(out("a", Type::SpecUpdate, 2)), Pushed::Queued, "what is in flight is not changed");
    assert_eq!(bench.push(out("a", Type::SpecUpdate, 3)), Pushed::Replaced);
    assert!(bench.send().is_empty());
    bench.at += Duration::from_secs(1);
    let acknowledged = bench.ack(&first).unwrap();
    assert_eq!((acknowledged.waited, acknowledged.attempts), (Duration::from_secs(1), 1));
    assert_eq!(acknowledged.lane, lane("a"));
    assert_eq!(bench.drain(), ["a SpecUpdate 3"]);
}

#[test]
fn only_what_is_in_flight_is_acknowledged() {
    let mut bench = Bench::connected(Options::default());
    bench.push(out("a", Type::SpecUpdate, 1));
    bench.push(out("b", Type::SpecUpdate, 1));
    let events = bench.send();
    let now = bench.now();
    for (resource_id, event_id) in [("a", "id"), ("b", events[0].event_id.as_str()), ("a", "id_salt-7"), ("", "")] {
        assert_eq!(bench.outbox.acknowledge(now, resource_id, event_id), None, "{resource_id} {event_id}");
    }
    bench.push(out("a", Type::SpecUpdate, 2));
    assert!(bench.ack(&events[0]).is_some());
    assert!(bench.ack(&events[0]).is_none(), "a duplicate");
    let second = bench.send().remove(0);
    assert!(bench.ack(&events[0]).is_none(), "a duplicate while the next one flies");
    assert!(bench.ack(&second).is_some());
    assert_eq!(bench.outbox.in_flight(), 1);
}

#[test]
fn a_deletion_overtakes_what_is_in_flight() {
    let mut bench = Bench::connected(Options::default());
    bench.push(out("a", Type::SpecUpdate, 1));
    let forgotten = bench.send().remove(0);
    bench.push(out("a", Type::SetOperation, 2));
    assert_eq!(bench.push(out("a", Type::Delete, 3)), Pushed::Replaced);
    let deletion = bench.send().remove(0);
    assert_eq!(shown(&deletion), "a Delete 3");
    assert!(bench.ack(&forgotten).is_none());
    bench.push(out("a'", Type::Create, 4));
    assert!(bench.send().is_empty());
    bench.push(out("a'", Type::Delete, 5));
    assert!(bench.send().is_empty(), "the deletion of the object before is not forgotten");
    assert!(bench.ack(&deletion).is_some());
    assert_eq!(bench.drain(), ["a' Delete 5"]);
}

#[test]
fn what_is_not_acknowledged_is_sent_again_with_growing_waits() {
    let mut bench = Bench::connected(Options::default());
    bench.push(out("a", Type::SpecUpdate, 1));
    let first = bench.send().remove(0);
    let mut waits = Vec::new();
    for _ in 0..6 {
        waits.push(bench.wait());
        assert_eq!(bench.send(), std::slice::from_ref(&first), "the same event, with the same stamps");
    }
    for (wait, full) in waits.iter().zip([5, 20, 80, 120, 120, 120]) {
        let full = Duration::from_secs(full);
        assert!(*wait > full / 2 && *wait <= full, "{waits:?}");
    }
    assert_eq!(bench.ack(&first).unwrap().attempts, 7);
    assert_eq!(bench.outbox.next_due(bench.now()), None);
}

#[test]
fn what_is_not_acknowledged_gives_way_to_a_newer_state() {
    let mut bench = Bench::connected(Options::default());
    bench.push(out("a", Type::Create, 1));
    bench.push(out("b", Type::SetOperation, 1));
    let old = bench.send();
    bench.push(out("a", Type::SetOperation, 2));
    bench.push(out("a", Type::SpecUpdate, 3));
    bench.push(out("b", Type::SetOperation, 2));
    assert!(bench.send().is_empty(), "it may be on its way");
    bench.wait();
    bench.at += Duration::from_secs(5);
    let again = bench.send();
    assert_eq!(
        again.iter().map(shown).collect::<BTreeSet<_>>(),
        ["a Create 3", "b SetOperation 1"].map(str::to_owned).into()
    );
    assert_eq!(bench.ack(&old[0]), None, "nobody waits for that any more");
    for version in [4, 5] {
        bench.push(out("a", Type::SpecUpdate, version));
        let newer = bench.send();
        assert_eq!(newer.iter().map(shown).collect::<Vec<_>>(), [format!("a Create {version}")], "at once");
    }
    bench.push(out("a", Type::SpecUpdate, 6));
    bench.at += Duration::from_secs(6);
    assert!(bench.send().is_empty(), "a peer that is slow has more time for each");
    bench.at += Duration::from_mins(3);
    let newest = bench.send();
    assert_eq!(
        newest.iter().map(shown).collect::<BTreeSet<_>>(),
        ["a Create 6", "b SetOperation 1"].map(str::to_owned).into()
    );
    assert_eq!((bench.outbox.len(), bench.outbox.in_flight(), bench.outbox.window_used), (4, 2, 1));
    let of_a = newest.iter().find(|event| shown(event).starts_with('a')).unwrap();
    assert!(bench.ack(of_a).is_some());
    assert_eq!(bench.send().iter().map(shown).collect::<Vec<_>>(), ["a SetOperation 2"]);
}

#[test]
fn after_a_reconnect_everything_in_flight_is_due() {
    let mut bench = Bench::connected(Options::default());
    for name in ["b", "a", "c"] {
        bench.push(out(name, Type::SpecUpdate, 1));
    }
    let sent = bench.send();
    bench.at += Duration::from_secs(1);
    bench.outbox.disconnected(bench.now());
    bench.at += Duration::from_hours(1);
    assert_eq!(bench.outbox.next_due(bench.now()), None);
    assert!(bench.send().is_empty());
    assert!(bench.ack(&sent[1]).is_some(), "an acknowledgement that was on its way");
    bench.outbox.connected(bench.now());
    assert_eq!(bench.send(), [sent[0].clone(), sent[2].clone()]);
    assert!(bench.wait() <= Duration::from_secs(5), "waits start anew");
}

#[test]
fn first_transmission_is_stamped_and_ids_are_unique() {
    let mut bench = Bench::new(Options::default());
    let stale = BTreeMap::from([(SENT_AT.to_owned(), "old".to_owned()), ("x".to_owned(), "y".to_owned())]);
    bench.push(Outgoing { extensions: stale, ..out("a", Type::Create, 1) });
    bench.push(out("b", Type::Create, 1));
    bench.at += Duration::from_millis(1500);
    bench.outbox.connected(bench.now());
    let events = bench.send();
    assert_eq!(events[0].extensions[SENT_AT], "2023-11-14T22:15:01.500000000Z");
    assert_eq!(events[0].extensions["x"], "y");
    assert_eq!([&events[0].event_id, &events[1].event_id], ["id_salt-0", "id_salt-1"]);
}

#[test]
fn bodies_are_serialised_when_sent() {
    for (body, text) in [
        (Body::Empty, ""),
        (Body::Json(Bytes::from_static(b"[1]")), "[1]"),
        (Body::Object(json!({"kind": "Application", "spec": {}}).into()), r#"{"kind":"Application","spec":{}}"#),
    ] {
        let mut bench = Bench::connected(Options::default());
        bench.push(Outgoing { body, ..out("a", Type::Create, 1) });
        assert_eq!(bench.send()[0].data, text);
    }
}

#[test]
fn at_the_bound_the_newest_state_still_gets_in() {
    let mut bench = Bench::new(Options { queue_max: 2, ..Options::default() });
    for (object, kind, expected) in [
        ("a", Type::SpecUpdate, Pushed::Queued),
        ("b", Type::Create, Pushed::Queued),
        ("c", Type::Create, Pushed::Overflow),
        ("a", Type::SetOperation, Pushed::Overflow),
        ("c", Type::Delete, Pushed::Overflow),
        ("a", Type::SpecUpdate, Pushed::Replaced),
        ("b", Type::SpecUpdate, Pushed::Replaced),
        ("b", Type::Delete, Pushed::Replaced),
    ] {
        assert_eq!(bench.push(out(object, kind.clone(), 0)), expected, "{object} {kind:?}");
        assert!(bench.outbox.len() <= 2);
    }
    bench.outbox.connected(bench.now());
    bench.send();
    assert_eq!(bench.push(out("c", Type::Create, 0)), Pushed::Overflow, "what is in flight takes room as well");
    assert_eq!(bench.push(out("a", Type::Delete, 0)), Pushed::Replaced);
}

#[test]
fn answers_go_first_once_and_without_a_trace() {
    let mut bench = Bench::connected(Options { queue_max: 2, window: 1, ..Options::default() });
    bench.push(out("a", Type::SpecUpdate, 1));
    for id in 0..10 {
        assert_eq!(bench.push(untracked(&id.to_string())), Pushed::Queued);
    }
    assert_eq!(bench.outbox.untracked_dropped(), 2);
    let now = bench.now();
    assert_eq!(bench.outbox.due(now, 3).iter().map(|event| &*event.event_id).collect::<Vec<_>>(), ["2", "3", "4"]);
    assert_eq!(bench.outbox.next_due(now), Some(now.monotonic), "only room was lacking");
    let rest = bench.send();
    assert_eq!(rest.iter().map(|event| &*event.event_id).collect::<Vec<_>>(), ["5", "6", "7", "8", "9", "id_salt-0"]);
    assert!(rest[0].extensions.is_empty(), "what is not tracked is not stamped");
    assert_eq!((bench.outbox.len(), bench.outbox.in_flight()), (1, 1));
    bench.push(untracked("late"));
    bench.outbox.disconnected(bench.now());
    bench.outbox.connected(bench.now());
    assert_eq!(bench.send().len(), 1, "only what is in flight");
}

#[test]
fn what_is_needed_goes_first() {
    let mut bench = Bench::connected(Options::default());
    bench.push(needing("app", &["app", "project", "repository", "idle"]));
    bench.push(out("project", Type::Create, 0));
    bench.push(out("repository", Type::Create, 0));
    bench.push(out("other", Type::Create, 0));
    let sent = bench.send();
    assert_eq!(sent.iter().map(|event| &*event.resource_id).collect::<Vec<_>>(), ["project", "repository", "other"]);
    bench.ack(&sent[0]).unwrap();
    assert!(bench.send().is_empty());
    bench.ack(&sent[1]).unwrap();
    assert_eq!(bench.drain(), ["app Create 0"]);
}

#[test]
fn waiting_for_needs_ends() {
    // The first retry is after 5 seconds at most; without it, the wait is what ends it.
    for (retry_first, expected) in [(Duration::from_secs(4), 4), (Duration::from_mins(1), 10)] {
        let mut bench = Bench::connected(Options { retry_first, ..Options::default() });
        bench.push(out("project", Type::Create, 0));
        bench.push(needing("app", &["project"]));
        assert_eq!(bench.send().len(), 1);
        let waited = bench.wait();
        assert!(waited <= Duration::from_secs(expected) && waited > Duration::from_secs(expected / 2), "{waited:?}");
        assert!(bench.send().iter().any(|event| event.resource_id == "app"));
        assert!(bench.outbox.schedule.is_idle_but_for_retries());
    }
}

#[test]
fn after_a_long_absence_needs_are_still_respected() {
    let mut bench = Bench::new(Options::default());
    bench.push(needing("app", &["project"]));
    bench.push(out("project", Type::Create, 0));
    bench.at += Duration::from_hours(1);
    bench.outbox.connected(bench.now());
    assert_eq!(bench.drain(), ["project Create 0", "app Create 0"]);
}

#[test]
fn newer_needs_replace_older_ones() {
    let mut bench = Bench::connected(Options::default());
    bench.push(out("project", Type::Create, 0));
    bench.push(needing("app", &["project"]));
    assert_eq!(bench.send().len(), 1);
    bench.push(needing("app", &[]));
    assert_eq!(bench.send().len(), 1);
}

#[test]
fn lanes_that_need_each_other_go_in_the_end() {
    let mut bench = Bench::connected(Options::default());
    bench.push(needing("a", &["b"]));
    bench.push(needing("b", &["a"]));
    assert!(bench.send().is_empty());
    assert_eq!(bench.wait(), Duration::from_secs(10));
    assert_eq!(bench.drain(), ["a Create 0", "b Create 0"]);
}

#[test]
fn the_rate_is_kept_and_answers_are_free() {
    let rate = Some(Rate { per_second: 10, burst: 3 });
    let mut bench = Bench::connected(Options { rate, ..Options::default() });
    for index in 0..23 {
        bench.push(out(&format!("{index:02}"), Type::Create, 0));
    }
    bench.push(untracked("free"));
    assert_eq!(bench.send().len(), 4);
    let started = bench.at;
    let mut sent = Vec::new();
    while sent.len() < 20 {
        assert!(bench.wait() > Duration::ZERO);
        let events = bench.send();
        for event in &events {
            bench.ack(event).unwrap();
        }
        sent.extend(events.into_iter().map(|event| event.resource_id));
    }
    assert_eq!(bench.at.saturating_sub(started), Duration::from_secs(2));
    assert!(sent.is_sorted(), "{sent:?}");
}

#[test]
fn the_window_bounds_what_is_in_flight_but_stuck_events_do_not_fill_it() {
    let mut bench = Bench::connected(Options { window: 2, ..Options::default() });
    for name in ["a", "b", "c", "d"] {
        bench.push(out(name, Type::Create, 0));
    }
    let sent = bench.send();
    assert_eq!(sent.len(), 2);
    bench.ack(&sent[0]).unwrap();
    assert_eq!(shown(&bench.send()[0]), "c Create 0");
    let mut seen = BTreeSet::new();
    while !seen.contains("d") {
        bench.wait();
        seen.extend(bench.send().into_iter().map(|event| event.resource_id));
        assert!(bench.outbox.in_flight() <= 3);
    }
    assert!(bench.at < Duration::from_secs(130), "after the third transmission: {:?}", bench.at);
}

#[test]
fn lanes_are_served_in_order_of_push_within_room() {
    let mut bench = Bench::connected(Options::default());
    for name in ["c", "a", "b"] {
        bench.push(out(name, Type::SpecUpdate, 0));
    }
    bench.push(out("c", Type::SpecUpdate, 1));
    let now = bench.now();
    assert!(bench.outbox.due(now, 0).is_empty());
    let order: Vec<String> = (0..3).flat_map(|_| bench.outbox.due(now, 1)).map(|event| shown(&event)).collect();
    assert_eq!(order, ["c SpecUpdate 1", "a SpecUpdate 0", "b SpecUpdate 0"]);
}

#[test]
fn a_waiting_lane_is_busy_and_has_an_age_until_cleared() {
    let mut bench = Bench::connected(Options::default());
    assert_eq!(bench.outbox.oldest(bench.now()), None);
    bench.push(out("a", Type::SpecUpdate, 0));
    bench.send();
    bench.at += Duration::from_secs(1);
    bench.push(out("a", Type::SpecUpdate, 1));
    bench.push(needing("b", &["a"]));
    bench.send();
    bench.push(untracked("x"));
    bench.at += Duration::from_secs(1);
    assert_eq!(bench.outbox.oldest(bench.now()), Some(Duration::from_secs(2)));
    assert!(bench.outbox.is_lane_busy(&lane("b")) && !bench.outbox.is_lane_busy(&lane("c")));
    assert_eq!(bench.outbox.clear().into_values().sum::<usize>(), 3);
    assert!(bench.outbox.is_empty() && !bench.outbox.is_lane_busy(&lane("b")));
    assert_eq!(bench.outbox.next_due(bench.now()), None);
    bench.push(out("a", Type::SpecUpdate, 2));
    assert_eq!(bench.drain(), ["a SpecUpdate 2"], "it works on");
}
