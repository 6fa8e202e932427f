//! What Konsul's agent mode gets wrong, one test each. Those that are not here:
//!
//! | defect | test |
//! |---|---|
//! | 1 no agent to run | `thane`'s `tests/fleet/discovery.rs`: `a_plain_machine_registers_and_is_found` |
//! | 2 every sync returned everything | `wire::follow`: `defect_2_what_is_pushed_is_what_changed` |
//! | 4 small batches never leave | `agent::pending`: `defect_4_a_single_change_leaves_by_itself` |
//! | 7 what does not fit is dropped | `agent::pending`: `defect_7_a_failure_is_tried_again_and_nothing_is_dropped` |
//! | 11 compression that is read and not used | `wire::convert`: `what_is_alike_shrinks_to_a_fifth` |
//! | 11 prefixes | `together`: `watched_prefixes_are_held_without_being_asked_for` |
//! | 11 prefetch | `away`: `what_was_popular_is_asked_for_again_after_a_restart` |
//! | 11 reload and health | `native`: `the_agent_says_how_it_is`; `agent::config`: `a_running_agent_follows_its_file` |
//! | 12 keys with slashes, over HTTP | `native`: `defect_12_keys_are_read_written_listed_and_removed` |
//! | 15 a check told only that it passes | `native`: `defect_15_a_ttl_check_is_told_any_status_and_output` |
//! | 15 no rules | `tokens`; `thane`'s `tests/fleet/discovery.rs`: `an_agent_is_who_its_certificate_says` |

use super::bed::{Hub, Spoke, instances, service, ttl, value, web};
use super::together::put;
use crate::backend::{Backend, Consistency, LocalAgent};
use crate::model::Status;
use crate::topic::{Row, Topic};

/// There reading made the index grow, and each server had its own.
#[tokio::test]
async fn defect_3_only_a_change_moves_an_index() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.register(service("web", "web", 80), vec![], false).await.unwrap();
    agent.settled().await;
    let (index, first) = (hub.registry.index(), agent.until(&web(), |data| data.rows.len() == 1).await);
    for _ in 0..10 {
        assert_eq!(agent.until(&web(), |_| true).await.index, first.index);
    }
    assert_eq!((hub.registry.index(), hub.registry.topic(&web()).await.index), (index, first.index));
}

/// There what an agent sent went around the log: another server, or the same one later, did not have it.
#[tokio::test]
async fn defect_5_what_an_agent_sent_is_stored_before_it_is_answered() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.register(service("web", "web", 80), vec![ttl("alive")], false).await.unwrap();
    agent.settled().await;
    agent.stop().await;
    let index = hub.registry.index();
    let again = Hub::on(hub.stop().await).await;
    let kept = again.registry.topic(&web()).await;
    assert_eq!(instances(&kept), [("node-1".to_owned(), "web".to_owned(), 80)]);
    assert!(again.registry.index() >= index);
}

/// There a batch was never numbered. Here one that comes again, or late, changes nothing.
#[tokio::test]
async fn defect_6_a_batch_that_comes_again_changes_nothing() {
    use crate::command::{Batch, Command, Item};
    let hub = Hub::start().await;
    let batch = |sequence, port| {
        let node = crate::model::Node { name: "node-1".to_owned(), ..Default::default() };
        let items = vec![Item::Service(Box::new(service("web", "web", port)))];
        Command::Agent("agent-1".to_owned(), Batch { node, incarnation: "i".to_owned(), sequence, full: false, items })
    };
    for (sequence, port) in [(1, 80), (2, 81), (1, 80), (2, 99)] {
        hub.registry.write_from(None, batch(sequence, port)).await.unwrap();
    }
    let data = hub.registry.topic(&web()).await;
    assert_eq!(instances(&data)[0].2, 81);
}

/// There a report of health was logged and forgotten.
#[tokio::test]
async fn defect_8_health_is_in_the_catalog() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.register(service("web", "web", 80), vec![ttl("alive")], false).await.unwrap();
    agent.update_check("alive", Status::Passing, "well".to_owned()).await.unwrap();
    let passing = |row: &Row| matches!(row, Row::Check(_, check) if check.value.id == "alive" && check.value.status == Status::Passing);
    hub.until(&Topic::Checks, |data| data.rows.iter().any(passing)).await;
}

/// There an instance that moved was added beside its old self.
#[tokio::test]
async fn defect_9_an_instance_that_moves_is_one_instance() {
    let hub = Hub::start().await;
    let (one, two) = (hub.door("agent-1").await, hub.door("agent-2").await);
    let (first, second) = (Spoke::start("node-1", &[&one]).await, Spoke::start("node-2", &[&two]).await);
    for port in 80..90 {
        first.register(service("web", "web", port), vec![], false).await.unwrap();
    }
    let seen = second.until(&web(), |data| instances(data).first().is_some_and(|it| it.2 == 89)).await;
    assert_eq!(seen.rows.len(), 1);
}

/// There a service was its name: a second instance took the place of the first, and both went together.
#[tokio::test]
async fn defect_10_instances_come_and_go_one_by_one() {
    let hub = Hub::start().await;
    let (one, two) = (hub.door("agent-1").await, hub.door("agent-2").await);
    let (first, second) = (Spoke::start("node-1", &[&one]).await, Spoke::start("node-2", &[&two]).await);
    for (agent, id, port) in [(&first, "web-1", 81), (&first, "web-2", 82), (&second, "web-1", 83)] {
        agent.register(service(id, "web", port), vec![], false).await.unwrap();
    }
    second.until(&web(), |data| data.rows.len() == 3).await;
    first.deregister("web-1").await.unwrap();
    let left = second.until(&web(), |data| data.rows.len() == 2).await;
    let own = |text: &str| text.to_owned();
    assert_eq!(instances(&left), [(own("node-1"), own("web-2"), 82), (own("node-2"), own("web-1"), 83)]);
}

/// There what a miss asked the server for could not be read, and a client registered by a method nobody took.
#[tokio::test]
async fn defect_13_what_is_not_here_is_asked_for_and_read() {
    let hub = Hub::start().await;
    let (one, two) = (hub.door("agent-1").await, hub.door("agent-2").await);
    let (first, second) = (Spoke::start("node-1", &[&one]).await, Spoke::start("node-2", &[&two]).await);
    first.register(service("web-1", "web", 81), vec![], false).await.unwrap();
    first.register(service("web-2", "web", 82), vec![], false).await.unwrap();
    first.settled().await;
    second.settled().await;
    let missed = second.read(&web(), Consistency::Default).await.unwrap();
    assert_eq!((missed.freshness.hit, instances(&missed.data).len()), (None, 2));
    let held = second.read(&web(), Consistency::Default).await.unwrap();
    assert!(held.freshness.hit.is_some());
}

/// There keys with a slash could not be reached, and only local services were listed.
#[tokio::test]
async fn defect_12_keys_have_slashes_and_all_services_are_listed() {
    let hub = Hub::start().await;
    let (one, two) = (hub.door("agent-1").await, hub.door("agent-2").await);
    let (first, second) = (Spoke::start("node-1", &[&one]).await, Spoke::start("node-2", &[&two]).await);
    hub.registry.write_from(None, put("a/b/c", "deep")).await.unwrap();
    let deep = first.until(&Topic::Key("a/b/c".to_owned()), |_| true).await;
    assert_eq!(value(&deep).as_deref(), Some("deep"));
    first.register(service("web", "web", 80), vec![], false).await.unwrap();
    second
        .until(&Topic::Services, |data| {
            data.rows.iter().any(|row| matches!(row, Row::Name { name, .. } if name == "web"))
        })
        .await;
}

/// There an agent did not start without its server, and forgot everything when it was restarted.
#[tokio::test]
async fn defect_14_it_starts_without_a_hub_and_forgets_nothing() {
    let nowhere = Hub::start().await.door("x").await;
    let address = nowhere.close().await;
    let hub = Hub::start().await;
    let absent = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[]).await;
    agent.register(service("web", "web", 80), vec![ttl("alive")], false).await.unwrap();
    let disk = agent.stop().await;
    let mut options = crate::agent::Options::new("node-1");
    options.adjustable.hubs = vec![address.to_string()];
    let alone = Spoke::with(options, disk).await;
    assert_eq!((alone.services().len(), alone.checks().len()), (1, 1));
    let found = Spoke::on("node-1", &[&absent], alone.stop().await).await;
    found.settled().await;
    assert_eq!(hub.registry.topic(&web()).await.rows.len(), 1);
    assert_eq!(found.place().node, "node-1");
}

/// There anybody could call. Here a call of nobody in particular is refused.
#[tokio::test]
async fn defect_15_nobody_in_particular_is_refused() {
    use thane_api::wire::discovery::AgentInfo;
    use thane_api::wire::discovery::agent_sync_server::AgentSync;
    let hub = Hub::start().await;
    let (tasks, _) = thane_runtime::Tasks::root("test");
    let desk = crate::wire::desk(&hub.registry, thane_runtime::SystemClock::shared(), &tasks);
    let refused = desk.register(tonic::Request::new(AgentInfo::default())).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
}
