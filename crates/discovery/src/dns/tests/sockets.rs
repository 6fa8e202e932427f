//! The same over sockets, against a backend that has some topics and knows of others only when asked.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use futures::future::BoxFuture;
use thane_runtime::net::{Connector, Network, Tcp};
use thane_runtime::{SystemClock, Tasks};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::access::ANONYMOUS;
use crate::backend::{Backend, Caller, Consistency, Freshness, LocalAgent, Place, Reading, Unavailable, Wake};
use crate::command::{Command, Done, Refusal};
use crate::dns::{Edge, Metrics, serve};
use crate::model::{Indexed, Token};
use crate::topic::{Row, Topic, TopicData};

struct Fixed {
    topics: BTreeMap<Topic, Arc<TopicData>>,
    place: Place,
}

impl Backend for Fixed {
    fn ready(&self, topic: &Topic, _: Consistency) -> Option<Reading> {
        let data = self.topics.get(topic)?;
        Some(Reading { data: Arc::clone(data), freshness: Freshness::default() })
    }

    fn read<'a>(&'a self, topic: &'a Topic, _: Consistency) -> BoxFuture<'a, Result<Reading, Unavailable>> {
        let known = *topic != Topic::Service("away".to_owned());
        let reading = Reading { data: Arc::new(TopicData::new(1, Vec::new())), freshness: Freshness::default() };
        Box::pin(async move { known.then_some(reading).ok_or(Unavailable) })
    }

    fn wake(&self, _: &Topic) -> Wake {
        Box::pin(std::future::pending())
    }

    fn write<'a>(&'a self, _: &'a Caller, _: Command) -> BoxFuture<'a, Result<Done, Refusal>> {
        Box::pin(async { Err(Refusal::NoHub) })
    }

    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn local(&self) -> Option<&dyn LocalAgent> {
        None
    }

    fn place(&self) -> &Place {
        &self.place
    }
}

async fn started(tasks: &Tasks) -> (SocketAddr, SocketAddr) {
    started_with(tasks, TopicData::default()).await
}

async fn started_with(tasks: &Tasks, tokens: TopicData) -> (SocketAddr, SocketAddr) {
    let mut topics = registry();
    topics.insert(Topic::Tokens, Arc::new(tokens));
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let (udp, tcp) = (Tcp.bind_datagrams(loopback).await.unwrap(), Tcp.bind(loopback).await.unwrap());
    let addresses = (udp.local_addr(), tcp.local_addr());
    let edge = Edge {
        backend: Arc::new(Fixed { topics, place: ask::place() }),
        settings: Settings::default(),
        clock: SystemClock::shared(),
        metrics: Metrics::default(),
        chance: Box::new(|| 4),
    };
    serve(udp, tcp, edge, tasks);
    addresses
}

/// The answer's id, code and number of answers.
fn gist(packet: &[u8]) -> (u16, u8, u8) {
    (u16::from_be_bytes([packet[0], packet[1]]), packet[3] & 0xf, packet[7])
}

#[tokio::test]
async fn both_transports_answer() {
    let (tasks, _supervisor) = Tasks::root("test");
    let (udp, tcp) = started(&tasks).await;
    let client = Tcp.bind_datagrams(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let mut buffer = [0; 4096];
    let mut transfer = ask::packet("web.service.consul", kind::AXFR);
    transfer[1] = 0x99;
    let mut notify = ask::packet("web.service.consul", kind::A);
    notify[2] |= 4 << 3;
    let cases = [
        (ask::packet("web.service.consul", kind::A), (0x1234, 0, 2)),
        (ask::packet("none.service.consul", kind::A), (0x1234, 3, 0)),
        (ask::packet("away.service.consul", kind::A), (0x1234, 2, 0)),
        (ask::packet("example.org", kind::A), (0x1234, 5, 0)),
        (transfer, (0x1299, 4, 0)),
        (notify, (0x1234, 4, 0)),
        (ask::packet("web.service.consul", kind::A)[..20].to_vec(), (0x1234, 1, 0)),
    ];
    for (packet, wanted) in &cases {
        client.send(b"nonsense", udp).await.unwrap();
        client.send(packet, udp).await.unwrap();
        let (length, _) = client.receive(&mut buffer).await.unwrap();
        assert_eq!(gist(&buffer[..length]), *wanted);
    }
    let mut stream = Tcp.connect("127.0.0.1", tcp.port()).await.unwrap();
    for (packet, wanted) in &cases {
        stream.write_u16(u16::try_from(packet.len()).unwrap()).await.unwrap();
        stream.write_all(packet).await.unwrap();
        let length = usize::from(stream.read_u16().await.unwrap());
        stream.read_exact(&mut buffer[..length]).await.unwrap();
        assert_eq!(gist(&buffer[..length]), *wanted);
    }
    stream.write_all(&[0, 3, 1, 2, 3]).await.unwrap();
    assert!(stream.read_u16().await.is_err(), "nonsense ends the connection");
}

#[tokio::test]
async fn an_unknown_version_of_edns_is_said_to_be() {
    let (tasks, _supervisor) = Tasks::root("test");
    let (udp, _) = started(&tasks).await;
    let client = Tcp.bind_datagrams(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let mut packet = ask::packet("web.service.consul", kind::A);
    packet[11] = 1;
    packet.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 9, 0, 0, 0, 0]);
    client.send(&packet, udp).await.unwrap();
    let mut buffer = [0; 512];
    let (length, _) = client.receive(&mut buffer).await.unwrap();
    let options = &buffer[length - 11..length];
    assert_eq!((buffer[3] & 0xf, options[2], options[5]), (0, 41, 1), "code 16 is split over header and options");
}

/// Nobody shows a token over DNS: what those without one may not see is not there.
#[tokio::test]
async fn names_are_answered_as_far_as_anybody_may_see() {
    let token = |accessor: &str, text: &str| {
        let value = Arc::new(Token {
            accessor: accessor.to_owned(),
            secret_digest: accessor.to_owned(),
            rules: crate::access::rules::parse(text).unwrap(),
            ..Token::default()
        });
        Row::Token(Indexed { create_index: 1, modify_index: 1, value })
    };
    let all = "service_prefix \"\" { policy = \"read\" } node_prefix \"\" { policy = \"read\" }";
    for (tokens, wanted) in [
        (vec![token("root", "acl = \"write\"")], (0x1234, 3, 0)),
        (vec![token(ANONYMOUS, all), token("root", "")], (0x1234, 0, 2)),
    ] {
        let (tasks, _supervisor) = Tasks::root("test");
        let (udp, _) = started_with(&tasks, TopicData::new(1, tokens)).await;
        let client = Tcp.bind_datagrams(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        client.send(&ask::packet("web.service.consul", kind::A), udp).await.unwrap();
        let mut buffer = [0; 512];
        let (length, _) = client.receive(&mut buffer).await.unwrap();
        assert_eq!(gist(&buffer[..length]), wanted);
    }
}
