//! Operations: none lost, none run twice.

use serde_json::{Value, json};

use super::*;
use crate::object::{OPERATION_ID, REFRESH};

fn asked(app: Value) -> Value {
    with(app, &[("/operation", json!({ "sync": { "revision": "abc" } }))])
}

fn ran(app: Value, phase: &str, started: &str) -> Value {
    let operation = json!({ "sync": { "revision": "abc" } });
    with(
        app,
        &[("/status", json!({ "operationState": { "phase": phase, "startedAt": started, "operation": operation } }))],
    )
}

#[test]
fn the_hub_knows_what_it_has_to_deliver() {
    let new = asked(app());
    let Pending::Unstamped(id) = pending_operation(&new) else { panic!("it is new") };
    for (name, app, expected) in [
        ("none", app(), Pending::None),
        ("new", new.clone(), Pending::Unstamped(id.clone())),
        ("stamped", annotated(new.clone(), OPERATION_ID, "op-1"), Pending::Stamped("op-1".to_owned())),
        ("reported by the agent", annotated(new.clone(), OPERATION_ID, "agent"), Pending::None),
        ("running there, stamp wiped", ran(new.clone(), "Running", "1"), Pending::None),
        ("stamp left over", annotated(app(), OPERATION_ID, "op-1"), Pending::Stale),
    ] {
        assert_eq!(pending_operation(&app), expected, "{name}");
    }
    let touched = with(new.clone(), &[("/metadata/resourceVersion", json!("99")), ("/spec/project", json!("other"))]);
    assert_eq!(pending_operation(&touched), Pending::Unstamped(id.clone()), "a wiped stamp comes back the same");
    let again = ran(new, "Succeeded", "2026-01-01T00:00:00Z");
    assert_ne!(pending_operation(&again), Pending::Unstamped(id), "the same operation once more is another one");
}

#[test]
fn a_stamp_is_written_and_removed() {
    let Plan::Replace(stamped) = stamp_operation(&asked(app()), "op-1") else { panic!("it is stamped") };
    assert_eq!(pending_operation(&stamped), Pending::Stamped("op-1".to_owned()));
    assert_eq!(stamp_operation(&stamped, "op-1"), Plan::Nothing);
    let Plan::Replace(bare) = unstamp_operation(&annotated(app(), OPERATION_ID, "op-1")) else {
        panic!("it is removed")
    };
    assert_eq!(pending_operation(&bare), Pending::None);
    assert_eq!(unstamp_operation(&bare), Plan::Nothing);
}

fn generated(app: Value) -> Value {
    with(app, &[("/metadata/ownerReferences", json!([{ "kind": "ApplicationSet", "name": "set" }]))])
}

#[test]
fn what_an_application_set_made_keeps_its_id_though_annotations_are_wiped() {
    let wiped = |app: Value| with(app, &[("/metadata/annotations", json!({}))]);
    let Plan::Replace(stamped) = stamp_operation(&generated(asked(app())), "op-1") else { panic!("it is stamped") };
    assert_eq!(object::annotation(&stamped, OPERATION_ID), None);
    let stamped = wiped(stamped);
    assert_eq!(pending_operation(&stamped), Pending::Stamped("op-1".to_owned()));
    assert_eq!(stamp_operation(&stamped, "op-1"), Plan::Nothing);
    // The agent has it, runs it and is done: its copy says so, or the result that Argo CD keeps.
    let incoming = operation_for_agent(&stamped, "op-1");
    let Plan::Replace(started) = managed_operation(&agent_side(), &incoming, "event-1", Some(&copy())) else {
        panic!("it starts")
    };
    let state = json!({ "operationState": { "phase": "Succeeded", "operation": started["operation"] } });
    let done = with(started, &[("/operation", Value::Null), ("/status", state)]);
    let forgetful = with(done.clone(), &[("/metadata/annotations/thane.dev~1operation-id", Value::Null)]);
    for seen in [done, forgetful] {
        assert_eq!(managed_operation(&agent_side(), &incoming, "event-1", Some(&seen)), Plan::Nothing);
        let Plan::Replace(over) = status_on_hub(&hub_side(), &managed_agent(), &seen, Some(&stamped), false) else {
            panic!("it is over")
        };
        assert_eq!(pending_operation(&over), Pending::None);
    }
    // One that the agent started by itself is not sent back.
    let Plan::Replace(reported) =
        status_on_hub(&hub_side(), &managed_agent(), &asked(copy()), Some(&generated(app())), false)
    else {
        panic!("it shows")
    };
    assert_eq!(pending_operation(&wiped(reported)), Pending::None);
    // The same on an autonomous agent whose Applications are generated there.
    let original = generated(with(app(), &[("/metadata/uid", json!("own-uid"))]));
    let mirror = operation_for_agent(&annotated(asked(app()), SOURCE_UID, "own-uid"), "op-2");
    let Plan::Replace(started) = managed_operation(&autonomous_side(), &mirror, "event-1", Some(&original)) else {
        panic!("it starts")
    };
    assert_eq!(managed_operation(&autonomous_side(), &mirror, "event-1", Some(&wiped(started))), Plan::Nothing);
}

#[test]
fn the_agent_starts_an_operation_once() {
    let hub_app = asked(app());
    let from_us = operation_for_agent(&hub_app, "op-1");
    let other = with(from_us.clone(), &[("/metadata/uid", json!("other"))]);
    let had = annotated(copy(), OPERATION_ID, "op-1");
    for (name, incoming, existing, expected) in [
        ("new", &from_us, Some(copy()), "replace"),
        ("after another", &from_us, Some(annotated(copy(), OPERATION_ID, "op-0")), "replace"),
        ("had and done", &from_us, Some(had.clone()), "nothing"),
        ("had and running", &from_us, Some(asked(had)), "nothing"),
        ("being ended", &from_us, Some(ran(copy(), "Terminating", "1")), "refuse: terminating"),
        ("nobody's", &from_us, None, "refuse: missing"),
        ("of another source", &other, Some(copy()), "refuse: other_source"),
        ("of no operation", &app(), Some(copy()), "refuse: invalid"),
    ] {
        let plan = managed_operation(&agent_side(), incoming, "event-1", existing.as_ref());
        assert_eq!(word(&plan), expected, "{name}");
        if let Plan::Replace(wanted) = plan {
            assert_eq!(wanted["operation"], hub_app["operation"]);
            assert_eq!(object::annotation(&wanted, OPERATION_ID), Some("op-1"));
            assert_eq!(wanted["spec"], copy()["spec"], "nothing else is touched");
        }
    }
    let Plan::Replace(wanted) = managed_operation(&agent_side(), &hub_app, "event-1", Some(&copy())) else {
        panic!("it starts")
    };
    assert_eq!(object::annotation(&wanted, OPERATION_ID), Some("event-1"), "a hub without ids");
    assert_eq!(managed_operation(&agent_side(), &hub_app, "event-1", Some(&wanted)), Plan::Nothing, "its repeat");
}

#[test]
fn an_autonomous_agent_starts_operations_of_its_mirrors() {
    let original = with(app(), &[("/metadata/namespace", json!("argocd")), ("/metadata/uid", json!("own-uid"))]);
    let mirror = annotated(asked(app()), SOURCE_UID, "own-uid");
    let plan = managed_operation(&autonomous_side(), &mirror, "event-1", Some(&original));
    assert_eq!(word(&plan), "replace");
    let other = annotated(asked(app()), SOURCE_UID, "another");
    let plan = managed_operation(&autonomous_side(), &other, "event-1", Some(&original));
    assert_eq!(reason(&plan), Some(Reason::OtherSource));
}

#[test]
fn an_operation_is_ended_once() {
    for (name, existing, expected) in [
        ("running", Some(ran(copy(), "Running", "1")), "replace"),
        ("being ended", Some(ran(copy(), "Terminating", "1")), "nothing"),
        ("ended", Some(ran(copy(), "Succeeded", "1")), "nothing"),
        ("none", Some(copy()), "refuse: no_operation"),
        ("nobody's", None, "refuse: missing"),
    ] {
        let plan = managed_terminate(&agent_side(), &terminate_for_agent(&app()), existing.as_ref());
        assert_eq!(word(&plan), expected, "{name}");
        if let Plan::Replace(wanted) = plan {
            assert_eq!(wanted["status"]["operationState"]["phase"], "Terminating");
        }
    }
    assert!(is_terminated(&ran(app(), "Running", "1"), &ran(app(), "Terminating", "1")));
    assert!(!is_terminated(&ran(app(), "Terminating", "1"), &ran(app(), "Terminating", "1")));
    assert!(!is_terminated(&app(), &ran(app(), "Terminating", "1")));
}

#[test]
fn an_operation_that_came_along_with_a_spec_is_started_unless_it_ran_since() {
    let early = "2026-01-01T00:00:00Z";
    let late = "2026-01-02T00:00:00Z";
    for (name, incoming, existing, expected) in [
        ("never ran", asked(app()), copy(), "replace"),
        (
            "both saw the same last run",
            ran(asked(app()), "Succeeded", early),
            ran(copy(), "Succeeded", early),
            "replace",
        ),
        ("ran since the hub heard", asked(app()), ran(copy(), "Succeeded", early), "nothing"),
        ("ran again since", ran(asked(app()), "Succeeded", early), ran(copy(), "Running", late), "nothing"),
        ("being ended", asked(app()), ran(copy(), "Terminating", late), "nothing"),
        ("one is there", asked(app()), asked(copy()), "nothing"),
        ("a repeat", asked(app()), annotated(copy(), OPERATION_ID, "event-1"), "nothing"),
    ] {
        let plan = managed_application(&agent_side(), &incoming, "hub-1", "event-1", Some(&existing));
        assert_eq!(word(&plan), expected, "{name}");
        if let Plan::Replace(wanted) = plan {
            assert_eq!(object::annotation(&wanted, OPERATION_ID), Some("event-1"), "{name}");
            let again = managed_application(&agent_side(), &incoming, "hub-1", "event-1", Some(&wanted));
            assert_eq!(again, Plan::Nothing, "{name}");
        }
    }
    let Plan::Create(made) = managed_application(&agent_side(), &asked(app()), "hub-1", "event-1", None) else {
        panic!("it is made")
    };
    assert_eq!(object::annotation(&made, OPERATION_ID), Some("event-1"));
}

#[test]
fn the_hub_keeps_an_operation_until_the_agent_has_it() {
    let operation = json!({ "sync": { "revision": "abc" } });
    let mine = asked(app());
    let stamped = annotated(mine.clone(), OPERATION_ID, "op-1");
    let Pending::Unstamped(derived) = pending_operation(&mine) else { panic!("it is new") };
    let idle = copy();
    let busy = asked(copy());
    for (name, existing, incoming, delivered, left, stamp) in [
        ("not there yet", stamped.clone(), idle.clone(), false, true, Some("op-1")),
        (
            "an older one done",
            stamped.clone(),
            annotated(idle.clone(), OPERATION_ID, "op-0"),
            false,
            true,
            Some("op-1"),
        ),
        ("not stamped yet", mine.clone(), idle.clone(), false, true, None),
        ("runs", stamped.clone(), annotated(busy.clone(), OPERATION_ID, "op-1"), false, true, Some("op-1")),
        ("done", stamped.clone(), annotated(idle.clone(), OPERATION_ID, "op-1"), false, false, None),
        ("done, stamp wiped", mine, annotated(idle.clone(), OPERATION_ID, &derived), false, false, None),
        ("runs at an agent without ids", stamped.clone(), busy.clone(), true, true, Some("op-1")),
        ("done at an agent without ids", stamped, idle.clone(), true, false, None),
        ("started over there", app(), busy, false, true, Some("agent")),
        ("done over there", annotated(asked(app()), OPERATION_ID, "agent"), idle, false, false, None),
    ] {
        let incoming = with(incoming, &[("/status", json!({ "sync": { "status": "Synced" } }))]);
        let Plan::Replace(wanted) = status_on_hub(&hub_side(), &managed_agent(), &incoming, Some(&existing), delivered)
        else {
            panic!("{name}")
        };
        assert_eq!(wanted["status"], incoming["status"], "{name}");
        assert_eq!(wanted["operation"], if left { operation.clone() } else { Value::Null }, "{name}");
        assert_eq!(object::annotation(&wanted, OPERATION_ID), stamp, "{name}");
    }
}

#[test]
fn an_autonomous_agent_takes_only_a_refresh_and_operations() {
    let original = with(app(), &[("/metadata/namespace", json!("argocd")), ("/metadata/uid", json!("own-uid"))]);
    let mirror = annotated(with(app(), &[("/spec/project", json!("hub's"))]), SOURCE_UID, "own-uid");
    let side = autonomous_side();
    assert_eq!(autonomous_application(&side, &mirror, "event-1", Some(&original)), Plan::Nothing);
    let refresh = annotated(mirror.clone(), REFRESH, "hard");
    let Plan::Replace(wanted) = autonomous_application(&side, &refresh, "event-1", Some(&original)) else {
        panic!("refreshed")
    };
    assert_eq!(wanted, annotated(original.clone(), REFRESH, "hard"));
    let Plan::Replace(wanted) = autonomous_application(&side, &asked(mirror.clone()), "event-1", Some(&original))
    else {
        panic!("started")
    };
    assert_eq!(wanted, annotated(asked(original), OPERATION_ID, "event-1"));
    assert_eq!(reason(&autonomous_application(&side, &mirror, "event-1", None)), Some(Reason::Missing));
    let successor = with(app(), &[("/metadata/uid", json!("newer"))]);
    assert_eq!(reason(&autonomous_application(&side, &mirror, "event-1", Some(&successor))), Some(Reason::OtherSource));
    assert_eq!(
        reason(&autonomous_application(&agent_side(), &mirror, "event-1", Some(&copy()))),
        Some(Reason::WrongMode)
    );
}
