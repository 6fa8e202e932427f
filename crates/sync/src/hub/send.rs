//! Events from the hub to one agent.

use bytes::Bytes;
use serde_json::Value;
use thane_api::event::{self, Type};

use super::Hub;
use crate::lane::Lane;
use crate::link::{self, Core};
use crate::mapping::{self, Pending};
use crate::object::{self, Key, Kind, Object};
use crate::outbox::Outgoing;
use crate::time::Now;

impl Hub {
    /// Sends an object as its agent should have it.
    pub(super) fn send_object(&self, core: &mut Core, now: Now, key: &Key, object: &Object, kind: Type) {
        let body = match key.kind {
            Kind::Application => mapping::application_for_agent(object),
            // A project is in its agent's form already.
            Kind::AppProject | Kind::Repository => mapping::repository_for_agent(object),
        };
        let mut outgoing = self.about(key, object, kind, body);
        if key.kind == Kind::Application {
            outgoing.needs = needs(core, object);
        }
        core.push(now, outgoing);
    }

    /// Sends every object, whatever the agent may have; how many there are.
    pub(super) fn send_all(&self, core: &mut Core, now: Now) -> usize {
        let all: Vec<(Key, Object)> = core.store.iter().map(|(key, object)| (key.clone(), object.clone())).collect();
        for (key, object) in &all {
            self.send_object(core, now, key, object, Type::SpecUpdate);
        }
        all.len()
    }

    /// Sends an operation that has its id and is not over.
    pub(super) fn send_operation(&self, core: &mut Core, now: Now, key: &Key) {
        let Some(object) = core.store.get(key).cloned() else { return };
        if let Pending::Stamped(id) = mapping::pending_operation(&object) {
            let body = mapping::operation_for_agent(&object, &id);
            let mut outgoing = self.about(key, &object, Type::SetOperation, body);
            outgoing.extensions.insert(event::OPERATION.to_owned(), id);
            core.push(now, outgoing);
        }
    }

    /// Sends the wish to end the running operation.
    pub(super) fn send_terminate(&self, core: &mut Core, now: Now, key: &Key, object: &Object) {
        let body = mapping::terminate_for_agent(object);
        core.push(now, self.about(key, object, Type::TerminateOperation, body));
    }

    /// Sends the end of an object.
    pub(super) fn send_delete(&self, core: &mut Core, now: Now, key: &Key, object: &Object) {
        core.push(now, self.about(key, object, Type::Delete, mapping::deletion(key.kind, object)));
    }

    /// Sends the end of an object that only the agent knows of, under that uid.
    pub(super) fn send_orphan_delete(&self, core: &mut Core, now: Now, key: &Key, uid: &str) {
        let body = mapping::deletion_of(key, uid);
        core.push(now, self.about(key, &body.clone(), Type::Delete, body));
    }

    /// Sends a message that compares what both sides have.
    pub(super) fn send_message(core: &mut Core, now: Now, kind: Type, data: Bytes) {
        let id = core.unique();
        // The parts of one answer keep their order.
        let lane = if kind == Type::DigestItems { Lane::new("_/digest") } else { Lane::new(format!("_/{id}")) };
        core.push(now, link::message(id, lane, kind, data));
    }

    fn about(&self, key: &Key, object: &Value, kind: Type, body: Value) -> Outgoing {
        let mut outgoing = link::about(key, object, kind, body);
        if !self.principal_uid.is_empty() {
            outgoing.extensions.insert(event::PRINCIPAL_UID.to_owned(), self.principal_uid.clone());
        }
        outgoing
    }
}

/// What an Application must not overtake: its project, and the repositories that project has.
fn needs(core: &Core, application: &Value) -> Vec<Lane> {
    let project = application["spec"]["project"].as_str().filter(|name| !name.is_empty()).unwrap_or("default");
    let needed = |key: &Key, object: &Value| match key.kind {
        Kind::AppProject => object::name(object) == project,
        Kind::Repository => mapping::repository_project(object).as_deref() == Some(project),
        Kind::Application => false,
    };
    // Kinds are in order, so this looks at projects and repositories only.
    let before = core.store.iter().take_while(|(key, _)| key.kind != Kind::Application);
    let before = before.filter(|(key, object)| needed(key, object)).map(|(key, _)| Lane::of(key));
    before.filter(|lane| core.outbox.is_lane_busy(lane)).collect()
}
