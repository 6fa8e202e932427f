use proptest::prelude::*;

use super::*;

fn service(id: &str) -> ItemKey {
    ItemKey::Service(id.to_owned())
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn connected() -> Pending {
    let mut pending = Pending::new(Cadence::default());
    pending.connected(ms(0));
    assert_eq!(pending.next(ms(0)), Step::Full);
    pending.begin_full(Vec::new());
    pending.answered(ms(0), &[]);
    pending
}

#[test]
fn changes_within_the_window_share_a_batch() {
    let mut pending = connected();
    pending.touch(ms(100), [service("a")]);
    assert_eq!(pending.next(ms(100)), Step::Send(vec![service("a")]), "the first after a while leaves at once");
    pending.touch(ms(101), [service("b")]);
    assert_eq!(pending.next(ms(101)), Step::Idle, "one batch is under way");
    pending.answered(ms(102), &[true]);
    assert_eq!(pending.next(ms(102)), Step::At(ms(105)));
    pending.touch(ms(103), [service("c"), service("b")]);
    assert_eq!(pending.next(ms(105)), Step::Send(vec![service("b"), service("c")]));
    pending.answered(ms(110), &[true, true]);
    assert!(pending.is_empty());
    assert_eq!(pending.next(ms(111)), Step::At(Duration::from_secs(30)), "health comes next");
}

#[test]
fn changes_that_never_stop_do_not_hold_each_other_up() {
    let mut pending = connected();
    let mut sent = 0;
    for now in 100..200 {
        pending.touch(ms(now), [service(&now.to_string())]);
        // Looked at late, as on a busy machine.
        if now % 7 == 0
            && let Step::Send(keys) = pending.next(ms(now))
        {
            sent += keys.len();
            pending.answered(ms(now), &vec![true; keys.len()]);
        }
    }
    assert!(sent > 90, "{sent}");
}

/// Too many items, say, or one that cannot be read.
#[test]
fn when_everything_at_once_is_refused_it_is_said_bit_by_bit() {
    let mut pending = Pending::new(Cadence { batch: 2, ..Cadence::default() });
    pending.connected(ms(0));
    let all: Vec<ItemKey> = ["a", "b", "bad", "c"].map(service).to_vec();
    assert_eq!(pending.next(ms(0)), Step::Full);
    pending.begin_full(all.clone());
    pending.refused(ms(10));
    assert_eq!((pending.len(), pending.next(ms(10))), (4, Step::At(ms(1_010))));
    assert_eq!(pending.next(ms(1_010)), Step::Send(all[..2].to_vec()));
    pending.answered(ms(1_011), &[true, true]);
    assert_eq!(pending.next(ms(1_011)), Step::Send(all[2..].to_vec()));
    pending.refused(ms(1_012));
    pending.touch(ms(1_013), [service("z")]);
    assert_eq!(pending.next(ms(2_012)), Step::Send(vec![service("z")]), "others come before what was refused");
    pending.answered(ms(2_013), &[true]);
    assert_eq!(pending.next(ms(10_010)), Step::Full, "and all of it is tried again");
}

/// Konsul kept batches of fewer than a hundred until it was stopped.
#[test]
fn defect_4_a_single_change_leaves_by_itself() {
    let mut pending = connected();
    pending.touch(ms(50), [service("a")]);
    assert_eq!(pending.next(ms(50)), Step::Send(vec![service("a")]));
}

#[test]
fn a_hundred_changes_leave_at_once_and_the_rest_follows() {
    let mut pending = connected();
    let keys: Vec<ItemKey> = (0..250).map(|n| service(&format!("{n:03}"))).collect();
    pending.touch(ms(10), keys.clone());
    for part in keys.chunks(100) {
        assert_eq!(pending.next(ms(15)), Step::Send(part.to_vec()));
        pending.answered(ms(15), &vec![true; part.len()]);
    }
    assert!(pending.is_empty());
}

/// Konsul dropped a batch after four tries.
#[test]
fn defect_7_a_failure_is_tried_again_and_nothing_is_dropped() {
    let mut pending = connected();
    pending.touch(ms(0), [service("a")]);
    for round in 0..20 {
        let now = ms(5 + round * 10_000);
        let step = pending.next(now);
        // Health and the full net come in between; both carry the item as well.
        match step {
            Step::Send(keys) => assert_eq!(keys, vec![service("a")]),
            Step::Full => pending.begin_full(vec![service("a")]),
            Step::Health => assert_eq!(pending.next(now), Step::Send(vec![service("a")])),
            other => panic!("{other:?}"),
        }
        pending.failed(now);
        assert_eq!(pending.next(now + ms(9_999)), Step::At(now + ms(10_000)));
        assert!(pending.is_dirty(&service("a")));
    }
}

#[test]
fn one_refused_item_does_not_hold_up_the_others() {
    let mut pending = connected();
    pending.touch(ms(0), [service("bad"), service("good")]);
    assert!(matches!(pending.next(ms(5)), Step::Send(_)));
    pending.answered(ms(6), &[false, true]);
    assert!(pending.is_dirty(&service("bad")) && !pending.is_dirty(&service("good")));
    pending.touch(ms(7), [service("other")]);
    assert_eq!(pending.next(ms(12)), Step::Send(vec![service("other")]));
    pending.answered(ms(13), &[true]);
    assert_eq!(pending.next(ms(10_006)), Step::Send(vec![service("bad")]));
}

#[test]
fn a_change_while_its_item_is_under_way_is_sent_again() {
    let mut pending = connected();
    pending.touch(ms(0), [service("a")]);
    assert!(matches!(pending.next(ms(5)), Step::Send(_)));
    pending.touch(ms(6), [service("a")]);
    pending.answered(ms(7), &[true]);
    assert!(pending.is_dirty(&service("a")));
    assert_eq!(pending.next(ms(12)), Step::Send(vec![service("a")]));
}

#[test]
fn everything_is_said_on_connection_and_every_five_minutes() {
    let mut pending = Pending::new(Cadence::default());
    pending.touch(ms(0), [service("gone"), service("kept")]);
    assert_eq!(pending.next(ms(1000)), Step::Idle, "nobody is there");
    pending.connected(ms(2000));
    assert_eq!(pending.next(ms(2000)), Step::Full);
    pending.begin_full(vec![service("kept")]);
    pending.touch(ms(2001), [service("new")]);
    pending.answered(ms(2002), &[true]);
    assert_eq!(pending.len(), 1, "what was removed is known by not being there");
    assert!(pending.is_dirty(&service("new")));
    let mut healths = 0;
    loop {
        match pending.next(ms(302_002)) {
            Step::Full => break,
            Step::Health => healths += 1,
            Step::Send(keys) => pending.answered(ms(302_002), &vec![true; keys.len()]),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(healths, 0, "the full net comes first");
}

#[test]
fn numbers_are_never_given_twice() {
    let mut first = Sequence::after(0);
    assert_eq!((first.take(), first.wanted()), (None, Some(1024)));
    first.reserve(1024);
    let given: Vec<u64> = std::iter::from_fn(|| first.take()).collect();
    assert_eq!(given, (1..=1024).collect::<Vec<_>>());
    assert_eq!(first.wanted(), Some(2048));
    let mut restarted = Sequence::after(1024);
    restarted.reserve(restarted.wanted().unwrap());
    assert_eq!(restarted.take(), Some(1025));
}

#[derive(Debug, Clone)]
enum Event {
    Touch(u8),
    Advance(u16),
    Answer(Vec<bool>),
    Fail,
    Reconnect,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0_u8..20).prop_map(Event::Touch),
        4 => (0_u16..12_000).prop_map(Event::Advance),
        3 => prop::collection::vec(any::<bool>(), 0..20).prop_map(Event::Answer),
        1 => Just(Event::Fail),
        1 => Just(Event::Reconnect),
    ]
}

proptest! {
    /// Whatever happens, an item that changed after it was last taken is still there to be sent, and once everything
    /// is taken nothing is left.
    #[test]
    fn nothing_is_forgotten(events in prop::collection::vec(event(), 0..200)) {
        let mut pending = Pending::new(Cadence { batch: 5, ..Cadence::default() });
        let mut now = Duration::ZERO;
        pending.connected(now);
        // The newest version of each item, and the newest the hub has taken.
        let mut newest: BTreeMap<ItemKey, u64> = BTreeMap::new();
        let mut taken: BTreeMap<ItemKey, u64> = BTreeMap::new();
        let mut flight: Option<Vec<(ItemKey, u64)>> = None;
        let mut version = 0;
        for event in events {
            match event {
                Event::Touch(n) => {
                    version += 1;
                    let key = service(&n.to_string());
                    newest.insert(key.clone(), version);
                    pending.touch(now, [key]);
                }
                Event::Advance(by) => now += ms(u64::from(by)),
                Event::Answer(answers) => if let Some(sent) = flight.take() {
                    for (place, (key, version)) in sent.into_iter().enumerate() {
                        if answers.get(place).copied().unwrap_or(false) {
                            taken.insert(key, version);
                        }
                    }
                    pending.answered(now, &answers);
                },
                Event::Fail => { flight = None; pending.failed(now); }
                Event::Reconnect => { flight = None; pending.disconnected(); pending.connected(now); }
            }
            if flight.is_none() {
                flight = match pending.next(now) {
                    Step::Send(keys) => {
                        prop_assert!(keys.len() <= 5);
                        Some(keys.into_iter().map(|key| { let v = newest[&key]; (key, v) }).collect())
                    }
                    Step::Full => {
                        pending.begin_full(newest.keys().cloned().collect());
                        Some(newest.iter().map(|(key, v)| (key.clone(), *v)).collect())
                    }
                    _ => None,
                };
            }
            for (key, version) in &newest {
                prop_assert!(taken.get(key) == Some(version) || pending.is_dirty(key), "{key:?} was forgotten");
            }
        }
        if flight.is_some() {
            pending.failed(now);
        }
        for _ in 0..100 {
            match pending.next(now) {
                Step::At(then) => now = then,
                Step::Send(keys) => pending.answered(now, &vec![true; keys.len()]),
                Step::Full => { pending.begin_full(Vec::new()); pending.answered(now, &[]); }
                Step::Health | Step::Idle => {}
            }
        }
        prop_assert!(pending.is_empty());
    }
}
