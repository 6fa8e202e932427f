//! Keys: one, all that begin so, and what happens to them.

use std::sync::Arc;

use http::StatusCode;
use http::header::ACCEPT;
use serde_json::json;
use tokio::time::Instant;

use super::call::{Call, Outcome, Problem, json as answer, with_reading};
use super::view::{KeyView, keys};
use super::watch;
use crate::backend::Reading;
use crate::command::{Command, KvOp, KvVerb, Outcome as Result_};
use crate::http::Answer;
use crate::model::{Policy, Resource};
use crate::topic::Topic;

/// Bytes of a value.
const VALUE_MAX: usize = 512 * 1024;

/// What a path asks for.
enum Target<'a> {
    One(&'a str),
    All(&'a str),
}

impl Call<'_> {
    /// One key, or with `?prefix` or a star at the end all that begin so.
    fn target<'k>(&'k self, key: &'k str) -> Target<'k> {
        let query = &self.request.query;
        match query.given("prefix") {
            Some("true" | "1") | None if query.has("prefix") => Target::All(key.trim_end_matches('*')),
            Some(prefix) => Target::All(prefix),
            None => match key.strip_suffix('*') {
                Some(prefix) if prefix.is_empty() || prefix.ends_with('/') => Target::All(prefix),
                _ if key.is_empty() => Target::All(""),
                _ => Target::One(key),
            },
        }
    }

    pub(super) async fn get_key(&self, key: &str) -> Outcome {
        let target = self.target(key);
        let topic = match target {
            Target::One(key) => {
                self.require(Resource::Key, key, Policy::Read)?;
                Topic::Key(key.to_owned())
            }
            Target::All(prefix) => Topic::Keys(prefix.to_owned()),
        };
        let accepts = self.request.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if accepts.contains("text/event-stream") || self.request.query.has("watch") {
            return self.watch(topic);
        }
        let reading = self.awaited(&topic).await?;
        let shown = match target {
            Target::One(_) => match keys(&reading.data).next() {
                Some(entry) => answer(StatusCode::OK, &KeyView::new(entry)),
                None => Problem::new(StatusCode::NOT_FOUND, "there is no such key").answer(),
            },
            Target::All(_) => {
                let may = |key: &str| self.access.allows(Resource::Key, key, Policy::Read);
                let views: Vec<KeyView<'_>> =
                    keys(&reading.data).filter(|entry| may(&entry.value.key)).map(KeyView::new).collect();
                answer(StatusCode::OK, &views)
            }
        };
        Ok(with_reading(shown, &reading))
    }

    /// The topic, at once or when it is no longer what the reader has.
    async fn awaited(&self, topic: &Topic) -> Result<Reading, Problem> {
        let Some((index, wait)) = self.waiting()? else { return self.read(topic).await };
        let _place = self.native.watches.try_acquire().map_err(|_| too_many())?;
        let deadline = Instant::now() + wait;
        loop {
            let wake = self.backend().wake(topic);
            let reading = self.read(topic).await?;
            if reading.data.index.max(1) > index || tokio::time::timeout_at(deadline, wake).await.is_err() {
                return Ok(reading);
            }
        }
    }

    fn watch(&self, topic: Topic) -> Outcome {
        let place = self.native.watches.clone().try_acquire_owned().map_err(|_| too_many())?;
        let last = self.request.headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
        let seen = last.or_else(|| self.request.query.given("index")?.parse().ok()).unwrap_or(0);
        let (backend, guard) = (Arc::clone(&self.native.backend), Arc::clone(&self.native.guard));
        let who = watch::Who { guard, token: self.caller.token.clone() };
        let body = watch::events(backend, topic, who, seen, place);
        Ok(Answer::stream("text/event-stream", body))
    }

    pub(super) async fn put_key(&self, key: &str) -> Outcome {
        let key = one(key)?;
        self.require(Resource::Key, key, Policy::Write)?;
        let value = self.body()?.clone();
        if value.len() > VALUE_MAX {
            let text = format!("a value has at most {VALUE_MAX} bytes");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, &text));
        }
        let flags = self.number("flags")?.unwrap_or(0);
        let cas = self.number("cas")?;
        let verb = if cas.is_some() { KvVerb::Cas } else { KvVerb::Set };
        self.write_key(KvOp {
            verb,
            key: key.to_owned(),
            value,
            flags,
            index: cas.unwrap_or(0),
            session: String::new(),
        })
        .await
    }

    pub(super) async fn delete_key(&self, key: &str) -> Outcome {
        let cas = self.number("cas")?;
        let (verb, key) = match self.target(key) {
            Target::All(prefix) if self.request.query.has("prefix") || key.ends_with('*') => {
                self.access.require_tree(Resource::Key, prefix, Policy::Write)?;
                (KvVerb::DeleteTree, prefix)
            }
            _ => {
                let key = one(key)?;
                self.require(Resource::Key, key, Policy::Write)?;
                (if cas.is_some() { KvVerb::DeleteCas } else { KvVerb::Delete }, key)
            }
        };
        self.write_key(KvOp {
            verb,
            key: key.to_owned(),
            value: bytes::Bytes::new(),
            flags: 0,
            index: cas.unwrap_or(0),
            session: String::new(),
        })
        .await
    }

    async fn write_key(&self, op: KvOp) -> Outcome {
        let key = op.key.clone();
        let done = self.backend().write(&self.caller, Command::Kv(op)).await?;
        let success = !matches!(done.outcome, Result_::Kv(false));
        let status = if success { StatusCode::OK } else { StatusCode::CONFLICT };
        Ok(answer(status, &json!({"key": key, "success": success, "index": done.index})))
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        let Some(text) = self.request.query.given(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Problem::new(StatusCode::BAD_REQUEST, format!("Invalid {name}: {text}")))
    }
}

fn one(key: &str) -> Result<&str, Problem> {
    if key.is_empty() { Err(Problem::new(StatusCode::BAD_REQUEST, "Missing key name")) } else { Ok(key) }
}

fn too_many() -> Problem {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many watches are open")
}
