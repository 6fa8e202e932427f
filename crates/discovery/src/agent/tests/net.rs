//! What catches what the ordinary way missed.

use std::sync::Arc;
use std::time::Duration;

use thane_api::AgentName;
use thane_api::wire::discovery::agent_sync_server::AgentSync;
use thane_api::wire::discovery::{AgentInfo, BatchRegisterRequest, BatchUpdateRequest, HealthReport, Service as Told};
use thane_runtime::{SystemClock, Tasks};
use tonic::{Code, Request};

use super::bed::{Hub, Spoke, service, store, value, web};
use super::together::put;
use crate::agent::{Adjustable, Cadence, Options, Reloaded};
use crate::backend::{Backend, Consistency, LocalAgent};
use crate::command::{Command, KvOp, KvVerb, Refusal};
use crate::topic::{Row, Topic, TopicData};

#[tokio::test]
async fn a_push_that_was_lost_is_caught_up_with() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    let key = Topic::Key("a".to_owned());
    hub.registry.write_from(None, put("a", "1")).await.unwrap();
    let before = agent.until(&key, |data| value(data).as_deref() == Some("1")).await;
    hub.registry.write_from(None, put("a", "2")).await.unwrap();
    agent.until(&key, |data| value(data).as_deref() == Some("2")).await;
    agent.core.followed.preset(&key, TopicData::new(before.index, before.rows.clone()));
    let held = agent.ready(&key, Consistency::Default).unwrap();
    assert_eq!(value(&held.data).as_deref(), Some("1"), "as if it had never come");
    let cadence = Cadence { full: Duration::from_millis(10), ..Cadence::default() };
    agent.adjust(Adjustable { cadence, ..Adjustable::default() });
    agent.until(&key, |data| value(data).as_deref() == Some("2")).await;
}

#[tokio::test]
async fn what_is_too_large_to_be_pushed_is_fetched_and_ends_no_connection() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    let (all, one) = (Topic::Keys("big/".to_owned()), Topic::Key("big/0".to_owned()));
    agent.until(&one, |_| true).await;
    for number in 0..6 {
        let key = format!("big/{number}");
        let value = vec![b'x'; 512 * 1024].into();
        let op = KvOp { verb: KvVerb::Set, key, value, flags: 0, index: 0, session: String::new() };
        hub.registry.write_from(None, Command::Kv(op)).await.unwrap();
    }
    for _ in 0..2 {
        let fetched = agent.read(&all, Consistency::Default).await.unwrap();
        assert_eq!((fetched.data.rows.len(), fetched.freshness.hit), (6, None));
        assert!(agent.ready(&all, Consistency::Default).is_none(), "it is not held");
    }
    agent.until(&one, |data| data.rows.len() == 1).await;
    assert!(agent.is_connected());
    assert_eq!(agent.core.metrics.errors.get(), 0, "the connection has never ended");
}

#[tokio::test]
async fn an_agent_goes_where_its_hubs_are() {
    let (first, second) = (Hub::start().await, Hub::start().await);
    let (one, two) = (first.door("agent-1").await, second.door("agent-1").await);
    let agent = Spoke::start("node-1", &[&one]).await;
    agent.register(service("web", "web", 80), vec![], false).await.unwrap();
    agent.settled().await;
    agent.adjust(Adjustable { hubs: vec![two.address.clone()], ..Adjustable::default() });
    second.until(&web(), |data| data.rows.len() == 1).await;
    // An agent that has none yet is told of one, too.
    let alone = Spoke::start("node-2", &[]).await;
    alone.register(service("db", "db", 1), vec![], false).await.unwrap();
    let door = second.door("agent-2").await;
    alone.adjust(Adjustable { hubs: vec![door.address.clone()], ..Adjustable::default() });
    second.until(&Topic::Service("db".to_owned()), |data| data.rows.len() == 1).await;
}

#[tokio::test]
async fn an_agent_without_certificates_is_not_sent_elsewhere() {
    let again = || {
        let adjustable = Adjustable { hubs: vec!["192.0.2.1:8443".to_owned()], ..Adjustable::default() };
        Ok(Reloaded { adjustable, needs_restart: Vec::new() })
    };
    let agent = Spoke::with(Options { again: Some(Arc::new(again)), ..Options::new("node-1") }, store()).await;
    let refused = agent.reload().await;
    assert!(matches!(&refused, Err(Refusal::Failed(why)) if why.contains("only towards this machine")), "{refused:?}");
    assert!(agent.core.hubs().is_empty());
}

/// A call of an agent.
fn from<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(AgentName("agent-1".to_owned()));
    request
}

/// A batch that is no later than the last one is acknowledged and has no effect: one without a number never had any.
#[tokio::test]
async fn batches_are_counted_from_one() {
    let hub = Hub::start().await;
    let (tasks, _) = Tasks::root("test");
    let desk = crate::wire::desk(&hub.registry, SystemClock::shared(), &tasks);
    let info = AgentInfo { node_name: "node-1".to_owned(), node_ip: "10.0.0.1".to_owned(), ..AgentInfo::default() };
    desk.register(from(info.clone())).await.unwrap();
    let told = |id: &str| Told { id: id.to_owned(), name: "web".to_owned(), ..Told::default() };
    let named = |sequence_number, id: &str| BatchRegisterRequest {
        services: vec![told(id)],
        sequence_number,
        ..BatchRegisterRequest::default()
    };
    for refused in [
        desk.batch_register(from(named(0, "a"))).await.map(drop),
        desk.batch_register(from(named(-3, "a"))).await.map(drop),
        desk.batch_update(from(BatchUpdateRequest::default())).await.map(drop),
        desk.report_health(from(HealthReport::default())).await.map(drop),
    ] {
        assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    }
    let life =
        BatchUpdateRequest { sequence_number: 1, incarnation: "i".to_owned(), agent: Some(info), ..Default::default() };
    desk.batch_update(from(life.clone())).await.unwrap();
    desk.batch_register(from(named(2, "a"))).await.unwrap();
    // What has no incarnation belongs to the life that is: that goes on.
    desk.batch_update(from(BatchUpdateRequest { sequence_number: 3, ..life })).await.unwrap();
    let data = hub.registry.topic(&web()).await;
    assert!(matches!(&data.rows[..], [Row::Instance(it)] if it.service.value.id == "a"), "{data:?}");
}
