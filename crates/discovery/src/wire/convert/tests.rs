use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::model::CheckDefinition;

fn text() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9 .:/äß-]{0,12}"
}

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9-]{0,10}"
}

fn some_service() -> impl Strategy<Value = Service> {
    let address = (text(), any::<u16>()).prop_map(|(address, port)| ServiceAddress { address, port });
    (
        (name(), name(), vec(text(), 0..3), text(), any::<u16>()),
        (btree_map(name(), address, 0..3), btree_map(name(), text(), 0..3), any::<(u32, u32)>(), any::<bool>()),
    )
        .prop_map(
            |((id, name, tags, address, port), (tagged_addresses, meta, (passing, warning), tag_override))| Service {
                id,
                name,
                tags,
                address,
                port,
                tagged_addresses,
                meta,
                weights: Weights { passing, warning },
                enable_tag_override: tag_override,
            },
        )
}

fn some_check() -> impl Strategy<Value = Check> {
    let status = prop_oneof![Just(Status::Passing), Just(Status::Warning), Just(Status::Critical)];
    let definition =
        (text(), 0_u64..100, any::<bool>(), 0_u32..5).prop_map(|(http, seconds, skip, threshold)| CheckDefinition {
            http,
            interval: Duration::from_secs(seconds),
            tls_skip_verify: skip,
            failures_before_critical: threshold,
            ..CheckDefinition::default()
        });
    ((name(), text(), status, text(), text()), (text(), text(), vec(text(), 0..3), text(), definition)).prop_map(
        |((id, name, status, notes, output), (service_id, service_name, service_tags, kind, definition))| Check {
            id,
            name,
            status,
            notes,
            output,
            service_id,
            service_name,
            service_tags,
            kind,
            definition: definition.into(),
        },
    )
}

fn some_node() -> impl Strategy<Value = Node> {
    ((name(), text(), text(), text()), (btree_map(name(), text(), 0..3), btree_map(name(), text(), 0..3))).prop_map(
        |((name, id, address, datacenter), (tagged_addresses, meta))| Node {
            name,
            id,
            address,
            datacenter,
            tagged_addresses,
            meta,
            owner: Some("cluster-1".to_owned()),
        },
    )
}

fn some_item() -> impl Strategy<Value = Item> {
    prop_oneof![
        some_service().prop_map(|it| Item::Service(Box::new(it))),
        name().prop_map(Item::NoService),
        some_check().prop_map(|it| Item::Check(Box::new(it))),
        name().prop_map(Item::NoCheck),
    ]
}

proptest! {
    #[test]
    fn a_batch_arrives_as_it_was_sent(node in some_node(), items in vec(some_item(), 0..20), sequence in 0_u64..1 << 62) {
        let batch = Batch { node, incarnation: "i".to_owned(), sequence, full: false, items };
        let (request, order) = batch_request("id", &batch);
        let bytes = request.encode_to_vec();
        let read = wire::BatchUpdateRequest::decode(bytes.as_slice()).unwrap();
        prop_assert_eq!(index(read.sequence_number), sequence);
        prop_assert_eq!(node_from(read.agent.unwrap(), "cluster-1").unwrap(), batch.node.clone());
        let services = read.services.into_iter().map(service_item);
        let items: Vec<Item> = services.chain(read.checks.into_iter().map(check_item)).collect::<Result<_, _>>().unwrap();
        let answers: Vec<_> = (0..items.len()).map(|n| wire::ItemResult { ok: true, error: n.to_string() }).collect();
        for (item, answer) in batch.items.iter().zip(in_order(answers, &order)) {
            prop_assert_eq!(&items[answer.error.parse::<usize>().unwrap()], item);
        }
    }

    #[test]
    fn what_is_packed_is_unpacked_as_it_was(deltas in vec(vec(any::<u8>(), 0..400), 0..5), at in any::<i64>()) {
        let deltas: Vec<Bytes> = deltas.into_iter().map(Bytes::from).collect();
        let reply = wire::FollowReply { current_index: at, deltas, ..Default::default() };
        prop_assert_eq!(unpacked(packed(reply.clone())).unwrap(), reply);
    }

    #[test]
    fn nonsense_is_refused_and_nothing_breaks(bytes in vec(any::<u8>(), 0..300)) {
        let bytes = Bytes::from(bytes);
        let _ = delta(&bytes);
        let _ = unpacked(wire::FollowReply { compressed_data: bytes.clone(), ..Default::default() });
        let _ = unpacked_sync(wire::SyncResponse { compressed_data: bytes.clone(), ..Default::default() });
        let _ = service_from(wire::Service { name: "x".to_owned(), details: bytes.clone(), ..Default::default() });
        let _ = check_from(wire::HealthUpdate { details: bytes.clone(), ..Default::default() });
        if let Ok(request) = wire::BatchUpdateRequest::decode(bytes) {
            request.services.into_iter().for_each(|update| drop(service_item(update)));
            request.checks.into_iter().for_each(|update| drop(check_item(update)));
        }
    }
}

#[test]
fn bad_items_say_what_is_wrong() {
    let port = wire::Service { name: "web".to_owned(), port: 70_000, ..Default::default() };
    assert_eq!(service_from(port).unwrap_err(), "70000 is no port");
    assert!(service_item(wire::ServiceUpdate::default()).is_err());
    let status = wire::HealthUpdate { check_id: "c".to_owned(), status: "fine".to_owned(), ..Default::default() };
    assert_eq!(check_from(status).unwrap_err(), "\"fine\" is no status");
    assert!(node_from(wire::AgentInfo::default(), "a").is_err());
}

#[test]
fn a_bomb_is_not_unpacked() {
    // The length in front says four gigabytes.
    let bomb = Bytes::from_static(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0x00]);
    let reply = wire::FollowReply { compressed_data: bomb, ..Default::default() };
    assert!(unpacked(reply).unwrap_err().contains("more than"));
}

#[test]
fn repetitive_content_shrinks_by_four_fifths() {
    let row =
        r#"{"node":{"name":"node-1","address":"10.0.0.1","datacenter":"dc1"},"service":{"name":"web","port":80}}"#;
    let deltas = vec![Bytes::from(row.repeat(50))];
    let reply = wire::FollowReply { current_index: 1, deltas, ..Default::default() };
    let (before, after) = (reply.encoded_len(), packed(reply).encoded_len());
    assert!(after * 5 < before, "{after} of {before}");
}

/// A hundred registrations as a deployment makes them: the same service, other instances.
fn hundred() -> Batch {
    let item = |number: u16| {
        let id = format!("checkout-{number:03}");
        let check = Check {
            id: format!("service:{id}"),
            name: "Service 'checkout' check".to_owned(),
            status: Status::Passing,
            notes: String::new(),
            output: format!("HTTP GET http://10.1.2.{number}:8080/health: 200 OK Output: {{\"status\":\"UP\"}}"),
            service_id: id.clone(),
            service_name: "checkout".to_owned(),
            service_tags: vec!["production".to_owned(), "eu-central-1".to_owned()],
            kind: "http".to_owned(),
            definition: CheckDefinition {
                http: format!("http://10.1.2.{number}:8080/health"),
                interval: Duration::from_secs(10),
                timeout: Duration::from_secs(5),
                ..CheckDefinition::default()
            }
            .into(),
        };
        let service = Service {
            id,
            name: "checkout".to_owned(),
            tags: check.service_tags.clone(),
            address: format!("10.1.2.{number}"),
            port: 8080,
            meta: [
                ("version", "2026.11.3"),
                ("team", "payments"),
                ("commit", "6937dc8843b1bdd1d0cf8ed5cbd0c5d1ff032b36"),
            ]
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
            ..Service::default()
        };
        [Item::Service(Box::new(service)), Item::Check(Box::new(check))]
    };
    Batch {
        node: Node { name: "web-1".to_owned(), address: "10.1.2.3".to_owned(), ..Node::default() },
        incarnation: "6b0e0b2c-0000-4000-8000-000000000001".to_owned(),
        sequence: 7,
        full: false,
        items: (0..50).flat_map(item).collect(),
    }
}

#[test]
fn what_is_alike_shrinks_to_a_fifth() {
    let (plain, _) = batch_request("agent-1", &hundred());
    let packed = packed_batch(plain.clone());
    let (before, after) = (plain.encoded_len(), packed.encoded_len());
    assert!(after * 5 <= before, "{before} bytes became {after}");
    assert_eq!(unpacked_batch(packed).as_ref(), Ok(&plain));
    let small = health_report("agent-1", &Batch { items: Vec::new(), ..hundred() });
    assert_eq!(packed_report(small.clone()), small, "what is small stays as it is");
    for damaged in [&b"\xff\xff\xff\xff\xff"[..], b"\x10", b"\x05hello"] {
        let batch = wire::BatchUpdateRequest { compressed_data: damaged.to_vec().into(), ..plain.clone() };
        assert!(unpacked_batch(batch).is_err());
    }
}
