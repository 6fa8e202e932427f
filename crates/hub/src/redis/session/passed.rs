//! Replies of the hub's Redis: passed on as they come, or, for a probe, kept from the client.

use bytes::BytesMut;
use thane_redis::reply::{Beginning, beginning};
use thane_redis::{Malformed, Protocol};

use super::{Due, Effect, Session, probe};

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
                Fate::Probed(error) => self.probed(error)?,
            }
        }
        Ok(true)
    }

    /// What the reply is whose beginning has come; none if that is too little to tell.
    fn begun(&self) -> Option<UnderWay> {
        let listens = self.confirmations > 0 || self.upstream.values().any(|names| !names.is_empty());
        let begins = beginning(&self.held, listens && self.protocol == Protocol::Resp2)?;
        let due = self.awaiting().and_then(|at| self.due.get(at));
        let confirms = match due {
            Some(Due::Upstream(awaited)) => awaited.confirmations > 0,
            Some(Due::Agent { probe, .. }) => probe.confirms,
            Some(Due::Known(_)) | None => false,
        };
        let is_awaited = match begins {
            Beginning::Unasked => false,
            Beginning::Confirmation => confirms || self.protocol == Protocol::Resp2,
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
        if begins == Beginning::Confirmation && awaited.confirmations > 1 {
            awaited.confirmations -= 1;
            return;
        }
        self.confirmations -= usize::from(awaited.confirmations > 0);
        if begins != Beginning::Error
            && let Some(protocol) = awaited.protocol
        {
            self.protocol = protocol;
        }
        self.due.pop_front();
    }
}
