//! One collection of a Kubernetes API, followed for as long as the process runs.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use http::Request;
use kube::Client;
use kube::core::WatchEvent;
use serde_json::Value;
use thane_runtime::Tasks;
use thane_sync::object::Object;
use tokio::sync::mpsc;

use crate::objects::slim;
use crate::rights::explain;

/// Objects in one page of a list.
const PAGE: usize = 500;
/// How long one watch is asked for; it is renewed without a gap.
const WATCH_SECONDS: u32 = 290;
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// A collection to follow.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// Its path.
    pub path: String,
    /// Labels its objects must have; empty for all.
    pub labels: String,
    /// Fields its objects must have; empty for all.
    pub fields: String,
}

/// What was seen of a collection.
#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    /// Everything there is, at that version; what is not in it is gone.
    All(Vec<Object>, u64),
    /// An object is like this.
    Applied(Object),
    /// An object is gone; this was its last state.
    Deleted(Object),
}

/// Follows a collection and tells what it sees; ends with the tasks, or when nobody listens.
pub async fn follow<T: Send>(
    client: Client,
    source: Source,
    out: mpsc::Sender<T>,
    wrap: impl Fn(Observed) -> T + Send + Sync,
    tasks: Tasks,
) {
    let out = Out { sender: out, wrap };
    let mut delay = RETRY_FIRST;
    let mut version = None;
    loop {
        let round = async {
            let from = match version.take() {
                Some(version) => version,
                None => list(&client, &source, &out).await?,
            };
            watch(&client, &source, from, &out).await
        };
        let ended = tokio::select! {
            ended = round => ended,
            () = tasks.cancelled() => return,
        };
        match ended {
            Ok(last) => {
                version = Some(last);
                delay = RETRY_FIRST;
                continue;
            }
            Err(End::Closed) => return,
            Err(End::Expired) => tracing::info!(path = source.path, "the watch is too far behind, listing again"),
            Err(End::Failed(verb, error)) => {
                let error = explain(&error, verb, &source.path);
                tracing::warn!(path = source.path, error, "the watch failed, trying again");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(delay) => delay = (delay * 2).min(RETRY_MAX),
            () = tasks.cancelled() => return,
        }
    }
}

/// Why a round ended.
enum End {
    /// Nobody listens.
    Closed,
    /// History from there is gone.
    Expired,
    /// Anything else, while doing that.
    Failed(&'static str, kube::Error),
}

impl End {
    fn of(verb: &'static str) -> impl Fn(kube::Error) -> Self {
        move |error| match &error {
            kube::Error::Api(status) if status.code == 410 => Self::Expired,
            _ => Self::Failed(verb, error),
        }
    }
}

fn query(source: &Source, more: &str) -> String {
    let mut path = format!("{}?{more}", source.path);
    for (name, value) in [("labelSelector", &source.labels), ("fieldSelector", &source.fields)] {
        if !value.is_empty() {
            path.extend(["&", name, "=", &encode(value)]);
        }
    }
    path
}

/// Everything but what may stand in a query as it is.
fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

struct Out<T, W> {
    sender: mpsc::Sender<T>,
    wrap: W,
}

impl<T, W: Fn(Observed) -> T> Out<T, W> {
    async fn send(&self, observed: Observed) -> Result<(), End> {
        self.sender.send((self.wrap)(observed)).await.map_err(|_| End::Closed)
    }
}

async fn list<T, W: Fn(Observed) -> T>(client: &Client, source: &Source, out: &Out<T, W>) -> Result<String, End> {
    let mut objects = Vec::new();
    let mut token = String::new();
    loop {
        let request =
            Request::get(query(source, &format!("limit={PAGE}&continue={}", encode(&token)))).body(Vec::new());
        let request = request.map_err(kube::Error::HttpError).map_err(End::of("list"))?;
        let mut page: Value = client.request(request).await.map_err(End::of("list"))?;
        if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
            objects.extend(items.into_iter().map(|item| Arc::new(slim(item))));
        }
        let metadata = &page["metadata"];
        match metadata["continue"].as_str().filter(|token| !token.is_empty()) {
            Some(next) => next.clone_into(&mut token),
            None => {
                let version = metadata["resourceVersion"].as_str().unwrap_or("0").to_owned();
                out.send(Observed::All(objects, version.parse().unwrap_or_default())).await?;
                return Ok(version);
            }
        }
    }
}

async fn watch<T, W: Fn(Observed) -> T>(
    client: &Client,
    source: &Source,
    mut version: String,
    out: &Out<T, W>,
) -> Result<String, End> {
    let more = format!("watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}");
    let failed = End::of("watch");
    let request =
        Request::get(query(source, &more)).body(Vec::new()).map_err(kube::Error::HttpError).map_err(&failed)?;
    let events = client.request_events::<Value>(request).await.map_err(&failed)?;
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.try_next().await.map_err(&failed)? {
        let observed = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => Observed::Applied(Arc::new(slim(object))),
            WatchEvent::Deleted(object) => Observed::Deleted(Arc::new(slim(object))),
            WatchEvent::Bookmark(bookmark) => {
                version = bookmark.metadata.resource_version;
                continue;
            }
            WatchEvent::Error(status) => return Err(failed(kube::Error::Api(status))),
        };
        let (Observed::Applied(object) | Observed::Deleted(object)) = &observed else { continue };
        thane_sync::object::resource_version(object).clone_into(&mut version);
        out.send(observed).await?;
    }
    Ok(version)
}
