use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use thane_api::event::{Event, Target, Type};
use thane_api::redis::{Ask, Request, Response, Said};
use thane_link::{Passage, Passing as _};
use thane_redis::client::{Client, Error, Server};
use thane_redis::command::{Commands, Piece};
use thane_redis::reply::Value;
use thane_runtime::net::{Network as _, Tcp};
use thane_runtime::{SystemClock, Tasks};
use thane_sync::mapping::{HubSide, Pattern, Placement};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use futures::FutureExt as _;

use super::*;

const KEY: &str = "app|resources-tree|one_shop|1.8.3.gz";

/// A proxy on loopback before a Redis that knows nothing but `+OK` and the commands it was sent.
struct Bed {
    desk: Arc<Desk>,
    passage: Passage,
    server: Server,
    tasks: Tasks,
    /// Commands the hub's Redis has got.
    commands: mpsc::Receiver<Vec<Bytes>>,
    registry: Registry,
    roster: Roster,
    /// The agent's stream of events, as the roster knows it.
    stream: u64,
}

fn server(port: u16) -> Server {
    let timeout = Duration::from_secs(20);
    Server { host: "127.0.0.1".into(), port, username: String::new(), password: String::new(), tls: None, timeout }
}

impl Bed {
    async fn start(answer_timeout: Duration) -> Self {
        Self::with(answer_timeout, "").await
    }

    /// The hub's Redis wants a password, unless it is empty.
    async fn with(answer_timeout: Duration, password: &'static str) -> Self {
        let (tasks, _) = Tasks::root("test");
        let network = Tcp::shared();
        let (got, commands) = mpsc::channel(64);
        let redis = network.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let upstream = Server { password: password.to_owned(), ..server(redis.local_addr().port()) };
        let (group, stop) = (tasks.clone(), tasks.token());
        tasks.spawn(
            "redis",
            stop.run_until_cancelled_owned(async move {
                while let Ok((mut stream, _)) = redis.accept().await {
                    let (got, stop) = (got.clone(), group.token());
                    group.spawn(
                        "client",
                        stop.run_until_cancelled_owned(async move {
                            let (mut asked, mut buffer) = (Commands::new(|_| true), [0; 4096]);
                            let mut is_known = password.is_empty();
                            while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                                asked.push(&buffer[..read]);
                                while let Ok(Some(Piece::Whole(words, _))) = asked.next_piece() {
                                    is_known |= [&b"AUTH"[..], b"HELLO"].contains(&&words[0][..])
                                        && words.last().is_some_and(|word| word == password);
                                    got.send(words).await.unwrap();
                                    let said: &[u8] =
                                        if is_known { b"+OK\r\n" } else { b"-NOAUTH Authentication required.\r\n" };
                                    stream.write_all(said).await.unwrap();
                                }
                            }
                        })
                        .map(drop),
                    );
                }
            })
            .map(drop),
        );
        let side = HubSide {
            namespace: "argocd".into(),
            placement: Placement::Namespace,
            allowed_namespaces: vec![Pattern::new("*")],
        };
        let roster = Roster::new(Arc::new(side));
        roster.registered("one", "https://one".to_owned());
        let stream = roster.connected("one", &BTreeSet::new(), Timestamp::UNIX_EPOCH);
        let passage = Passage::default();
        let desk = Desk::new(passage.clone(), answer_timeout);
        let listener = Tcp.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let server = server(listener.local_addr().port());
        let parts = Parts {
            listener: Some((listener, None)),
            upstream,
            network,
            roster: roster.clone(),
            desk: Arc::clone(&desk),
            clock: SystemClock::shared(),
        };
        let config = Config { ping_interval: Duration::from_millis(50), ..Config::default() };
        let mut registry = Registry::default();
        super::start(config, parts, &mut registry, &tasks);
        Self { desk, passage, server, tasks, commands, registry, roster, stream }
    }

    async fn client(&self) -> Client {
        self.server.open(&Tcp::shared(), 1024 * 1024).await.unwrap()
    }

    fn counts(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    fn agent(&self) -> Agent {
        let close = CancellationToken::new();
        Agent { events: self.passage.attach("one", close.clone()), close, desk: Arc::clone(&self.desk) }
    }

    /// The next command of the hub's Redis that is neither about clusters nor whether an agent may be asked.
    async fn command(&mut self) -> Vec<Bytes> {
        loop {
            let words = self.commands.recv().await.unwrap();
            if !words[1..].first().is_some_and(|key| key.starts_with(b"cluster|info|") || key == KEY.as_bytes()) {
                return words;
            }
        }
    }

    async fn end(self) {
        assert!(self.tasks.shutdown(Duration::from_secs(10)).await.is_empty());
        assert_eq!(self.desk.counts(), (0, 0));
    }
}

/// The agent's end of its stream.
struct Agent {
    events: mpsc::Receiver<Event>,
    close: CancellationToken,
    desk: Arc<Desk>,
}

impl Agent {
    async fn asked(&mut self) -> Request {
        Request::read(&self.events.recv().await.unwrap().data).unwrap()
    }

    /// The next question that is not whether it is still there.
    async fn asked_something(&mut self) -> Request {
        loop {
            let request = self.asked().await;
            match request.ask {
                Ask::Ping => self.says("one", &request, Said::Pong),
                _ => return request,
            }
        }
    }

    fn says(&self, name: &str, request: &Request, said: Said) {
        let response = Response { id: request.id.clone(), connection: request.connection.clone(), said };
        self.desk.received(name, response.event("r".to_owned()));
    }
}

fn text(text: &'static str) -> Value {
    Value::Bytes(Bytes::from_static(text.as_bytes()))
}

#[tokio::test]
async fn agents_answer_for_their_keys_and_the_hub_for_the_rest() {
    let mut bed = Bed::start(Duration::from_secs(20)).await;
    let (mut client, mut agent) = (bed.client().await, bed.agent());
    client.send(&["GET", KEY]).await.unwrap();
    client.send(&["get", KEY]).await.unwrap();
    client.send(&["SET", "a", "b"]).await.unwrap();
    assert_eq!(bed.command().await, ["SET", "a", "b"].map(|word| Bytes::from_static(word.as_bytes())));
    let (first, second) = (agent.asked().await, agent.asked().await);
    assert_eq!(first.ask, Ask::Get(KEY.to_owned()));
    // What another agent says about it, and what nobody asked, is not heard.
    agent.says("two", &first, Said::Hit(Bytes::from_static(b"forged")));
    agent.says("one", &Request { id: "x".to_owned(), ..first.clone() }, Said::Miss);
    agent.says("one", &second, Said::Miss);
    agent.says("one", &first, Said::Hit(Bytes::from_static(b"v")));
    for expected in [text("v"), Value::Null, text("OK")] {
        assert_eq!(client.next().await.unwrap(), expected);
    }
    agent.desk.received("one", Event::answer(Target::Redis, Type::RedisRequest, "r".to_owned(), "x", Bytes::new()));
    agent.desk.received("one", Event::answer(Target::Redis, Type::RedisResponse, "r".to_owned(), "x", Bytes::new()));
    agent.says("one", &first, Said::Message("another".to_owned()));
    let counts = bed.counts();
    for (reason, count) in [("stranger", 1), ("unknown", 1), ("unasked", 1), ("unreadable", 1), ("unheard", 1)] {
        let line = format!("thane_redis_refused_total{{reason=\"{reason}\"}} {count}\n");
        assert!(counts.contains(&line), "{line}{counts}");
    }
    drop(client);
    bed.end().await;
}

#[tokio::test]
async fn an_agent_that_does_not_answer_is_an_error_and_not_the_end() {
    let mut bed = Bed::start(Duration::from_millis(100)).await;
    let mut client = bed.client().await;
    let failure = async |client: &mut Client| match client.call(&["GET", KEY]).await {
        Err(Error::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(failure(&mut client).await, "ERR agent one is not connected");
    let mut agent = bed.agent();
    let (why, _) = tokio::join!(failure(&mut client), agent.asked());
    assert_eq!(why, "ERR agent one has not answered within 100ms");
    let (why, ()) = tokio::join!(failure(&mut client), async {
        agent.asked().await;
        agent.close.cancel();
    });
    assert_eq!(why, "ERR agent one was disconnected before it answered");
    assert_eq!(client.call(&["SET", "still", "there"]).await.unwrap(), text("OK"));
    assert_eq!(bed.command().await[0], "SET");
    drop(client);
    bed.end().await;
}

#[tokio::test]
async fn a_channel_outlives_the_agents_connections() {
    let bed = Bed::start(Duration::from_secs(20)).await;
    let mut client = bed.client().await;
    let confirmed = Value::List(vec![text("subscribe"), text(KEY), Value::Integer(1)]);
    let message = Value::List(vec![text("message"), text(KEY), text("")]);
    // Nobody is there to be listened to, yet.
    client.send(&["SUBSCRIBE", KEY]).await.unwrap();
    assert_eq!(client.next().await.unwrap(), confirmed);
    for _ in 0..3 {
        let mut agent = bed.agent();
        let request = agent.asked_something().await;
        assert_eq!(request.ask, Ask::Subscribe(KEY.to_owned()));
        agent.says("one", &request, Said::Subscribed);
        // Something may have been missed.
        assert_eq!(client.next().await.unwrap(), message);
        agent.says("two", &request, Said::Message(KEY.to_owned()));
        agent.says("one", &request, Said::Message("another".to_owned()));
        let ping = agent.asked().await;
        assert_eq!((ping.ask.clone(), &ping.connection), (Ask::Ping, &request.connection));
        agent.says("one", &ping, Said::Pong);
        agent.says("one", &request, Said::Message(KEY.to_owned()));
        assert_eq!(client.next().await.unwrap(), message);
        agent.close.cancel();
    }
    drop(client);
    bed.end().await;
}

#[tokio::test]
async fn agents_are_shown_as_they_are() {
    let mut bed = Bed::start(Duration::from_secs(20)).await;
    let words = bed.commands.recv().await.unwrap();
    assert_eq!((&words[0][..], &words[1][..]), (&b"SET"[..], &b"cluster|info|https://one|1.8.3.gz"[..]));
    assert_eq!((&words[3][..], &words[4][..]), (&b"EX"[..], &b"600"[..]));
    let status = |words: &[Bytes]| {
        let info: serde_json::Value = serde_json::from_reader(flate2::read::GzDecoder::new(&words[2][..])).unwrap();
        info["connectionState"]["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status(&words), "Successful");
    bed.roster.disconnected("one", bed.stream, Timestamp::UNIX_EPOCH);
    assert_eq!(status(&bed.commands.recv().await.unwrap()), "Failed");
    bed.end().await;
}

#[tokio::test]
async fn agents_are_asked_for_whom_the_hubs_redis_knows() {
    for auth in [&["AUTH", "secret"][..], &["HELLO", "2", "AUTH", "default", "secret"]] {
        let bed = Bed::with(Duration::from_secs(20), "secret").await;
        let (mut client, mut agent) = (bed.client().await, bed.agent());
        for command in [&["GET", KEY][..], &["SUBSCRIBE", KEY], &["AUTH", "wrong"], &["GET", KEY]] {
            match client.call(command).await {
                Err(Error::Refused(why)) => assert_eq!(why, "NOAUTH Authentication required.", "{command:?}"),
                other => panic!("{command:?}: {other:?}"),
            }
        }
        assert!(agent.events.try_recv().is_err(), "the agent heard of it");
        // In one go: the answer to it counts for what comes after.
        client.send(auth).await.unwrap();
        client.send(&["GET", KEY]).await.unwrap();
        assert_eq!(client.next().await.unwrap(), text("OK"));
        let request = agent.asked().await;
        assert_eq!(request.ask, Ask::Get(KEY.to_owned()));
        agent.says("one", &request, Said::Hit(Bytes::from_static(b"v")));
        assert_eq!(client.next().await.unwrap(), text("v"));
        drop(client);
        bed.end().await;
    }
}
