//! Mirrors of an autonomous agent's objects on the hub.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::object::{Kind, LAST_UPDATED, NOTIFIED, OPERATION_ID, REFRESH};

fn now() -> Timestamp {
    "2026-02-03T04:05:06.789Z".parse().unwrap()
}

fn later() -> Timestamp {
    "2027-02-03T04:05:06Z".parse().unwrap()
}

/// An Application on the agent.
fn original() -> Value {
    with(
        app(),
        &[
            ("/metadata/namespace", json!("argocd")),
            ("/metadata/uid", json!("own-uid")),
            ("/operation", json!({ "sync": {} })),
            (
                "/status",
                json!({ "resources": [
            { "group": "argoproj.io", "kind": "Application", "namespace": "argocd", "name": "child" },
            { "group": "apps", "kind": "Deployment", "namespace": "web", "name": "web" },
        ] }),
            ),
        ],
    )
}

fn plan(incoming: &Value, existing: Option<&Value>) -> Plan {
    mirror_application(&hub_side(), &autonomous_agent(), incoming, existing, false, now())
}

fn mirror() -> Value {
    let idle = with(original(), &[("/operation", Value::Null)]);
    let Plan::Create(mirror) = plan(&idle, None) else { panic!("it is made") };
    stored(mirror, "mirror-uid", "50")
}

#[test]
fn a_new_application_is_mirrored() {
    let Plan::Create(mirror) = plan(&annotated(original(), OPERATION_ID, "op-1"), None) else { panic!("it is made") };
    assert_eq!(
        mirror,
        json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {
                "name": "guestbook",
                "namespace": "spoke",
                "labels": { "team": "a" },
                "annotations": {
                    "note": "x", SOURCE_UID: "own-uid", LAST_UPDATED: "2026-02-03T04:05:06.789Z", OPERATION_ID: "agent",
                },
                "finalizers": ["resources-finalizer.argocd.argoproj.io"],
            },
            "spec": {
                "project": "spoke-default",
                "destination": { "name": "spoke-cluster", "namespace": "web" },
                "source": { "repoURL": "https://example.com/r", "newField": { "deep": [1, 2.5] } },
            },
            "status": { "resources": [
                { "group": "argoproj.io", "kind": "Application", "namespace": "spoke", "name": "child" },
                { "group": "apps", "kind": "Deployment", "namespace": "web", "name": "web" },
            ] },
            "newTop": { "kept": true },
            "operation": { "sync": {} },
        })
    );
}

#[test]
fn a_mirror_follows_and_is_written_only_when_something_changed() {
    let idle = with(original(), &[("/operation", Value::Null)]);
    let at = |incoming: &Value, existing: &Value| {
        mirror_application(&hub_side(), &autonomous_agent(), incoming, Some(existing), false, later())
    };
    assert_eq!(at(&idle, &mirror()), Plan::Nothing, "the time alone is no change");
    let changed = with(
        idle.clone(),
        &[("/spec/newField", json!(1)), ("/metadata/labels", Value::Null), ("/status/sync", json!({}))],
    );
    let kept = annotated(mirror(), NOTIFIED, "{}");
    let Plan::Replace(wanted) = at(&changed, &kept) else { panic!("it follows") };
    assert_eq!(wanted["spec"]["newField"], 1);
    assert_eq!(wanted["spec"]["project"], "spoke-default");
    assert_eq!(wanted["status"]["sync"], json!({}));
    assert_eq!(wanted["metadata"].get("labels"), None);
    assert_eq!(object::annotation(&wanted, NOTIFIED), Some("{}"), "the hub's own notifications");
    assert_eq!(object::annotation(&wanted, LAST_UPDATED), Some("2027-02-03T04:05:06Z"));
    assert_eq!(at(&changed, &wanted), Plan::Nothing);
}

#[test]
fn operations_and_refreshes_follow_the_agent_unless_it_has_not_got_them() {
    let idle = with(original(), &[("/operation", Value::Null)]);
    let asked = annotated(with(mirror(), &[("/operation", json!({ "sync": {} }))]), OPERATION_ID, "op-1");
    assert_eq!(plan(&idle, Some(&asked)), Plan::Nothing, "not there yet");
    let Plan::Replace(done) = plan(&annotated(idle.clone(), OPERATION_ID, "op-1"), Some(&asked)) else {
        panic!("done")
    };
    assert_eq!((done.get("operation"), object::annotation(&done, OPERATION_ID)), (None, None));
    let Plan::Replace(runs) = plan(&original(), Some(&mirror())) else { panic!("runs") };
    assert_eq!(object::annotation(&runs, OPERATION_ID), Some("agent"));
    let Plan::Replace(wanted) = plan(&annotated(idle.clone(), REFRESH, "hard"), Some(&mirror())) else {
        panic!("refreshed")
    };
    assert_eq!(object::annotation(&wanted, REFRESH), Some("hard"));
    assert_eq!(word(&plan(&idle, Some(&wanted))), "replace", "the refresh is done");
}

#[test]
fn a_mirror_is_only_made_where_it_may_be() {
    let no_cluster = Agent { cluster: String::new(), ..autonomous_agent() };
    let long = with(original(), &[("/spec/project", json!("x".repeat(250)))]);
    let unowned = with(mirror(), &[("/metadata/annotations", Value::Null)]);
    let changed = with(original(), &[("/spec/newField", json!(1))]);
    for (name, plan, expected) in [
        (
            "no cluster",
            mirror_application(&hub_side(), &no_cluster, &original(), None, false, now()),
            "refuse: no_cluster",
        ),
        (
            "managed",
            mirror_application(&hub_side(), &managed_agent(), &original(), None, false, now()),
            "refuse: wrong_mode",
        ),
        ("long project", plan(&long, None), "refuse: invalid"),
        ("no uid", plan(&with(original(), &[("/metadata/uid", Value::Null)]), None), "refuse: invalid"),
        ("no spec", plan(&with(original(), &[("/spec", json!([]))]), None), "refuse: invalid"),
        ("the hub's own", plan(&changed, Some(&unowned)), "refuse: not_yours"),
        ("going", plan(&changed, Some(&deleting(mirror()))), "nothing"),
    ] {
        assert_eq!(word(&plan), expected, "{name}");
    }
    let successor = with(original(), &[("/metadata/uid", json!("newer"))]);
    let Plan::Replace(wanted) = plan(&successor, Some(&mirror())) else { panic!("it follows") };
    assert_eq!(object::source_uid(&wanted), Some("newer"));
}

#[test]
fn a_mirror_goes_with_its_original() {
    let gone = |uid: &str| json!({ "metadata": { "name": "guestbook", "namespace": "argocd", "uid": uid } });
    let unfinalized = with(mirror(), &[("/metadata/finalizers", Value::Null)]);
    for (name, uid, existing, expected) in [
        ("with finalizers", "own-uid", Some(mirror()), "replace, delete"),
        ("without", "own-uid", Some(unfinalized.clone()), "delete foreground"),
        ("by name", "", Some(unfinalized), "delete foreground"),
        ("being deleted", "own-uid", Some(deleting(mirror())), "replace"),
        ("a predecessor", "older", Some(mirror()), "nothing"),
        ("nothing there", "own-uid", None, "nothing"),
        ("the hub's own", "own-uid", Some(app()), "refuse: not_yours"),
    ] {
        let plan = mirror_delete(&hub_side(), &autonomous_agent(), Kind::Application, &gone(uid), existing.as_ref());
        assert_eq!(word(&plan), expected, "{name}");
    }
}

#[test]
fn edits_of_a_mirror_are_undone() {
    for (changes, expected) in [
        (vec![], "nothing"),
        (vec![("/spec/project", json!("mine"))], "replace"),
        (vec![("/metadata/annotations", Value::Null)], "replace"),
        (vec![("/operation", json!({})), ("/metadata/annotations/mine", json!("x"))], "nothing"),
        (vec![("/metadata/annotations/argocd.argoproj.io~1refresh", json!("hard"))], "nothing"),
        (vec![("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))], "replace"),
    ] {
        let plan = revert_mirror(&mirror(), &with(mirror(), &changes));
        assert_eq!(word(&plan), expected, "{changes:?}");
        if let Plan::Replace(back) = plan {
            assert_eq!(back["spec"], mirror()["spec"]);
            assert_eq!(object::source_uid(&back), Some("own-uid"));
        }
    }
    let Plan::Create(again) = revert_mirror_deletion(Kind::Application, &deleting(mirror())) else {
        panic!("it is made")
    };
    assert_eq!(again["spec"], mirror()["spec"]);
    assert_eq!(object::source_uid(&again), Some("own-uid"));
    assert!(!object::is_deleting(&again));
}

fn own_project() -> Value {
    json!({
        "kind": "AppProject",
        "metadata": { "name": "web", "namespace": "argocd", "uid": "p-uid" },
        "spec": {
            "sourceNamespaces": ["x", "y"],
            "destinations": [{ "name": "in-cluster", "server": "https://kubernetes.default.svc", "namespace": "web", "new": 1 }],
            "roles": [{ "name": "dev", "policies": [
                "p, proj:web:dev, applications, get, web/*, allow",
                "p,proj:web:dev,logs,get,web/team/app,deny",
                "p, proj:web:dev, repositories, get, web/*, allow",
                "p, proj:other:dev, applications, get, other/*, allow",
                "g, proj:web:dev, role:x",
                "nonsense",
            ] }],
        },
    })
}

#[test]
fn a_project_is_mirrored_under_a_name_of_its_own() {
    let plan = mirror_project(&hub_side(), &autonomous_agent(), &own_project(), None, now());
    let Plan::Create(mirror) = plan else { panic!("it is made") };
    assert_eq!(
        mirror,
        json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "AppProject",
            "metadata": {
                "name": "spoke-web",
                "namespace": "argocd",
                "annotations": { SOURCE_UID: "p-uid", LAST_UPDATED: "2026-02-03T04:05:06Z" },
            },
            "spec": {
                "sourceNamespaces": ["spoke"],
                "destinations": [{ "name": "spoke", "server": "*", "namespace": "web", "new": 1 }],
                "roles": [{ "name": "dev", "policies": [
                    "p, proj:spoke-web:dev, applications, get, spoke-web/spoke/*, allow",
                    "p, proj:spoke-web:dev, logs, get, spoke-web/spoke/app, deny",
                    "p, proj:spoke-web:dev, repositories, get, spoke-web/*, allow",
                    "p, proj:other:dev, applications, get, other/*, allow",
                    "g, proj:web:dev, role:x",
                    "nonsense",
                ] }],
            },
        })
    );
    let mirror = stored(mirror, "m", "1");
    let again = mirror_project(&hub_side(), &autonomous_agent(), &own_project(), Some(&mirror), later());
    assert_eq!(again, Plan::Nothing);
    let changed = with(own_project(), &[("/spec/description", json!("x"))]);
    let plan = mirror_project(&hub_side(), &autonomous_agent(), &changed, Some(&mirror), later());
    assert_eq!(word(&plan), "replace");
    let gone = mirror_delete(&hub_side(), &autonomous_agent(), Kind::AppProject, &own_project(), Some(&mirror));
    assert_eq!(word(&gone), "delete foreground");
}

#[test]
fn agents_whose_names_run_together_do_not_share_a_mirror() {
    let short = Agent { name: "a".to_owned(), ..autonomous_agent() };
    let long = Agent { name: "a-b".to_owned(), ..autonomous_agent() };
    let named = |name: &str| with(own_project(), &[("/metadata/name", json!(name))]);
    let Plan::Create(theirs) = mirror_project(&hub_side(), &long, &named("c"), None, now()) else {
        panic!("it is made")
    };
    let theirs = stored(theirs, "m", "1");
    assert_eq!(object::name(&theirs), "a-b-c");
    let plan = mirror_project(&hub_side(), &short, &named("b-c"), Some(&theirs), now());
    assert_eq!(reason(&plan), Some(Reason::NotYours));
    let plan = mirror_delete(&hub_side(), &short, Kind::AppProject, &named("b-c"), Some(&theirs));
    assert_eq!(reason(&plan), Some(Reason::NotYours));
}

#[test]
fn both_sides_make_the_same_digest_of_a_mirror() {
    let idle = with(original(), &[("/operation", Value::Null)]);
    let digest = |object: &Value| {
        let mut inventory = crate::resync::Inventory::default();
        inventory.add(Kind::Application, String::new(), object::name(object), object, true);
        inventory.digest()
    };
    assert_eq!(digest(&mirror()), digest(&mirrored_application("spoke", &idle).unwrap()));
}
