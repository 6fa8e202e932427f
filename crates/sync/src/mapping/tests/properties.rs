//! What holds for every object.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::object::{
    ADOPTION_POLICY, IGNORE_SYNC, Key, Kind, LAST_APPLIED, LAST_UPDATED, MISMATCH_POLICY, NAMESPACE_REMAPPED, NOTIFIED,
    OPERATION_ID, REFRESH,
};

fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z<&/ ]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn some_of(names: &'static [&'static str], values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let entry = (prop::sample::select(names), prop::sample::select(values));
    prop::collection::vec(entry, 0..5).prop_map(|entries| {
        Value::Object(entries.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect())
    })
}

fn annotations() -> impl Strategy<Value = Value> {
    some_of(
        &[
            "note",
            SOURCE_UID,
            PRINCIPAL_UID,
            NAMESPACE_REMAPPED,
            LAST_UPDATED,
            REFRESH,
            NOTIFIED,
            LAST_APPLIED,
            MISMATCH_POLICY,
            ADOPTION_POLICY,
            OPERATION_ID,
        ],
        &["u1", "u2", "hub-1", "upsert", "recreate", "always", "op-1", "agent", ""],
    )
}

fn spec() -> impl Strategy<Value = Value> {
    (json_values(), json_values(), prop::sample::select(&["spoke", "in-cluster", "other", ""][..])).prop_map(
        |(unknown, source, destination)| {
            json!({ "project": "p", "unknown": unknown, "source": source, "destination": { "name": destination, "server": "s" } })
        },
    )
}

fn finalizers() -> impl Strategy<Value = Value> {
    prop::sample::subsequence(
        vec![
            "resources-finalizer.argocd.argoproj.io",
            "foregroundDeletion",
            "post-delete-finalizer.argocd.argoproj.io",
            "a/b",
        ],
        0..=4,
    )
    .prop_map(|names| json!(names))
}

fn status() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        (prop::sample::select(&["Running", "Terminating", "Succeeded"][..]), json_values(), 1..9_u8).prop_map(|(phase, unknown, second)| {
            json!({ "unknown": unknown, "operationState": { "phase": phase, "operation": { "sync": {} }, "startedAt": format!("2026-01-01T00:00:0{second}Z") } })
        }),
    ]
}

prop_compose! {
    fn applications()(
        uid in prop::sample::select(&["u1", "u2", ""][..]),
        namespace in prop::sample::select(&["spoke", "argocd", "team-a", "argocd-spoke"][..]),
        labels in some_of(&["a", "b", IGNORE_SYNC], &["x", "y", "true"]),
        annotations in annotations(),
        finalizers in finalizers(),
        spec in spec(),
        status in status(),
        operation in prop_oneof![Just(Value::Null), Just(json!({ "sync": {} })), Just(json!({ "sync": { "prune": true } }))],
        unknown in json_values(),
        is_deleting in any::<bool>(),
        is_generated in any::<bool>(),
        empty in any::<bool>(),
    ) -> Value {
        let mut object = json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": { "name": "app", "namespace": namespace, "uid": uid, "resourceVersion": "5", "finalizers": finalizers },
            "spec": spec,
            "unknown": unknown,
        });
        for (field, value) in [("labels", labels), ("annotations", annotations)] {
            if empty || value != json!({}) {
                object["metadata"][field] = value;
            }
        }
        for (field, value) in [("status", status), ("operation", operation)] {
            if !value.is_null() {
                object[field] = value;
            }
        }
        if is_generated {
            object["metadata"]["ownerReferences"] = json!([{ "kind": "ApplicationSet", "name": "set" }]);
        }
        if is_deleting && object["metadata"]["finalizers"] != json!([]) { deleting(object) } else { object }
    }
}

fn agents() -> impl Strategy<Value = AgentSide> {
    let policies = (any::<bool>(), any::<bool>(), any::<bool>());
    policies.prop_map(|(by_destination, upsert, adopt)| AgentSide {
        mismatch: if upsert { Mismatch::Upsert } else { Mismatch::Recreate },
        adoption: if adopt { Adoption::Always } else { Adoption::Never },
        ..if by_destination { agent_by_destination() } else { agent_side() }
    })
}

fn now() -> Timestamp {
    "2026-02-03T04:05:06Z".parse().unwrap()
}

/// Follows plans until there is nothing more to do, which takes a few steps at most: one that is being deleted may have
/// to go first.
fn settles(plan: impl Fn(Option<&Value>) -> Plan, existing: Option<&Value>) -> Result<(), TestCaseError> {
    let mut object = existing.cloned();
    let mut steps = Vec::new();
    for _ in 0..4 {
        let next = plan(object.as_ref());
        if matches!(next, Plan::Nothing | Plan::ConfirmGone | Plan::Refuse(_)) {
            return Ok(());
        }
        object = followed(next.clone(), object.as_ref());
        if object.as_ref().is_some_and(|object| !object::is_deleting(object)) {
            prop_assert_eq!(plan(object.as_ref()), Plan::Nothing, "after {:?}", next);
        }
        steps.push(word(&next));
    }
    Err(TestCaseError::fail(format!("never settles: {steps:?}")))
}

proptest! {
    #[test]
    fn copies_settle(agent in agents(), incoming in applications(), existing in prop::option::of(applications())) {
        let existing = existing.map(|existing| with(existing, &[("/metadata/uid", json!("own"))]));
        settles(|existing| managed_application(&agent, &incoming, "hub-1", "event-1", existing), existing.as_ref())?;
    }

    #[test]
    fn copies_keep_what_nobody_knows(incoming in applications(), existing in applications()) {
        let existing = annotated(with(existing, &[("/metadata/uid", json!("own")), ("/localOnly", json!({ "a": 1 }))]), SOURCE_UID, "u1");
        if let Plan::Create(made) = managed_application(&agent_side(), &incoming, "hub-1", "event-1", None) {
            prop_assert_eq!(&made["spec"]["unknown"], &incoming["spec"]["unknown"]);
            prop_assert_eq!(&made["unknown"], &incoming["unknown"]);
        }
        if let Plan::Replace(wanted) = managed_application(&agent_side(), &incoming, "", "event-1", Some(&existing)) {
            prop_assert_eq!(&wanted["spec"]["unknown"], &incoming["spec"]["unknown"]);
            prop_assert_eq!(&wanted["unknown"], &incoming["unknown"]);
            prop_assert_eq!(&wanted["localOnly"], &existing["localOnly"]);
            prop_assert_eq!(&wanted["status"], &existing["status"]);
        }
    }

    #[test]
    fn reports_settle_and_leave_the_rest_alone(incoming in applications(), existing in applications(), delivered in any::<bool>()) {
        let existing = with(existing, &[("/metadata/namespace", json!("spoke"))]);
        let plan = |existing: Option<&Value>| status_on_hub(&hub_side(), &managed_agent(), &incoming, existing, delivered);
        settles(plan, Some(&existing))?;
        if let Plan::Replace(wanted) = plan(Some(&existing)) {
            prop_assert_eq!(&wanted["spec"], &existing["spec"]);
            prop_assert_eq!(&wanted["unknown"], &existing["unknown"]);
            prop_assert_eq!(&wanted["metadata"]["finalizers"], &existing["metadata"]["finalizers"]);
            if !delivered && matches!(pending_operation(&existing), Pending::Stamped(_))
                && wanted["operation"].is_null()
            {
                prop_assert!(object::annotation(&incoming, OPERATION_ID).is_some(), "an operation was lost");
            }
        }
    }

    #[test]
    fn mirrors_settle(incoming in applications(), existing in prop::option::of(applications()), delivered in any::<bool>()) {
        let plan = |existing: Option<&Value>| mirror_application(&hub_side(), &autonomous_agent(), &incoming, existing, delivered, now());
        // A new mirror never has an operation; the one that runs shows at the next report.
        if existing.is_some() || incoming["operation"].is_null() {
            settles(plan, existing.as_ref())?;
        }
    }

    #[test]
    fn requests_and_deletions_settle(incoming in applications(), existing in prop::option::of(applications())) {
        let own = existing.map(|existing| with(existing, &[("/metadata/uid", json!("u1"))]));
        settles(|existing| autonomous_application(&autonomous_side(), &incoming, "event-1", existing), own.as_ref())?;
        for side in [agent_side(), autonomous_side()] {
            settles(|existing| managed_operation(&side, &incoming, "event-1", existing), own.as_ref())?;
            settles(|existing| managed_terminate(&side, &incoming, existing), own.as_ref())?;
        }
        settles(|existing| managed_delete(&agent_side(), Kind::Application, &incoming, existing), own.as_ref())?;
        settles(|existing| deletion_on_hub(&hub_side(), &managed_agent(), &incoming, existing), own.as_ref())?;
        settles(|existing| mirror_delete(&hub_side(), &autonomous_agent(), Kind::Application, &incoming, existing), own.as_ref())?;
    }

    #[test]
    fn reverts_settle(copy in applications(), existing in applications()) {
        for kind in Kind::ALL {
            settles(|existing| existing.map_or(Plan::Nothing, |existing| revert_tampering(kind, &copy, existing)), Some(&existing))?;
        }
        settles(|existing| existing.map_or(Plan::Nothing, |existing| revert_mirror(&copy, existing)), Some(&existing))?;
    }

    #[test]
    fn names_come_back(name in "[a-z][a-z0-9-]{0,20}[a-z]", namespace in prop::sample::select(&["argocd", "team-a", "argocd-spoke"][..]), destination in any::<bool>()) {
        let kinds = if destination { vec![Kind::Application] } else { Kind::ALL.to_vec() };
        let (hub, side) = if destination { (hub_by_destination(), agent_by_destination()) } else { (hub_side(), agent_side()) };
        let known = Agent { namespace: side.namespace.clone(), ..managed_agent() };
        for kind in kinds {
            let at = if destination { namespace } else if kind == Kind::Application { "spoke" } else { "argocd" };
            let on_hub = Key { kind, namespace: at.to_owned(), name: name.clone() };
            let here = agent_key(&side, &on_hub).unwrap();
            let moved = here.namespace != on_hub.namespace && destination;
            prop_assert_eq!(hub_key(&hub, &known, &here, moved).unwrap(), on_hub);
        }
        for kind in [Kind::Application, Kind::AppProject] {
            let here = Key { kind, namespace: "argocd".to_owned(), name: name.clone() };
            let on_hub = hub_key(&hub_side(), &autonomous_agent(), &here, false).unwrap();
            prop_assert_eq!(agent_key(&autonomous_side(), &on_hub).unwrap(), here);
        }
    }

    #[test]
    fn nothing_panics(a in json_values(), b in json_values(), text in ".{0,20}") {
        let nested = |value: &Value| json!({ "metadata": { "name": "a", "uid": "u", "annotations": value, "labels": value, "finalizers": value }, "spec": value, "status": value, "data": value });
        for incoming in [a.clone(), nested(&a), json!({ "metadata": a, "spec": { "destination": a, "destinations": [a], "sourceNamespaces": a, "roles": [a] } })] {
            for existing in [None, Some(b.clone()), Some(nested(&b))] {
                let existing = existing.as_ref();
                for side in [agent_side(), agent_by_destination(), autonomous_side()] {
                    managed_application(&side, &incoming, &text, &text, existing);
                    managed_operation(&side, &incoming, &text, existing);
                    managed_terminate(&side, &incoming, existing);
                    managed_project(&side, &incoming, existing);
                    managed_repository(&side, &incoming, existing);
                    autonomous_application(&side, &incoming, &text, existing);
                    for kind in Kind::ALL {
                        managed_delete(&side, kind, &incoming, existing);
                        revert_deletion(&side, kind, &incoming, &b);
                    }
                }
                for agent in [managed_agent(), autonomous_agent()] {
                    status_on_hub(&hub_side(), &agent, &incoming, existing, true);
                    deletion_on_hub(&hub_side(), &agent, &incoming, existing);
                    error_on_hub(&hub_side(), &agent, existing, &text, now());
                    mirror_application(&hub_side(), &agent, &incoming, existing, false, now());
                    mirror_project(&hub_side(), &agent, &incoming, existing, now());
                    mirror_delete(&hub_side(), &agent, Kind::AppProject, &incoming, existing);
                }
            }
            project_goes_to(&hub_side(), &incoming, &text);
            project_for_agent(&hub_side(), &incoming, &text);
            application_for_agent(&incoming);
            operation_for_agent(&incoming, &text);
            deletion(Kind::Application, &incoming);
            revert_tampering(Kind::Application, &incoming, &b);
            revert_mirror(&incoming, &b);
            pending_operation(&incoming);
            stamp_operation(&incoming, &text);
            release(&incoming);
            is_news_for_agent(Kind::Application, &incoming, &b);
            is_news_for_hub(Kind::Application, Mode::Autonomous, &incoming, &b);
        }
        Pattern::new(text.clone()).matches(&text);
    }
}
