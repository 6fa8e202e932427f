use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use thane_api::event::{Target, Type};

use super::*;

fn at(seconds: u64) -> Now {
    Now { monotonic: Duration::from_secs(seconds), wall: Timestamp::UNIX_EPOCH }
}

fn lane(name: &str) -> Lane {
    Lane::new(name)
}

fn event(name: &str, id: &str, kind: Type) -> Event {
    Event {
        target: Target::Application,
        kind,
        resource_id: format!("{name}_uid"),
        event_id: id.to_owned(),
        subject: None,
        data: Bytes::from_static(b"{}"),
        extensions: BTreeMap::from([("traceparent".to_owned(), id.to_owned())]),
    }
}

fn spec(name: &str, id: &str) -> Event {
    event(name, id, Type::SpecUpdate)
}

fn open(options: Options) -> Inbox {
    let mut inbox = Inbox::new(options);
    inbox.opened();
    inbox
}

const WAITS: Verdict = Verdict::Waits { superseded: None };

#[test]
fn repeats_are_recognised_within_one_stream() {
    let mut inbox = open(Options::default());
    let first = spec("a", "1");
    assert_eq!(inbox.receive(at(0), lane("a"), first.clone()), Verdict::Start(first.clone()));
    assert_eq!(inbox.receive(at(9), lane("a"), first.clone()), Verdict::Repeat, "at work");
    assert_eq!(
        inbox.receive(at(9), lane("a"), event("a", "1", Type::SetOperation)),
        WAITS,
        "another type is another event"
    );
    assert_eq!(inbox.receive(at(9), lane("a"), event("a", "1", Type::SetOperation)), Verdict::Repeat, "waiting");
    assert!(inbox.is_awaited(&lane("a")) && !inbox.is_awaited(&lane("b")));
    let done = inbox.done(at(10), &lane("a"), true);
    assert_eq!(done.ack, Some(first.acknowledgement()));
    assert_eq!(done.next, Some((lane("a"), event("a", "1", Type::SetOperation))));
    for (seconds, expected) in [
        (11, Verdict::Repeat),
        (12, Verdict::Acknowledge(first.acknowledgement())),
        (13, Verdict::Repeat),
        (14, Verdict::Acknowledge(first.acknowledgement())),
    ] {
        assert_eq!(inbox.receive(at(seconds), lane("a"), first.clone()), expected, "{seconds}");
    }
    inbox.done(at(15), &lane("a"), true);
    inbox.opened();
    assert_eq!(inbox.receive(at(16), lane("a"), first.clone()), Verdict::Start(first), "another stream");
}

#[test]
fn what_failed_is_taken_again() {
    let mut inbox = open(Options::default());
    let first = spec("a", "1");
    inbox.receive(at(0), lane("a"), first.clone());
    assert_eq!(inbox.done(at(1), &lane("a"), false), Done { ack: None, is_late: false, next: None });
    assert_eq!(inbox.receive(at(1), lane("a"), first.clone()), Verdict::Start(first));
}

#[test]
fn a_lost_stream_gets_no_acknowledgement_but_its_events_are_processed() {
    for reopen in [false, true] {
        let mut inbox = open(Options::default());
        inbox.receive(at(0), lane("a"), spec("a", "1"));
        assert_eq!(inbox.receive(at(0), lane("a"), event("a", "2", Type::SetOperation)), WAITS);
        if reopen {
            inbox.opened();
        } else {
            inbox.closed();
        }
        let done = inbox.done(at(1), &lane("a"), true);
        assert_eq!(done.ack, None);
        assert_eq!(done.next, Some((lane("a"), event("a", "2", Type::SetOperation))));
        assert_eq!(inbox.done(at(1), &lane("a"), true), Done { ack: None, is_late: reopen, next: None });
        assert_eq!((inbox.len(), inbox.at_work(), inbox.lanes.len(), inbox.arrived.len()), (0, 0, 0, 0));
    }
}

#[test]
fn what_waits_from_an_earlier_stream_is_taken_over_by_its_repeat() {
    let mut inbox = open(Options::default());
    inbox.receive(at(0), lane("a"), spec("a", "1"));
    let waiting = event("a", "2", Type::SetOperation);
    inbox.receive(at(0), lane("a"), waiting.clone());
    inbox.opened();
    assert_eq!(inbox.receive(at(1), lane("a"), waiting.clone()), WAITS);
    assert_eq!(inbox.len(), 1, "it does not wait twice");
    assert_eq!(inbox.receive(at(1), lane("a"), waiting.clone()), Verdict::Repeat);
    assert_eq!(inbox.done(at(1), &lane("a"), true).ack, None);
    assert_eq!(inbox.done(at(1), &lane("a"), true).ack, Some(waiting.acknowledgement()));
}

#[test]
fn a_waiting_state_is_superseded_by_a_newer_one() {
    use Type::{Create, Delete, SetOperation, SpecUpdate, StatusUpdate};
    // What waits behind an event at work, which of it is acknowledged early, what is processed then.
    let cases: Vec<(Vec<Type>, Vec<&str>, Vec<&str>)> = vec![
        (vec![SpecUpdate, SpecUpdate, SpecUpdate], vec!["0", "1"], vec!["2"]),
        (vec![SpecUpdate, StatusUpdate, SpecUpdate, StatusUpdate], vec!["0", "1"], vec!["2", "3"]),
        (vec![SpecUpdate, SetOperation, SpecUpdate], vec![], vec!["0", "1", "2"]),
        (vec![SpecUpdate, Delete, Create, SpecUpdate], vec![], vec!["0", "1", "2", "3"]),
        (vec![SetOperation, SetOperation, Delete, Delete], vec![], vec!["0", "1", "2", "3"]),
    ];
    for (kinds, acknowledged, processed) in cases {
        let mut inbox = open(Options::default());
        inbox.receive(at(0), lane("a"), spec("a", "first"));
        let mut early = Vec::new();
        for (id, kind) in kinds.iter().enumerate() {
            let event = event("a", &id.to_string(), kind.clone());
            let Verdict::Waits { superseded } = inbox.receive(at(0), lane("a"), event) else { panic!("it waits") };
            early.extend(superseded.map(|ack| ack.event_id));
        }
        assert_eq!(early, acknowledged, "{kinds:?}");
        for id in early {
            let repeat = event("a", &id, kinds[id.parse::<usize>().unwrap()].clone());
            assert_eq!(inbox.receive(at(1), lane("a"), repeat), Verdict::Repeat, "it is acknowledged");
        }
        let mut order = Vec::new();
        while let Some((_, event)) = inbox.done(at(1), &lane("a"), true).next {
            order.push(event.event_id);
        }
        assert_eq!(order, processed, "{kinds:?}");
    }
}

#[test]
fn lanes_run_in_parallel_up_to_the_bound_and_start_in_order_of_arrival() {
    let mut inbox = open(Options { concurrency: 2, ..Options::default() });
    for (name, id, starts) in
        [("a", "1", true), ("b", "1", true), ("a", "2", false), ("d", "1", false), ("c", "1", false)]
    {
        let verdict = inbox.receive(at(0), lane(name), event(name, id, Type::SetOperation));
        assert_eq!(matches!(verdict, Verdict::Start(_)), starts, "{name} {id}");
    }
    assert_eq!((inbox.at_work(), inbox.len()), (2, 3));
    let mut order = Vec::new();
    for name in ["b", "d", "c", "a"] {
        let next = inbox.done(at(0), &lane(name), true).next;
        order.extend(next.map(|(lane, event)| format!("{lane}{}", event.event_id)));
    }
    assert_eq!(order, ["d1", "c1", "a2"], "a second event of a lane waits for the first");
    assert_eq!((inbox.at_work(), inbox.len()), (1, 0));
}

#[test]
fn a_lane_that_pauses_leaves_its_place_to_others_and_keeps_its_order() {
    let mut inbox = open(Options { concurrency: 1, paused_max: 2, ..Options::default() });
    inbox.receive(at(0), lane("a"), spec("a", "1"));
    for name in ["a", "b", "c", "d"] {
        assert_eq!(inbox.receive(at(0), lane(name), event(name, "2", Type::SetOperation)), WAITS);
    }
    let named = |next: Option<(Lane, Event)>| next.map(|(lane, _)| lane.to_string());
    assert_eq!(named(inbox.pause(&lane("a"))).as_deref(), Some("b"), "not what waits in its own lane");
    assert_eq!(inbox.pause(&lane("a")), None, "it has none to leave");
    assert_eq!(named(inbox.pause(&lane("b"))).as_deref(), Some("c"));
    assert_eq!(inbox.pause(&lane("c")), None, "so many may wait");
    assert_eq!((inbox.at_work(), inbox.paused()), (1, 2));
    inbox.resume(&lane("a"));
    inbox.resume(&lane("a"));
    assert_eq!((inbox.at_work(), inbox.paused()), (2, 1));
    assert_eq!(inbox.done(at(1), &lane("a"), true).next, None, "c is at work");
    assert_eq!(named(inbox.done(at(1), &lane("c"), true).next).as_deref(), Some("a"));
    assert_eq!(inbox.done(at(1), &lane("b"), true).next, None, "what pauses may also be done");
    assert_eq!((inbox.at_work(), inbox.paused(), inbox.len()), (1, 0, 1));
}

#[test]
fn a_full_queue_takes_nothing_but_newer_states() {
    let mut inbox = open(Options { queue_max: 2, concurrency: 1, ..Options::default() });
    inbox.receive(at(0), lane("a"), spec("a", "1"));
    inbox.receive(at(0), lane("a"), spec("a", "2"));
    inbox.receive(at(0), lane("b"), spec("b", "1"));
    assert!(inbox.is_full());
    assert_eq!(inbox.receive(at(0), lane("c"), spec("c", "1")), Verdict::Full);
    assert_eq!(
        inbox.receive(at(0), lane("b"), spec("b", "2")),
        Verdict::Waits { superseded: Some(spec("b", "1").acknowledgement()) }
    );
    assert_eq!(inbox.len(), 2);
    inbox.done(at(0), &lane("a"), true);
    assert!(!inbox.is_full());
    assert_eq!(inbox.receive(at(0), lane("c"), spec("c", "1")), WAITS, "what was not taken is not remembered");
}

#[test]
fn memory_of_ids_is_bounded_and_forgetting_acknowledges_nothing_early() {
    let mut inbox = open(Options { remembered_max: 2, concurrency: 1, ..Options::default() });
    for name in ["a", "b", "c", "d"] {
        inbox.receive(at(0), lane(name), spec(name, "1"));
    }
    assert_eq!(inbox.seen.len(), 2);
    assert_eq!(inbox.receive(at(0), lane("b"), spec("b", "1")), WAITS, "forgotten, but it is the one that waits");
    assert_eq!(inbox.len(), 3);
    let done = inbox.done(at(1), &lane("a"), true);
    assert_eq!(done.ack, Some(spec("a", "1").acknowledgement()));
    assert_eq!(done.next, Some((lane("b"), spec("b", "1"))));
}

#[test]
#[should_panic(expected = "not at work")]
fn done_without_work_is_a_mistake() {
    open(Options::default()).done(at(0), &lane("a"), true);
}

#[test]
fn what_passes_is_new_once_and_waits_for_no_lane() {
    let mut inbox = open(Options { concurrency: 1, ..Options::default() });
    let busy = spec("a", "1");
    assert_eq!(inbox.receive(at(0), lane("a"), busy.clone()), Verdict::Start(busy));
    let request = event("b", "2", Type::Verb("GET".to_owned()));
    let ack = Some(request.acknowledgement());
    for (seconds, expected) in
        [(0, (true, ack.clone())), (1, (false, None)), (2, (false, ack.clone())), (3, (false, None))]
    {
        assert_eq!(inbox.pass(at(seconds), &request), expected, "after {seconds} s");
    }
    assert_eq!((inbox.len(), inbox.at_work()), (0, 1));
    inbox.closed();
    inbox.opened();
    assert_eq!(inbox.pass(at(4), &request), (true, ack), "ids of an earlier stream are forgotten");
}
