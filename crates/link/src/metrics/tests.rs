use std::time::Duration;

use super::*;

#[test]
fn a_peer_that_errs_all_the_time_gets_a_line_once_in_a_while() {
    let mut refusals = Refusals::default();
    let at = |second| Timestamp::from_second(second).expect("a small number");
    let found: Vec<_> = [0, 1, 9, 10, 11, 30, 0].map(|second| refusals.next(at(second))).into();
    assert_eq!(found, [Some(0), None, None, Some(2), None, Some(1), Some(0)]);
}

#[test]
fn nothing_is_left_of_an_agent_that_is_gone() {
    let figures = Figures::new(Role::Principal);
    let mut registry = Registry::default();
    figures.register(&mut registry);
    let metrics = figures.of("gone-agent");
    for kind in [Type::Create, Type::Digest, Type::Verb("GET".into()), Type::Other("x".into())] {
        let (target, message, took) = (Target::Other("y".into()), String::new(), Duration::ZERO);
        let event = Event::request(Target::Application, kind.clone(), "id", bytes::Bytes::new());
        metrics.received(&event);
        metrics.sent(&event);
        let done =
            Note::Applied { target: target.clone(), kind: kind.clone(), sent_at: None, trace: None, wrote: true, took };
        metrics.note(&done, Timestamp::UNIX_EPOCH);
        for class in CLASSES {
            let (target, kind, message) = (target.clone(), kind.clone(), message.clone());
            let refused = Note::Refused { target, kind, trace: None, class, message, took };
            metrics.note(&refused, Timestamp::UNIX_EPOCH);
        }
    }
    for reason in REASONS {
        metrics.note(&Note::Compare { reason }, Timestamp::UNIX_EPOCH);
        metrics.note(&Note::Resent { reason, objects: 2 }, Timestamp::UNIX_EPOCH);
    }
    metrics.note(&Note::Drift { differing: 1, of: 2 }, Timestamp::UNIX_EPOCH);
    let (target, kind) = (Target::Application, Type::SpecUpdate);
    metrics.note(&Note::Overflow { target: target.clone(), kind: kind.clone() }, Timestamp::UNIX_EPOCH);
    metrics.note(&Note::GaveUp { events: [((target, kind), 3)].into() }, Timestamp::UNIX_EPOCH);
    let shown = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("writing to a string cannot fail");
        text
    };
    let text = shown();
    assert!(text.contains("result=\"refused\",class=\"permanent\"") && text.contains("reason=\"drift\""), "{text}");
    let discarded = text.lines().find(|line| line.starts_with("argocd_principal_event_writer_events_discarded_total"));
    assert!(discarded.is_some_and(|line| line.contains("agent_name=\"gone-agent\"") && line.ends_with(" 4")), "{text}");
    figures.forget("gone-agent");
    let text = shown();
    assert!(!text.contains("gone-agent"), "{text}");
}
