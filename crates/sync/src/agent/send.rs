//! Events from the agent to its hub.

use bytes::Bytes;
use serde_json::{Value, json};
use thane_api::event::Type;

use super::{Agent, is_copy};
use crate::lane::Lane;
use crate::link::{self, Core, Incoming, Report, TROUBLES};
use crate::mapping;
use crate::object::{self, Key, Kind, Object};
use crate::outbox::Body;
use crate::resync::{Checksum, RequestUpdate, write};
use crate::time::Now;

impl Agent {
    /// How a copy of the hub's Application is doing.
    pub(super) fn send_status(core: &mut Core, now: Now, key: &Key, object: &Object) {
        if key.kind == Kind::Application && is_copy(object) {
            core.push(now, link::about(key, object, Type::StatusUpdate, mapping::application_for_hub(object)));
        }
    }

    /// One of the agent's own objects, as it is.
    pub(super) fn send_source(core: &mut Core, now: Now, key: &Key, object: &Object, kind: Type) {
        let body = match key.kind {
            Kind::Application => mapping::application_for_hub(object),
            Kind::AppProject | Kind::Repository => mapping::project_for_hub(object),
        };
        let mut outgoing = link::about(key, object, kind, body);
        if key.kind == Kind::Application {
            let project = object["spec"]["project"].as_str().filter(|name| !name.is_empty()).unwrap_or("default");
            let needed = Key { kind: Kind::AppProject, namespace: key.namespace.clone(), name: project.to_owned() };
            outgoing.needs.extend(Some(Lane::of(&needed)).filter(|lane| core.outbox.is_lane_busy(lane)));
        }
        core.push(now, outgoing);
    }

    /// An object is gone: of copies only Applications are told of.
    pub(super) fn send_gone(&self, core: &mut Core, now: Now, key: &Key, object: &Value) {
        if key.kind == Kind::Application || !self.is_managed() {
            core.push(now, link::about(key, object, Type::Delete, mapping::deletion(key.kind, object)));
        }
    }

    /// An Application of the hub's could not be taken over.
    pub(super) fn complain(core: &mut Core, now: Now, key: &Key, incoming: &Incoming) {
        let is_ours_already = core.store.get(key).is_some_and(|object| !is_copy(object));
        let is_about_app = key.kind == Kind::Application && incoming.event.kind != Type::Delete;
        // Upstream's hub knows this event only from the version after the one it calls 0.9.
        let is_understood = core.peer.as_ref().is_some_and(|peer| peer.can(crate::resync::DIGEST));
        if is_ours_already && is_about_app && is_understood {
            let message = format!("Application {} is there already and is not taken over", key.name);
            let body = json!({
                "resourceName": object::name(&incoming.body),
                "resourceNamespace": object::namespace(&incoming.body),
                "message": message,
            });
            let mut outgoing = link::about(key, &incoming.body, Type::Error, Value::Null);
            outgoing.body = Body::Json(Bytes::from(body.to_string()));
            core.push(now, outgoing);
        }
    }

    /// What cannot be done here, for people who look at the hub; whether it is on its way or of no use to this hub.
    pub(super) fn send_troubles(core: &mut Core, now: Now, report: &Report) -> bool {
        match &core.peer {
            None => return false,
            Some(peer) if !peer.can(TROUBLES) => return true,
            Some(_) => {}
        }
        let lane = Lane::new("_/troubles");
        // What has changed meanwhile is told when the last word has arrived.
        if core.outbox.is_lane_busy(&lane) {
            return false;
        }
        let id = core.unique();
        core.push(now, link::message(id, lane, Type::Troubles, write(report)));
        true
    }

    /// What an event relies on is not here: the hub is asked for it.
    pub(super) fn ask_again(&self, core: &mut Core, now: Now, incoming: &Incoming) {
        let Some(kind) = Kind::of_target(&incoming.event.target).filter(|_| self.is_managed()) else { return };
        let request = RequestUpdate {
            name: object::name(&incoming.body).to_owned(),
            namespace: object::namespace(&incoming.body).to_owned(),
            uid: String::new(),
            kind: kind.name().to_owned(),
            checksum: Checksum(None),
        };
        Self::send_message(core, now, Type::RequestUpdate, write(&request));
    }

    /// A message that compares what both sides have.
    pub(super) fn send_message(core: &mut Core, now: Now, kind: Type, data: Bytes) {
        let id = core.unique();
        let lane = Lane::new(format!("_/{id}"));
        core.push(now, link::message(id, lane, kind, data));
    }
}
