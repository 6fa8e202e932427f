//! Replies of the hub's Redis: passed on as they come, or, for a probe, kept from the client.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use thane_redis::reply::{Beginning, beginning};
use thane_redis::{Malformed, Protocol};

use super::{Change, Due, Effect, Session, probe};

/// A reply of the hub's Redis of which not all has come.
#[derive(Debug)]
pub(super) struct UnderWay {
    begins: Beginning,
    fate: Fate,
}

#[derive(Debug)]
enum Fate {
    /// It goes to the client, and nobody waits for it.
    Unasked,
    /// It goes to the client, who waits for it.
    Awaited,
    /// It answers a probe; of an error is kept what it says.
    Probed(Option<BytesMut>),
}

impl Session {
    /// Passes on what the hub's Redis has said, up to the end of one reply; whether one has ended.
    pub(super) fn pass(&mut self) -> Result<bool, Malformed> {
        if self.held.is_empty() {
            return Ok(false);
        }
        if self.is_pipe && self.due.is_empty() && !self.scanner.is_within() {
            self.effects.push(Effect::ToClient(self.held.split().freeze()));
            return Ok(false);
        }
        if self.under_way.is_none() {
            let Some(under_way) = self.begun() else { return Ok(false) };
            self.under_way = Some(under_way);
        }
        let scanned = self.scanner.scan(&self.held)?;
        let bytes = self.held.split_to(scanned.used);
        match self.under_way.as_mut().map(|under_way| &mut under_way.fate) {
            Some(Fate::Probed(Some(error))) => probe::keep(error, &bytes),
            Some(Fate::Probed(None)) => {}
            _ => self.effects.push(Effect::ToClient(bytes.freeze())),
        }
        if !scanned.is_whole {
            return Ok(false);
        }
        if let Some(UnderWay { begins, fate }) = self.under_way.take() {
            match fate {
                Fate::Unasked => {}
                Fate::Awaited => self.came(begins),
                Fate::Probed(error) => self.probed(begins, error)?,
            }
        }
        Ok(true)
    }

    /// What the reply is whose beginning has come; none if that is too little to tell.
    fn begun(&self) -> Option<UnderWay> {
        let due = self.awaiting().and_then(|at| self.due.get(at));
        let confirms = match due {
            Some(Due::Upstream(awaited)) => awaited.change.is_some(),
            Some(Due::Agent { probe, .. }) => probe.confirms,
            Some(Due::Known(_)) | None => false,
        };
        // What was refused is not listened to, and its messages are answers to something else.
        let listens = confirms || self.confirmed.values().any(|names| !names.is_empty());
        let begins = beginning(&self.held, listens && self.protocol == Protocol::Resp2)?;
        let is_awaited = match begins {
            Beginning::Unasked => false,
            Beginning::Confirmation => confirms,
            Beginning::Plain | Beginning::Error => true,
        };
        let fate = match due {
            Some(Due::Agent { .. }) if is_awaited => Fate::Probed((begins == Beginning::Error).then(BytesMut::new)),
            Some(Due::Upstream(_)) if is_awaited => Fate::Awaited,
            _ => Fate::Unasked,
        };
        Some(UnderWay { begins, fate })
    }

    /// The reply that was due has come.
    fn came(&mut self, begins: Beginning) {
        let Some(Due::Upstream(awaited)) = self.due.front_mut() else { return };
        if begins == Beginning::Confirmation
            && let Some(change) = &mut awaited.change
            && change.waits_for_more(&self.confirmed)
        {
            return;
        }
        let Some(Due::Upstream(awaited)) = self.due.pop_front() else { return };
        if begins == Beginning::Error {
            if let Some(change) = awaited.change {
                self.refused(&change);
            }
            return;
        }
        if let Some(protocol) = awaited.protocol {
            self.protocol = protocol;
        }
        if awaited.resets {
            self.confirmed.clear();
        }
        if let Some(change) = awaited.change {
            self.done(&change);
        }
    }

    fn done(&mut self, Change { word, takes, names, .. }: &Change) {
        let taken = self.confirmed.entry(*word).or_default();
        match (takes, names.is_empty()) {
            (true, _) => taken.extend(names.iter().cloned()),
            (false, true) => taken.clear(),
            (false, false) => taken.retain(|name| !names.contains(name)),
        }
    }

    /// All of it was: what is listened to is what was before.
    fn refused(&mut self, Change { word, takes, names, .. }: &Change) {
        let (taken, confirmed) = (self.upstream.entry(*word).or_default(), self.confirmed.entry(*word).or_default());
        if *takes {
            taken.retain(|name| !names.contains(name) || confirmed.contains(name));
        } else {
            let is_left = |name: &&Bytes| names.is_empty() || names.contains(name);
            taken.extend(confirmed.iter().filter(is_left).cloned());
        }
    }
}

impl Change {
    /// Whether further confirmations come after this one.
    fn waits_for_more(&mut self, confirmed: &BTreeMap<&'static str, BTreeSet<Bytes>>) -> bool {
        let all = || match self.names.len() {
            0 => confirmed.get(self.word).map_or(0, BTreeSet::len),
            names => names,
        };
        let left = self.left.unwrap_or_else(all).saturating_sub(1);
        self.left = Some(left);
        left > 0
    }
}
