//! Rules as tables; what holds for every object as properties.

mod hub;
mod managed;
mod mirrors;
mod names;
mod operations;
mod projects;
mod properties;

use serde_json::{Value, json};

use super::*;
use crate::object::{self, PRINCIPAL_UID, SOURCE_UID};

pub(super) fn hub_side() -> HubSide {
    HubSide {
        namespace: "argocd".to_owned(),
        placement: Placement::Namespace,
        allowed_namespaces: vec![Pattern::new("*")],
    }
}

pub(super) fn hub_by_destination() -> HubSide {
    HubSide { placement: Placement::Destination, allowed_namespaces: vec![Pattern::new("team-*")], ..hub_side() }
}

pub(super) fn managed_agent() -> Agent {
    Agent {
        name: "spoke".to_owned(),
        mode: Mode::Managed,
        namespace: "argocd".to_owned(),
        cluster: "spoke-cluster".to_owned(),
    }
}

pub(super) fn autonomous_agent() -> Agent {
    Agent { mode: Mode::Autonomous, ..managed_agent() }
}

pub(super) fn agent_side() -> AgentSide {
    AgentSide {
        name: "spoke".to_owned(),
        mode: Mode::Managed,
        namespace: "argocd".to_owned(),
        hub_namespace: "argocd".to_owned(),
        placement: Placement::Namespace,
        allowed_namespaces: Vec::new(),
        mismatch: Mismatch::Recreate,
        adoption: Adoption::Never,
        on_recreate: OnRecreate::Ignore,
    }
}

pub(super) fn agent_by_destination() -> AgentSide {
    AgentSide {
        namespace: "argocd-spoke".to_owned(),
        placement: Placement::Destination,
        allowed_namespaces: vec![Pattern::new("team-*")],
        ..agent_side()
    }
}

pub(super) fn autonomous_side() -> AgentSide {
    AgentSide { mode: Mode::Autonomous, ..agent_side() }
}

/// An Application on the hub.
pub(super) fn app() -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {
            "name": "guestbook",
            "namespace": "spoke",
            "uid": "hub-uid",
            "resourceVersion": "7",
            "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "team": "a" },
            "annotations": { "note": "x" },
            "finalizers": ["resources-finalizer.argocd.argoproj.io"],
            "managedFields": [{ "manager": "kubectl" }],
            "ownerReferences": [{ "kind": "Other", "name": "owner" }],
        },
        "spec": {
            "project": "default",
            "destination": { "name": "spoke", "server": "https://elsewhere", "namespace": "web" },
            "source": { "repoURL": "https://example.com/r", "newField": { "deep": [1, 2.5] } },
        },
        "newTop": { "kept": true },
    })
}

/// Its copy on the agent, as an API server stores it.
pub(super) fn copy() -> Value {
    let Plan::Create(copy) = managed_application(&agent_side(), &app(), "hub-1", "event-1", None) else {
        panic!("a new Application is made")
    };
    stored(copy, "copy-uid", "20")
}

/// The object as an API server answers it.
pub(super) fn stored(mut object: Value, uid: &str, version: &str) -> Value {
    object["metadata"]["uid"] = json!(uid);
    object["metadata"]["resourceVersion"] = json!(version);
    object["metadata"]["creationTimestamp"] = json!("2026-01-02T00:00:00Z");
    object
}

/// The object with some places changed; null removes.
pub(super) fn with(mut object: Value, changes: &[(&str, Value)]) -> Value {
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let name = name.replace("~1", "/");
        let mut place = &mut object;
        for part in parent.split('/').skip(1) {
            place = &mut place[part];
        }
        if value.is_null() {
            place.as_object_mut().unwrap().remove(&name);
        } else {
            place[name] = value.clone();
        }
    }
    object
}

pub(super) fn deleting(object: Value) -> Value {
    with(object, &[("/metadata/deletionTimestamp", json!("2026-01-03T00:00:00Z"))])
}

pub(super) fn annotated(mut object: Value, name: &str, value: &str) -> Value {
    object::set_annotation(&mut object, name, value);
    object
}

pub(super) fn reason(plan: &Plan) -> Option<Reason> {
    match plan {
        Plan::Refuse(refusal) => Some(refusal.reason),
        _ => None,
    }
}

/// The one word for a plan in tables.
pub(super) fn word(plan: &Plan) -> String {
    match plan {
        Plan::Nothing => "nothing".to_owned(),
        Plan::ConfirmGone => "confirm gone".to_owned(),
        Plan::Create(_) => "create".to_owned(),
        Plan::Replace(_) => "replace".to_owned(),
        Plan::ReplaceThenDelete(..) => "replace, delete".to_owned(),
        Plan::Recreate { .. } => "recreate".to_owned(),
        Plan::Delete(_, Propagation::Foreground) => "delete foreground".to_owned(),
        Plan::Delete(_, Propagation::Background) => "delete background".to_owned(),
        Plan::Refuse(refusal) => format!("refuse: {}", refusal.reason.name()),
    }
}

/// What an API server has after a plan was followed.
pub(super) fn followed(plan: Plan, existing: Option<&Value>) -> Option<Value> {
    let deleted = |object: Value| {
        let waits = object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        waits.then(|| deleting(object))
    };
    match plan {
        Plan::Nothing | Plan::ConfirmGone | Plan::Refuse(_) => existing.cloned(),
        Plan::Create(object) => {
            assert!(existing.is_none(), "creates over what is there");
            Some(stored(object, "fresh-uid", "30"))
        }
        Plan::Replace(object) => {
            let existing = existing.expect("replaces what is there");
            assert_eq!(object::uid(&object), object::uid(existing));
            assert_eq!(object::resource_version(&object), object::resource_version(existing));
            let gone =
                object::is_deleting(&object) && object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
            (!gone).then(|| with(object, &[("/metadata/resourceVersion", json!("31"))]))
        }
        Plan::ReplaceThenDelete(object, _) => deleted(object),
        Plan::Recreate { delete, create } => {
            let existing = existing.expect("deletes what is there");
            assert_eq!(delete.uid, object::uid(existing));
            match deleted(existing.clone()) {
                Some(old) => Some(old),
                None => Some(stored(create, "fresh-uid", "32")),
            }
        }
        Plan::Delete(precondition, _) => {
            let existing = existing.expect("deletes what is there");
            assert_eq!(precondition.uid, object::uid(existing));
            deleted(existing.clone())
        }
    }
}

#[test]
fn settings_are_words() {
    assert_eq!("upsert".parse(), Ok(Mismatch::Upsert));
    assert_eq!("always".parse(), Ok(Adoption::Always));
    assert_eq!("clear-status".parse(), Ok(OnRecreate::ClearStatus));
    assert_eq!("Always".parse::<Adoption>().unwrap_err().to_string(), "unknown adoption policy \"Always\"");
}

#[test]
fn copies_say_where_they_come_from() {
    assert_eq!(object::annotation(&copy(), SOURCE_UID), Some("hub-uid"));
    assert_eq!(object::annotation(&copy(), PRINCIPAL_UID), Some("hub-1"));
}
