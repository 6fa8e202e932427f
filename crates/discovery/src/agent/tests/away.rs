use std::time::Duration;

use super::bed::{Hub, Spoke, instances, service, store, ttl, value, web};
use super::together::{put, until_check};
use crate::backend::{Backend, Caller, Consistency, LocalAgent, Unavailable};
use crate::command::Refusal;
use crate::model::Status;
use crate::topic::Topic;

#[tokio::test]
async fn a_restarted_agent_has_everything_it_had() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.register(service("web", "web", 80), vec![ttl("alive")], false).await.unwrap();
    agent.register(service("db", "db", 5432), vec![], false).await.unwrap();
    agent.update_check("alive", Status::Passing, "well".to_owned()).await.unwrap();
    agent.maintain(Some("db"), true, "upgrade").await.unwrap();
    agent.deregister("db").await.unwrap();
    let (services, checks, node_id) = (agent.services(), agent.checks(), agent.place().node_id.clone());
    agent.settled().await;
    let index = hub.registry.index();
    let again = Spoke::on("node-1", &[&door], agent.stop().await).await;
    assert_eq!(again.place().node_id, node_id);
    assert_eq!(again.checks(), checks);
    assert_eq!(again.services().keys().collect::<Vec<_>>(), services.keys().collect::<Vec<_>>());
    again.settled().await;
    assert_eq!(hub.registry.index(), index, "telling all of it again changes nothing");
}

/// What was removed while nobody could hear of it goes with the next connection.
#[tokio::test]
async fn a_restarted_agent_tells_what_went_while_it_was_alone() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.register(service("web", "web", 80), vec![], false).await.unwrap();
    agent.settled().await;
    let alone = Spoke::on("node-1", &[], agent.stop().await).await;
    alone.deregister("web").await.unwrap();
    alone.register(service("db", "db", 1), vec![], false).await.unwrap();
    let _back = Spoke::on("node-1", &[&door], alone.stop().await).await;
    hub.until(&web(), |data| data.rows.is_empty()).await;
    hub.until(&Topic::Service("db".to_owned()), |data| data.rows.len() == 1).await;
}

#[tokio::test]
async fn the_hub_restarts_and_nothing_is_lost_or_doubled() {
    let hub = Hub::start().await;
    let (one, two) = (hub.door("agent-1").await, hub.door("agent-2").await);
    let (first, second) = (Spoke::start("node-1", &[&one]).await, Spoke::start("node-2", &[&two]).await);
    first.register(service("web", "web", 80), vec![], false).await.unwrap();
    let before = second.until(&web(), |data| data.rows.len() == 1).await;
    first.settled().await;
    let places = (one.close().await, two.close().await);
    let store = hub.stop().await;
    first.register(service("web-2", "web", 81), vec![], false).await.unwrap();
    let hub = Hub::on(store).await;
    let (_one, _two) = (hub.door_at("agent-1", places.0).await, hub.door_at("agent-2", places.1).await);
    let after = second.until(&web(), |data| data.rows.len() == 2).await;
    assert!(after.index > before.index, "an index never goes back");
    assert_eq!(instances(&after).iter().map(|it| it.2).collect::<Vec<_>>(), [80, 81]);
}

#[tokio::test]
async fn with_the_hub_away_what_is_here_is_served_and_what_is_not_is_refused() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    hub.registry.write_from(None, put("a", "1")).await.unwrap();
    let agent = Spoke::start("node-1", &[&door]).await;
    let (known, unknown) = (Topic::Key("a".to_owned()), Topic::Key("b".to_owned()));
    agent.until(&known, |data| data.rows.len() == 1).await;
    door.close().await;
    while agent.is_connected() {
        agent.core.stirred.notify_one();
        tokio::task::yield_now().await;
    }
    let stale = agent.read(&known, Consistency::Default).await.unwrap();
    assert!(!stale.freshness.connected && stale.freshness.hit.is_some());
    assert_eq!(value(&stale.data).as_deref(), Some("1"));
    assert_eq!(agent.read(&unknown, Consistency::Stale).await.err(), Some(Unavailable));
    assert_eq!(agent.read(&known, Consistency::Consistent).await.err(), Some(Unavailable));
    assert_eq!(agent.write(&Caller::default(), put("a", "2")).await, Err(Refusal::NoHub));
    agent.register(service("web", "web", 80), vec![ttl("alive")], false).await.unwrap();
    agent.update_check("alive", Status::Passing, String::new()).await.unwrap();
    until_check(&agent, "alive", Status::Passing).await;
    assert!(!agent.services()["web"].in_step);
}

#[tokio::test]
async fn when_one_hub_is_away_the_next_is_used() {
    let hub = Hub::start().await;
    let (first, second) = (hub.door("agent-1").await, hub.door("agent-1").await);
    let agent = Spoke::start("node-1", &[&first, &second]).await;
    agent.register(service("web", "web", 80), vec![], false).await.unwrap();
    hub.until(&web(), |data| data.rows.len() == 1).await;
    first.close().await;
    agent.register(service("web-2", "web", 81), vec![], false).await.unwrap();
    hub.until(&web(), |data| data.rows.len() == 2).await;
}

/// Data that was put back from a copy counts from where the copy was made; the hub must not take that for a repeat.
#[tokio::test]
async fn an_agent_whose_data_was_put_back_is_heard() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let disk = store();
    let agent = Spoke::on("node-1", &[&door], disk).await;
    agent.register(service("web", "web", 80), vec![], false).await.unwrap();
    agent.settled().await;
    let disk = agent.stop().await;
    let keepsakes = crate::agent::keepsake::Keepsakes(std::sync::Arc::clone(&disk));
    keepsakes.put(crate::agent::keepsake::SEQUENCE, &0_u64).await.unwrap();
    let before: String = keepsakes.get(crate::agent::keepsake::INCARNATION).await.unwrap().unwrap();
    let back = Spoke::on("node-1", &[&door], disk).await;
    back.register(service("web-2", "web", 81), vec![], false).await.unwrap();
    hub.until(&web(), |data| data.rows.len() == 2).await;
    back.settled().await;
    // Once more, from before it started to count anew.
    let disk = back.stop().await;
    let keepsakes = crate::agent::keepsake::Keepsakes(std::sync::Arc::clone(&disk));
    keepsakes.put(crate::agent::keepsake::INCARNATION, before.as_str()).await.unwrap();
    let back = Spoke::on("node-1", &[&door], disk).await;
    back.register(service("web-3", "web", 82), vec![], false).await.unwrap();
    hub.until(&web(), |data| data.rows.len() == 3).await;
}

/// Another hub with other data: what is held of the first is replaced, whatever its indexes were.
#[tokio::test]
async fn another_life_of_the_hubs_data_replaces_what_is_held() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let key = Topic::Key("a".to_owned());
    for round in 0..5 {
        hub.registry.write_from(None, put("a", &round.to_string())).await.unwrap();
    }
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.until(&key, |data| value(data).as_deref() == Some("4")).await;
    let place = door.close().await;
    hub.stop().await;
    let other = Hub::start().await;
    other.registry.write_from(None, put("a", "other")).await.unwrap();
    let _door = other.door_at("agent-1", place).await;
    agent.until(&key, |data| value(data).as_deref() == Some("other")).await;
}

#[tokio::test]
async fn what_was_popular_is_asked_for_again_after_a_restart() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.until(&web(), |_| true).await;
    agent.core.remember_popular().await;
    let again = Spoke::on("node-1", &[&door], agent.stop().await).await;
    again.settled().await;
    let held = tokio::time::timeout(Duration::from_secs(30), async {
        while again.ready(&web(), Consistency::Default).is_none() {
            tokio::task::yield_now().await;
        }
    });
    held.await.expect("nobody asked, and it is here");
}

/// The first restart has read nothing when it says what is popular; it must not forget what was.
#[tokio::test]
async fn what_was_popular_outlives_a_restart_in_which_nobody_asks() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.until(&web(), |_| true).await;
    agent.core.remember_popular().await;
    let idle = Spoke::on("node-1", &[&door], agent.stop().await).await;
    idle.settled().await;
    idle.core.remember_popular().await;
    let again = Spoke::on("node-1", &[], idle.stop().await).await;
    assert!(again.core.popular.lock().contains(&web()));
}
