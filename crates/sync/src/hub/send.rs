//! Events from the hub to one agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use thane_api::event::{self, Target, Type};

use super::Hub;
use crate::link::{Core, lane};
use crate::mapping;
use crate::object::{self, Key, Kind, Object};
use crate::outbox::{Body, Outgoing};
use crate::time::Now;

impl Hub {
    /// Sends an object as its agent should have it.
    pub(super) fn send_object(&self, core: &mut Core, now: Now, key: &Key, object: &Object, kind: Type) {
        let body = match key.kind {
            Kind::Application => Arc::new(mapping::application_for_agent(object)),
            // Projects and repositories are in their agent's form already.
            Kind::AppProject | Kind::Repository => Arc::clone(object),
        };
        let mut outgoing = self.about(key, object, kind, Body::Object(body));
        if key.kind == Kind::Application {
            outgoing.needs = self.needs(core, object);
        }
        core.push(now, outgoing);
    }

    /// Sends an operation that has its id.
    pub(super) fn send_operation(&self, core: &mut Core, now: Now, key: &Key) {
        let Some(object) = core.store.get(key).cloned() else { return };
        if mapping::has_operation(&object) && mapping::operation_id(&object).is_some() {
            let body = Arc::new(mapping::operation_for_agent(&object));
            let outgoing = self.about(key, &object, Type::SetOperation, Body::Object(body));
            core.push(now, outgoing);
        }
    }

    /// Sends the wish to end the running operation.
    pub(super) fn send_terminate(&self, core: &mut Core, now: Now, key: &Key, object: &Object) {
        let body = Arc::new(mapping::termination_for_agent(object));
        core.push(now, self.about(key, object, Type::TerminateOperation, Body::Object(body)));
    }

    /// Sends the end of an object.
    pub(super) fn send_delete(&self, core: &mut Core, now: Now, key: &Key, object: &Object) {
        let body = Arc::new(mapping::deletion_for_agent(object));
        core.push(now, self.about(key, object, Type::Delete, Body::Object(body)));
    }

    /// Sends the end of an object that only the agent knows of.
    pub(super) fn send_orphan_delete(&self, core: &mut Core, now: Now, key: &Key, uid: &str) {
        let object: Object =
            Arc::new(json!({"metadata": {"name": key.name, "namespace": key.namespace, "uid": uid}}));
        core.push(now, self.about(key, &object, Type::Delete, Body::Object(Arc::clone(&object))));
    }

    /// Sends a message that compares what both sides have.
    pub(super) fn send_message(&self, core: &mut Core, now: Now, kind: Type, data: Bytes) {
        let id = core.unique();
        let outgoing = Outgoing {
            lane: crate::outbox::Lane::new(format!("_/{id}")),
            target: Target::ResourceResync,
            kind,
            resource_id: id.clone(),
            event_id: id,
            subject: None,
            body: Body::Json(data),
            extensions: BTreeMap::new(),
            needs: Vec::new(),
        };
        core.push(now, outgoing);
    }

    fn about(&self, key: &Key, object: &Value, kind: Type, body: Body) -> Outgoing {
        let (name, uid) = (object::name(object), object::uid(object));
        let mut extensions = BTreeMap::new();
        if !self.side.principal_uid.is_empty() {
            extensions.insert(event::PRINCIPAL_UID.to_owned(), self.side.principal_uid.clone());
        }
        Outgoing {
            lane: lane(key),
            target: key.kind.target(),
            kind,
            resource_id: format!("{name}_{uid}"),
            event_id: format!("{name}_{uid}_{}", object::resource_version(object)),
            subject: Some(format!("{}/{name}", object::namespace(object))),
            body,
            extensions,
            needs: Vec::new(),
        }
    }

    /// What an Application must not overtake: its project, and the repositories that project has.
    fn needs(&self, core: &Core, application: &Value) -> Vec<crate::outbox::Lane> {
        let project = application["spec"]["project"].as_str().unwrap_or("default");
        let needed = |key: &Key, object: &Value| match key.kind {
            Kind::AppProject => key.name == project,
            Kind::Repository => mapping::repository_project(object).as_deref() == Some(project),
            Kind::Application => false,
        };
        // Kinds are in order, so this looks at projects and repositories only.
        let before = core.store.iter().take_while(|(key, _)| key.kind != Kind::Application);
        let before = before.filter(|(key, object)| needed(key, object)).map(|(key, _)| lane(key));
        before.filter(|lane| core.outbox.is_lane_busy(lane)).collect()
    }
}
