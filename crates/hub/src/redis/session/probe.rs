//! Whether the hub's Redis lets a client ask: agents are asked only about what it would have been told there.

use bytes::{Bytes, BytesMut};
use thane_redis::reply::Beginning;
use thane_redis::{Malformed, write};

use super::{Answer, Due, Effect, Question, Session, forget};

/// Bytes of a refusal.
const REFUSAL_MAX: usize = 4 * 1024;

/// A question to an agent that the hub's Redis is asked before.
#[derive(Debug)]
pub(super) struct Probe {
    /// Replies of the hub's Redis that are still to come.
    replies: usize,
    /// Whether these are confirmations.
    pub(super) confirms: bool,
    /// Whether the second of them is that the channel was left again.
    leaves: bool,
    /// What is asked once they have come, and whom.
    question: Option<(String, Question)>,
}

impl Probe {
    pub(super) fn is_over(&self) -> bool {
        self.replies == 0
    }
}

impl Session {
    /// Puts a question to the hub's Redis first: the same command, as the same client.
    pub(super) fn ask(&mut self, agent: String, question: Question, channel: Option<Bytes>, raw: Bytes) {
        let ticket = self.tickets;
        self.tickets += 1;
        self.asks += 1;
        let (mut replies, confirms, mut leaves) = (1, channel.is_some(), false);
        self.effects.push(Effect::ToUpstream(raw));
        if let Some(channel) = &channel {
            // A channel that is the hub's own as well stays taken there.
            let is_taken = self.upstream.get("subscribe").is_some_and(|names| names.contains(channel));
            if !is_taken {
                (replies, leaves) = (2, true);
                self.effects.push(Effect::ToUpstream(write::command(&[&b"UNSUBSCRIBE"[..], channel])));
            }
        }
        let probe = Probe { replies, confirms, leaves, question: Some((agent, question)) };
        self.due.push_back(Due::Agent { ticket, channel, probe, answer: None });
    }

    /// The place of what the next reply of the hub's Redis is for.
    pub(super) fn awaiting(&self) -> Option<usize> {
        self.due.iter().position(|due| match due {
            Due::Upstream(_) => true,
            Due::Agent { probe, .. } => !probe.is_over(),
            Due::Known(_) => false,
        })
    }

    /// Whether the next reply of the hub's Redis is one that nobody is told.
    pub(super) fn is_probe_next(&self) -> bool {
        self.awaiting().is_some_and(|at| matches!(self.due[at], Due::Agent { .. }))
    }

    /// A reply to a probe has come whole; an error with what it said. Whatever it is, the client would have got it there.
    pub(super) fn probed(&mut self, begins: Beginning, error: Option<BytesMut>) -> Result<(), Malformed> {
        let Some(at) = self.awaiting() else { return Ok(()) };
        let Due::Agent { ticket, channel, probe, answer } = &mut self.due[at] else { return Ok(()) };
        probe.replies -= 1;
        if let (Beginning::Confirmation, Some(channel)) = (begins, &channel) {
            let taken = self.confirmed.entry("subscribe").or_default();
            if probe.leaves && probe.replies == 0 {
                taken.remove(channel);
            } else {
                taken.insert(channel.clone());
            }
        }
        if let Some(said) = error
            && probe.question.take().is_some()
        {
            if said.len() > REFUSAL_MAX {
                return Err(Malformed::Size);
            }
            if let Some(channel) = channel {
                forget(&mut self.channels, channel, *ticket);
            }
            *answer = Some(Answer::Forbidden(said.freeze()));
            self.asks -= 1;
        }
        if !probe.is_over() {
            return Ok(());
        }
        let Some((agent, question)) = probe.question.take() else { return Ok(()) };
        let is_left = channel
            .as_ref()
            .is_some_and(|channel| self.channels.get(channel).is_none_or(|taken| taken.ticket != *ticket));
        if is_left {
            // Commands are still answered one by one; nobody has to be asked any more.
            *answer = Some(Answer::Subscribed);
            self.asks -= 1;
        } else {
            self.effects.push(Effect::Ask(*ticket, agent, question));
        }
        Ok(())
    }
}

/// Bytes of an error that are kept; more is none that is passed on.
pub(super) fn keep(error: &mut BytesMut, more: &[u8]) {
    let room = (REFUSAL_MAX + 1).saturating_sub(error.len());
    error.extend_from_slice(&more[..more.len().min(room)]);
}
