//! People and programs that the hub's own API knows: who they are, and whether they may use an agent.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use thane_runtime::SharedClock;
use thane_runtime::pki::Details;
use tokio::sync::Semaphore;

use super::reach::{Caller, Source};
use super::status::Refused;

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const AUTHENTICATED: &str = "system:authenticated";
/// How long an answer of the API counts.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Answers that are remembered.
const MEMORY_MAX: usize = 4_096;
/// How long the API may take.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// Tokens that are reviewed at once, and how long others wait for their turn.
const REVIEWS_MAX: usize = 64;
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer texts are nobody's token.
const TOKEN_MAX: usize = 16 * 1024;

/// A person's certificate, signed by the authority of the hub's API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Person {
    caller: Caller,
    not_after: Timestamp,
}

impl Person {
    pub(super) fn new(details: &Details) -> Option<Self> {
        let name = details.subject.common_name.clone();
        let mut groups = details.organizations.clone();
        groups.push(AUTHENTICATED.to_owned());
        let caller = Caller { name, groups, source: Source::People };
        (!caller.name.is_empty()).then_some(Self { caller, not_after: details.not_after })
    }
}

/// Who wants to reach which agent: name, groups, agent.
type Question = (String, Vec<String>, String);

/// Asks the hub's API.
#[derive(Clone)]
pub struct People {
    client: Client,
    clock: SharedClock,
    tokens: Arc<Memory<[u8; 32], Option<Caller>>>,
    access: Arc<Memory<Question, bool>>,
    reviews: Arc<Semaphore>,
}

impl People {
    /// Asks with a client that may review tokens and access.
    pub fn new(client: Client, clock: SharedClock) -> Self {
        let reviews = Arc::new(Semaphore::new(REVIEWS_MAX));
        Self { client, clock, tokens: Arc::default(), access: Arc::default(), reviews }
    }

    /// Who asks, by certificate or else by token.
    pub(super) async fn identify(&self, person: Option<&Person>, token: Option<&str>) -> Result<Caller, Refused> {
        if let Some(person) = person.filter(|person| self.clock.now() <= person.not_after) {
            return Ok(person.caller.clone());
        }
        let token = token.filter(|token| token.len() <= TOKEN_MAX).ok_or_else(Refused::unauthorized)?;
        let key: [u8; 32] = Sha256::digest(token).into();
        let known = match self.tokens.get(&key, self.clock.monotonic()) {
            Some(known) => known,
            None => self.review_token(key, token).await?,
        };
        known.ok_or_else(Refused::unauthorized)
    }

    /// Whose token it is. Anybody can have some reviewed, so only so many are at once.
    async fn review_token(&self, key: [u8; 32], token: &str) -> Result<Option<Caller>, Refused> {
        let busy = |_| Refused::new(StatusCode::TOO_MANY_REQUESTS, "too many tokens are under review");
        // The semaphore is never closed.
        let _turn = tokio::time::timeout(TURN_TIMEOUT, self.reviews.acquire()).await.map_err(busy)?;
        let now = self.clock.monotonic();
        // The same token may have been reviewed meanwhile.
        if let Some(known) = self.tokens.get(&key, now) {
            return Ok(known);
        }
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let known = reviewed(&self.review(TOKEN_REVIEWS, &review).await?);
        self.tokens.put(key, known.clone(), now);
        Ok(known)
    }

    /// Whether they may use an agent: verb `proxy` on `agents.thane.dev`.
    pub(super) async fn authorize(&self, caller: &Caller, agent: &str) -> Result<(), Refused> {
        let key = (caller.name.clone(), caller.groups.clone(), agent.to_owned());
        let now = self.clock.monotonic();
        let allowed = match self.access.get(&key, now) {
            Some(allowed) => allowed,
            None => {
                let attributes = json!({"group": "thane.dev", "resource": "agents", "verb": "proxy", "name": agent});
                let review = json!({
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SubjectAccessReview",
                    "spec": {"user": caller.name, "groups": caller.groups, "resourceAttributes": attributes},
                });
                let answer = self.review(ACCESS_REVIEWS, &review).await?;
                let allowed = answer["status"]["allowed"] == true && answer["status"]["denied"] != true;
                self.access.put(key, allowed, now);
                allowed
            }
        };
        if allowed {
            return Ok(());
        }
        let message = format!(
            "agents.thane.dev \"{agent}\" is forbidden: User \"{}\" cannot proxy resource \"agents\" in API group \
             \"thane.dev\" at the cluster scope",
            caller.name
        );
        Err(Refused::new(StatusCode::FORBIDDEN, message))
    }

    async fn review(&self, path: &str, review: &Value) -> Result<Value, Refused> {
        let unavailable = |why: &dyn std::fmt::Display| {
            tracing::warn!(%why, path, "the hub's API does not say who may use agents");
            Refused::new(StatusCode::SERVICE_UNAVAILABLE, "the hub's API does not say who may use agents")
        };
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(review.to_string().into_bytes())
            .map_err(|error| unavailable(&error))?;
        let answered = tokio::time::timeout(REVIEW_TIMEOUT, self.client.request::<Value>(request)).await;
        answered.map_err(|_| unavailable(&"no answer in time"))?.map_err(|error| unavailable(&error))
    }
}

fn reviewed(answer: &Value) -> Option<Caller> {
    let status = &answer["status"];
    let name = status["user"]["username"].as_str().filter(|name| !name.is_empty())?.to_owned();
    let groups = status["user"]["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
    let groups = groups.iter().filter_map(|group| group.as_str().map(str::to_owned)).collect();
    (status["authenticated"] == true).then_some(Caller { name, groups, source: Source::People })
}

/// Answers that count for a while.
struct Memory<K, V> {
    answers: Mutex<HashMap<K, (V, Duration)>>,
}

impl<K, V> Default for Memory<K, V> {
    fn default() -> Self {
        Self { answers: Mutex::new(HashMap::new()) }
    }
}

impl<K: Hash + Eq, V: Clone> Memory<K, V> {
    fn get(&self, key: &K, now: Duration) -> Option<V> {
        self.answers.lock().get(key).filter(|(_, until)| now < *until).map(|(value, _)| value.clone())
    }

    fn put(&self, key: K, value: V, now: Duration) {
        let mut answers = self.answers.lock();
        if answers.len() >= MEMORY_MAX {
            answers.retain(|_, (_, until)| now < *until);
        }
        if answers.len() >= MEMORY_MAX {
            answers.clear();
        }
        answers.insert(key, (value, now.saturating_add(REMEMBERED)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_count_for_a_while_and_are_bounded() {
        let memory = Memory::default();
        for n in 0..3 * MEMORY_MAX {
            memory.put(n, n, Duration::ZERO);
            assert!(memory.answers.lock().len() <= MEMORY_MAX);
        }
        let last = 3 * MEMORY_MAX - 1;
        assert_eq!(memory.get(&last, REMEMBERED / 2), Some(last));
        assert_eq!(memory.get(&last, REMEMBERED), None);
    }

    #[tokio::test(start_paused = true)]
    async fn outsiders_have_only_so_many_tokens_reviewed() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let (asked, counted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counting = Arc::clone(&asked);
        let silent = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            counting.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
        });
        let people = People::new(Client::new(silent, "default"), thane_runtime::SystemClock::shared());
        let all = (0..=REVIEWS_MAX).map(|number| {
            let (people, counted) = (people.clone(), Arc::clone(&counted));
            async move {
                let refused = people.identify(None, Some(&format!("token {number}"))).await.unwrap_err();
                counted.fetch_add(usize::from(refused.code == StatusCode::TOO_MANY_REQUESTS), Ordering::Relaxed);
            }
        });
        let waiting = futures::future::join_all(all);
        tokio::join!(waiting, async {
            tokio::time::sleep(TURN_TIMEOUT / 2).await;
            assert_eq!(asked.load(Ordering::Relaxed), REVIEWS_MAX);
        });
        assert!(counted.load(Ordering::Relaxed) <= 1, "whoever waited got a turn, or was told to try again");
    }

    #[test]
    fn only_an_authenticated_name_is_somebody() {
        let user = json!({"username": "ann", "groups": ["a", "b"]});
        let caller = reviewed(&json!({"status": {"authenticated": true, "user": user}})).unwrap();
        assert_eq!((caller.name.as_str(), caller.groups.len(), caller.source), ("ann", 2, Source::People));
        for nobody in [
            json!({"status": {"authenticated": false, "user": user}}),
            json!({"status": {"user": user}}),
            json!({"status": {"authenticated": true, "user": {}}}),
            json!({}),
        ] {
            assert_eq!(reviewed(&nobody), None, "{nobody}");
        }
    }
}
