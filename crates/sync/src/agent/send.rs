//! Events from the agent to its hub.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use thane_api::event::{Type};

use super::Agent;
use crate::lane::Lane;
use crate::link::Core;
use crate::mapping;
use crate::object::{self, Key, Kind, Object};
use crate::outbox::{Body, Outgoing};
use crate::time::Now;

impl Agent {
    /// How a copy of the hub's Application is doing.
    pub(super) fn send_status(&self, core: &mut Core, now: Now, key: &Key, object: &Object) {
        if object::source_uid(object).is_some() {
            let body = Arc::new(mapping::application_for_hub(&self.side, object));
            core.push(now, about(key, object, Type::StatusUpdate, Body::Object(body)));
        }
    }

    /// One of the agent's own objects, as it is.
    pub(super) fn send_source(&self, core: &mut Core, now: Now, key: &Key, object: &Object, kind: Type) {
        let body = Arc::new(mapping::application_for_hub(&self.side, object));
        let mut outgoing = about(key, object, kind, Body::Object(body));
        if key.kind == Kind::Application {
            let project = object["spec"]["project"].as_str().unwrap_or("default");
            let needed = Key { kind: Kind::AppProject, namespace: key.namespace.clone(), name: project.to_owned() };
            outgoing.needs.extend(Some(Lane::of(&needed)).filter(|lane| core.outbox.is_lane_busy(lane)));
        }
        core.push(now, outgoing);
    }

    /// An object is gone.
    pub(super) fn send_gone(&self, core: &mut Core, now: Now, key: &Key, object: Option<&Object>) {
        let object = object.cloned().unwrap_or_else(|| {
            Arc::new(json!({"metadata": {"name": key.name, "namespace": key.namespace}}))
        });
        let body = Arc::new(mapping::application_for_hub(&self.side, &object));
        core.push(now, about(key, &object, Type::Delete, Body::Object(body)));
    }

    /// A message that compares what both sides have.
    pub(super) fn send_message(&self, core: &mut Core, now: Now, kind: Type, data: Bytes) {
        let id = core.unique();
        core.push(now, crate::link::message(id, kind, data));
    }
}

fn about(key: &Key, object: &Value, kind: Type, body: Body) -> Outgoing {
    let (name, uid) = (object::name(object), object::uid(object));
    Outgoing {
        lane: Lane::of(key),
        target: key.kind.target(),
        kind,
        resource_id: format!("{name}_{uid}"),
        event_id: format!("{name}_{uid}_{}", object::resource_version(object)),
        subject: Some(format!("{}/{name}", object::namespace(object))),
        body,
        extensions: BTreeMap::new(),
        needs: Vec::new(),
    }
}
