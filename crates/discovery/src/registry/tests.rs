//! Tests of the registry as a whole: sequences of commands and what comes of them.

mod agents;
mod catalog;
mod keys;
mod random;
mod sessions;
mod tokens;
mod txns;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

use super::*;
use crate::command::{Command, Deregistration, KvOp, KvVerb, Outcome, Refusal, Registration};
use crate::model::{Behavior, Check, Index, Node, Service, Session, Status};
use crate::topic::{Row, Topic, TopicData};

/// A registry with a clock that is moved by hand.
struct Bench {
    tables: Tables,
    now: Timestamp,
    /// What whoever stores what was written has.
    stored: BTreeMap<String, Bytes>,
}

impl Bench {
    fn new() -> Self {
        Self { tables: Tables::new("test"), now: Timestamp::UNIX_EPOCH, stored: BTreeMap::new() }
    }

    fn asker<'a>(&self, agent: Option<&'a str>) -> Asker<'a> {
        Asker { now: self.now, agent }
    }

    fn run(&mut self, command: &Command) -> Result<Outcome, Refusal> {
        self.run_from(None, command)
    }

    fn run_from(&mut self, agent: Option<&str>, command: &Command) -> Result<Outcome, Refusal> {
        let asker = self.asker(agent);
        let (changes, outcome) = decide(&self.tables, command, &asker)?;
        self.apply(&changes);
        Ok(outcome)
    }

    fn due(&mut self, what: &Due) -> Applied {
        let changes = due(&self.tables, what, &self.asker(None));
        self.apply(&changes)
    }

    fn apply(&mut self, changes: &Changes) -> Applied {
        let applied = self.tables.apply(changes);
        for id in &applied.written {
            match self.tables.stored(id) {
                Some(value) => self.stored.insert(id.to_key(), value),
                None => self.stored.remove(&id.to_key()),
            };
        }
        applied
    }

    /// What a restart would make of what was stored.
    fn reload(&self) -> Tables {
        let mut tables = Tables::new("another").with_tombs_max(self.tables.tombs_max);
        tables.load_state(self.tables.state());
        for (key, value) in &self.stored {
            tables.load(key, value).expect("what was stored can be read");
        }
        tables
    }

    fn pass(&mut self, seconds: u64) {
        self.now = self.now.saturating_add(Duration::from_secs(seconds)).expect("not for ever");
    }

    /// Runs steps, each with what must come of it in short.
    #[track_caller]
    fn check(&mut self, steps: &[(Command, &str)]) {
        for (number, (command, expected)) in steps.iter().enumerate() {
            let result = self.run(command);
            assert_eq!(short(&result), *expected, "step {number}: {command:?}");
        }
        assert_eq!(self.reload(), self.tables, "a restart finds the same");
    }

    fn topic(&self, topic: &Topic) -> TopicData {
        self.tables.topic(topic)
    }

    /// The instances of a service, in short: `node/id[tags] check=status …`.
    fn service(&self, name: &str) -> Vec<String> {
        let data = self.topic(&Topic::Service(name.to_owned()));
        data.rows.iter().map(instance_text).collect()
    }

    fn key(&self, key: &str) -> Option<(String, Index, u64, Option<String>)> {
        let entry = self.tables.key(key)?;
        let value = String::from_utf8_lossy(&entry.value.value).into_owned();
        Some((value, entry.modify_index, entry.value.lock_index, entry.value.session.clone()))
    }
}

fn instance_text(row: &Row) -> String {
    let Row::Instance(it) = row else { panic!("not an instance: {row:?}") };
    let checks = it.checks.iter().map(|check| format!(" {}={}", check.value.id, check.value.status));
    let checks: String = checks.collect();
    format!("{}/{}[{}]{checks}", it.node.value.name, it.service.value.id, it.service.value.tags.join(","))
}

/// A result in short.
fn short(result: &Result<Outcome, Refusal>) -> String {
    match result {
        Ok(Outcome::Nothing) => "ok".to_owned(),
        Ok(Outcome::Kv(done)) => done.to_string(),
        Ok(Outcome::Txn(Ok(results))) => format!("{} results", results.len()),
        Ok(Outcome::Txn(Err(errors))) => {
            errors.iter().map(|error| format!("{}: {}", error.op, error.what)).collect::<Vec<_>>().join("; ")
        }
        Ok(Outcome::Session(session)) => session.as_ref().map_or("none".to_owned(), |it| it.value.id.clone()),
        Ok(Outcome::Token(token)) => format!("token {}", token.value.accessor),
        Ok(Outcome::RuleSet(set)) => format!("rules {}", set.value.id),
        Ok(Outcome::Event(event)) => format!("event {}", event.value.ltime),
        Ok(Outcome::Items(items)) => {
            let text =
                |item: &Result<(), Refusal>| item.as_ref().map_or_else(ToString::to_string, |()| "ok".to_owned());
            items.iter().map(text).collect::<Vec<_>>().join("; ")
        }
        Err(Refusal::Forbidden(why)) => format!("403 {why}"),
        Err(Refusal::TooLarge(why)) => format!("413 {why}"),
        Err(Refusal::Invalid(why)) => format!("400 {why}"),
        Err(refusal) => format!("500 {refusal}"),
    }
}

fn op(verb: KvVerb, key: &str) -> KvOp {
    KvOp { verb, key: key.to_owned(), value: Bytes::new(), flags: 0, index: 0, session: String::new() }
}

fn set(key: &str, value: &str) -> Command {
    Command::Kv(KvOp { value: Bytes::from(value.to_owned()), ..op(KvVerb::Set, key) })
}

fn cas(key: &str, value: &str, index: Index) -> Command {
    Command::Kv(KvOp { value: Bytes::from(value.to_owned()), index, ..op(KvVerb::Cas, key) })
}

fn lock(key: &str, session: &str) -> Command {
    Command::Kv(KvOp { session: session.to_owned(), ..op(KvVerb::Lock, key) })
}

fn unlock(key: &str, session: &str) -> Command {
    Command::Kv(KvOp { session: session.to_owned(), ..op(KvVerb::Unlock, key) })
}

fn node(name: &str) -> Node {
    Node { name: name.to_owned(), address: "10.0.0.1".to_owned(), ..Node::default() }
}

fn service(id: &str, name: &str, tags: &[&str]) -> Service {
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    Service { id: id.to_owned(), name: name.to_owned(), tags, port: 80, ..Service::default() }
}

fn check(id: &str, service: &str, status: Status) -> Check {
    Check { id: id.to_owned(), name: id.to_owned(), service_id: service.to_owned(), status, ..serf_health(true) }
}

fn register(node: Node, service: Option<Service>, checks: Vec<Check>) -> Command {
    Command::Register(Box::new(Registration { node, keep_node: false, service, checks }))
}

fn deregister(node: &str, service: Option<&str>, check: Option<&str>) -> Command {
    Command::Deregister(Deregistration {
        node: node.to_owned(),
        service_id: service.map(str::to_owned),
        check_id: check.map(str::to_owned),
    })
}

fn session(id: &str, node: &str, behavior: Behavior) -> Session {
    Session {
        id: id.to_owned(),
        node: node.to_owned(),
        lock_delay: Duration::from_secs(15),
        behavior,
        ..Session::default()
    }
}
