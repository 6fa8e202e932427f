//! The hub compares what it has with what one agent has.

use bytes::Bytes;
use serde_json::{Value, json};
use thane_api::event::{Event, Type};

use super::Hub;
use crate::checksum;
use crate::link::{Core, Note, Why, lane};
use crate::mapping::{self, Mode, Placement, Refusal};
use crate::object::{self, Key, Kind, Object};
use crate::resync::{
    Checksum, DIGEST, Digest, DigestItems, Inventory, RequestList, RequestUpdate, SyncedResource, read, write,
};
use crate::time::Now;

impl Hub {
    /// The agent is there. Our own speaks first, with a digest; upstream's is told where to begin.
    pub(super) fn greet(&mut self, core: &mut Core, now: Now, fresh: bool) {
        if !fresh {
            return;
        }
        core.note(Note::Compare { reason: "start" });
        if !core.peer.as_ref().is_some_and(|peer| peer.can(DIGEST)) {
            match self.mode {
                Some(Mode::Managed) => self.greet_managed(core, now),
                Some(Mode::Autonomous) => self.greet_autonomous(core, now),
                None => {}
            }
        }
        self.resend_operations(core, now);
    }

    fn greet_managed(&mut self, core: &mut Core, now: Now) {
        let all: Vec<(Key, Object)> = core.store.iter().map(|(key, object)| (key.clone(), object.clone())).collect();
        for (key, object) in all.iter().filter(|(key, _)| key.kind != Kind::Application) {
            self.send_object(core, now, key, object, Type::SpecUpdate);
        }
        // It answers with what it has, which finds what should be gone; the list finds what it lacks.
        self.send_message(core, now, Type::RequestResourceResync, Bytes::from_static(b"{}"));
        for (key, object) in all.iter().filter(|(key, _)| key.kind == Kind::Application) {
            self.send_synced(core, now, key, object);
        }
    }

    fn greet_autonomous(&mut self, core: &mut Core, now: Now) {
        self.request_updates(core, now);
        let checksum = Checksum(checksum::list_checksum(core.store.iter().map(inventory_line)).map(Vec::from));
        self.send_message(core, now, Type::RequestSyncedResourceList, write(&RequestList { checksum }));
    }

    fn request_updates(&mut self, core: &mut Core, now: Now) {
        let mirrors: Vec<(Key, Object)> = core.store.iter().map(|(key, object)| (key.clone(), object.clone())).collect();
        for (key, object) in mirrors {
            let request = self.request_update(&key, Some(&object));
            self.send_message(core, now, Type::RequestUpdate, write(&request));
        }
    }

    fn request_update(&self, key: &Key, object: Option<&Object>) -> RequestUpdate {
        RequestUpdate {
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            uid: object.map(|object| object::origin_uid(object).to_owned()).unwrap_or_default(),
            kind: key.kind.name().to_owned(),
            checksum: Checksum(object.and_then(|object| self.source_checksum(key.kind, object)).map(Vec::from)),
        }
    }

    /// The checksum of a mirror as its source would compute it.
    fn source_checksum(&self, kind: Kind, mirror: &Object) -> Option<[u8; 32]> {
        let prefix = format!("{}-", self.agent);
        let project = mirror["spec"]["project"].as_str().and_then(|project| project.strip_prefix(&prefix));
        match (kind, project) {
            (Kind::Application, Some(project)) => {
                let mut source = json!({"spec": mirror["spec"]});
                source["spec"]["project"] = Value::String(project.to_owned());
                checksum::spec_checksum(kind, &source).ok()
            }
            _ => checksum::spec_checksum(kind, mirror).ok(),
        }
    }

    fn send_synced(&self, core: &mut Core, now: Now, key: &Key, object: &Object) {
        let item = SyncedResource {
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            uid: object::origin_uid(object).to_owned(),
            kind: key.kind.name().to_owned(),
        };
        self.send_message(core, now, Type::ResponseSyncedResource, write(&item));
    }

    /// Operations that have an id and are not over travel again; whoever has them already skips them.
    fn resend_operations(&mut self, core: &mut Core, now: Now) {
        let apps = core.store.iter().filter(|(key, object)| {
            key.kind == Kind::Application && mapping::has_operation(object)
        });
        let apps: Vec<(Key, bool)> =
            apps.map(|(key, object)| (key.clone(), mapping::operation_id(object).is_some())).collect();
        for (key, has_id) in apps {
            if core.outbox.is_lane_waiting_for(&lane(&key), &Type::SetOperation) {
                continue;
            }
            if has_id {
                self.send_operation(core, now, &key);
            } else if self.is_managed() {
                let id = core.unique();
                core.ask(&key, Why::Stamp(id));
            }
        }
    }

    pub(super) fn compare_message(&mut self, core: &mut Core, now: Now, event: &Event) -> Result<(), Refusal> {
        let wrong = |error: String| Refusal::permanent(format!("its body: {error}"));
        match (self.mode, &event.kind) {
            (Some(Mode::Managed), Type::RequestUpdate) => {
                let request: RequestUpdate = read(&event.data).map_err(wrong)?;
                self.update_requested(core, now, &request)
            }
            (Some(Mode::Managed), Type::RequestSyncedResourceList) => {
                let request: RequestList = read(&event.data).map_err(wrong)?;
                self.list_requested(core, now, &request);
                Ok(())
            }
            (Some(Mode::Autonomous), Type::ResponseSyncedResource) => {
                let item: SyncedResource = read(&event.data).map_err(wrong)?;
                let key = self.mirror_key(&item.kind, &item.name)?;
                let request = self.request_update(&key, core.store.get(&key));
                self.send_message(core, now, Type::RequestUpdate, write(&request));
                Ok(())
            }
            (Some(Mode::Autonomous), Type::RequestResourceResync) => {
                self.request_updates(core, now);
                Ok(())
            }
            (Some(_), Type::Digest) => {
                let theirs: Digest = read(&event.data).map_err(wrong)?;
                self.digest_received(core, now, theirs);
                Ok(())
            }
            (_, kind) => Err(Refusal::permanent(format!("{kind:?} goes the other way"))),
        }
    }

    fn mirror_key(&self, kind: &str, name: &str) -> Result<Key, Refusal> {
        let kind = Kind::of_name(kind).ok_or_else(|| Refusal::permanent(format!("kind {kind:?} is not known")))?;
        let (namespace, name) = match kind {
            Kind::Application => (self.agent.clone(), name.to_owned()),
            Kind::AppProject if name.starts_with(&format!("{}-", self.agent)) => {
                (self.side.namespace.clone(), name.to_owned())
            }
            Kind::AppProject => (self.side.namespace.clone(), format!("{}-{name}", self.agent)),
            Kind::Repository => (self.side.namespace.clone(), name.to_owned()),
        };
        Ok(Key { kind, namespace, name })
    }

    /// The hub's key of something a managed agent names.
    fn named_key(&self, kind: &str, namespace: &str, name: &str) -> Result<Key, Refusal> {
        let kind = Kind::of_name(kind).ok_or_else(|| Refusal::permanent(format!("kind {kind:?} is not known")))?;
        let namespace = match (kind, self.side.placement) {
            (Kind::Application, Placement::Namespace) => self.agent.as_str(),
            (Kind::Application, Placement::Destination) => namespace,
            (Kind::AppProject | Kind::Repository, _) => self.side.namespace.as_str(),
        };
        Ok(Key { kind, namespace: namespace.to_owned(), name: name.to_owned() })
    }

    fn update_requested(&mut self, core: &mut Core, now: Now, request: &RequestUpdate) -> Result<(), Refusal> {
        let key = self.named_key(&request.kind, &request.namespace, &request.name)?;
        let Some(object) = core.store.get(&key).cloned() else {
            self.send_orphan_delete(core, now, &key, &request.uid);
            return Ok(());
        };
        let ours = checksum::spec_checksum(key.kind, &object).ok();
        let same = ours.is_some_and(|ours| request.checksum.0.as_deref() == Some(ours.as_slice()));
        if !same || request.uid != object::origin_uid(&object) {
            self.send_object(core, now, &key, &object, Type::SpecUpdate);
        }
        Ok(())
    }

    fn list_requested(&mut self, core: &mut Core, now: Now, request: &RequestList) {
        let ours = checksum::list_checksum(core.store.iter().map(inventory_line)).map(Vec::from);
        if core.store.is_empty() || request.checksum.0 == ours {
            return;
        }
        let all: Vec<(Key, Object)> = core.store.iter().map(|(key, object)| (key.clone(), object.clone())).collect();
        for (key, object) in all {
            self.send_synced(core, now, &key, &object);
        }
    }

    fn digest_received(&mut self, core: &mut Core, now: Now, theirs: Digest) {
        let ours = self.inventory(core);
        if theirs.digest.0.as_deref() == Some(ours.digest().as_slice()) {
            return;
        }
        core.note(Note::Compare { reason: "digest" });
        self.resend_operations(core, now);
        for message in ours.messages(&theirs.digest) {
            self.send_message(core, now, Type::DigestItems, write::<DigestItems>(&message));
        }
    }

    fn inventory(&self, core: &Core) -> Inventory {
        let mut inventory = Inventory::default();
        for (key, object) in core.store.iter() {
            let namespace = match (key.kind, self.side.placement) {
                (Kind::Application, Placement::Destination) if self.is_managed() => key.namespace.clone(),
                _ => String::new(),
            };
            inventory.add(key.kind, namespace, &key.name, object);
        }
        inventory
    }
}

/// What upstream's checksum over a list is made of.
fn inventory_line<'a>((key, object): (&'a Key, &'a Object)) -> (&'a str, &'a str, &'a str) {
    (key.kind.name(), key.name.as_str(), object::origin_uid(object))
}
