//! Agents: what they say, once, and what their silence means.

use super::*;
use crate::command::{Batch, Item};

fn batch(sequence: u64, full: bool, items: Vec<Item>) -> Batch {
    Batch { node: node("n1"), incarnation: "life".to_owned(), sequence, full, items }
}

fn says(agent: &str, batch: Batch) -> Command {
    Command::Agent(agent.to_owned(), batch)
}

fn instance(id: &str) -> Item {
    Item::Service(Box::new(service(id, "web", &[])))
}

fn health(id: &str, service: &str, status: Status) -> Item {
    Item::Check(Box::new(check(id, service, status)))
}

#[test]
fn a_batch_is_applied_once_and_item_by_item() {
    let mut bench = Bench::new();
    let bad = Item::Service(Box::new(service("x", "", &[])));
    let items = vec![instance("w1"), bad, health("c1", "w1", Status::Passing), health("c2", "none", Status::Passing)];
    let expected = "ok; Must provide service name (Service.Service) when service ID is provided; ok; \
                    Missing service registration";
    bench.check(&[(says("agent", batch(1, false, items.clone())), expected)]);
    assert_eq!(bench.service("web"), ["n1/w1[] serfHealth=passing c1=passing"]);
    let before = bench.tables.clone();
    bench.check(&[
        (says("agent", batch(1, false, vec![Item::NoService("w1".to_owned())])), "ok"),
        (says("agent", batch(0, true, vec![])), ""),
    ]);
    assert_eq!(bench.tables, before, "said before");
    bench.check(&[(says("agent", batch(7, false, items)), expected)]);
    assert_eq!(bench.tables.index(), before.index(), "the same again is nothing new");
    let too_many = vec![instance("w1"); 101];
    bench.check(&[
        (says("agent", batch(8, false, too_many.clone())), "413 a batch has at most 100 items"),
        (says("agent", Batch { node: node(""), ..batch(8, false, vec![]) }), "400 Must provide node"),
    ]);
    let result = bench.run(&says("agent", batch(8, true, too_many))).expect("everything may be more");
    assert!(matches!(result, Outcome::Items(items) if items.len() == 101));
}

#[test]
fn everything_replaces_what_is_there_but_not_what_was_named_badly() {
    let mut bench = Bench::new();
    let bad = Item::Service(Box::new(Service { address: "::".to_owned(), ..service("w2", "web", &[]) }));
    bench.check(&[
        (register(node("n1"), Some(service("stray", "web", &[])), vec![]), "ok"),
        (
            says("agent", batch(1, false, vec![instance("w1"), instance("w2"), health("c", "w1", Status::Passing)])),
            "ok; ok; ok",
        ),
        (says("agent", batch(2, true, vec![instance("w3"), bad])), "ok; Invalid service address"),
    ]);
    assert_eq!(bench.service("web"), ["n1/w2[] serfHealth=passing", "n1/w3[] serfHealth=passing"]);
    bench.check(&[(
        says("agent", batch(3, false, vec![Item::NoCheck(SERF_HEALTH.to_owned())])),
        "the check serfHealth is the registry's own",
    )]);
}

/// Its node's id was on the disk that was lost.
#[test]
fn an_agent_that_lost_its_data_is_the_same_agent() {
    let mut bench = Bench::new();
    let life = |name: &str, id: u8, items| Batch {
        node: Node { id: format!("aaaaaaaa-0000-0000-0000-{id:012}"), ..node(name) },
        incarnation: format!("life {id}"),
        ..batch(1, true, items)
    };
    bench.check(&[
        (says("agent", life("n1", 1, vec![instance("w1")])), "ok"),
        (says("agent", life("N1", 2, vec![instance("w2")])), "ok"),
        (says("other", life("n2", 3, vec![])), ""),
    ]);
    assert_eq!(bench.service("web"), ["n1/w2[] serfHealth=passing"], "what it had before is gone");
    let taken = bench.run(&says("agent", life("n1", 3, vec![])));
    assert_eq!(short(&taken), "403 node \"n2\" belongs to agent \"other\"");
    let thief = bench.run(&says("other", life("n1", 4, vec![])));
    assert!(short(&thief).starts_with("403"), "{thief:?}");
    assert!(bench.tables.node("n1").is_some_and(|node| node.value.id.ends_with('2')));
}

#[test]
fn checks_show_the_tags_their_service_has() {
    let mut bench = Bench::new();
    let tagged = Item::Service(Box::new(service("w", "api", &["b"])));
    bench.check(&[
        (says("agent", batch(1, false, vec![instance("w"), health("c", "w", Status::Passing)])), "ok; ok"),
        (says("agent", batch(2, false, vec![tagged])), "ok"),
    ]);
    let shown = bench.tables.check("n1", "c").map(|check| (&*check.value.service_name, check.value.service_tags.len()));
    assert_eq!(shown, Some(("api", 1)));
}

#[test]
fn a_node_belongs_to_its_agent() {
    let mut bench = Bench::new();
    let forbidden = "403 node \"n1\" belongs to agent \"agent\"";
    bench.check(&[
        (says("agent", batch(1, false, vec![instance("w1")])), "ok"),
        (says("thief", batch(1, true, vec![])), forbidden),
        (register(node("N1"), None, vec![]), forbidden),
        (deregister("n1", Some("w1"), None), forbidden),
        (deregister("n1", None, None), forbidden),
        (register(node("n2"), None, vec![]), "ok"),
    ]);
    let own = register(node("n1"), Some(service("extra", "web", &[])), vec![]);
    assert!(bench.run_from(Some("thief"), &own).is_err());
    assert_eq!(short(&bench.run_from(Some("agent"), &own)), "ok");
    assert_eq!(bench.tables.node("n1").and_then(|node| node.value.owner.clone()).as_deref(), Some("agent"));
    bench.due(&Due::Lease("agent".to_owned()));
    bench.check(&[(says("thief", batch(1, true, vec![])), forbidden), (deregister("n1", None, None), "ok")]);
}

#[test]
fn a_silent_agent_is_critical_then_forgotten_and_well_when_it_returns() {
    let mut bench = Bench::new();
    let held = Session { node_checks: vec![SERF_HEALTH.to_owned()], ..session("s", "n1", Behavior::Delete) };
    bench.check(&[
        (says("agent", batch(1, false, vec![instance("w1")])), "ok"),
        (Command::CreateSession(held), "s"),
        (lock("leader", "s"), "true"),
    ]);
    bench.due(&Due::Lease("agent".to_owned()));
    assert_eq!(bench.service("web"), ["n1/w1[] serfHealth=critical"]);
    assert_eq!((bench.key("leader"), bench.topic(&Topic::Sessions).rows.len()), (None, 0));
    let index = bench.tables.index();
    bench.due(&Due::Lease("agent".to_owned()));
    assert_eq!(bench.tables.index(), index, "it is lost already");
    let back = seen(&bench.tables, "agent", &bench.asker(None));
    bench.apply(&back);
    assert_eq!(bench.service("web"), ["n1/w1[] serfHealth=passing"]);
    assert!(seen(&bench.tables, "agent", &bench.asker(None)).is_empty());
    bench.due(&Due::Lease("agent".to_owned()));
    bench.check(&[(says("agent", batch(2, false, vec![])), "")]);
    assert_eq!(bench.service("web"), ["n1/w1[] serfHealth=passing"]);
    bench.due(&Due::Lease("agent".to_owned()));
    bench.due(&Due::Reap("agent".to_owned()));
    assert_eq!((bench.service("web").len(), bench.topic(&Topic::Nodes).rows.len()), (0, 0));
    assert!(seen(&bench.tables, "agent", &bench.asker(None)).is_empty());
}

#[test]
fn a_new_life_starts_over_and_the_old_one_is_too_late() {
    let mut bench = Bench::new();
    let again = Batch { incarnation: "next".to_owned(), ..batch(1, true, vec![instance("w2")]) };
    let renamed = Batch { node: node("n2"), incarnation: "next".to_owned(), ..batch(2, true, vec![instance("w2")]) };
    bench.check(&[
        (says("agent", batch(5, false, vec![instance("w1")])), "ok"),
        (says("agent", again), "ok"),
        (says("agent", batch(6, false, vec![instance("w1")])), "500 this life of the agent's data is over"),
    ]);
    assert_eq!(bench.service("web"), ["n1/w2[] serfHealth=passing"]);
    bench.check(&[(says("agent", renamed), "ok")]);
    assert_eq!(bench.service("web"), ["n2/w2[] serfHealth=passing"], "it moved with all it has");
    assert!(bench.tables.node("n1").is_none());
}
