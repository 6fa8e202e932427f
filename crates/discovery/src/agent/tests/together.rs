use std::time::Duration;

use futures::FutureExt;
use thane_runtime::metrics::Registry as Counts;

use super::bed::{Hub, Spoke, check, instances, service, ttl, value, web};
use crate::agent::{Adjustable, Limits, Options};
use crate::backend::{Backend, Caller, Consistency, LocalAgent};
use crate::command::{Command, KvOp, KvVerb, Outcome, Refusal};
use crate::model::{CheckDefinition, Status};
use crate::topic::{Row, Topic};

pub(crate) fn put(key: &str, value: &str) -> Command {
    op(KvVerb::Set, key, value, 0)
}

fn op(verb: KvVerb, key: &str, value: &str, index: u64) -> Command {
    Command::Kv(KvOp {
        verb,
        key: key.to_owned(),
        value: value.to_owned().into(),
        flags: 0,
        index,
        session: String::new(),
    })
}

#[tokio::test]
async fn what_is_registered_with_one_agent_is_seen_by_another() {
    let hub = Hub::start().await;
    let (one, two) = (hub.door("agent-1").await, hub.door("agent-2").await);
    let (first, second) = (Spoke::start("node-1", &[&one]).await, Spoke::start("node-2", &[&two]).await);
    assert!(second.until(&web(), |_| true).await.rows.is_empty());
    first.register(service("web-1", "web", 80), vec![], false).await.unwrap();
    first.register(service("web-2", "web", 81), vec![], false).await.unwrap();
    let seen = second.until(&web(), |data| data.rows.len() == 2).await;
    let expected = [("node-1".to_owned(), "web-1".to_owned(), 80), ("node-1".to_owned(), "web-2".to_owned(), 81)];
    assert_eq!(instances(&seen), expected);
    let Row::Node(node) = &hub.until(&Topic::Node("node-1".to_owned()), |data| !data.rows.is_empty()).await.rows[0]
    else {
        panic!()
    };
    assert_eq!(
        (node.value.owner.as_deref(), node.value.id.as_str()),
        (Some("agent-1"), first.place().node_id.as_str())
    );
    first.deregister("web-1").await.unwrap();
    let seen = second.until(&web(), |data| data.rows.len() == 1).await;
    assert_eq!(instances(&seen)[0].1, "web-2");
    first.settled().await;
    assert!(first.services().values().all(|service| service.in_step));
}

#[tokio::test]
async fn a_write_is_in_what_its_own_agent_reads_and_reaches_others() {
    let hub = Hub::start().await;
    let (one, two) = (hub.door("agent-1").await, hub.door("agent-2").await);
    let (first, second) = (Spoke::start("node-1", &[&one]).await, Spoke::start("node-2", &[&two]).await);
    let key = Topic::Key("config/a".to_owned());
    for agent in [&first, &second] {
        let nothing = agent.until(&key, |_| true).await;
        assert_eq!(value(&nothing), None);
    }
    for round in 0..20 {
        let text = round.to_string();
        let done = first.write(&Caller::default(), put("config/a", &text)).await.unwrap();
        assert_eq!(done.outcome, Outcome::Kv(true));
        let own = first.ready(&key, Consistency::Default).unwrap();
        assert_eq!(value(&own.data).as_deref(), Some(text.as_str()), "an agent reads its own write");
        second.until(&key, |data| value(data).as_deref() == Some(text.as_str())).await;
    }
    let index = first.ready(&key, Consistency::Default).unwrap().data.index;
    let stale = first.write(&Caller::default(), op(KvVerb::Cas, "config/a", "x", index - 1)).await.unwrap();
    assert_eq!(stale.outcome, Outcome::Kv(false));
    let consistent = second.read(&key, Consistency::Consistent).await.unwrap();
    assert_eq!((consistent.freshness.hit, value(&consistent.data).as_deref()), (None, Some("19")));
    second.write(&Caller::default(), op(KvVerb::Delete, "config/a", "", 0)).await.unwrap();
    first.until(&key, |data| data.rows.is_empty()).await;
}

#[tokio::test]
async fn unrelated_changes_and_identical_writes_wake_nobody() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.register(service("web", "web", 80), vec![], false).await.unwrap();
    agent.until(&web(), |data| data.rows.len() == 1).await;
    agent.settled().await;
    let index = hub.registry.index();
    let mut wake = agent.wake(&web());
    agent.register(service("web", "web", 80), vec![], false).await.unwrap();
    agent.settled().await;
    assert_eq!(hub.registry.index(), index, "the same again is no change");
    agent.register(service("db", "db", 5432), vec![], false).await.unwrap();
    agent.until(&Topic::Service("db".to_owned()), |data| data.rows.len() == 1).await;
    agent.write(&Caller::default(), put("a", "b")).await.unwrap();
    assert!((&mut wake).now_or_never().is_none());
    agent.register(service("web", "web", 81), vec![], false).await.unwrap();
    wake.await;
}

#[tokio::test]
async fn an_agent_cannot_take_the_node_of_another() {
    let hub = Hub::start().await;
    let (one, two) = (hub.door("agent-1").await, hub.door("agent-2").await);
    let first = Spoke::start("node-1", &[&one]).await;
    first.register(service("web", "web", 80), vec![], false).await.unwrap();
    first.settled().await;
    let thief = Spoke::start("NODE-1", &[&two]).await;
    thief.register(service("evil", "web", 666), vec![], false).await.unwrap();
    // It goes on by itself, and nobody hears of it.
    first.register(service("web-2", "web", 81), vec![], false).await.unwrap();
    let seen = hub.until(&web(), |data| data.rows.len() > 1).await;
    assert_eq!(instances(&seen).iter().map(|it| it.2).collect::<Vec<_>>(), [80, 81]);
    assert!(!thief.is_connected() && thief.services().len() == 1);
}

#[tokio::test]
async fn one_refused_item_holds_up_nothing() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    // The registry keeps this name for itself.
    agent.register_check(ttl("serfHealth")).await.unwrap();
    agent.register(service("web", "web", 80), vec![ttl("alive")], false).await.unwrap();
    hub.until(&web(), |data| matches!(data.rows.first(), Some(Row::Instance(it)) if it.checks.len() == 2)).await;
    let waiting = async {
        loop {
            let change = agent.local_change();
            if agent.pending() == 1 && agent.services()["web"].in_step {
                return;
            }
            change.await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("all but one are taken");
    assert_eq!(agent.pending(), 1, "the refused one is tried again");
    agent.register(service("db", "db", 1), vec![], false).await.unwrap();
    hub.until(&Topic::Service("db".to_owned()), |data| data.rows.len() == 1).await;
}

/// A disk that broke, a pod without a volume: the certificate is what is left.
#[tokio::test]
async fn an_agent_that_lost_its_data_is_let_in_again() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.register(service("web-1", "web", 80), vec![], false).await.unwrap();
    agent.settled().await;
    agent.stop().await;
    let again = Spoke::start("node-1", &[&door]).await;
    again.register(service("web-2", "web", 81), vec![], false).await.unwrap();
    again.settled().await;
    let seen = hub.until(&web(), |data| !data.rows.is_empty()).await;
    assert_eq!(instances(&seen), [("node-1".to_owned(), "web-2".to_owned(), 81)], "what went with the data is gone");
    let Row::Instance(it) = &seen.rows[0] else { panic!() };
    assert_eq!(it.node.value.id, again.place().node_id);
}

#[tokio::test]
async fn reads_that_go_to_the_hub_are_no_hits() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    // There is room for nothing but what is always held.
    let limits = Limits { entries: 1, ..Limits::default() };
    let adjustable = Adjustable { hubs: vec![door.address.clone()], limits, ..Adjustable::default() };
    let agent = Spoke::with(Options { adjustable, ..Options::new("node-1") }, super::bed::store()).await;
    agent.settled().await;
    for _ in 0..4 {
        assert!(agent.read(&web(), Consistency::Default).await.unwrap().freshness.hit.is_none());
    }
    let mut counts = Counts::default();
    agent.register_metrics(&mut counts);
    let text = thane_runtime::metrics::encode(&counts).unwrap();
    assert!(text.contains("konsul_agent_cache_hit_ratio 0.0\n"), "{text}");
}

#[tokio::test]
async fn how_a_check_stands_reaches_everybody_at_once() {
    let hub = Hub::start().await;
    let (one, two) = (hub.door("agent-1").await, hub.door("agent-2").await);
    let (first, second) = (Spoke::start("node-1", &[&one]).await, Spoke::start("node-2", &[&two]).await);
    first.register(service("web", "web", 80), vec![ttl("alive")], false).await.unwrap();
    let status = |data: &crate::topic::TopicData| match data.rows.first() {
        Some(Row::Instance(it)) => it.checks.iter().find(|check| check.value.id == "alive").map(|it| it.value.status),
        _ => None,
    };
    second.until(&web(), |data| status(data) == Some(Status::Critical)).await;
    first.update_check("alive", Status::Passing, "well".to_owned()).await.unwrap();
    assert_eq!(first.checks()["alive"].status, Status::Passing);
    second.until(&web(), |data| status(data) == Some(Status::Passing)).await;
    first.update_check("alive", Status::Warning, "tired".to_owned()).await.unwrap();
    second.until(&web(), |data| status(data) == Some(Status::Warning)).await;
    assert!(matches!(first.update_check("none", Status::Passing, String::new()).await, Err(Refusal::NotFound(_))));
    let alias = CheckDefinition {
        alias_node: "NODE-1".to_owned(),
        alias_service: "web".to_owned(),
        ..CheckDefinition::default()
    };
    second.register_check(check("copy", alias)).await.unwrap();
    until_check(&second, "copy", Status::Warning).await;
    first.update_check("alive", Status::Passing, "well".to_owned()).await.unwrap();
    until_check(&second, "copy", Status::Passing).await;
}

pub(super) async fn until_check(agent: &Spoke, id: &str, status: Status) {
    let waiting = async {
        loop {
            let change = agent.local_change();
            if agent.checks().get(id).is_some_and(|check| check.status == status) {
                return;
            }
            change.await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await;
    waited.unwrap_or_else(|_| panic!("{id} did not become {status}: {:?}", agent.checks().get(id)));
}

#[tokio::test]
async fn watched_prefixes_are_held_without_being_asked_for() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    hub.registry.write_from(None, put("config/a", "1")).await.unwrap();
    let watched = ["config/".to_owned()].into();
    let adjustable =
        Adjustable { hubs: vec![door.address.clone()], watched_prefixes: watched, ..Adjustable::default() };
    let agent = Spoke::with(Options { adjustable, ..Options::new("node-1") }, super::bed::store()).await;
    let topic = Topic::Keys("config/".to_owned());
    agent.until(&topic, |data| data.rows.len() == 1).await;
    hub.registry.write_from(None, put("config/b", "2")).await.unwrap();
    agent.until(&topic, |data| data.rows.len() == 2).await;
    hub.registry.write_from(None, op(KvVerb::DeleteTree, "config/", "", 0)).await.unwrap();
    agent.until(&topic, |data| data.rows.is_empty()).await;
    agent.adjust(Adjustable { hubs: vec![door.address.clone()], ..Adjustable::default() });
    assert!(agent.reload().await.is_ok());
}

#[tokio::test]
async fn everything_is_counted_under_the_names_of_the_design_record() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.register(service("web", "web", 80), vec![ttl("alive")], false).await.unwrap();
    agent.until(&web(), |data| data.rows.len() == 1).await;
    agent.settled().await;
    for _ in 0..3 {
        assert!(agent.ready(&web(), Consistency::Default).is_some());
    }
    let mut counts = Counts::default();
    agent.register_metrics(&mut counts);
    hub.metrics.register(&mut counts);
    let text = thane_runtime::metrics::encode(&counts).unwrap();
    for line in [
        "konsul_agent_cache_entries{type=\"service\"} 1",
        "konsul_agent_cache_entries{type=\"kv\"} 1",
        "konsul_agent_cache_entries{type=\"health\"} 0",
        "konsul_agent_cache_age_seconds 0.0",
        "konsul_agent_local_services_total 1",
        "konsul_agent_sync_errors_total 0",
        "konsul_agent_health_checks_total{status=\"critical\"} 1",
        "konsul_agent_health_checks_total{status=\"passing\"} 0",
        "konsul_server_connected_agents 1",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} missing in\n{text}");
    }
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} missing in\n{text}"))
    };
    // Everything, and what was registered, perhaps in one.
    let batches = value("konsul_agent_batches_total");
    assert!((1.0..=4.0).contains(&batches), "{batches}");
    for name in ["konsul_agent_batch_size_count", "konsul_agent_sync_duration_seconds_count"] {
        assert!((value(name) - batches).abs() < 0.5, "{name}");
    }
    assert!(value("konsul_agent_batch_size_sum") >= 2.0, "an instance and its check");
    let ratio = value("konsul_agent_cache_hit_ratio");
    assert!((0.5..1.0).contains(&ratio), "three hits and a miss at least: {ratio}");
    assert!(value("konsul_agent_pushed_deltas_total") >= 2.0, "the tokens and the service");
    let asked = value("konsul_server_agent_sync_requests_total");
    assert!(asked >= batches + 1.0 && asked <= 20.0, "its greeting and its batches: {asked}");
    assert!(value("konsul_server_agent_sync_duration_seconds_count") >= batches);
}
