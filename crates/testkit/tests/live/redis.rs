//! Argo CD's questions to Redis, word for word.

use bytes::BytesMut;
use thane_testkit::fleet::{LivePair, Program, Stop};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::PATIENCE;

/// One connection.
pub(crate) struct Redis(TcpStream);

impl Redis {
    pub(crate) async fn connect(address: &str) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) async fn say(&mut self, words: &[&str]) {
        let said: Vec<String> = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        let command = format!("*{}\r\n{}", words.len(), said.concat());
        self.0.write_all(command.as_bytes()).await.unwrap();
    }

    pub(crate) async fn hears(&mut self, expected: &str) {
        let mut heard = BytesMut::zeroed(expected.len());
        let reading = tokio::time::timeout(PATIENCE, self.0.read_exact(&mut heard)).await;
        let told = String::from_utf8_lossy(&heard).into_owned();
        reading.unwrap_or_else(|_| panic!("{expected:?} is not said; {told:?}")).unwrap();
        assert_eq!(told, expected);
    }

    /// Asks, and wants exactly that answer.
    pub(crate) async fn ask(&mut self, words: &[&str], expected: &str) {
        self.say(words).await;
        self.hears(expected).await;
    }
}

/// Hits, misses, the hub's own, and messages.
pub(crate) async fn asked(pair: &LivePair, hub: Program) {
    let [mut hubs, mut agents] = [
        Redis::connect(&format!("127.0.0.1:{}", pair.redis[0])).await,
        Redis::connect(&format!("127.0.0.1:{}", pair.redis[1])).await,
    ];
    let agent = pair.agent_name();
    hubs.ask(&["set", "own", "here"], "+OK\r\n").await;
    agents.ask(&["set", "app|resources-tree|shop|1.8.3", "tree"], "+OK\r\n").await;
    let mut client = Redis::connect(pair.redis_proxy()).await;
    client.ask(&["get", "own"], "$4\r\nhere\r\n").await;
    let key = |name: &str| format!("app|resources-tree|{agent}_{name}|1.8.3");
    client.ask(&["get", &key("shop")], "$4\r\ntree\r\n").await;
    // Its hub says an empty error where there is nothing.
    client.ask(&["get", &key("none")], if hub == Program::Go { "-\r\n" } else { "$-1\r\n" }).await;
    client.ask(&["get", "own"], "$4\r\nhere\r\n").await;

    let mut follower = Redis::connect(pair.redis_proxy()).await;
    follower.say(&["hello", "3"]).await;
    let greeting = follower.greeting().await;
    assert!(greeting.contains("redis"), "{greeting}");
    let (there, here) = (format!("app|managed-resources|{agent}_shop|1.8.3"), "app|managed-resources|shop|1.8.3");
    let push =
        |kind: &str, rest: &str| format!(">3\r\n${}\r\n{kind}\r\n${}\r\n{there}\r\n{rest}", kind.len(), there.len());
    follower.ask(&["subscribe", &there], &push("subscribe", ":1\r\n")).await;
    let heard = tokio::time::timeout(PATIENCE, async {
        // Whoever says that it listens may not do so yet.
        loop {
            agents.say(&["publish", here, ""]).await;
            if agents.number().await > 0 {
                return;
            }
        }
    });
    heard.await.unwrap();
    follower.hears(&push("message", "$0\r\n\r\n")).await;
    let info = format!("cluster|info|https://127.0.0.1:9090?agentName={agent}|1.8.3.gz");
    hubs.ask(&["exists", &info], ":1\r\n").await;
}

/// An agent that dies while it asks its Redis, which is slow: an error, a connection that goes on, and a channel that is
/// taken again when the agent is back.
pub(crate) async fn lost(pair: &mut LivePair) {
    let agent = pair.agent_name();
    let mut agents = Redis::connect(&format!("127.0.0.1:{}", pair.redis[1])).await;
    agents.ask(&["set", "app|resources-tree|shop|1.8.3", "tree"], "+OK\r\n").await;
    let tree = format!("app|resources-tree|{agent}_shop|1.8.3");
    let channel = format!("app|managed-resources|{agent}_shop|1.8.3");
    let told = |kind: &str, rest: &str| {
        format!("*3\r\n${}\r\n{kind}\r\n${}\r\n{channel}\r\n{rest}", kind.len(), channel.len())
    };
    let mut follower = Redis::connect(pair.redis_proxy()).await;
    follower.ask(&["subscribe", &channel], &told("subscribe", ":1\r\n")).await;
    let mut client = Redis::connect(pair.redis_proxy()).await;
    client.ask(&["get", &tree], "$4\r\ntree\r\n").await;
    agents.ask(&["client", "pause", "15000", "all"], "+OK\r\n").await;
    client.say(&["get", &tree]).await;
    let asked = async {
        while pair.hub_metrics().await.unwrap().get("thane_redis_waiting").is_none_or(|waiting| *waiting < 1.0) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap();
    pair.stop_agent(Stop::Killed).await.unwrap();
    client.hears(&format!("-ERR agent {agent} was disconnected before it answered\r\n")).await;
    client.ask(&["ping"], "+PONG\r\n").await;
    client.ask(&["get", &tree], &format!("-ERR agent {agent} is not connected\r\n")).await;
    pair.start_agent().await.unwrap();
    // Something may have changed meanwhile.
    follower.hears(&told("message", "$0\r\n\r\n")).await;
    client.ask(&["get", &tree], "$4\r\ntree\r\n").await;
}

impl Redis {
    /// The answer to `hello`, which ends with its list of modules.
    async fn greeting(&mut self) -> String {
        let mut heard = BytesMut::new();
        while !heard.ends_with(b"*0\r\n") {
            let count = tokio::time::timeout(PATIENCE, self.0.read_buf(&mut heard)).await.unwrap().unwrap();
            assert!(count > 0, "{heard:?}");
        }
        String::from_utf8_lossy(&heard).into_owned()
    }

    async fn number(&mut self) -> u32 {
        let mut heard = BytesMut::new();
        while !heard.ends_with(b"\r\n") {
            self.0.read_buf(&mut heard).await.unwrap();
        }
        String::from_utf8_lossy(&heard).trim_start_matches(':').trim().parse().unwrap()
    }
}
