use std::collections::BTreeSet;
use std::path::Path;

use super::*;

/// The design record's file, whole.
const WHOLE: &str = r#"
agent:
  id: "agent-1"
  node_name: "node-1"
  datacenter: "dc1"
  server_address: "hub-1:8443, hub-2:8443"
  tls:
    enabled: true
    ca_cert: /etc/konsul/ca.pem
    client_cert: /etc/konsul/agent.pem
    client_key: /etc/konsul/agent-key.pem
  cache:
    service_ttl: 60s
    kv_ttl: 300s
    max_entries: 10000
    eviction_policy: lru
  health_checks:
    enable_local_execution: true
    check_interval: 10s
    report_only_changes: true
  sync:
    interval: 10s
    full_sync_interval: 300s
    batch_size: 100
    compression: true
  resources:
    memory_limit: 128Mi
    cpu_limit: 100m
  watched_prefixes:
    - "config/"
    - "/features/"
  mesh:
    enabled: false
    proxy_type: envoy
"#;

fn read(text: &str) -> Result<Read, Error> {
    Config::parse(text)?.read(&Environment::default())
}

#[test]
fn the_whole_file_is_accepted_as_it_is() {
    let read = read(WHOLE).unwrap();
    assert_eq!((read.options.id.as_str(), read.options.node_name.as_str()), ("agent-1", "node-1"));
    let adjustable = &read.options.adjustable;
    assert_eq!(adjustable.hubs, ["hub-1:8443", "hub-2:8443"]);
    assert_eq!(adjustable.watched_prefixes, BTreeSet::from(["config/".to_owned(), "features/".to_owned()]));
    let limits = Limits { bytes: 112 << 20, ..Limits::default() };
    assert_eq!((&adjustable.limits, &adjustable.cadence), (&limits, &Cadence::default()));
    assert_eq!(read.tls.ca_cert.as_deref(), Some(Path::new("/etc/konsul/ca.pem")));
    assert_eq!(read.warnings, ["agent.resources.cpu_limit has no effect; limit the process from outside"]);
}

#[test]
fn what_cannot_be_done_is_refused_or_warned_of() {
    for (text, expected) in [
        ("agent: {node_name: n, mesh: {enabled: true}}", "mesh"),
        ("agent: {node_name: n, server_address: 'hub:1', tls: {enabled: false}}", "only towards this machine"),
        ("agent: {node_name: n, server_address: 'hub:port'}", "not a host and a port"),
        ("agent: {node_name: n, tls: {client_cert: a.pem}}", "client_key and agent.tls.ca_cert is not given"),
        ("agent: {node_name: n, tls: {client_cert: a.pem, client_key: a.key}}", "agent.tls.ca_cert is not given"),
        ("agent: {node_name: n, sync: {interval: 5ms}}", "at least 1s"),
        ("agent: {node_name: n, sync: {compression: zip}}", "snappy or none"),
        ("agent: {node_name: n, cache: {service_ttl: soon}}", "soon"),
        ("agent: {node_name: n, colour: red}", "colour"),
        ("agent: {}", "NODE_NAME"),
        ("agent: [", "file"),
    ] {
        let error = read(text).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(expected), "{text}: {error:?}");
    }
    for address in ["127.0.0.1:1", "localhost:1", "[::1]:1"] {
        let text = format!("agent: {{node_name: n, server_address: '{address}', tls: {{enabled: false}}}}");
        assert!(read(&text).is_ok(), "{address}");
    }
    let tight =
        read("agent: {node_name: n, resources: {memory_limit: 19MiB}, cache: {eviction_policy: random}}").unwrap();
    let limits = tight.options.adjustable.limits;
    assert_eq!((limits.bytes, limits.open_bytes, limits.entries), (3 << 20, 3 << 18, 10_000));
    assert_eq!(tight.warnings.len(), 1);
    let tiny = read("agent: {node_name: n, resources: {memory_limit: 8MiB}, cache: {max_entries: 50000}}").unwrap();
    let limits = tiny.options.adjustable.limits;
    assert_eq!((limits.bytes, limits.entries, tiny.warnings.len()), (1 << 20, 10_000, 2));
    let large = read("agent: {node_name: n, sync: {batch_size: 5000}}").unwrap();
    assert_eq!((large.options.adjustable.cadence.batch, large.warnings.len()), (100, 1));
}

#[test]
fn the_environment_says_where_it_runs() {
    let environment = |pairs: &'static [(&str, &str)]| {
        Environment::read(|name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    };
    let named = |pairs, text: &str| {
        let options = Config::parse(text).unwrap().read(&environment(pairs).unwrap()).unwrap().options;
        (options.node_name, options.address)
    };
    let pair = |name: &str, address: &str| (name.to_owned(), address.to_owned());
    assert_eq!(named(&[("NODE_NAME", "worker-1")], ""), pair("worker-1", "127.0.0.1"));
    let pod: &[_] = &[("KONSUL_AGENT_MODE", "sidecar"), ("POD_IP", "10.1.2.3"), ("NODE_NAME", "worker-1")];
    assert_eq!(named(pod, ""), pair("worker-1-10-1-2-3", "10.1.2.3"));
    assert_eq!(named(pod, "agent: {node_name: mine}"), pair("mine", "10.1.2.3"));
    let told = Environment { address: Some("10.0.0.7".to_owned()), ..environment(pod).unwrap() };
    let placed = |text: &str, environment: &Environment| {
        let read = Config::parse(text).unwrap().read(environment).unwrap();
        (read.options.address, read.has_address)
    };
    assert_eq!(placed("", &told), ("10.0.0.7".to_owned(), true));
    assert_eq!(placed("agent: {address: 10.0.0.8}", &told), ("10.0.0.8".to_owned(), true));
    let nobody = environment(&[("NODE_NAME", "worker-1")]).unwrap();
    assert_eq!(placed("", &nobody), ("127.0.0.1".to_owned(), false));
    assert_eq!(named(&[("KONSUL_AGENT_MODE", "sidecar"), ("POD_IP", "fd00::1")], ""), pair("pod-fd00--1", "fd00::1"));
    assert!(environment(&[("KONSUL_AGENT_MODE", "cluster")]).unwrap_err().to_string().contains("cluster"));
}

#[tokio::test]
async fn a_running_agent_follows_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.yaml");
    std::fs::write(&path, "agent: {node_name: n}").unwrap();
    let read = load(&path, &Environment::default()).unwrap();
    let agent = crate::agent::tests::bed::Spoke::with(read.options, crate::agent::tests::bed::store()).await;
    let (tasks, _) = thane_runtime::Tasks::root("test");
    follow(&agent.agent, Some(&path), &tasks).unwrap();
    std::fs::write(&path, "agent: {node_name: n, health_checks: {check_interval: 7s}}").unwrap();
    let taken = async {
        loop {
            let change = agent.local_change();
            if agent.check_interval() == Duration::from_secs(7) {
                return;
            }
            change.await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), taken).await.expect("the file was not read again");
    tasks.shutdown(Duration::from_secs(1)).await;
}

#[test]
fn a_file_is_read_again_and_a_bad_one_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.yaml");
    std::fs::write(&path, WHOLE).unwrap();
    let read = load(&path, &Environment::default()).unwrap();
    let again = read.options.again.unwrap();
    std::fs::write(&path, "agent: {node_name: n, server_address: [a:1, b:2], sync: {full_sync_interval: 1m}}").unwrap();
    let taken = again().unwrap();
    assert_eq!((taken.adjustable.hubs.len(), taken.adjustable.cadence.full), (2, Duration::from_mins(1)));
    assert_eq!(taken.needs_restart, ["id", "node_name", "datacenter", "tls"]);
    std::fs::write(&path, "agent: {nonsense: 1}").unwrap();
    assert!(again().unwrap_err().contains("nonsense"));
    assert!(load(&dir.path().join("absent"), &Environment::default()).is_err());
}
