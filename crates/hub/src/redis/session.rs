//! One client's connection, without its sockets: what goes to the hub's Redis, what to agents, and in which order the
//! answers come back.

mod asked;
mod passed;
mod probe;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use thane_redis::command::{Commands, Piece};
use thane_redis::reply::Scanner;
use thane_redis::{Malformed, Protocol, write};

use passed::UnderWay;
use probe::Probe;

/// Says whose application a key is about.
pub trait Owners: Send + Sync {
    /// The agent to ask for that key; none if it is the hub's own.
    fn agent_of(&self, key: &str) -> Option<String>;
}

/// Bounds of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Commands that wait for their answers; more are not read until some have come.
    pub commands_max: usize,
    /// Of those, questions to agents.
    pub asks_max: usize,
    /// Channels of agents it may listen to.
    pub channels_max: usize,
    /// Bytes of answers that wait for their turn; a further answer becomes an error.
    pub held_bytes_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { commands_max: 1_024, asks_max: 16, channels_max: 64, held_bytes_max: 64 * 1024 * 1024 }
    }
}

/// Bytes of a client that wait to be looked at; more are not read, but for a command that must be whole.
const UNREAD_MAX: usize = 64 * 1024;

/// What is asked of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    Get(String),
    Subscribe(String),
}

/// What an agent answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Hit(Bytes),
    Miss,
    Subscribed,
    /// The kind of an error, and why.
    Failed(&'static str, String),
    /// The hub's Redis does not let this client ask, and said so in these bytes.
    Forbidden(Bytes),
}

/// What is to be done outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    ToClient(Bytes),
    ToUpstream(Bytes),
    /// A question to an agent; its answer comes back with the number.
    Ask(u64, String, Question),
    /// A channel is no longer listened to.
    Left(String),
    /// The connection is to be closed once everything is written.
    Close(&'static str),
}

/// A reply that is due, in the order of the commands.
#[derive(Debug)]
enum Due {
    /// The hub's Redis gives it.
    Upstream(Awaited),
    /// An agent gives it, if the hub's Redis lets the client ask.
    Agent { ticket: u64, channel: Option<Bytes>, probe: Probe, answer: Option<Answer> },
    /// It is known.
    Known(Known),
}

#[derive(Debug, Default)]
struct Awaited {
    /// What it confirms about channels; none for any other reply.
    change: Option<Change>,
    /// The protocol that is spoken once it has come.
    protocol: Option<Protocol>,
    /// Nothing is listened to once it has come.
    resets: bool,
}

/// Channels or patterns of the hub's Redis that are taken or left.
#[derive(Debug)]
struct Change {
    /// The word that takes them.
    word: &'static str,
    takes: bool,
    /// Without names, all are left.
    names: Vec<Bytes>,
    /// Confirmations that are still to come, each of one name; known when the first has come.
    left: Option<usize>,
}

#[derive(Debug)]
enum Known {
    Error(&'static str, String),
    Subscribed(Bytes),
    Unsubscribed(Bytes),
    Pong(Bytes),
}

/// A channel of an agent that the client listens to.
#[derive(Debug)]
struct Channel {
    /// The question that took it; an earlier one of the same name was left.
    ticket: u64,
    is_confirmed: bool,
    /// There was a message; it is told as soon as it can be.
    has_message: bool,
}

/// The state of a connection.
pub(super) struct Session {
    bounds: Bounds,
    owners: Arc<dyn Owners>,
    commands: Commands,
    due: VecDeque<Due>,
    /// Questions that agents have not answered.
    asks: usize,
    tickets: u64,
    /// Bytes of answers that wait for their turn.
    held_bytes: usize,
    scanner: Scanner,
    /// The reply of the hub's Redis that is under way.
    under_way: Option<UnderWay>,
    /// Bytes of the hub's Redis that wait for an agent's answer before them.
    held: BytesMut,
    protocol: Protocol,
    in_transaction: bool,
    /// Nothing is looked into any more.
    is_pipe: bool,
    is_closing: bool,
    /// Channels and patterns of the hub's Redis, by the word that takes them, as they will be.
    upstream: BTreeMap<&'static str, BTreeSet<Bytes>>,
    /// The same as the hub's Redis has confirmed it: it may refuse.
    confirmed: BTreeMap<&'static str, BTreeSet<Bytes>>,
    channels: BTreeMap<Bytes, Channel>,
    effects: Vec<Effect>,
}

impl Session {
    pub(super) fn new(bounds: Bounds, owners: Arc<dyn Owners>) -> Self {
        Self {
            bounds,
            owners,
            commands: Commands::new(asked::is_of_interest),
            due: VecDeque::new(),
            asks: 0,
            tickets: 0,
            held_bytes: 0,
            scanner: Scanner::default(),
            under_way: None,
            held: BytesMut::new(),
            protocol: Protocol::default(),
            in_transaction: false,
            is_pipe: false,
            is_closing: false,
            upstream: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            channels: BTreeMap::new(),
            effects: Vec::new(),
        }
    }

    /// Bytes of the client.
    pub(super) fn client(&mut self, bytes: &[u8]) {
        self.commands.push(bytes);
        self.advance();
    }

    /// Bytes of the hub's Redis.
    pub(super) fn upstream(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        self.advance();
    }

    /// An agent has answered.
    pub(super) fn answered(&mut self, ticket: u64, answer: Answer) {
        let is_first = matches!(self.due.front(), Some(Due::Agent { ticket: first, .. }) if *first == ticket);
        let (held, max) = (self.held_bytes, self.bounds.held_bytes_max);
        let waiting = self.due.iter_mut().find_map(|due| match due {
            Due::Agent { ticket: number, answer, channel, .. } if *number == ticket && answer.is_none() => {
                Some((answer, channel))
            }
            _ => None,
        });
        let Some((place, channel)) = waiting else { return };
        let answer = match answer {
            Answer::Hit(value) if !is_first && held + value.len() > max => {
                Answer::Failed("ERR", "too much waits to be read on this connection".to_owned())
            }
            Answer::Hit(value) => {
                self.held_bytes += value.len();
                Answer::Hit(value)
            }
            Answer::Failed(kind, why) => {
                if let Some(channel) = channel {
                    forget(&mut self.channels, channel, ticket);
                }
                Answer::Failed(kind, why)
            }
            other => other,
        };
        *place = Some(answer);
        self.asks -= 1;
        self.advance();
    }

    /// There was a message on a channel of an agent.
    pub(super) fn notified(&mut self, channel: &[u8]) {
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.has_message = true;
            self.advance();
        }
    }

    /// What is to be done since it was last asked.
    pub(super) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether everything that was asked has been answered.
    pub(super) fn is_idle(&self) -> bool {
        self.due.is_empty()
    }

    /// Whether more of the client is to be read.
    pub(super) fn reads_client(&self) -> bool {
        !self.is_closing && (self.commands.waiting() < UNREAD_MAX || self.commands.wants_more())
    }

    /// Whether more of the hub's Redis is to be read: not while an agent's answer has to go before it.
    pub(super) fn reads_upstream(&self) -> bool {
        self.scanner.is_within() || !matches!(self.due.front(), Some(Due::Agent { .. })) || self.is_probe_next()
    }

    /// Does all that can be done now.
    fn advance(&mut self) {
        loop {
            if let Err(malformed) = self.reply() {
                tracing::debug!(%malformed, "the hub's Redis sent what is no reply");
                return self.effects.push(Effect::Close("upstream"));
            }
            if !self.take() {
                break;
            }
        }
        if self.is_closing && self.due.is_empty() {
            self.effects.push(Effect::Close("protocol"));
        }
    }

    /// Takes one more piece of what the client has sent; whether there was one, and room for it.
    fn take(&mut self) -> bool {
        if self.is_closing || self.due.len() >= self.bounds.commands_max || self.asks >= self.bounds.asks_max {
            return false;
        }
        if self.is_pipe {
            let rest = self.commands.rest();
            let some = !rest.is_empty();
            if some {
                self.effects.push(Effect::ToUpstream(rest));
            }
            return some;
        }
        match self.commands.next_piece() {
            Ok(None) => return false,
            Ok(Some(Piece::Whole(words, raw))) => self.asked(&words, raw),
            Ok(Some(Piece::Begins(raw))) => self.forward(raw, Awaited::default()),
            Ok(Some(Piece::More(raw) | Piece::Nothing(raw))) => self.effects.push(Effect::ToUpstream(raw)),
            Err(malformed) => {
                self.is_closing = true;
                self.due.push_back(Due::Known(Known::Error("ERR", format!("Protocol error: {malformed}"))));
            }
        }
        true
    }

    /// Gives a command to the hub's Redis.
    fn forward(&mut self, raw: Bytes, awaited: Awaited) {
        self.due.push_back(Due::Upstream(awaited));
        self.effects.push(Effect::ToUpstream(raw));
    }

    /// Gives the client whatever is its turn.
    fn reply(&mut self) -> Result<(), Malformed> {
        loop {
            if self.scanner.is_within() {
                if !self.pass()? {
                    return Ok(());
                }
                continue;
            }
            self.tell_messages();
            match self.due.front_mut() {
                Some(Due::Known(_)) => {
                    if let Some(Due::Known(known)) = self.due.pop_front() {
                        self.say(&known);
                    }
                }
                Some(Due::Agent { probe, answer, channel, .. }) if probe.is_over() && answer.is_some() => {
                    let (answer, channel) = (answer.take(), channel.take());
                    self.due.pop_front();
                    if let Some(answer) = answer {
                        self.give(answer, channel);
                    }
                }
                // What the hub's Redis says to a later probe need not wait: nobody is told of it.
                Some(Due::Agent { .. }) => {
                    if !self.is_probe_next() || !self.pass()? {
                        return Ok(());
                    }
                }
                Some(Due::Upstream(_)) | None => {
                    if !self.pass()? {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn give(&mut self, answer: Answer, channel: Option<Bytes>) {
        match (answer, channel) {
            (Answer::Hit(value), _) => {
                self.held_bytes -= value.len();
                self.effects.push(Effect::ToClient(write::string(&value)));
            }
            (Answer::Miss, _) => self.effects.push(Effect::ToClient(write::null(self.protocol))),
            (Answer::Subscribed, Some(channel)) => self.say(&Known::Subscribed(channel)),
            (Answer::Subscribed, None) => {
                self.say(&Known::Error("ERR", "the agent answered another question".to_owned()));
            }
            (Answer::Failed(kind, why), _) => self.say(&Known::Error(kind, why)),
            (Answer::Forbidden(said), _) => self.effects.push(Effect::ToClient(said)),
        }
    }

    fn say(&mut self, known: &Known) {
        let count = self.upstream.values().map(BTreeSet::len).sum::<usize>()
            + self.channels.values().filter(|channel| channel.is_confirmed).count();
        let bytes = match known {
            Known::Error(kind, why) => write::error(kind, why),
            Known::Pong(content) => write::subscribed_pong(content),
            Known::Unsubscribed(channel) => write::confirmation(self.protocol, "unsubscribe", channel, count),
            Known::Subscribed(channel) => {
                let was =
                    self.channels.get_mut(channel).map(|channel| std::mem::replace(&mut channel.is_confirmed, true));
                write::confirmation(self.protocol, "subscribe", channel, count + usize::from(was == Some(false)))
            }
        };
        self.effects.push(Effect::ToClient(bytes));
    }

    /// Tells of messages, which may stand between replies and never within one.
    fn tell_messages(&mut self) {
        if self.is_pipe {
            return;
        }
        for (name, channel) in &mut self.channels {
            if channel.is_confirmed && std::mem::take(&mut channel.has_message) {
                self.effects.push(Effect::ToClient(write::message(self.protocol, name, b"")));
            }
        }
    }
}

/// A channel is not listened to any more, unless it was taken again since.
fn forget(channels: &mut BTreeMap<Bytes, Channel>, channel: &Bytes, ticket: u64) {
    if channels.get(channel).is_some_and(|taken| taken.ticket == ticket) {
        channels.remove(channel);
    }
}
