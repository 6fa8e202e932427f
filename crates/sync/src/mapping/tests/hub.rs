//! What the hub writes when managed agents report, and what travels.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::object::{IGNORE_SYNC, Key, Kind, LAST_APPLIED, NAMESPACE_REMAPPED, OPERATION_ID, REFRESH};

fn reported() -> Value {
    with(copy(), &[("/status", json!({ "sync": { "status": "Synced" }, "unknown": { "kept": 1 } }))])
}

fn status(existing: Option<&Value>, incoming: &Value) -> Plan {
    status_on_hub(&hub_side(), &managed_agent(), incoming, existing, false)
}

#[test]
fn a_report_changes_status_operation_and_refresh_alone() {
    let odd = with(
        reported(),
        &[
            ("/spec/project", json!("theirs")),
            ("/metadata/labels/theirs", json!("x")),
            ("/metadata/annotations/theirs", json!("x")),
            ("/metadata/finalizers", json!([])),
        ],
    );
    let Plan::Replace(wanted) = status(Some(&app()), &annotated(odd.clone(), REFRESH, "hard")) else {
        panic!("it is written")
    };
    assert_eq!(wanted, annotated(with(app(), &[("/status", reported()["status"].clone())]), REFRESH, "hard"));
    let Plan::Replace(back) = status(Some(&wanted), &odd) else { panic!("the refresh is done") };
    assert_eq!(object::annotation(&back, REFRESH), None);
    assert_eq!(status(Some(&back), &odd), Plan::Nothing);
}

#[test]
fn a_report_is_of_the_object_it_means() {
    let unowned = with(reported(), &[("/metadata/annotations", Value::Null)]);
    let ignored = with(app(), &[("/metadata/labels", json!({ IGNORE_SYNC: "true" }))]);
    let successor = with(app(), &[("/metadata/uid", json!("newer"))]);
    let elsewhere = with(app(), &[("/metadata/namespace", json!("other-agent"))]);
    for (name, existing, incoming, expected) in [
        ("the source", Some(app()), reported(), "replace"),
        ("nothing there", None, reported(), "refuse: missing"),
        ("of another source", Some(successor), reported(), "refuse: other_source"),
        ("of no source", Some(app()), unowned, "refuse: not_adopted"),
        ("of another agent", Some(elsewhere), reported(), "refuse: not_yours"),
        ("left alone", Some(ignored), reported(), "nothing"),
        ("no object", Some(app()), json!([]), "refuse: invalid"),
    ] {
        assert_eq!(word(&status(existing.as_ref(), &incoming)), expected, "{name}");
    }
    let plan = status_on_hub(&hub_side(), &autonomous_agent(), &reported(), Some(&app()), false);
    assert_eq!(reason(&plan), Some(Reason::WrongMode));
    let theirs = with(app(), &[("/metadata/namespace", json!("team-a")), ("/spec/destination/name", json!("other"))]);
    let plan = status_on_hub(&hub_by_destination(), &managed_agent(), &reported(), Some(&theirs), false);
    assert_eq!(reason(&plan), Some(Reason::NotYours), "by destination a namespace proves nothing");
}

#[test]
fn an_application_goes_when_both_want_it_to() {
    let gone = deletion(Kind::Application, &copy());
    for (name, existing, expected) in [
        ("being deleted", Some(deleting(app())), "replace"),
        (
            "being deleted, nothing to wait for",
            Some(deleting(with(app(), &[("/metadata/finalizers", Value::Null)]))),
            "nothing",
        ),
        ("to stay", Some(app()), "nothing"),
        ("gone", None, "nothing"),
        ("another agent's", Some(deleting(with(app(), &[("/metadata/namespace", json!("x"))]))), "refuse: not_yours"),
    ] {
        let plan = deletion_on_hub(&hub_side(), &managed_agent(), &gone, existing.as_ref());
        assert_eq!(word(&plan), expected, "{name}");
        if let Plan::Replace(wanted) = plan {
            assert_eq!(wanted["metadata"].get("finalizers"), None);
        }
    }
    assert_eq!(word(&release(&deleting(app()))), "replace");
    assert_eq!(release(&app()), Plan::Nothing);
}

#[test]
fn an_application_that_was_not_taken_over_says_so() {
    let now: Timestamp = "2026-02-03T04:05:06.789Z".parse().unwrap();
    let before = with(app(), &[("/status", json!({ "conditions": [{ "type": "Other" }], "sync": {} }))]);
    let Plan::Replace(wanted) = error_on_hub(&hub_side(), &managed_agent(), Some(&before), "is there", now) else {
        panic!("written")
    };
    assert_eq!(
        wanted["status"],
        json!({
            "sync": {},
            "health": { "status": "Degraded", "message": "is there" },
            "conditions": [
                { "type": "Other" },
                { "type": "AgentError", "message": "is there", "lastTransitionTime": "2026-02-03T04:05:06Z" },
            ],
        })
    );
    let later: Timestamp = "2027-02-03T04:05:06Z".parse().unwrap();
    assert_eq!(error_on_hub(&hub_side(), &managed_agent(), Some(&wanted), "is there", later), Plan::Nothing);
    assert_eq!(word(&error_on_hub(&hub_side(), &managed_agent(), Some(&wanted), "else", later)), "replace");
    assert_eq!(error_on_hub(&hub_side(), &managed_agent(), None, "is there", now), Plan::Nothing);
}

#[test]
fn what_travels_is_what_the_other_side_uses() {
    let full = with(
        annotated(annotated(app(), LAST_APPLIED, "{}"), OPERATION_ID, "op-1"),
        &[("/operation", json!({ "sync": {} })), ("/status", json!({ "a": 1 }))],
    );
    let spec = application_for_agent(&full);
    assert_eq!(spec, with(app(), &[("/metadata/managedFields", Value::Null)]));
    let operation = operation_for_agent(&full, "op-2");
    assert_eq!(operation["operation"], json!({ "sync": {} }));
    assert_eq!(object::annotation(&operation, OPERATION_ID), Some("op-2"));
    assert_eq!(operation.get("status"), None);
    assert_eq!(terminate_for_agent(&full)["status"], json!({ "a": 1 }));
    let seen = application_for_hub(&full);
    assert_eq!(
        (seen["status"].clone(), seen["operation"].clone()),
        (full["status"].clone(), full["operation"].clone())
    );
    assert_eq!(object::annotation(&seen, OPERATION_ID), Some("op-1"));
    for wire in [&spec, &operation, &seen, &repository_for_agent(&full), &project_for_hub(&full)] {
        assert_eq!(wire["metadata"].get("managedFields"), None);
        assert_eq!(object::annotation(wire, LAST_APPLIED), None);
        assert_eq!(wire["newTop"], json!({ "kept": true }));
    }
}

#[test]
fn a_deletion_says_who_is_gone() {
    let moved = annotated(copy(), NAMESPACE_REMAPPED, "true");
    assert_eq!(
        deletion(Kind::Application, &moved),
        json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {
                "name": "guestbook", "namespace": "argocd", "uid": "copy-uid", "resourceVersion": "20",
                "annotations": { SOURCE_UID: "hub-uid", NAMESPACE_REMAPPED: "true" },
            },
        })
    );
    let key = Key { kind: Kind::Repository, namespace: "argocd".to_owned(), name: "repo".to_owned() };
    assert_eq!(deletion_of(&key, "u")["kind"], "Secret");
}

#[test]
fn only_what_matters_is_news() {
    for (changes, for_agent, for_hub, for_hub_autonomous) in [
        (vec![], false, false, false),
        (vec![("/metadata/resourceVersion", json!("99")), ("/metadata/managedFields", json!([]))], false, false, false),
        (vec![("/status", json!({ "a": 1 }))], false, true, true),
        (vec![("/operation", json!({}))], false, true, true),
        (vec![("/spec/project", json!("x"))], true, false, true),
        (vec![("/metadata/labels/x", json!("x"))], true, false, true),
        (vec![("/metadata/annotations/thane.dev~1operation-id", json!("x"))], false, true, true),
        (vec![("/metadata/annotations/argocd.argoproj.io~1refresh", json!("hard"))], true, true, true),
        (vec![("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))], true, false, true),
        (vec![("/newTop", json!(2))], true, false, true),
    ] {
        let after = with(app(), &changes);
        let kind = Kind::Application;
        assert_eq!(is_news_for_agent(kind, &app(), &after), for_agent, "{changes:?}");
        assert_eq!(is_news_for_hub(kind, Mode::Managed, &app(), &after), for_hub, "{changes:?}");
        assert_eq!(is_news_for_hub(kind, Mode::Autonomous, &app(), &after), for_hub_autonomous, "{changes:?}");
        assert!(!is_news_for_hub(Kind::Repository, Mode::Autonomous, &app(), &after));
    }
    assert!(!is_news_for_agent(Kind::Application, &annotated(app(), REFRESH, "hard"), &app()), "a refresh was done");
}
