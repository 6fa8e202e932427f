//! Copies of Applications on a managed agent.

use serde_json::{Value, json};

use super::*;
use crate::object::{
    self, ADOPTION_POLICY, IGNORE_SYNC, Kind, LAST_APPLIED, MISMATCH_POLICY, NAMESPACE_REMAPPED, NOTIFIED,
    OPERATION_ID, REFRESH,
};

fn plan(agent: &AgentSide, incoming: &Value, existing: Option<&Value>) -> Plan {
    managed_application(agent, incoming, "hub-1", "event-1", existing)
}

#[test]
fn a_new_application_becomes_a_clean_copy() {
    let incoming = annotated(with(app(), &[("/status", json!({ "sync": {} }))]), LAST_APPLIED, "{}");
    let Plan::Create(copy) = plan(&agent_side(), &incoming, None) else { panic!("it is made") };
    assert_eq!(
        copy,
        json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {
                "name": "guestbook",
                "namespace": "argocd",
                "labels": { "team": "a" },
                "annotations": { "note": "x", SOURCE_UID: "hub-uid", PRINCIPAL_UID: "hub-1" },
                "finalizers": ["resources-finalizer.argocd.argoproj.io"],
            },
            "spec": {
                "project": "default",
                "destination": { "name": "in-cluster", "namespace": "web" },
                "source": { "repoURL": "https://example.com/r", "newField": { "deep": [1, 2.5] } },
            },
            "newTop": { "kept": true },
        })
    );
}

#[test]
fn go_sends_no_kind() {
    let incoming = with(app(), &[("/kind", Value::Null), ("/apiVersion", Value::Null)]);
    let Plan::Create(copy) = plan(&agent_side(), &incoming, None) else { panic!("it is made") };
    assert_eq!(
        (copy["kind"].as_str(), copy["apiVersion"].as_str()),
        (Some("Application"), Some("argoproj.io/v1alpha1"))
    );
}

#[test]
fn what_cannot_be_written_is_refused_for_good() {
    for (changes, expected) in [
        (vec![("/metadata/name", Value::Null)], Reason::Invalid),
        (vec![("/metadata/name", json!("Not a name"))], Reason::Invalid),
        (vec![("/metadata/name", json!("x".repeat(254)))], Reason::Invalid),
        (vec![("/metadata/name", json!(7))], Reason::Invalid),
        (vec![("/metadata/namespace", json!("a.b"))], Reason::Invalid),
        (vec![("/kind", json!("Secret"))], Reason::Invalid),
        (vec![("/spec", Value::Null)], Reason::Invalid),
        (vec![("/spec", json!("text"))], Reason::Invalid),
        (vec![("/metadata/uid", Value::Null)], Reason::Invalid),
    ] {
        let plan = plan(&agent_side(), &with(app(), &changes), None);
        assert_eq!(reason(&plan), Some(expected), "{changes:?}");
        assert_eq!(expected.class(), Class::Permanent);
    }
    for odd in [json!(null), json!([]), json!("text"), json!(5), json!({}), json!({ "metadata": [] })] {
        assert_eq!(reason(&plan(&agent_side(), &odd, None)), Some(Reason::Invalid), "{odd}");
    }
}

#[test]
fn identity_is_decided_in_order() {
    let other_source = with(app(), &[("/metadata/uid", json!("other-uid"))]);
    let no_source = with(app(), &[("/metadata/uid", Value::Null)]);
    let unowned = with(
        copy(),
        &[
            ("/metadata/annotations/argocd.argoproj.io~1source-uid", Value::Null),
            ("/metadata/annotations/argocd.argoproj.io~1principal-uid", Value::Null),
        ],
    );
    let unsourced = with(copy(), &[("/metadata/annotations/argocd.argoproj.io~1source-uid", Value::Null)]);
    let old_copy = with(copy(), &[("/metadata/annotations/argocd.argoproj.io~1principal-uid", Value::Null)]);
    let changed = |incoming: &Value| with(incoming.clone(), &[("/spec/project", json!("new"))]);
    for (name, incoming, principal, existing, expected, source) in [
        ("the copy, as it is", app(), "hub-1", copy(), "nothing", "hub-uid"),
        ("the copy, changed", changed(&app()), "hub-1", copy(), "replace", "hub-uid"),
        ("another hub took over", other_source.clone(), "hub-2", copy(), "replace", "other-uid"),
        ("another hub, copy without source", other_source.clone(), "hub-2", unsourced.clone(), "replace", "other-uid"),
        ("source wiped", changed(&no_source), "hub-1", copy(), "replace", "hub-uid"),
        ("annotation removed here", app(), "hub-1", unsourced, "replace", "hub-uid"),
        ("from before hubs had ids", other_source.clone(), "hub-1", old_copy.clone(), "replace", "other-uid"),
        ("hub without an id", other_source.clone(), "", old_copy, "recreate", ""),
        ("somebody else's", app(), "hub-1", unowned.clone(), "refuse: not_adopted", ""),
        ("somebody else's, old hub", app(), "", unowned.clone(), "refuse: not_adopted", ""),
        ("to be adopted", annotated(app(), ADOPTION_POLICY, "always"), "hub-1", unowned.clone(), "replace", "hub-uid"),
        ("nonsense policy", annotated(app(), ADOPTION_POLICY, "maybe"), "hub-1", unowned, "refuse: not_adopted", ""),
        ("made anew on the hub", other_source.clone(), "hub-1", copy(), "recreate", ""),
        ("made anew, still going", other_source.clone(), "hub-1", deleting(copy()), "refuse: still_deleting", ""),
        (
            "made anew, upsert",
            annotated(other_source.clone(), MISMATCH_POLICY, "upsert"),
            "hub-1",
            copy(),
            "replace",
            "other-uid",
        ),
        (
            "made anew, nonsense",
            annotated(other_source.clone(), MISMATCH_POLICY, "what"),
            "hub-1",
            copy(),
            "recreate",
            "",
        ),
        ("made anew and deleted", deleting(other_source), "hub-1", copy(), "delete background", ""),
    ] {
        let plan = managed_application(&agent_side(), &incoming, principal, "event-1", Some(&existing));
        assert_eq!(word(&plan), expected, "{name}");
        if let Plan::Replace(wanted) = &plan {
            assert_eq!(object::source_uid(wanted), Some(source), "{name}");
            assert_eq!(object::annotation(wanted, PRINCIPAL_UID), Some(principal), "{name}");
        }
    }
}

#[test]
fn policies_of_the_agent_hold_where_the_object_says_nothing() {
    let other = with(app(), &[("/metadata/uid", json!("other-uid"))]);
    let upsert = AgentSide { mismatch: Mismatch::Upsert, ..agent_side() };
    assert_eq!(word(&plan(&upsert, &other, Some(&copy()))), "replace");
    assert_eq!(word(&plan(&upsert, &annotated(other, MISMATCH_POLICY, "recreate"), Some(&copy()))), "recreate");
    let unowned = with(copy(), &[("/metadata/annotations", json!({ "local": "yes" }))]);
    let adopt = AgentSide { adoption: Adoption::Always, ..agent_side() };
    assert_eq!(word(&plan(&adopt, &app(), Some(&unowned))), "replace");
    assert_eq!(word(&plan(&adopt, &annotated(app(), ADOPTION_POLICY, "never"), Some(&unowned))), "refuse: not_adopted");
}

#[test]
fn an_update_takes_what_is_the_hubs_and_keeps_what_is_local() {
    let mut existing = with(
        copy(),
        &[
            ("/status", json!({ "sync": { "status": "Synced" } })),
            ("/metadata/labels/local", json!("gone")),
            ("/metadata/annotations/local", json!("gone")),
            ("/localTop", json!(1)),
            (
                "/metadata/finalizers",
                json!(["resources-finalizer.argocd.argoproj.io", "post-delete-finalizer.argocd.argoproj.io/cleanup"]),
            ),
            ("/operation", json!({ "sync": {} })),
        ],
    );
    for (name, value) in [(REFRESH, "hard"), (NOTIFIED, "{}"), (OPERATION_ID, "op-1")] {
        existing = annotated(existing, name, value);
    }
    let incoming = annotated(annotated(app(), "note", "y"), LAST_APPLIED, "{}");
    let incoming = with(
        annotated(incoming, OPERATION_ID, "op-9"),
        &[("/spec/source/newField", json!("z")), ("/metadata/labels", json!({ "team": "b" }))],
    );
    let Plan::Replace(wanted) = plan(&agent_side(), &incoming, Some(&existing)) else { panic!("it is changed") };
    assert_eq!(wanted["metadata"]["labels"], json!({ "team": "b" }));
    assert_eq!(
        wanted["metadata"]["annotations"],
        json!({ "note": "y", SOURCE_UID: "hub-uid", PRINCIPAL_UID: "hub-1", REFRESH: "hard", NOTIFIED: "{}", OPERATION_ID: "op-1" })
    );
    assert_eq!(wanted["spec"]["source"]["newField"], "z");
    assert_eq!(wanted["spec"]["destination"], json!({ "name": "in-cluster", "namespace": "web" }));
    for field in ["status", "localTop", "operation"] {
        assert_eq!(wanted[field], existing[field], "{field}");
    }
    for field in ["uid", "resourceVersion", "finalizers"] {
        assert_eq!(wanted["metadata"][field], existing["metadata"][field], "{field}");
    }
}

#[test]
fn finalizers_follow_the_hub() {
    let finalizer = "resources-finalizer.argocd.argoproj.io";
    for (name, incoming, existing, expected) in [
        ("removed", json!([]), copy(), json!(null)),
        ("added", json!([finalizer, "x/y"]), copy(), json!([finalizer, "x/y"])),
        ("of a deletion on the hub", json!([finalizer, "foregroundDeletion"]), copy(), json!([finalizer])),
        ("not added while deleting", json!([finalizer, "x/y"]), deleting(copy()), json!([finalizer])),
        (
            "of a deletion here",
            json!([]),
            deleting(with(copy(), &[("/metadata/finalizers", json!([finalizer, "foregroundDeletion"]))])),
            json!(["foregroundDeletion"]),
        ),
    ] {
        let incoming = with(app(), &[("/metadata/finalizers", incoming), ("/spec/project", json!("changed"))]);
        let Plan::Replace(wanted) = plan(&agent_side(), &incoming, Some(&existing)) else { panic!("{name}") };
        assert_eq!(wanted["metadata"].get("finalizers").cloned().unwrap_or_default(), expected, "{name}");
    }
}

#[test]
fn a_deletion_on_the_hub_deletes_the_copy() {
    let same = deleting(app());
    let changed = deleting(with(app(), &[("/metadata/finalizers", json!(["a/b"]))]));
    let ignored = with(copy(), &[("/metadata/labels", json!({ IGNORE_SYNC: "true" }))]);
    let unowned = with(copy(), &[("/metadata/annotations", Value::Null)]);
    for (name, incoming, existing, expected) in [
        ("the copy", &same, Some(copy()), "delete foreground"),
        ("the copy, with another finalizer", &changed, Some(copy()), "replace, delete"),
        ("being deleted already", &same, Some(deleting(copy())), "nothing"),
        ("no copy", &same, None, "confirm gone"),
        ("left alone", &same, Some(ignored), "confirm gone"),
        ("never adopted", &same, Some(unowned), "confirm gone"),
    ] {
        assert_eq!(word(&plan(&agent_side(), incoming, existing.as_ref())), expected, "{name}");
    }
}

#[test]
fn objects_that_are_to_be_left_alone_are() {
    let ignored = |object: Value| with(object, &[("/metadata/labels", json!({ IGNORE_SYNC: "true" }))]);
    let changed = with(app(), &[("/spec/project", json!("new"))]);
    assert_eq!(plan(&agent_side(), &ignored(app()), None), Plan::Nothing);
    assert_eq!(plan(&agent_side(), &changed, Some(&ignored(copy()))), Plan::Nothing);
    assert_eq!(managed_delete(&agent_side(), Kind::Application, &app(), Some(&ignored(copy()))), Plan::Nothing);
    assert_eq!(revert_tampering(Kind::Application, &copy(), &ignored(copy())), Plan::Nothing);
}

#[test]
fn an_autonomous_agent_takes_no_copies() {
    assert_eq!(reason(&plan(&autonomous_side(), &app(), None)), Some(Reason::WrongMode));
    let delete = managed_delete(&autonomous_side(), Kind::Application, &app(), Some(&copy()));
    assert_eq!(reason(&delete), Some(Reason::WrongMode));
}

#[test]
fn by_destination_an_application_keeps_its_namespace_or_is_moved() {
    let agent = agent_by_destination();
    for (namespace, expected, remapped) in [
        ("argocd", Ok("argocd-spoke"), true),
        ("team-a", Ok("team-a"), false),
        ("other", Err(Reason::NamespaceNotAllowed), false),
    ] {
        let plan = plan(&agent, &with(app(), &[("/metadata/namespace", json!(namespace))]), None);
        match expected {
            Ok(there) => {
                let Plan::Create(copy) = plan else { panic!("{namespace}") };
                assert_eq!(object::namespace(&copy), there);
                assert_eq!(object::annotation(&copy, NAMESPACE_REMAPPED).is_some(), remapped);
            }
            Err(expected) => assert_eq!(reason(&plan), Some(expected)),
        }
    }
}

#[test]
fn two_applications_of_the_hub_do_not_fight_for_one_name_here() {
    let agent = agent_by_destination();
    let from_hub = with(app(), &[("/metadata/namespace", json!("argocd"))]);
    let Plan::Create(moved) = plan(&agent, &from_hub, None) else { panic!("it is made") };
    let moved = stored(moved, "copy-uid", "1");
    let other = with(app(), &[("/metadata/namespace", json!("argocd-spoke")), ("/metadata/uid", json!("other-uid"))]);
    assert_eq!(reason(&plan(&agent, &other, Some(&moved))), Some(Reason::Taken));
    let successor = with(from_hub, &[("/metadata/uid", json!("other-uid"))]);
    assert_eq!(word(&plan(&agent, &successor, Some(&moved))), "recreate");
}

#[test]
fn a_deletion_is_of_the_object_it_means() {
    let unowned = with(copy(), &[("/metadata/annotations", Value::Null)]);
    for (name, incoming, existing, expected) in [
        ("the copy", app(), Some(copy()), "delete background"),
        ("by name alone", with(app(), &[("/metadata/uid", Value::Null)]), Some(copy()), "delete background"),
        ("a predecessor", with(app(), &[("/metadata/uid", json!("older"))]), Some(copy()), "nothing"),
        ("nothing there", app(), None, "nothing"),
        ("going already", app(), Some(deleting(copy())), "nothing"),
        ("somebody else's", app(), Some(unowned), "refuse: not_adopted"),
        ("least that says it", deletion(Kind::Application, &app()), Some(copy()), "delete background"),
    ] {
        assert_eq!(
            word(&managed_delete(&agent_side(), Kind::Application, &incoming, existing.as_ref())),
            expected,
            "{name}"
        );
    }
}

#[test]
fn tampering_is_undone() {
    for (changes, expected) in [
        (vec![], "nothing"),
        (vec![("/spec/project", json!("mine"))], "replace"),
        (vec![("/spec/source/newField", Value::Null)], "replace"),
        (vec![("/spec/source/added", json!(1))], "replace"),
        (vec![("/metadata/labels/team", json!("mine"))], "replace"),
        (vec![("/metadata/labels", Value::Null)], "replace"),
        (vec![("/metadata/annotations", Value::Null)], "replace"),
        (vec![("/metadata/finalizers", Value::Null)], "replace"),
        (vec![("/metadata/labels/mine", json!("added"))], "nothing"),
        (vec![("/metadata/annotations/mine", json!("added"))], "nothing"),
        (vec![("/metadata/finalizers", json!(["resources-finalizer.argocd.argoproj.io", "a/b"]))], "nothing"),
        (
            vec![("/status", json!({ "x": 1 })), ("/operation", json!({})), ("/metadata/resourceVersion", json!("99"))],
            "nothing",
        ),
        (vec![("/metadata/annotations/argocd.argoproj.io~1refresh", json!("hard"))], "nothing"),
    ] {
        let changed = with(copy(), &changes);
        let plan = revert_tampering(Kind::Application, &copy(), &changed);
        assert_eq!(word(&plan), expected, "{changes:?}");
        if let Plan::Replace(back) = plan {
            assert_eq!(back["spec"], copy()["spec"]);
            assert_eq!(object::source_uid(&back), Some("hub-uid"));
            assert_eq!(revert_tampering(Kind::Application, &copy(), &back), Plan::Nothing, "{changes:?}");
        }
    }
}

#[test]
fn a_done_refresh_is_not_asked_for_again() {
    let asked = annotated(copy(), REFRESH, "normal");
    assert_eq!(revert_tampering(Kind::Application, &asked, &copy()), Plan::Nothing);
}

#[test]
fn a_deleted_copy_comes_back_as_set() {
    let last =
        deleting(with(copy(), &[("/status", json!({ "operationState": { "phase": "Succeeded" }, "sync": {} }))]));
    for (action, operation_state, operation) in [
        (OnRecreate::Ignore, json!({ "phase": "Succeeded" }), json!(null)),
        (OnRecreate::ClearStatus, json!(null), json!(null)),
        (OnRecreate::Resync, json!({ "phase": "Succeeded" }), json!({ "sync": {} })),
    ] {
        let agent = AgentSide { on_recreate: action, ..agent_side() };
        let Plan::Create(again) = revert_deletion(&agent, Kind::Application, &copy(), &last) else {
            panic!("it is made")
        };
        assert_eq!(again["status"]["operationState"], operation_state);
        assert_eq!(again["operation"], operation);
        assert_eq!(again["spec"], copy()["spec"]);
        assert_eq!(object::source_uid(&again), Some("hub-uid"));
        assert!(
            !object::is_deleting(&again)
                && object::uid(&again).is_empty()
                && object::resource_version(&again).is_empty()
        );
    }
}
