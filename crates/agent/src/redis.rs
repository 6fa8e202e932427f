//! The agent's Redis, as far as the hub may ask it: what Argo CD keeps about single applications.

mod metrics;
mod reader;
mod subscriber;
mod subscriptions;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus_client::registry::Registry;
use thane_api::event::{Event, Mode, Type};
use thane_api::redis::{AppKey, Ask, Request, Response, Said};
use thane_link::{Passage, Passing};
use thane_redis::client::Server;
use thane_runtime::net::SharedNetwork;
use thane_runtime::{SharedClock, Tasks};
use thane_sync::mapping::{AgentSide, Placement};
use tokio::sync::mpsc;
use uuid::Uuid;

use metrics::Metrics;
use reader::Reader;
use subscriber::Subscriber;

/// Connections that read values, and questions that wait for each.
const READERS: usize = 4;
const WAITING_MAX: usize = 64;
/// Bytes of a value at most: it travels with the events, which wait for it.
const VALUE_MAX: usize = 8 * 1024 * 1024;
/// What Argo CD keeps about Git, which names no application.
const GIT: [&str; 2] = ["git-refs|", "gitdirs|"];

/// What is needed to answer for a Redis.
pub struct Parts {
    /// The agent's Redis.
    pub server: Server,
    /// How it is reached.
    pub network: SharedNetwork,
    /// Where the line to the hub is found.
    pub passage: Passage,
    /// Time.
    pub clock: SharedClock,
    /// Values larger than that, or than eight MiB, are not sent.
    pub value_bytes_max: usize,
}

/// A question, and who asked it.
struct Asked {
    peer: String,
    request: Request,
    /// The key or channel as it is called here.
    name: String,
}

/// Answers the hub for the agent's Redis.
pub struct Answers {
    readers: Vec<mpsc::Sender<Asked>>,
    next: AtomicUsize,
    subscriber: mpsc::Sender<Asked>,
    names: Names,
    back: Back,
}

/// The way back to whoever asked.
#[derive(Clone)]
struct Back {
    passage: Passage,
    metrics: Metrics,
}

/// How names on the hub become names here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// The hub puts the agent's name before that of the application.
    Prefixed,
    /// They are the same.
    Same,
}

/// Starts to answer for a Redis; it is connected to when it is first asked.
pub fn start(side: &AgentSide, parts: Parts, registry: &mut Registry, tasks: &Tasks) -> Arc<Answers> {
    let metrics = Metrics::default();
    metrics.register(registry);
    let back = Back { passage: parts.passage, metrics };
    let readers = (0..READERS)
        .map(|_| {
            let (sender, asked) = mpsc::channel(WAITING_MAX);
            let reader = Reader {
                server: parts.server.clone(),
                network: Arc::clone(&parts.network),
                back: back.clone(),
                value_bytes_max: parts.value_bytes_max.min(VALUE_MAX),
            };
            tasks.spawn("reader", reader.run(asked, tasks.token()));
            sender
        })
        .collect();
    let (subscriber, asked) = mpsc::channel(WAITING_MAX);
    let subscribing = Subscriber::new(parts.server, parts.network, back.clone(), parts.clock);
    tasks.spawn("subscriber", subscribing.run(asked, tasks.token()));
    let names = match (side.placement, side.mode) {
        (Placement::Destination, Mode::Managed) => Names::Same,
        (Placement::Namespace, _) | (_, Mode::Autonomous) => Names::Prefixed,
    };
    Arc::new(Answers { readers, next: AtomicUsize::new(0), subscriber, names, back })
}

impl Names {
    /// The name here of a key or channel on the hub; none of what the hub has no business with.
    fn local(self, name: &str) -> Option<String> {
        if GIT.iter().any(|prefix| name.starts_with(prefix)) {
            return Some(name.to_owned());
        }
        let key = AppKey::read(name)?;
        match self {
            Self::Same => Some(name.to_owned()),
            Self::Prefixed => key.namespace.map(|_| key.without_namespace()),
        }
    }
}

impl Answers {
    #[expect(clippy::result_large_err, reason = "what could not be asked goes back whole")]
    fn ask(&self, asked: Asked) -> Result<(), Asked> {
        let full = |error: mpsc::error::TrySendError<Asked>| error.into_inner();
        if !matches!(asked.request.ask, Ask::Get(_)) {
            return self.subscriber.try_send(asked).map_err(full);
        }
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut asked = asked;
        for turn in 0..self.readers.len() {
            match self.readers[(first.wrapping_add(turn)) % self.readers.len()].try_send(asked).map_err(full) {
                Ok(()) => return Ok(()),
                Err(back) => asked = back,
            }
        }
        Err(asked)
    }
}

impl Passing for Answers {
    fn received(&self, peer: &str, event: Event) {
        if event.kind != Type::RedisRequest {
            return;
        }
        let request = match Request::read(&event.data) {
            Ok(request) => request,
            Err(error) => {
                tracing::debug!(peer, %error, "a question to this agent's Redis cannot be read");
                return;
            }
        };
        self.back.metrics.requests.inc();
        let name = match &request.ask {
            Ask::Get(name) | Ask::Subscribe(name) => self.names.local(name),
            Ask::Ping => Some(String::new()),
        };
        let Some(name) = name else {
            let said = refusal(&request.ask, "the key is not about an application of this agent");
            return self.back.say_now(peer, &request, said);
        };
        if let Err(asked) = self.ask(Asked { peer: peer.to_owned(), request, name }) {
            let said = refusal(&asked.request.ask, "too many questions wait for this agent's Redis");
            self.back.say_now(peer, &asked.request, said);
        }
    }
}

/// Answers for an agent that has no Redis.
pub struct Without {
    back: Back,
}

impl Without {
    /// Answers on the line found there.
    pub fn new(passage: Passage) -> Arc<Self> {
        Arc::new(Self { back: Back { passage, metrics: Metrics::default() } })
    }
}

impl Passing for Without {
    fn received(&self, peer: &str, event: Event) {
        if event.kind == Type::RedisRequest
            && let Ok(request) = Request::read(&event.data)
        {
            let said = refusal(&request.ask, "this agent has no Redis");
            self.back.say_now(peer, &request, said);
        }
    }
}

fn refusal(ask: &Ask, why: &str) -> Said {
    match ask {
        Ask::Get(_) => Said::Failed(why.to_owned()),
        Ask::Subscribe(_) | Ask::Ping => Said::Refused(why.to_owned()),
    }
}

impl Back {
    fn event(&self, id: &str, connection: &str, said: Said) -> Event {
        if matches!(said, Said::Failed(_) | Said::Refused(_)) {
            self.metrics.errors.inc();
        }
        let response = Response { id: id.to_owned(), connection: connection.to_owned(), said };
        response.event(Uuid::new_v4().to_string())
    }

    /// Answers, if there is room for it; whoever asked waits no longer than it wants to.
    fn say_now(&self, peer: &str, request: &Request, said: Said) {
        let event = self.event(&request.id, &request.connection, said);
        if let Err(unsent) = self.passage.send(peer, event) {
            tracing::debug!(peer, ?unsent, "an answer of this agent's Redis was not sent");
        }
    }

    /// Answers as soon as there is room for it.
    async fn say(&self, peer: &str, id: &str, connection: &str, said: Said) {
        let event = self.event(id, connection, said);
        if let Some(line) = self.passage.line(peer) {
            // Nobody waits for it when the stream has ended.
            let _ = line.send_when_free(event).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_the_hub_puts_before_them() {
        let cases = [
            ("app|resources-tree|one_shop|1.8.3.gz", Some("app|resources-tree|shop|1.8.3.gz"), true),
            ("app|resources-tree|one_shop|2|1.8.3", Some("app|resources-tree|shop|2|1.8.3"), true),
            ("app|managed-resources|shop|1.8.3", None, true),
            ("git-refs|https://example.test|1.8.3", Some("git-refs|https://example.test|1.8.3"), true),
            ("cluster|info|https://kubernetes.default.svc|1.8.3", None, false),
            ("argocd-secret", None, false),
        ];
        for (name, prefixed, same) in cases {
            assert_eq!(Names::Prefixed.local(name).as_deref(), prefixed, "{name}");
            assert_eq!(Names::Same.local(name).as_deref(), same.then_some(name), "{name}");
        }
    }
}
