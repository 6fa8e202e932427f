//! A registry with a bit of everything, and questions to it.

use std::collections::BTreeMap;

use super::*;
use crate::backend::Place;
use crate::model::{Check, Definition, Indexed, Node, Service, Status, Weights};
use crate::topic::{Instance, Row, Topic, TopicData};

pub(super) fn place() -> Place {
    Place {
        datacenter: "dc1".to_owned(),
        node: "here".to_owned(),
        node_id: String::new(),
        address: "127.0.0.1".to_owned(),
    }
}

fn indexed<T>(value: T) -> Indexed<T> {
    Indexed { create_index: 1, modify_index: 1, value: Arc::new(value) }
}

fn node(name: &str, address: &str) -> Node {
    let meta = if name == "ext1" { BTreeMap::from([("k".to_owned(), "v".to_owned())]) } else { BTreeMap::new() };
    Node { name: name.to_owned(), address: address.to_owned(), meta, ..Node::default() }
}

fn instance(at: &Node, name: &str, address: &str, port: u16, status: Status) -> Row {
    let service = Service {
        id: name.to_owned(),
        name: name.to_owned(),
        address: address.to_owned(),
        port,
        tags: if port == 80 { vec!["v1".to_owned(), "Blue".to_owned()] } else { Vec::new() },
        weights: if port == 81 { Weights { passing: 7, warning: 3 } } else { Weights::default() },
        ..Service::default()
    };
    let check = Check {
        id: "c".to_owned(),
        name: "c".to_owned(),
        status,
        notes: String::new(),
        output: String::new(),
        service_id: name.to_owned(),
        service_name: name.to_owned(),
        service_tags: Vec::new(),
        kind: String::new(),
        definition: Definition::default(),
    };
    let (node, service) = (indexed(at.clone()), indexed(service));
    Row::Instance(Arc::new(Instance { node, service, checks: vec![indexed(check)] }))
}

pub(super) fn registry() -> BTreeMap<Topic, Arc<TopicData>> {
    let nodes = [
        node("ext1", "10.0.0.1"),
        node("ext2", "10.0.0.2"),
        node("ext3", "10.0.0.3"),
        node("ext4", "fe80::4"),
        node("ext6", "10.0.0.6"),
    ];
    let rows = [
        ("dead", instance(&nodes[4], "dead", "", 1, Status::Critical)),
        ("named", instance(&nodes[4], "named", "www.example.com", 1, Status::Passing)),
        ("six", instance(&nodes[3], "six", "", 66, Status::Passing)),
        ("web", instance(&nodes[0], "web", "", 80, Status::Passing)),
        ("web", instance(&nodes[1], "web", "10.1.0.2", 81, Status::Warning)),
        ("web", instance(&nodes[2], "web", "", 82, Status::Critical)),
    ];
    let mut topics: BTreeMap<Topic, Vec<Row>> = BTreeMap::new();
    for (service, row) in rows {
        topics.entry(Topic::Service(service.to_owned())).or_default().push(row.clone());
        topics.entry(Topic::Instances).or_default().push(row);
    }
    for node in nodes {
        let row = Row::Node(indexed(node.clone()));
        topics.entry(Topic::Nodes).or_default().push(row.clone());
        topics.insert(Topic::Node(node.name), vec![row]);
    }
    let sorted = |mut rows: Vec<Row>| {
        rows.sort_by_key(Row::key);
        rows
    };
    topics.into_iter().map(|(topic, rows)| (topic, Arc::new(TopicData::new(1, sorted(rows))))).collect()
}

pub(super) fn ask(name: &str, kind: u16) -> Answer {
    ask_seeded(name, kind, 5)
}

pub(super) fn ask_seeded(name: &str, kind: u16, seed: u64) -> Answer {
    let settings = Settings::default();
    let question = Question { name: Name::parse(name).unwrap(), kind, class: 1 };
    let found = lookup(&question, &settings, "DC1");
    let topics = registry();
    let data = found.topic().and_then(|topic| topics.get(&topic).cloned());
    let more = topics.get(&Topic::Instances).cloned();
    let place = place();
    let context = Context { settings: &settings, place: &place, now: 77, seed };
    answer(&question, &found, data.as_deref(), more.as_deref(), context)
}

/// The answer about a service with many instances.
pub(super) fn many(kind: u16, count: u32) -> Answer {
    let rows = (0..count).map(|number| {
        let at = node(&format!("many{number:05}"), &std::net::Ipv4Addr::from(0x0a02_0000 + number).to_string());
        instance(&at, "many", "", 9, Status::Passing)
    });
    let data = TopicData::new(1, rows.collect());
    let settings = Settings::default();
    let question = Question { name: Name::parse("many.service.consul").unwrap(), kind, class: 1 };
    let found = lookup(&question, &settings, "dc1");
    let place = place();
    let context = Context { settings: &settings, place: &place, now: 77, seed: 1 };
    answer(&question, &found, Some(&data), None, context)
}

/// A query as a client sends it.
pub(super) fn packet(name: &str, kind: u16) -> Vec<u8> {
    let mut packet = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        packet.push(u8::try_from(label.len()).unwrap());
        packet.extend_from_slice(label.as_bytes());
    }
    packet.push(0);
    packet.extend_from_slice(&kind.to_be_bytes());
    packet.extend_from_slice(&[0, 1]);
    packet
}
