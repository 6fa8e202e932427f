//! The agent compares what it has with what its hub has.

use bytes::Bytes;
use thane_api::event::{Event, Type};

use super::{Agent, is_copy};
use crate::checksum::{self, Item};
use crate::lane::Lane;
use crate::link::{self, Core, Note};
use crate::mapping::{self, Mode, Placement, Reason, Refusal};
use crate::object::{self, Key, Kind, Object};
use crate::resync::{
    self, Checksum, DIGEST, Digest, DigestItem, DigestItems, Inventory, RequestList, RequestResync, RequestUpdate,
    SyncedResource, read, write,
};
use crate::time::Now;

impl Agent {
    /// The hub is there. To our own the agent sends one digest, whatever happened before.
    pub(super) fn greet(&mut self, core: &mut Core, now: Now, fresh: bool) {
        // The hub has forgotten what an earlier stream told.
        let report = core.report();
        if report.count > 0 {
            Self::send_troubles(core, now, &report);
        }
        if core.peer.as_ref().is_some_and(|peer| peer.can(DIGEST)) {
            return self.send_digest(core, now);
        }
        if !fresh {
            return;
        }
        core.note(Note::Compare { reason: "start" });
        match self.side.mode {
            Mode::Managed => {
                self.request_updates(core, now);
                let checksum = Checksum(checksum::list_checksum(own_lines(self, core)).map(Vec::from));
                Self::send_message(core, now, Type::RequestSyncedResourceList, write(&RequestList { checksum }));
                self.tell_status(core, now);
            }
            Mode::Autonomous => {
                Self::send_message(core, now, Type::RequestResourceResync, Bytes::from_static(b"{}"));
                // Upstream's hub asks only about what it has; what it lacks must be sent.
                for (key, object) in self.own(core) {
                    Self::send_source(core, now, &key, &object, Type::Create);
                }
            }
        }
    }

    /// The hub was asked to have everything sent again. What is left then is found when it has arrived.
    fn send_everything(&self, core: &mut Core, now: Now) {
        let own = self.own(core);
        let is_sent = |key: &Key| key.kind == Kind::Application || self.side.mode == Mode::Autonomous;
        let objects = own.iter().filter(|(key, _)| is_sent(key)).count();
        core.note(Note::Resent { reason: "asked", objects });
        match self.side.mode {
            Mode::Managed => self.tell_status(core, now),
            Mode::Autonomous => {
                for (key, object) in own {
                    Self::send_source(core, now, &key, &object, Type::Create);
                }
            }
        }
        core.compare_soon(now);
    }

    fn tell_status(&self, core: &mut Core, now: Now) {
        for (key, object) in self.own(core) {
            // One that is about to be made again tells how it is when it is there.
            if key.kind == Kind::Application && core.store.get(&key).is_some() {
                Self::send_status(core, now, &key, &object);
            }
        }
    }

    /// What the agent and its hub have in common: copies, or the agent's own objects.
    fn own(&self, core: &Core) -> Vec<(Key, Object)> {
        let all = core.store.iter().filter(|(key, object)| self.is_shared(key, object));
        let all = all.chain(self.missing_copies(core));
        all.map(|(key, object)| (key.clone(), object.clone())).collect()
    }

    /// Copies that someone deleted and that are about to be made again.
    fn missing_copies<'a>(&'a self, core: &'a Core) -> impl Iterator<Item = (&'a Key, &'a Object)> {
        self.copies.iter().filter(|(key, _)| core.store.get(key).is_none() && !self.ending.contains(*key))
    }

    fn is_shared(&self, key: &Key, object: &Object) -> bool {
        match self.side.mode {
            Mode::Managed => is_copy(object),
            Mode::Autonomous => {
                key.kind != Kind::Repository && key.namespace == self.side.namespace && !object::is_ignored(object)
            }
        }
    }

    fn request_updates(&mut self, core: &mut Core, now: Now) {
        for (key, object) in self.own(core) {
            let request = self.request_update(&key, &object);
            Self::send_message(core, now, Type::RequestUpdate, write(&request));
        }
    }

    /// Asks the hub whether a copy is as it should be.
    pub(super) fn ask_for(&self, core: &mut Core, now: Now, key: &Key) {
        let request = match core.store.get(key) {
            Some(object) if is_copy(object) => self.request_update(key, object),
            _ => {
                let Key { kind, namespace, name } = key.clone();
                let kind = kind.name().to_owned();
                RequestUpdate { name, namespace, kind, uid: String::new(), checksum: Checksum(None) }
            }
        };
        Self::send_message(core, now, Type::RequestUpdate, write(&request));
    }

    fn request_update(&self, key: &Key, object: &Object) -> RequestUpdate {
        RequestUpdate {
            name: key.name.clone(),
            namespace: mapping::reported_key(&self.side, key.kind, object).namespace,
            uid: object::origin_uid(object).to_owned(),
            kind: key.kind.name().to_owned(),
            checksum: Checksum(checksum::spec_checksum(key.kind, object).ok().map(Vec::from)),
        }
    }

    pub(super) fn compare_message(&mut self, core: &mut Core, now: Now, event: &Event) -> Result<(), Refusal> {
        match (self.side.mode, &event.kind) {
            (_, Type::RequestResourceResync) if core.peer.as_ref().is_some_and(|peer| peer.can(DIGEST)) => {
                let request: RequestResync = read(&event.data)?;
                if request.everything {
                    self.send_everything(core, now);
                } else {
                    self.send_digest(core, now);
                }
                Ok(())
            }
            (Mode::Managed, Type::RequestResourceResync) => {
                self.request_updates(core, now);
                Ok(())
            }
            (Mode::Managed, Type::ResponseSyncedResource) => {
                let item: SyncedResource = read(&event.data)?;
                self.synced_listed(core, now, item)
            }
            (Mode::Autonomous, Type::RequestSyncedResourceList) => {
                let request: RequestList = read(&event.data)?;
                self.list_requested(core, now, &request);
                Ok(())
            }
            (Mode::Autonomous, Type::RequestUpdate) => {
                let request: RequestUpdate = read(&event.data)?;
                self.update_requested(core, now, &request)
            }
            (_, Type::DigestItems) => {
                let message: DigestItems = read(&event.data)?;
                self.items_received(core, now, message);
                Ok(())
            }
            (_, kind) => Err(Refusal::new(Reason::WrongMode, format!("{} goes the other way", kind.as_str()))),
        }
    }

    /// The agent's key of something the hub names.
    fn named(&self, kind: &str, namespace: &str, name: &str) -> Result<Key, Refusal> {
        let key = Key { kind: resync::kind(kind)?, namespace: namespace.to_owned(), name: name.to_owned() };
        mapping::agent_key(&self.side, &key)
    }

    fn synced_listed(&mut self, core: &mut Core, now: Now, item: SyncedResource) -> Result<(), Refusal> {
        let key = self.named(&item.kind, &item.namespace, &item.name)?;
        let request = match core.store.get(&key) {
            // An object of our own that only has the same name: the hub's sending decides what becomes of it.
            Some(object) if is_copy(object) => self.request_update(&key, object),
            _ => {
                let SyncedResource { name, namespace, kind, .. } = item;
                RequestUpdate { name, namespace, kind, uid: String::new(), checksum: Checksum(None) }
            }
        };
        Self::send_message(core, now, Type::RequestUpdate, write(&request));
        Ok(())
    }

    fn list_requested(&mut self, core: &mut Core, now: Now, request: &RequestList) {
        let ours = checksum::list_checksum(own_lines(self, core)).map(Vec::from);
        if request.checksum.0 == ours {
            return;
        }
        for (key, object) in self.own(core) {
            let item = SyncedResource {
                name: key.name.clone(),
                namespace: key.namespace.clone(),
                uid: object::uid(&object).to_owned(),
                kind: key.kind.name().to_owned(),
            };
            Self::send_message(core, now, Type::ResponseSyncedResource, write(&item));
        }
    }

    fn update_requested(&mut self, core: &mut Core, now: Now, request: &RequestUpdate) -> Result<(), Refusal> {
        let key = self.named(&request.kind, &request.namespace, &request.name)?;
        let Some(object) = core.store.get(&key).filter(|object| self.is_shared(&key, object)).cloned() else {
            self.send_gone(core, now, &key, &mapping::deletion_of(&key, &request.uid));
            return Ok(());
        };
        let ours = checksum::spec_checksum(key.kind, &object).ok().map(Vec::from);
        if request.uid.is_empty() || request.uid != object::uid(&object) {
            // Upstream's hub takes an update only of what it has.
            Self::send_source(core, now, &key, &object, Type::Create);
        } else if ours != request.checksum.0 {
            Self::send_source(core, now, &key, &object, Type::SpecUpdate);
        }
        Ok(())
    }

    /// One message, whatever the size: if the hub has the same, nothing else is said.
    pub(super) fn send_digest(&mut self, core: &mut Core, now: Now) {
        if !core.peer.as_ref().is_some_and(|peer| peer.can(DIGEST)) {
            return;
        }
        let lane = Lane::new("_/digest");
        if core.outbox.is_lane_busy(&lane) {
            return core.compare_soon(now);
        }
        let inventory = self.inventory(core);
        let digest = Checksum(Some(inventory.digest().to_vec()));
        let message = Digest { digest, count: inventory.items.len() };
        self.items.clear();
        self.round = Some(message.digest.clone());
        let id = core.unique();
        core.push(now, link::message(id, lane, Type::Digest, write(&message)));
    }

    /// What the hub should have, by its names there.
    fn inventory(&self, core: &Core) -> Inventory {
        let mut inventory = Inventory::with(core.peer.as_ref());
        let all = core.store.iter().filter(|(key, object)| self.is_shared(key, object));
        for (key, object) in all.chain(self.missing_copies(core)) {
            match self.side.mode {
                Mode::Managed => {
                    let namespace = match (key.kind, self.side.placement) {
                        (Kind::Application, Placement::Destination) => {
                            mapping::reported_key(&self.side, key.kind, object).namespace
                        }
                        _ => String::new(),
                    };
                    inventory.add(key.kind, namespace, &key.name, object, object::is_deleting(object));
                }
                Mode::Autonomous => {
                    // What cannot be mirrored the hub does not have either.
                    if let Ok(mirror) = self.mirrored(key.kind, object) {
                        inventory.add(key.kind, String::new(), object::name(&mirror), &mirror, false);
                    }
                }
            }
        }
        inventory
    }

    fn mirrored(&self, kind: Kind, object: &Object) -> Result<serde_json::Value, Refusal> {
        match kind {
            Kind::Application => mapping::mirrored_application(&self.side.name, object),
            Kind::AppProject | Kind::Repository => mapping::mirrored_project(&self.side.name, object),
        }
    }

    fn items_received(&mut self, core: &mut Core, now: Now, message: DigestItems) {
        // Parts of an earlier answer say nothing about how things are now.
        if self.round.as_ref() != Some(&message.round) {
            return;
        }
        // A sender that never ends would fill our memory.
        if self.items.len() + message.items.len() > ITEMS_TOTAL_MAX {
            self.items.clear();
            return;
        }
        self.items.extend(message.items);
        if !message.more {
            let items = std::mem::take(&mut self.items);
            self.settle_differences(core, now, &items);
        }
    }

    fn settle_differences(&mut self, core: &mut Core, now: Now, theirs: &[DigestItem]) {
        let ours = self.inventory(core);
        let total = ours.items.len().max(theirs.len());
        let theirs: std::collections::BTreeMap<_, _> =
            theirs.iter().map(|item| ((item.kind.clone(), item.namespace.clone(), item.name.clone()), item)).collect();
        let differs = |key: &(String, String, String)| match (ours.items.get(key), theirs.get(key)) {
            (Some(entry), Some(item)) => !entry.same_spec(item) || !entry.same_status(item),
            _ => true,
        };
        let keys: std::collections::BTreeSet<_> = ours.items.keys().chain(theirs.keys()).cloned().collect();
        let differing = keys.iter().filter(|key| differs(key)).count();
        core.note(Note::Drift { differing, of: total });
        let everything = differing * 100 >= total * usize::from(core.options().drift_percent) && differing > 1;
        // What differs goes first: if there is no room for more, the next comparison finds less.
        if everything {
            core.note(Note::Resent { reason: "drift", objects: keys.len() });
        }
        let (first, rest): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| differs(key));
        for key in first.into_iter().chain(rest.into_iter().filter(|_| everything)) {
            let (ours, theirs) = (ours.items.get(&key), theirs.get(&key).copied());
            match self.side.mode {
                Mode::Managed => self.settle_copy(core, now, &key, ours.zip(theirs), everything),
                Mode::Autonomous => self.settle_source(core, now, &key, theirs),
            }
        }
    }

    /// Asks for what the hub decides, and tells what the agent has seen.
    fn settle_copy(
        &mut self,
        core: &mut Core,
        now: Now,
        (kind, namespace, name): &(String, String, String),
        both: Option<(&crate::resync::Entry, &DigestItem)>,
        everything: bool,
    ) {
        let Ok(key) = self.named(kind, namespace, name) else { return };
        let existing = core.store.get(&key).filter(|object| is_copy(object)).cloned();
        let same_spec = both.is_some_and(|(entry, item)| entry.same_spec(item));
        if !same_spec || everything {
            let request = RequestUpdate {
                name: name.clone(),
                namespace: namespace.clone(),
                uid: existing.as_ref().map(|object| object::origin_uid(object).to_owned()).unwrap_or_default(),
                kind: kind.clone(),
                checksum: Checksum(None),
            };
            Self::send_message(core, now, Type::RequestUpdate, write(&request));
        }
        let same_status = both.is_some_and(|(entry, item)| entry.same_status(item));
        if let Some(object) = existing
            && key.kind == Kind::Application
            && (!same_status || everything)
        {
            Self::send_status(core, now, &key, &object);
        }
    }

    /// Sends what the hub lacks or has otherwise, and the end of what it has too much.
    fn settle_source(
        &mut self,
        core: &mut Core,
        now: Now,
        (kind, _, name): &(String, String, String),
        theirs: Option<&DigestItem>,
    ) {
        let Ok(key) = self.named(kind, "", name) else { return };
        match core.store.get(&key).filter(|object| self.is_shared(&key, object)).cloned() {
            Some(object) => Self::send_source(core, now, &key, &object, Type::Create),
            None => {
                let uid = theirs.map_or("", |item| item.uid.as_str());
                self.send_gone(core, now, &key, &mapping::deletion_of(&key, uid));
            }
        }
    }
}

/// Objects that a comparison may be about.
const ITEMS_TOTAL_MAX: usize = 1_000_000;

/// What upstream's checksum over a list is made of.
fn own_lines<'a>(agent: &'a Agent, core: &'a Core) -> impl Iterator<Item = Item<'a>> {
    let own = core.store.iter().filter(|(key, object)| agent.is_shared(key, object));
    own.map(|(key, object)| Item { kind: key.kind.name(), name: &key.name, uid: object::origin_uid(object) })
}
