//! Nodes, services, checks, events, tokens.

use super::*;
use crate::command::{Batch, Item};
use crate::model::UserEvent;

const ID_A: &str = "aaaaaaaa-0000-0000-0000-000000000001";
const ID_B: &str = "bbbbbbbb-0000-0000-0000-000000000002";

fn with_id(name: &str, id: &str) -> Node {
    Node { id: id.to_owned(), ..node(name) }
}

#[test]
fn instances_come_with_their_node_and_checks() {
    let mut bench = Bench::new();
    bench.check(&[
        (register(node("N1"), Some(service("w1", "Web", &["a"])), vec![check("c1", "w1", Status::Passing)]), "ok"),
        (register(node("n1"), Some(service("", "web", &["b"])), vec![check("nc", "", Status::Warning)]), "ok"),
        (register(node("n2"), Some(service("w1", "web", &["a"])), vec![]), "ok"),
    ]);
    assert_eq!(
        bench.service("web"),
        ["N1/w1[a] nc=warning c1=passing", "N1/web[b] nc=warning", "n2/w1[a]"],
        "a node's own checks are everybody's, its name stays as first written"
    );
    let names = bench.topic(&Topic::Services).rows;
    let tags = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(names, [Row::Name { name: "Web".to_owned(), tags, index: 2 }]);
    bench.check(&[
        (deregister("N1", Some("web"), None), "ok"),
        (deregister("n1", None, Some("nc")), "ok"),
        (deregister("n1", None, Some("nc")), "ok"),
        (deregister("nowhere", None, None), "ok"),
    ]);
    assert_eq!(bench.service("web"), ["N1/w1[a] c1=passing", "n2/w1[a]"]);
    let names = bench.topic(&Topic::Services);
    assert_eq!(
        (names.index, &names.rows[0]),
        (4, &Row::Name { name: "Web".to_owned(), tags: vec!["a".to_owned()], index: 4 })
    );
    bench.check(&[(deregister("n1", None, None), "ok"), (deregister("n2", None, None), "ok")]);
    assert_eq!(bench.topic(&Topic::Service("web".to_owned())).index, 7, "the index of its extinction");
    for topic in [Topic::Services, Topic::Nodes, Topic::Checks, Topic::Instances] {
        assert!(bench.topic(&topic).rows.is_empty(), "{topic:?}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_in_consuls_words() {
    let mut bench = Bench::new();
    let nowhere = Service { address: "0.0.0.0".to_owned(), ..service("w", "web", &[]) };
    let keep = |node| Registration { node, keep_node: true, service: None, checks: vec![] };
    bench.check(&[
        (register(node(""), None, vec![]), "500 Must provide node"),
        (
            register(Node { address: String::new(), ..node("n1") }, None, vec![]),
            "500 Must provide address if SkipNodeUpdate is not set",
        ),
        (register(with_id("n1", "x"), None, vec![]), "500 Bad node ID: uuid string is wrong length"),
        (
            register(node("n1"), Some(service("w", "", &[])), vec![]),
            "500 Must provide service name (Service.Service) when service ID is provided",
        ),
        (register(node("n1"), Some(nowhere), vec![]), "500 Invalid service address"),
        (
            register(with_id("n1", "aaaaaaaaz0000-0000-0000-000000000009"), None, vec![]),
            "500 Bad node ID: uuid is improperly formatted",
        ),
        (
            register(node("n1"), None, vec![check("", "", Status::Passing)]),
            "500 failed inserting check on node \"n1\": failed health check lookup: index error: object is missing a \
             value for this index",
        ),
        (
            register(node("n1"), None, vec![check("c", "none", Status::Passing)]),
            "500 Unknown service ID 'none' for check ID 'c'",
        ),
        (register(node(&"n".repeat(600)), None, vec![]), "413 the node's name is longer than 512 bytes"),
        (deregister("", None, None), "500 Must provide node"),
    ]);
    assert_eq!(bench.tables, Tables::new("test"), "nothing changed");
    bench.check(&[(Command::Register(Box::new(keep(node("n1")))), "ok")]);
    let other = Node { address: "10.0.0.2".to_owned(), ..node("n1") };
    bench.check(&[(Command::Register(Box::new(keep(other))), "ok")]);
    assert_eq!(bench.tables.node("n1").map(|node| node.value.address.as_str()), Some("10.0.0.1"));
}

#[test]
fn a_node_is_known_by_its_id() {
    let mut bench = Bench::new();
    bench.check(&[
        (register(with_id("old", ID_A), Some(service("w", "web", &[])), vec![]), "ok"),
        (register(with_id("new", ID_A), None, vec![]), "ok"),
    ]);
    assert!(bench.tables.node("old").is_none(), "renamed");
    assert_eq!(bench.tables.node("new").map(|node| (node.create_index, node.modify_index)), Some((1, 2)));
    assert!(bench.service("web").is_empty());
    let serf = || vec![serf_health(true)];
    bench.check(&[
        (register(with_id("well", ID_B), None, serf()), "ok"),
        (
            register(with_id("well", ID_A), None, vec![]),
            "500 failed inserting node: Error while renaming Node ID: \"aaaaaaaa-0000-0000-0000-000000000001\" \
             (10.0.0.1): Node name well is reserved by node bbbbbbbb-0000-0000-0000-000000000002 with name well (10.0.0.1)",
        ),
        (register(with_id("well", ID_B), None, vec![serf_health(false)]), "ok"),
        (register(with_id("well", ID_A), None, vec![]), "ok"),
    ]);
    assert_eq!(bench.tables.node("well").map(|node| node.value.id.as_str()), Some(ID_A));
    assert!(bench.tables.node("new").is_none());
}

#[test]
fn a_service_under_another_name_is_another_service() {
    let mut bench = Bench::new();
    bench.check(&[
        (register(node("n"), Some(service("w", "web", &["a"])), vec![check("c", "w", Status::Passing)]), "ok"),
        (register(node("n"), Some(service("w", "api", &["b"])), vec![]), "ok"),
    ]);
    let shown =
        bench.tables.check("n", "c").map(|check| (check.value.service_name.clone(), check.value.service_tags.clone()));
    assert_eq!(shown, Some(("web".to_owned(), vec!["a".to_owned()])), "until it is registered again");
    assert_eq!((bench.service("web").len(), bench.service("api")), (0, vec!["n/w[b] c=passing".to_owned()]));
    assert_eq!(bench.topic(&Topic::Service("web".to_owned())).index, 2);
}

#[test]
fn unrelated_changes_do_not_move_a_topic() {
    let mut bench = Bench::new();
    bench.check(&[(register(node("n1"), Some(service("w", "web", &[])), vec![]), "ok")]);
    let before = bench.topic(&Topic::Service("web".to_owned()));
    bench.check(&[
        (register(node("n2"), Some(service("d", "db", &["x"])), vec![check("c", "d", Status::Critical)]), "ok"),
        (register(node("n1"), Some(service("d", "db", &[])), vec![check("c", "d", Status::Critical)]), "ok"),
        (deregister("n1", Some("d"), None), "ok"),
        (set("k", "v"), "true"),
        (register(node("n1"), Some(service("w", "web", &[])), vec![]), "ok"),
    ]);
    assert_eq!(bench.topic(&Topic::Service("web".to_owned())), before);
}

#[test]
fn the_newest_events_are_kept() {
    let mut bench = Bench::new();
    let fire =
        |id: u64| Command::Fire(UserEvent { id: id.to_string(), name: "deploy".to_owned(), ..UserEvent::default() });
    for number in 1..=300 {
        bench.run(&fire(number)).expect("fires");
    }
    bench.check(&[(fire(300), "event 300"), (Command::Fire(UserEvent::default()), "400 Missing name")]);
    let events = bench.topic(&Topic::Events);
    assert_eq!((events.rows.len(), events.index), (256, 300));
}

/// The catalog compares ids without case, as Consul's does: the newest spelling is shown, and nothing is there twice.
#[test]
fn ids_are_compared_without_case() {
    let mut bench = Bench::new();
    let web = |id: &str| Some(service(id, "web", &[]));
    bench.check(&[
        (register(node("n1"), web("Web-1"), vec![check("Chk", "WEB-1", Status::Passing)]), "ok"),
        (register(node("n1"), web("other"), vec![]), "ok"),
    ]);
    let created = bench.tables.service("n1", "Web-1").unwrap().create_index;
    bench.check(&[(register(node("N1"), web("wEB-1"), vec![]), "ok")]);
    assert_eq!(bench.service("web"), ["n1/other[]", "n1/wEB-1[] Chk=passing"]);
    assert_eq!(bench.tables.service("n1", "wEB-1").unwrap().create_index, created);
    let index = bench.tables.index();
    bench.check(&[(register(node("N1"), web("wEB-1"), vec![]), "ok")]);
    assert_eq!(bench.tables.index(), index, "what is there already changes nothing");
    bench.check(&[
        (register(node("n1"), None, vec![check("CHK", "web-1", Status::Warning)]), "ok"),
        (register(node("n1"), web("web-1"), vec![]), "ok"),
    ]);
    assert_eq!(bench.service("web"), ["n1/other[]", "n1/web-1[] CHK=warning"]);
    bench.check(&[(deregister("N1", None, Some("chk")), "ok")]);
    assert_eq!(bench.service("web"), ["n1/other[]", "n1/web-1[]"]);
    bench.check(&[(deregister("N1", Some("WEB-1"), None), "ok")]);
    assert_eq!(bench.service("web"), ["n1/other[]"]);
    assert_eq!(bench.reload(), bench.tables);
}

#[test]
fn one_batch_may_spell_an_id_twice() {
    let mut bench = Bench::new();
    let items = ["B", "b", "B"].map(|id| Item::Service(Box::new(service(id, "web", &[]))));
    let batch = Batch { node: node("n1"), incarnation: "i".to_owned(), sequence: 1, full: true, items: items.into() };
    bench.check(&[(Command::Agent("a".to_owned(), batch), "ok; ok; ok")]);
    assert_eq!(bench.service("web"), ["n1/B[] serfHealth=passing"]);
    assert_eq!(bench.reload(), bench.tables);
}
