//! What a command does.

mod agent;
mod catalog;
mod keys;
mod node;
mod sessions;
mod tokens;
mod txn;

use std::io::{self, Write};

use serde::Serialize;

use super::deadlines::Due;
use super::draft::{Asker, Changes, Draft};
use super::id::Id;
use super::tables::Tables;
use crate::command::{Command, Outcome, Refusal};
use crate::model::UserEvent;

pub use agent::{SERF_HEALTH, serf_health};
pub use keys::VALUE_BYTES_MAX;
pub use sessions::{LOCK_DELAY_MAX, SESSION_TTL_MAX, SESSION_TTL_MIN};

/// Events kept.
const EVENTS_MAX: usize = 256;
/// Bytes of an event's payload.
const PAYLOAD_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a name or an id: several of them, escaped, have to fit into a key of the store.
const NAME_BYTES_MAX: usize = 512;
/// Bytes of the stored form of a thing.
const THING_BYTES_MAX: usize = 1024 * 1024;

/// What a command would change, and what came of it. Changes nothing.
pub fn decide<'a>(tables: &'a Tables, command: &'a Command, asker: &Asker<'a>) -> Result<(Changes, Outcome), Refusal> {
    let mut draft = Draft::new(tables, *asker);
    let outcome = match command {
        Command::Kv(op) => Outcome::Kv(draft.kv(op)?),
        Command::Txn(ops) => match draft.txn(ops)? {
            Ok(results) => Outcome::Txn(Ok(results)),
            // Nothing of it happens.
            Err(errors) => return Ok((Changes::default(), Outcome::Txn(Err(errors)))),
        },
        Command::Register(registration) => draft.register(registration).map(|()| Outcome::Nothing)?,
        Command::Deregister(deregistration) => draft.deregister(deregistration).map(|()| Outcome::Nothing)?,
        Command::CreateSession(session) => Outcome::Session(Some(draft.create_session(session)?)),
        Command::DestroySession(id) => {
            draft.end_session(id);
            Outcome::Nothing
        }
        Command::RenewSession(id) => Outcome::Session(draft.session(id).cloned()),
        Command::Fire(event) => draft.fire(event)?,
        Command::Bootstrap(token) => Outcome::Token(draft.bootstrap(token)?),
        Command::PutToken(token) => Outcome::Token(draft.put_token(token)?),
        Command::DeleteToken(accessor) => draft.delete_token(accessor).map(|()| Outcome::Nothing)?,
        Command::PutRuleSet(set) => Outcome::RuleSet(draft.put_rule_set(set)?),
        Command::DeleteRuleSet(id) => draft.delete_rule_set(id).map(|()| Outcome::Nothing)?,
        Command::Agent(name, batch) => Outcome::Items(draft.batch(name, batch)?),
    };
    Ok((draft.finish(), outcome))
}

/// What changes when something becomes due.
pub fn due(tables: &Tables, due: &Due, asker: &Asker<'_>) -> Changes {
    let mut draft = Draft::new(tables, *asker);
    match due {
        Due::Session(id) => draft.end_session(id),
        Due::Lease(agent) => draft.lapse(agent),
        Due::Reap(agent) => draft.reap(agent),
        Due::Delay(key) => draft.remove(Id::Delay(key.clone())),
        Due::Token(accessor) => draft.remove(Id::Token(accessor.clone())),
    }
    draft.finish()
}

/// What changes when an agent is heard of.
pub fn seen(tables: &Tables, agent: &str, asker: &Asker<'_>) -> Changes {
    let mut draft = Draft::new(tables, *asker);
    draft.revive(agent);
    draft.finish()
}

impl Draft<'_> {
    fn fire(&mut self, event: &UserEvent) -> Result<Outcome, Refusal> {
        if event.name.is_empty() {
            return Err(Refusal::Invalid("Missing name".to_owned()));
        }
        if event.payload.len() > PAYLOAD_BYTES_MAX {
            return Err(Refusal::TooLarge(format!("the payload is larger than {PAYLOAD_BYTES_MAX} bytes")));
        }
        let known = self.range::<UserEvent>(&Id::Event(0), |id| matches!(id, Id::Event(_)));
        if let Some((_, again)) = known.iter().find(|(_, known)| known.value.id == event.id) {
            return Ok(Outcome::Event(again.clone()));
        }
        let ltime = known.last().map_or(1, |(_, last)| last.value.ltime + 1);
        let surplus = (known.len() + 1).saturating_sub(EVENTS_MAX);
        for (id, _) in known.into_iter().take(surplus) {
            self.remove(id);
        }
        check_size("the event", event)?;
        Ok(Outcome::Event(self.put(Id::Event(ltime), UserEvent { ltime, ..event.clone() })))
    }
}

/// Refuses a name too long to be stored.
fn check_name(what: &str, name: &str) -> Result<(), Refusal> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Refusal::TooLarge(format!("{what} is longer than {NAME_BYTES_MAX} bytes")));
    }
    Ok(())
}

/// Refuses a thing too large to be stored.
fn check_size(what: &str, thing: &impl Serialize) -> Result<(), Refusal> {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    if serde_json::to_writer(&mut count, thing).is_err() || count.0 > THING_BYTES_MAX {
        return Err(Refusal::TooLarge(format!("{what} is larger than {THING_BYTES_MAX} bytes")));
    }
    Ok(())
}
