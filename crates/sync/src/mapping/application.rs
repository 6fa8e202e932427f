//! Copies of the hub's Applications on a managed agent.

use serde_json::{Value, json};

use super::copy::{fresh, overlaid, set_field};
use super::identity::{self, Decision};
use super::managed::{arrived, recreate};
use super::plan::{Plan, Precondition, Propagation, Reason, refuse, replace};
use super::{AgentSide, keys, operation};
use crate::object::{
    self, Key, Kind, NAMESPACE_REMAPPED, OPERATION_ID, PRINCIPAL_UID, SOURCE_UID, map_mut, metadata_mut,
};

/// Agent: what to write when an Application arrives that is new or to be like this.
///
/// `principal_uid` is the hub's id, empty if it did not say; `event_id` identifies an operation that came along.
pub fn managed_application(
    agent: &AgentSide,
    incoming: &Value,
    principal_uid: &str,
    event_id: &str,
    existing: Option<&Value>,
) -> Plan {
    let key = match arrived(agent, Kind::Application, incoming) {
        Ok(key) => key,
        Err(plan) => return plan,
    };
    if !incoming["spec"].is_object() {
        return refuse(Reason::Invalid, format!("Application {} has no spec", key.name));
    }
    let arrival = Arrival { agent, incoming, principal_uid, event_id };
    let origin = object::origin_uid(incoming);
    let deleting = object::is_deleting(incoming);
    let Some(existing) = existing else {
        return match (deleting, origin) {
            (true, _) => Plan::ConfirmGone,
            (false, "") => refuse(Reason::Invalid, format!("Application {} has no uid", key.name)),
            (false, _) => Plan::Create(arrival.copy(&key)),
        };
    };
    if object::is_ignored(existing) {
        return if deleting { Plan::ConfirmGone } else { Plan::Nothing };
    }
    if arrival.is_taken(existing) {
        return refuse(Reason::Taken, format!("Application {} of another namespace is here under that name", key.name));
    }
    match identity::decide(agent, incoming, principal_uid, existing) {
        Decision::Update => arrival.update(existing, object::origin_uid(existing)),
        Decision::Adopt if origin.is_empty() => {
            arrival.update(existing, object::source_uid(existing).unwrap_or_default())
        }
        Decision::Adopt => arrival.update(existing, origin),
        Decision::Recreate => recreate(incoming, existing, || arrival.copy(&key)),
        Decision::Leave if deleting => Plan::ConfirmGone,
        Decision::Leave => {
            refuse(Reason::NotAdopted, format!("Application {} is there already and not to be taken over", key.name))
        }
    }
}

/// An Application that arrived from the hub.
struct Arrival<'a> {
    agent: &'a AgentSide,
    incoming: &'a Value,
    principal_uid: &'a str,
    event_id: &'a str,
}

impl Arrival<'_> {
    /// A new copy.
    fn copy(&self, key: &Key) -> Value {
        let mut copy = fresh(Kind::Application, self.incoming);
        set_field(&mut copy, "status", None);
        metadata_mut(&mut copy).insert("namespace".to_owned(), json!(key.namespace));
        object::remove_annotation(&mut copy, OPERATION_ID);
        rewrite_destination(&mut copy);
        self.stamp(&mut copy, self.principal_uid, object::origin_uid(self.incoming));
        match &self.incoming["operation"] {
            Value::Null => set_field(&mut copy, "operation", None),
            carried => operation::set(&mut copy, carried.clone(), self.event_id),
        }
        copy
    }

    /// The copy that is there, as it is to be.
    fn update(&self, existing: &Value, source_uid: &str) -> Plan {
        let mut wanted = overlaid(self.incoming, existing);
        set_field(&mut wanted, "spec", self.incoming.get("spec").cloned());
        rewrite_destination(&mut wanted);
        let known = object::annotation(existing, PRINCIPAL_UID).unwrap_or_default();
        let principal = if self.principal_uid.is_empty() { known } else { self.principal_uid };
        self.stamp(&mut wanted, principal, source_uid);
        operation::set_carried(&mut wanted, existing, self.incoming, self.event_id);
        let plan = replace(existing, wanted);
        if !object::is_deleting(self.incoming) || object::is_deleting(existing) {
            return plan;
        }
        match plan {
            Plan::Replace(wanted) => Plan::ReplaceThenDelete(wanted, Propagation::Foreground),
            _ => Plan::Delete(Precondition::of(existing), Propagation::Foreground),
        }
    }

    fn stamp(&self, copy: &mut Value, principal_uid: &str, source_uid: &str) {
        let remapped = if self.is_remapped() { "true" } else { "" };
        for (name, value) in [(SOURCE_UID, source_uid), (PRINCIPAL_UID, principal_uid), (NAMESPACE_REMAPPED, remapped)]
        {
            if value.is_empty() {
                object::remove_annotation(copy, name);
            } else {
                object::set_annotation(copy, name, value);
            }
        }
    }

    fn is_remapped(&self) -> bool {
        keys::is_remapped(self.agent, object::namespace(self.incoming))
    }

    /// Whether the copy here is of an Application in another namespace of the hub, which keeps its place.
    fn is_taken(&self, existing: &Value) -> bool {
        let there = object::annotation(existing, NAMESPACE_REMAPPED).is_some();
        let other = object::source_uid(existing).is_some_and(|source| source != object::origin_uid(self.incoming));
        other && there != self.is_remapped() && self.agent.placement == super::Placement::Destination
    }
}

fn rewrite_destination(app: &mut Value) {
    if let Some(spec) = app.get_mut("spec") {
        let destination = map_mut(spec, "destination");
        destination.remove("server");
        destination.insert("name".to_owned(), json!("in-cluster"));
    }
}
