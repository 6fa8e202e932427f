//! What happens to keys, as server-sent events. The id of an event is an index to go on from.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::view::{KeyView, keys};
use crate::access::{Access, Guard};
use crate::backend::{Backend, Consistency, Wake};
use crate::command::Refusal;
use crate::model::{Index, Policy, Resource};
use crate::topic::{Topic, TopicData};

/// A silent connection says something so often, so that proxies keep it.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Who watches; what they may see is asked before each event.
pub(super) struct Who {
    pub(super) guard: Arc<Guard>,
    pub(super) token: Option<String>,
}

struct Watch {
    backend: Arc<dyn Backend>,
    topic: Topic,
    who: Who,
    /// What the client has been told.
    told: Option<Arc<TopicData>>,
    seen: Index,
    wake: Option<Wake>,
    is_over: bool,
    _place: OwnedSemaphorePermit,
}

/// The events of a topic: first everything, unless the client has that already, then what changes.
pub(super) fn events(
    backend: Arc<dyn Backend>,
    topic: Topic,
    who: Who,
    seen: Index,
    place: OwnedSemaphorePermit,
) -> BoxBody<Bytes, std::io::Error> {
    let watch = Watch { backend, topic, who, told: None, seen, wake: None, is_over: false, _place: place };
    let stream = stream::unfold(watch, |mut watch| async move {
        if watch.is_over {
            return None;
        }
        let text = watch.next().await;
        Some((Ok::<_, std::io::Error>(Frame::data(Bytes::from(text))), watch))
    });
    StreamBody::new(sync_wrapper(stream)).boxed()
}

/// A body has to be shareable, which futures need not be; only one reader ever polls it.
fn sync_wrapper<S: stream::Stream + Send>(stream: S) -> impl stream::Stream<Item = S::Item> + Send + Sync {
    struct Exclusive<S>(parking_lot::Mutex<std::pin::Pin<Box<S>>>);
    impl<S: stream::Stream> stream::Stream for Exclusive<S> {
        type Item = S::Item;

        fn poll_next(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<S::Item>> {
            self.0.get_mut().as_mut().poll_next(context)
        }
    }
    Exclusive(parking_lot::Mutex::new(Box::pin(stream)))
}

impl Watch {
    /// The next events, or a sign of life.
    async fn next(&mut self) -> String {
        loop {
            if let Some(wake) = self.wake.as_mut()
                && tokio::time::timeout(HEARTBEAT, wake).await.is_err()
            {
                return ":\n\n".to_owned();
            }
            self.wake = Some(self.backend.wake(&self.topic));
            let Ok(reading) = self.backend.read(&self.topic, Consistency::Default).await else {
                self.wake = Some(Box::pin(tokio::time::sleep(HEARTBEAT)));
                return "event: error\ndata: {\"error\":\"No cluster leader\"}\n\n".to_owned();
            };
            // Not what they might when they began.
            let access = match self.who.guard.access(self.who.token.as_deref()).await {
                Ok(access) => access,
                Err(refused) => {
                    self.is_over = true;
                    let error = json!({"error": Refusal::from(refused).to_string()});
                    return format!("event: error\ndata: {error}\n\n");
                }
            };
            let text = match self.told.replace(Arc::clone(&reading.data)) {
                None if reading.data.index.max(1) == self.seen => String::new(),
                None => snapshot(&reading.data, &access),
                Some(before) => changes(&before, &reading.data, &access),
            };
            if !text.is_empty() {
                return text;
            }
        }
    }
}

fn may(access: &Access, key: &str) -> bool {
    access.allows(Resource::Key, key, Policy::Read)
}

fn event(name: &str, index: Index, data: &serde_json::Value) -> String {
    format!("event: {name}\nid: {}\ndata: {data}\n\n", index.max(1))
}

fn snapshot(data: &TopicData, access: &Access) -> String {
    let views: Vec<KeyView<'_>> = keys(data).filter(|entry| may(access, &entry.value.key)).map(KeyView::new).collect();
    event("snapshot", data.index, &serde_json::to_value(views).unwrap_or_default())
}

/// What is different, one event for each key; only the last carries the index, so that none is missed after a break.
fn changes(before: &TopicData, after: &TopicData, access: &Access) -> String {
    let had: BTreeMap<&str, Index> = keys(before).map(|entry| (entry.value.key.as_str(), entry.modify_index)).collect();
    let mut left = had.clone();
    let mut events = Vec::new();
    for entry in keys(after) {
        let key = entry.value.key.as_str();
        left.remove(key);
        if may(access, key) && had.get(key) != Some(&entry.modify_index) {
            events.push(("set", serde_json::to_value(KeyView::new(entry)).unwrap_or_default()));
        }
    }
    events.extend(left.keys().filter(|key| may(access, key)).map(|key| ("delete", json!({"key": key}))));
    let count = events.len();
    let texts = events.into_iter().enumerate().map(|(place, (name, data))| {
        if place + 1 == count { event(name, after.index, &data) } else { format!("event: {name}\ndata: {data}\n\n") }
    });
    texts.collect()
}
