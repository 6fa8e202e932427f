//! The hub compares what it has with what one agent has.

use bytes::Bytes;
use serde_json::{Value, json};
use thane_api::event::{Event, Type};

use super::Hub;
use super::managed::operation_changed;
use crate::checksum::{self, Item};
use crate::lane::Lane;
use crate::link::{Core, Note, Report, Whose};
use crate::mapping::{self, Mode, Pending, Placement, Reason, Refusal};
use crate::object::{self, Key, Kind, Object};
use crate::resync::{
    self, Checksum, DIGEST, Digest, DigestItems, Inventory, RequestList, RequestResync, RequestUpdate, SyncedResource,
    read, write,
};
use crate::time::Now;

impl Hub {
    /// The agent is there. Our own speaks first, with a digest; upstream's is told where to begin.
    pub(super) fn greet(&mut self, core: &mut Core, now: Now, fresh: bool) {
        if std::mem::take(&mut self.everything_due) {
            self.send_everything(core, now);
        }
        if !fresh {
            return;
        }
        core.note(Note::Compare { reason: "start" });
        if !core.peer.as_ref().is_some_and(|peer| peer.can(DIGEST)) {
            match self.agent.mode {
                Mode::Managed => self.greet_managed(core, now),
                Mode::Autonomous => self.greet_autonomous(core, now),
            }
        }
        self.resend_operations(core, now);
    }

    /// Somebody asked for it: what the hub decides is sent whatever the agent may have, and the agent sends the rest.
    fn send_everything(&mut self, core: &mut Core, now: Now) {
        let objects = if self.is_managed() { self.send_all(core, now) } else { 0 };
        core.note(Note::Resent { reason: "asked", objects });
        if core.peer.as_ref().is_some_and(|peer| peer.can(DIGEST)) {
            let request = write(&RequestResync { everything: true });
            Self::send_message(core, now, Type::RequestResourceResync, request);
        } else if self.is_autonomous() {
            // Upstream's agent sends whatever has another checksum than the one it is asked about.
            for key in core.store.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>() {
                let request =
                    RequestUpdate { checksum: Checksum(None), ..self.request_update(&key, core.store.get(&key)) };
                Self::send_message(core, now, Type::RequestUpdate, write(&request));
            }
        }
    }

    /// Both sides are to compare, now: our own agent answers with its digest.
    pub(super) fn compare_now(&mut self, core: &mut Core, now: Now) {
        if !self.everything_due && core.peer.as_ref().is_some_and(|peer| peer.can(DIGEST)) {
            Self::send_message(core, now, Type::RequestResourceResync, Bytes::from_static(b"{}"));
        }
        self.greet(core, now, true);
    }

    fn greet_managed(&mut self, core: &mut Core, now: Now) {
        let all: Vec<(Key, Object)> = core.store.iter().map(|(key, object)| (key.clone(), object.clone())).collect();
        for (key, object) in all.iter().filter(|(key, _)| key.kind != Kind::Application) {
            self.send_object(core, now, key, object, Type::SpecUpdate);
        }
        // It answers with what it has, which finds what should be gone; the list finds what it lacks.
        Self::send_message(core, now, Type::RequestResourceResync, Bytes::from_static(b"{}"));
        for (key, object) in all.iter().filter(|(key, _)| key.kind == Kind::Application) {
            Self::send_synced(core, now, key, object);
        }
    }

    fn greet_autonomous(&mut self, core: &mut Core, now: Now) {
        self.request_updates(core, now);
        let checksum = Checksum(checksum::list_checksum(core.store.iter().map(inventory_line)).map(Vec::from));
        Self::send_message(core, now, Type::RequestSyncedResourceList, write(&RequestList { checksum }));
    }

    fn request_updates(&mut self, core: &mut Core, now: Now) {
        let mirrors = core.store.iter().chain(self.missing_mirrors(core));
        let mirrors: Vec<(Key, Object)> = mirrors.map(|(key, object)| (key.clone(), object.clone())).collect();
        for (key, object) in mirrors {
            let request = self.request_update(&key, Some(&object));
            Self::send_message(core, now, Type::RequestUpdate, write(&request));
        }
    }

    /// Asks the agent whether a mirror is as it should be.
    pub(super) fn ask_for(&self, core: &mut Core, now: Now, key: &Key) {
        let request = self.request_update(key, core.store.get(key));
        Self::send_message(core, now, Type::RequestUpdate, write(&request));
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
        let project = mirror["spec"]["project"].as_str();
        match (kind, project) {
            (Kind::Application, Some(project)) => {
                let mut source = json!({"spec": mirror["spec"]});
                source["spec"]["project"] = Value::from(mapping::unprefixed_project(&self.agent.name, project));
                checksum::spec_checksum(kind, &source).ok()
            }
            _ => checksum::spec_checksum(kind, mirror).ok(),
        }
    }

    fn send_synced(core: &mut Core, now: Now, key: &Key, object: &Object) {
        let item = SyncedResource {
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            uid: object::origin_uid(object).to_owned(),
            kind: key.kind.name().to_owned(),
        };
        Self::send_message(core, now, Type::ResponseSyncedResource, write(&item));
    }

    /// Operations that are not over travel again; whoever has them already skips them.
    fn resend_operations(&mut self, core: &mut Core, now: Now) {
        let apps = core.store.iter().filter(|(key, _)| key.kind == Kind::Application);
        let pending: Vec<(Key, Object)> = apps
            .filter(|(_, object)| mapping::pending_operation(object) != Pending::None && !mapping::is_running(object))
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, object) in pending {
            if !core.outbox.is_waiting_for(&Lane::of(&key), &Type::SetOperation) {
                operation_changed(core, &key, &object);
                self.send_operation(core, now, &key);
            }
        }
        let ending: Vec<(Key, Object)> = core
            .store
            .iter()
            .filter(|(key, object)| key.kind == Kind::Application && mapping::is_terminating(object))
            .filter(|(key, _)| !core.outbox.is_waiting_for(&Lane::of(key), &Type::TerminateOperation))
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, object) in ending {
            self.send_terminate(core, now, &key, &object);
        }
    }

    pub(super) fn compare_message(&mut self, core: &mut Core, now: Now, event: &Event) -> Result<(), Refusal> {
        match (self.agent.mode, &event.kind) {
            (Mode::Managed, Type::RequestUpdate) => {
                let request: RequestUpdate = read(&event.data)?;
                self.update_requested(core, now, &request)
            }
            (Mode::Managed, Type::RequestSyncedResourceList) => {
                let request: RequestList = read(&event.data)?;
                Self::list_requested(core, now, &request);
                Ok(())
            }
            (Mode::Autonomous, Type::ResponseSyncedResource) => {
                let item: SyncedResource = read(&event.data)?;
                let key = self.named(&item.kind, &item.namespace, &item.name)?;
                self.ask_for(core, now, &key);
                Ok(())
            }
            (Mode::Autonomous, Type::RequestResourceResync) => {
                self.request_updates(core, now);
                Ok(())
            }
            (_, Type::Digest) => {
                let theirs: Digest = read(&event.data)?;
                self.digest_received(core, now, &theirs);
                Ok(())
            }
            (_, Type::Troubles) => {
                let report: Report = read(&event.data)?;
                core.tell(Whose::Agent, report.bounded());
                Ok(())
            }
            (_, kind) => Err(Refusal::new(Reason::WrongMode, format!("{} goes the other way", kind.as_str()))),
        }
    }

    /// The hub's key of something the agent names.
    fn named(&self, kind: &str, namespace: &str, name: &str) -> Result<Key, Refusal> {
        let key = Key { kind: resync::kind(kind)?, namespace: namespace.to_owned(), name: name.to_owned() };
        mapping::hub_key(&self.side, &self.agent, &key, false)
    }

    fn update_requested(&mut self, core: &mut Core, now: Now, request: &RequestUpdate) -> Result<(), Refusal> {
        let key = self.named(&request.kind, &request.namespace, &request.name)?;
        let Some(object) = core.store.get(&key).cloned() else {
            self.send_orphan_delete(core, now, &key, &request.uid);
            return Ok(());
        };
        let ours = checksum::spec_checksum(key.kind, &object).ok();
        let same = ours.is_some_and(|ours| request.checksum.0.as_deref() == Some(ours.as_slice()));
        // What is being deleted is in no checksum, and an agent that lacks an object has lost its operation too.
        if !same || request.uid != object::origin_uid(&object) || object::is_deleting(&object) {
            self.send_object(core, now, &key, &object, Type::SpecUpdate);
        }
        if request.uid.is_empty() && !core.outbox.is_waiting_for(&Lane::of(&key), &Type::SetOperation) {
            self.send_operation(core, now, &key);
        }
        Ok(())
    }

    fn list_requested(core: &mut Core, now: Now, request: &RequestList) {
        let ours = checksum::list_checksum(core.store.iter().map(inventory_line)).map(Vec::from);
        if core.store.is_empty() || request.checksum.0 == ours {
            return;
        }
        let all: Vec<(Key, Object)> = core.store.iter().map(|(key, object)| (key.clone(), object.clone())).collect();
        for (key, object) in all {
            Self::send_synced(core, now, &key, &object);
        }
    }

    fn digest_received(&mut self, core: &mut Core, now: Now, theirs: &Digest) {
        let ours = self.inventory(core);
        if theirs.digest.0.as_deref() == Some(ours.digest().as_slice()) {
            return;
        }
        core.note(Note::Compare { reason: "digest" });
        for message in ours.messages(&theirs.digest) {
            Self::send_message(core, now, Type::DigestItems, write::<DigestItems>(&message));
        }
        self.resend_operations(core, now);
    }

    /// Mirrors that someone deleted and that are about to be made again.
    fn missing_mirrors<'a>(&'a self, core: &'a Core) -> impl Iterator<Item = (&'a Key, &'a Object)> {
        self.mirrors.iter().filter(|(key, _)| core.store.get(key).is_none())
    }

    /// Whether the agent has it too. People may put Applications of their own beside an autonomous agent's mirrors.
    fn is_shared(&self, key: &Key, object: &Object) -> bool {
        self.is_managed() || object::source_uid(object).is_some() || self.mirrors.contains_key(key)
    }

    fn inventory(&self, core: &Core) -> Inventory {
        let mut inventory = Inventory::with(core.peer.as_ref());
        let all = core.store.iter().filter(|(key, object)| self.is_shared(key, object));
        for (key, object) in all.chain(self.missing_mirrors(core)) {
            let namespace = match (key.kind, self.side.placement) {
                (Kind::Application, Placement::Destination) if self.is_managed() => key.namespace.clone(),
                _ => String::new(),
            };
            let is_ending = self.is_managed() && object::is_deleting(object);
            inventory.add(key.kind, namespace, &key.name, object, is_ending);
        }
        inventory
    }
}

/// What upstream's checksum over a list is made of.
fn inventory_line<'a>((key, object): (&'a Key, &'a Object)) -> Item<'a> {
    Item { kind: key.kind.name(), name: &key.name, uid: object::origin_uid(object) }
}
