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
/// How long a watch may say nothing: the API ends it before that, or is gone without a word.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 30);
/// How long an answer may take to begin, and a page of a list to come.
const ANSWER_MAX: Duration = Duration::from_mins(1);
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// Watches from one version that fail before everything is listed again: an API restored from a copy may not know it.
const FUTILE_MAX: u32 = 3;

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
    let mut course = Course::new();
    loop {
        let round = async {
            if course.version.is_none() {
                let version = list(&client, &source, &out).await?;
                course.listed(version);
            }
            watch(&client, &source, &mut course, &out).await
        };
        let ended = tokio::select! {
            ended = round => ended,
            () = tasks.cancelled() => return,
        };
        let is_expired = match ended {
            Ok(()) => {
                course.progressed(None);
                continue;
            }
            Err(End::Closed) => return,
            Err(End::Expired) => {
                tracing::info!(path = source.path, "the watch is too far behind, listing again");
                true
            }
            Err(End::Failed(verb, error)) => {
                let error = explain(&error, verb, &source.path);
                tracing::warn!(path = source.path, error, "the watch failed, trying again");
                false
            }
        };
        tokio::select! {
            () = tokio::time::sleep(course.failed(is_expired)) => {}
            () = tasks.cancelled() => return,
        }
    }
}

/// From where a collection is followed next, and how soon.
#[derive(Debug)]
struct Course {
    /// None when everything is to be listed.
    version: Option<String>,
    delay: Duration,
    /// Watches in a row that brought nothing and failed.
    futile: u32,
}

impl Course {
    fn new() -> Self {
        Self { version: None, delay: RETRY_FIRST, futile: 0 }
    }

    /// Everything was listed, at that version. An API that only lists is still asked less and less often.
    fn listed(&mut self, version: String) {
        self.version = Some(version);
        self.futile = 0;
    }

    /// A watch works, and has come to that version.
    fn progressed(&mut self, version: Option<&str>) {
        if let (Some(version), Some(known)) = (version, &mut self.version) {
            version.clone_into(known);
        }
        self.delay = RETRY_FIRST;
        self.futile = 0;
    }

    /// A round failed: how long to wait. A watch that only broke goes on where it was, unless that does not help.
    fn failed(&mut self, is_expired: bool) -> Duration {
        self.futile += 1;
        if is_expired || self.futile >= FUTILE_MAX {
            self.version = None;
        }
        let wait = self.delay;
        self.delay = (wait * 2).min(RETRY_MAX);
        wait
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

/// An API that is gone without a word says nothing for ever.
async fn within<T>(
    most: Duration,
    verb: &'static str,
    answer: impl Future<Output = kube::Result<T>>,
) -> Result<T, End> {
    match tokio::time::timeout(most, answer).await {
        Ok(answer) => answer.map_err(End::of(verb)),
        Err(_) => {
            let silent = format!("the API said nothing for {} s", most.as_secs());
            Err(End::Failed(verb, kube::Error::Service(silent.into())))
        }
    }
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
        let mut page: Value = within(ANSWER_MAX, "list", client.request(request)).await?;
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
    course: &mut Course,
    out: &Out<T, W>,
) -> Result<(), End> {
    let version = course.version.as_deref().unwrap_or("0");
    let more = format!("watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}");
    let failed = End::of("watch");
    let request =
        Request::get(query(source, &more)).body(Vec::new()).map_err(kube::Error::HttpError).map_err(&failed)?;
    let events = within(ANSWER_MAX, "watch", client.request_events::<Value>(request)).await?;
    let mut events = std::pin::pin!(events);
    while let Some(event) = within(SILENCE_MAX, "watch", events.try_next()).await? {
        let observed = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => Observed::Applied(Arc::new(slim(object))),
            WatchEvent::Deleted(object) => Observed::Deleted(Arc::new(slim(object))),
            WatchEvent::Bookmark(bookmark) => {
                course.progressed(Some(&bookmark.metadata.resource_version));
                continue;
            }
            WatchEvent::Error(status) => return Err(failed(kube::Error::Api(status))),
        };
        let (Observed::Applied(object) | Observed::Deleted(object)) = &observed else { continue };
        let version = thane_sync::object::resource_version(object).to_owned();
        out.send(observed).await?;
        course.progressed(Some(&version));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http::Response;
    use http_body_util::{BodyExt, Full, StreamBody};
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_broken_watch_goes_on_and_one_that_is_too_old_begins_anew() {
        let mut course = Course::new();
        course.listed("5".to_owned());
        let waits: Vec<u128> = (0..2).map(|_| course.failed(false).as_millis()).collect();
        assert_eq!((waits, course.version.as_deref()), (vec![200, 400], Some("5")));
        course.progressed(Some("7"));
        assert_eq!((course.failed(false).as_millis(), course.version.as_deref()), (200, Some("7")), "events arrived");
        course.failed(true);
        assert_eq!(course.version, None);
        course.listed("9".to_owned());
        let waits: Vec<u128> = (0..FUTILE_MAX).map(|_| course.failed(false).as_millis()).collect();
        assert_eq!((waits, course.version), (vec![800, 1_600, 3_200], None), "a list alone is no success");
    }

    #[tokio::test]
    async fn a_watch_that_fails_is_made_again_without_a_list() {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let is_first = !seen.lock().iter().any(|before| before.contains("watch=1"));
            let (code, body) = match (query.contains("watch=1"), is_first) {
                (true, true) => (
                    500,
                    format!(
                        "{}\n",
                        json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "InternalError", "code": 500})
                    ),
                ),
                (true, false) => {
                    let object = json!({"metadata": {"name": "a", "resourceVersion": "6"}});
                    (200, format!("{}\n", json!({"type": "ADDED", "object": object})))
                }
                (false, _) => (200, json!({"items": [], "metadata": {"resourceVersion": "5"}}).to_string()),
            };
            seen.lock().push(query);
            let answer = Response::builder().status(code).body(Body::from(body.into_bytes()));
            async move { Ok::<_, Infallible>(answer.expect("a status and a body make an answer")) }
        });
        let (tasks, _supervisor) = Tasks::root("test");
        let (out, mut observed) = mpsc::channel(8);
        let source = Source { path: "/apis/x/things".to_owned(), ..Source::default() };
        tasks.spawn("watch", follow(Client::new(service, "x"), source, out, |seen| seen, tasks.clone()));
        assert_eq!(observed.recv().await, Some(Observed::All(Vec::new(), 5)));
        assert!(matches!(observed.recv().await, Some(Observed::Applied(_))));
        let asked = asked.lock().clone();
        assert!(asked[0].starts_with("limit="), "{asked:?}");
        assert!(asked[1..3].iter().all(|query| query.ends_with("resourceVersion=5")), "{asked:?}");
        tasks.shutdown(Duration::from_secs(30)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_that_says_nothing_is_asked_again() {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let before = seen.lock().len();
            seen.lock().push(query.clone());
            async move {
                let said = |text: String| Full::new(Bytes::from(text)).boxed_unsync();
                let body = match (before, query.contains("watch=1")) {
                    // The first list and the first watch are never answered, the second watch never says anything.
                    (0 | 2, _) => std::future::pending().await,
                    (3, _) => StreamBody::new(futures::stream::pending::<Result<_, Infallible>>()).boxed_unsync(),
                    (_, true) => {
                        let object = json!({"metadata": {"name": "a", "resourceVersion": "6"}});
                        said(format!("{}\n", json!({"type": "ADDED", "object": object})))
                    }
                    (_, false) => said(json!({"items": [], "metadata": {"resourceVersion": "5"}}).to_string()),
                };
                Ok::<_, Infallible>(Response::new(body))
            }
        });
        let (tasks, _supervisor) = Tasks::root("test");
        let (out, mut observed) = mpsc::channel(8);
        let source = Source { path: "/apis/x/things".to_owned(), ..Source::default() };
        tasks.spawn("watch", follow(Client::new(service, "x"), source, out, |seen| seen, tasks.clone()));
        assert_eq!(observed.recv().await, Some(Observed::All(Vec::new(), 5)));
        assert!(matches!(observed.recv().await, Some(Observed::Applied(_))));
        assert!(asked.lock()[2..5].iter().all(|query| query.ends_with("resourceVersion=5")), "{:?}", asked.lock());
        tasks.shutdown(Duration::from_secs(30)).await;
    }
}
