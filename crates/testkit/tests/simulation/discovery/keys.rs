//! Shared data: keys with one writer each, and a counter that everybody increments.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::RngExt;
use rand::rngs::StdRng;
use thane_discovery::agent::Agent;
use thane_discovery::backend::{Backend, Caller, Consistency};
use thane_discovery::command::{Command, KvOp, KvVerb, Outcome, Refusal};
use thane_discovery::topic::{Row, Topic, TopicData};

use super::book::Book;

/// What all keys begin with but locks and the counter.
pub(super) const PREFIX: &str = "data/";
pub(super) const COUNTER: &str = "counter";
const KEYS: u16 = 4;
/// An agent answers a write when it has it itself; it does not wait longer than this for that.
const SEEN: Duration = Duration::from_secs(2);

/// Writes until all is calm.
pub(super) async fn run(node: String, agent: Arc<Agent>, book: Arc<Book>, mut rng: StdRng) {
    while !book.is_calm() {
        tokio::time::sleep(Duration::from_millis(rng.random_range(5..700))).await;
        if rng.random_ratio(1, 4) {
            count(&agent, &book, &mut rng).await;
        } else {
            let key = format!("{PREFIX}{node}/{}", rng.random_range(0..KEYS));
            let value = (!rng.random_ratio(1, 4)).then(|| book.number());
            put(&agent, &book, &key, value).await;
        }
    }
}

pub(super) fn op(verb: KvVerb, key: &str, value: &str) -> KvOp {
    KvOp {
        verb,
        key: key.to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
        flags: 0,
        index: 0,
        session: String::new(),
    }
}

/// Sets a key, or deletes it.
async fn put(agent: &Agent, book: &Book, key: &str, value: Option<u64>) {
    book.keys.lock().entry(key.to_owned()).or_default().ask(value);
    let started = tokio::time::Instant::now();
    let command = match value {
        Some(value) => op(KvVerb::Set, key, &value.to_string()),
        None => op(KvVerb::Delete, key, ""),
    };
    match agent.write(&Caller::default(), Command::Kv(command)).await {
        Ok(_) => {
            book.keys.lock().entry(key.to_owned()).or_default().told(value);
            book.tell("written");
        }
        // It may have happened, and may still happen.
        Err(Refusal::NoHub) => return book.tell("unsure"),
        Err(Refusal::Busy(_)) => return book.keys.lock().entry(key.to_owned()).or_default().refused(),
        Err(refusal) => return book.complain(&format!("{key} was refused: {refusal}")),
    }
    if started.elapsed() >= SEEN {
        return;
    }
    let Ok(reading) = agent.read(&Topic::Key(key.to_owned()), Consistency::Default).await else { return };
    let belief = book.keys.lock().get(key).cloned().unwrap_or_default();
    let seen = number(&reading.data, key);
    if reading.freshness.connected && belief.denies(seen.as_ref()) {
        book.complain(&format!("{key} was written as {value:?}, and then read as {seen:?}"));
    }
}

/// One more, unless somebody else was faster.
async fn count(agent: &Agent, book: &Book, rng: &mut StdRng) {
    let consistency = if rng.random() { Consistency::Default } else { Consistency::Consistent };
    let Ok(reading) = agent.read(&Topic::Key(COUNTER.to_owned()), consistency).await else { return };
    let before = number(&reading.data, COUNTER).unwrap_or(0);
    let index = reading.data.rows.first().map_or(0, Row::modify_index);
    let command = KvOp { index, ..op(KvVerb::Cas, COUNTER, &(before + 1).to_string()) };
    book.counted.lock().1 += 1;
    match agent.write(&Caller::default(), Command::Kv(command)).await.map(|done| done.outcome) {
        Ok(Outcome::Kv(done)) => {
            let mut counted = book.counted.lock();
            counted.1 -= 1;
            counted.0 += u64::from(done);
            book.tell(if done { "counted" } else { "too late" });
        }
        Err(Refusal::NoHub) => {}
        other => book.complain(&format!("the counter: {other:?}")),
    }
}

/// The number under a key.
pub(super) fn number(data: &TopicData, key: &str) -> Option<u64> {
    data.rows.iter().find_map(|row| match row {
        Row::Key(entry) if entry.value.key == key => std::str::from_utf8(&entry.value.value).ok()?.parse().ok(),
        _ => None,
    })
}
