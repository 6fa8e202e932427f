//! rs-consul against an agent: what a Rust program does with Consul, and what it expects back.
//!
//!     rs-consul-check http://HOST:PORT

use std::time::Duration;

use rs_consul::types::{
    CreateOrUpdateKeyRequest, DeleteKeyRequest, DeregisterEntityPayload, GetNodesRequest, GetServiceNodesRequest,
    LockRequest, QueryOptions, ReadKeyRequest, RegisterEntityPayload, RegisterEntityService,
};
use rs_consul::{Config, Consul};

#[tokio::main]
async fn main() {
    let address = std::env::args().nth(1).expect("http://HOST:PORT");
    let consul = Consul::new(Config { address, token: None, ..Config::default() });
    keys(&consul).await;
    locks(&consul).await;
    catalog(&consul).await;
    println!("rs-consul is content");
}

async fn keys(consul: &Consul) {
    let key = "rs-check/key";
    let write = |cas| CreateOrUpdateKeyRequest { key, check_and_set: cas, flags: 9, ..Default::default() };
    assert!(consul.create_or_update_key(write(None), b"one".to_vec()).await.expect("put").0);
    assert!(!consul.create_or_update_key(write(Some(0)), b"two".to_vec()).await.expect("cas").0);
    let read = |index| ReadKeyRequest { key, index, wait: Duration::from_secs(20), ..Default::default() };
    let found = consul.read_key(read(None)).await.expect("get");
    assert_eq!(found.response[0].value.as_deref(), Some("one"));
    assert_eq!((found.response[0].flags, found.response[0].modify_index as u64), (9, found.index));
    let change = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        consul.create_or_update_key(write(None), b"three".to_vec()).await.expect("put")
    };
    let (changed, _) = tokio::join!(consul.read_key(read(Some(found.index))), change);
    let changed = changed.expect("blocking get");
    assert!(changed.index > found.index);
    assert_eq!(changed.response[0].value.as_deref(), Some("three"));
    let tree = DeleteKeyRequest { key: "rs-check", recurse: true, ..Default::default() };
    assert!(consul.delete_key(tree).await.expect("delete"));
    assert!(consul.read_key(read(None)).await.is_err(), "a key that is gone");
}

async fn locks(consul: &Consul) {
    let request = || LockRequest { key: "rs-check-lock", lock_delay: Duration::ZERO, ..Default::default() };
    let lock = consul.get_lock(request(), b"mine").await.expect("the lock is free");
    assert!(consul.get_lock(request(), b"theirs").await.is_err(), "it is held");
    drop(lock);
    let read = ReadKeyRequest { key: "rs-check-lock", ..Default::default() };
    let found = consul.read_key(read).await;
    assert!(found.map_or(true, |found| found.response[0].session.is_none()), "it is free again");
}

async fn catalog(consul: &Consul) {
    let (node, service) = ("rs-check-node", "rs-check-service");
    let payload = RegisterEntityPayload {
        ID: None,
        Node: node.to_owned(),
        Address: "10.7.7.7".to_owned(),
        Datacenter: None,
        TaggedAddresses: Default::default(),
        NodeMeta: Default::default(),
        Service: Some(RegisterEntityService {
            ID: None,
            Service: service.to_owned(),
            Tags: vec!["a".to_owned()],
            TaggedAddresses: Default::default(),
            Meta: Default::default(),
            Port: Some(4242),
            Namespace: None,
        }),
        Checks: Vec::new(),
        SkipNodeUpdate: None,
    };
    consul.register_entity(&payload).await.expect("register");
    let names = consul.get_all_registered_service_names(None).await.expect("services");
    assert!(names.response.iter().any(|name| name == service));
    let nodes = consul.get_nodes(GetNodesRequest::default(), None).await.expect("nodes");
    assert!(nodes.response.iter().any(|found| found.node == node));
    let request = || GetServiceNodesRequest { service, near: None, passing: true, filter: Some("Service.Port==4242") };
    let found = consul.get_service_nodes(request(), None).await.expect("instances");
    assert_eq!((found.response.len(), found.response[0].service.port), (1, 4242));
    let places = consul.get_service_addresses_and_ports(service, None).await.expect("addresses");
    assert_eq!(places, [("10.7.7.7".to_owned(), 4242)]);
    let waiting = QueryOptions { index: Some(found.index), wait: Some(Duration::from_secs(20)), ..Default::default() };
    let gone = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let node = Some(node.to_owned());
        let payload =
            DeregisterEntityPayload { Node: node, Datacenter: None, CheckID: None, ServiceID: None, Namespace: None };
        consul.deregister_entity(&payload).await.expect("deregister");
    };
    let (later, ()) = tokio::join!(consul.get_service_nodes(request(), Some(waiting)), gone);
    assert!(later.expect("blocking instances").response.is_empty(), "the change that was waited for");
}
