//! Commands that are looked into: those about agents' keys and channels, and those that change what replies look like.

use std::collections::BTreeSet;

use bytes::Bytes;
use thane_redis::{Protocol, write};

use super::{Awaited, Change, Channel, Due, Effect, Known, Question, Session};

/// Commands after which there is not one reply for each command any more.
const PIPES: [&[u8]; 4] = [b"monitor", b"sync", b"psync", b"replconf"];
const OTHERS: [&[u8]; 14] = [
    b"get",
    b"subscribe",
    b"unsubscribe",
    b"psubscribe",
    b"punsubscribe",
    b"ssubscribe",
    b"sunsubscribe",
    b"hello",
    b"multi",
    b"exec",
    b"discard",
    b"reset",
    b"ping",
    b"client",
];

/// Whether a command is looked into.
pub(super) fn is_of_interest(name: &[u8]) -> bool {
    PIPES.contains(&name) || OTHERS.contains(&name)
}

impl Session {
    /// A command that is looked into.
    pub(super) fn asked(&mut self, words: &[Bytes], raw: Bytes) {
        let Some((name, rest)) = words.split_first() else { return };
        let name = name.to_ascii_lowercase();
        match (&name[..], rest) {
            (b"exec", _) | (b"discard", []) => {
                self.in_transaction = false;
                self.forward(raw, Awaited::default());
            }
            (b"reset", _) => self.reset(raw),
            // What is queued for a transaction is answered by it.
            (b"get" | b"ping" | b"multi" | b"discard", _) if self.in_transaction => {
                self.forward(raw, Awaited::default());
            }
            (b"client", [what, ..]) if self.in_transaction && !what.eq_ignore_ascii_case(b"reply") => {
                self.forward(raw, Awaited::default());
            }
            // Within an answer, what Redis says to these is not what it says otherwise.
            _ if self.in_transaction => self.become_pipe(raw),
            (b"get", [key]) => match self.agent_of(key) {
                Some((agent, key)) => self.ask(agent, Question::Get(key), None, raw),
                None => self.forward(raw, Awaited::default()),
            },
            (b"subscribe", channels) => self.subscribe(channels, raw),
            (b"unsubscribe", channels) => self.unsubscribe(channels, raw),
            (b"psubscribe", patterns) => self.take_upstream("psubscribe", patterns, raw),
            (b"ssubscribe", channels) => self.take_upstream("ssubscribe", channels, raw),
            (b"punsubscribe", patterns) => self.leave_upstream("psubscribe", patterns, raw),
            (b"sunsubscribe", channels) => self.leave_upstream("ssubscribe", channels, raw),
            (b"hello", [version, ..]) => {
                let protocol = if &version[..] == b"3" { Protocol::Resp3 } else { Protocol::Resp2 };
                self.forward(raw, Awaited { protocol: Some(protocol), ..Awaited::default() });
            }
            (b"ping", content) if self.listens_to_agents_alone() => {
                let content = content.first().cloned().unwrap_or_default();
                self.due.push_back(Due::Known(Known::Pong(content)));
            }
            (b"client", [what, ..]) if what.eq_ignore_ascii_case(b"reply") => self.become_pipe(raw),
            (pipe, _) if PIPES.contains(&pipe) => self.become_pipe(raw),
            (other, _) => {
                self.in_transaction = other == b"multi";
                self.forward(raw, Awaited::default());
            }
        }
    }

    /// The agent that has that key or channel, and its name as text.
    fn agent_of(&self, name: &Bytes) -> Option<(String, String)> {
        let name = std::str::from_utf8(name).ok()?;
        Some((self.owners.agent_of(name)?, name.to_owned()))
    }

    /// Channels of agents are taken one by one; the others as they came, if they are all the hub's.
    fn subscribe(&mut self, channels: &[Bytes], raw: Bytes) {
        if channels.iter().all(|channel| self.agent_of(channel).is_none()) {
            return self.take_upstream("subscribe", channels, raw);
        }
        for channel in channels {
            match self.agent_of(channel) {
                Some((agent, name)) => self.listen(agent, name, channel),
                None => {
                    let raw = write::command(&[&b"SUBSCRIBE"[..], channel]);
                    self.take_upstream("subscribe", std::slice::from_ref(channel), raw);
                }
            }
        }
    }

    fn listen(&mut self, agent: String, name: String, channel: &Bytes) {
        if self.channels.contains_key(channel) {
            self.due.push_back(Due::Known(Known::Subscribed(channel.clone())));
        } else if self.channels.len() >= self.bounds.channels_max {
            let why = "too many channels of agents on this connection".to_owned();
            self.due.push_back(Due::Known(Known::Error("ERR", why)));
        } else {
            let taken = Channel { ticket: self.tickets, is_confirmed: false, has_message: false };
            self.channels.insert(channel.clone(), taken);
            let raw = write::command(&[&b"SUBSCRIBE"[..], channel]);
            self.ask(agent, Question::Subscribe(name), Some(channel.clone()), raw);
        }
    }

    fn unsubscribe(&mut self, channels: &[Bytes], raw: Bytes) {
        if channels.is_empty() {
            let ours: Vec<Bytes> = self.channels.keys().cloned().collect();
            let any_upstream = self.upstream.get("subscribe").is_some_and(|names| !names.is_empty());
            for channel in &ours {
                self.leave(channel);
            }
            if ours.is_empty() || any_upstream {
                self.leave_upstream("subscribe", channels, raw);
            }
        } else if channels.iter().any(|channel| self.channels.contains_key(channel)) {
            for channel in channels {
                if self.channels.contains_key(channel) {
                    self.leave(channel);
                } else {
                    let raw = write::command(&[&b"UNSUBSCRIBE"[..], channel]);
                    self.leave_upstream("subscribe", std::slice::from_ref(channel), raw);
                }
            }
        } else {
            self.leave_upstream("subscribe", channels, raw);
        }
    }

    fn leave(&mut self, channel: &Bytes) {
        self.channels.remove(channel);
        self.due.push_back(Due::Known(Known::Unsubscribed(channel.clone())));
        self.effects.push(Effect::Left(String::from_utf8_lossy(channel).into_owned()));
    }

    fn take_upstream(&mut self, word: &'static str, names: &[Bytes], raw: Bytes) {
        self.upstream.entry(word).or_default().extend(names.iter().cloned());
        self.change(word, true, names, raw);
    }

    /// Without names, all are left, and each is confirmed.
    fn leave_upstream(&mut self, word: &'static str, names: &[Bytes], raw: Bytes) {
        let taken = self.upstream.entry(word).or_default();
        if names.is_empty() {
            taken.clear();
        } else {
            taken.retain(|name| !names.contains(name));
        }
        self.change(word, false, names, raw);
    }

    fn change(&mut self, word: &'static str, takes: bool, names: &[Bytes], raw: Bytes) {
        let change = Change { word, takes, names: names.to_vec(), left: None };
        self.forward(raw, Awaited { change: Some(change), ..Awaited::default() });
    }

    fn listens_to_agents_alone(&self) -> bool {
        let upstream = self.upstream.values().any(|names| !names.is_empty());
        self.protocol == Protocol::Resp2 && !self.channels.is_empty() && !upstream
    }

    fn reset(&mut self, raw: Bytes) {
        self.in_transaction = false;
        self.upstream.clear();
        let ours: BTreeSet<Bytes> = std::mem::take(&mut self.channels).into_keys().collect();
        for channel in ours {
            self.effects.push(Effect::Left(String::from_utf8_lossy(&channel).into_owned()));
        }
        self.forward(raw, Awaited { protocol: Some(Protocol::Resp2), resets: true, ..Awaited::default() });
    }

    fn become_pipe(&mut self, raw: Bytes) {
        self.is_pipe = true;
        self.effects.push(Effect::ToUpstream(raw));
    }
}
