use std::time::Duration;

use super::local::Beside;
use super::*;
use crate::agent::tests::bed::Spoke;

async fn agent() -> (Arc<Consul>, Tasks) {
    let (tasks, _) = Tasks::root("test");
    let backend = Arc::new(Beside::new(registry(&tasks).await));
    (Arc::new(Consul::new(backend, Options::default(), Metrics::default())), tasks)
}

async fn put(api: &Consul, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = ask(api, &format!("PUT /v1/agent/{path}"), body).await;
    (answer.status.as_u16(), json_of(&answer))
}

async fn get(api: &Consul, path: &str) -> (u16, Value) {
    let answer = ask(api, &format!("GET /v1/agent/{path}"), "").await;
    (answer.status.as_u16(), json_of(&answer))
}

#[tokio::test]
async fn services_and_checks_are_registered_and_judged() {
    let (api, _tasks) = agent().await;
    let body = json!({"ID": "a1", "Name": "api", "Port": 8080, "Tags": ["v1"], "Check": {"TTL": "30s"}});
    assert_eq!(put(&api, "service/register", body).await, (200, json!("")));
    let (_, services) = get(&api, "services").await;
    assert_eq!(services["a1"]["Service"], "api");
    assert_eq!(services["a1"]["Datacenter"], "dc1");
    let (_, checks) = get(&api, "checks").await;
    assert_eq!((&checks["service:a1"]["Type"], &checks["service:a1"]["Status"]), (&json!("ttl"), &json!("critical")));
    let answer = ask(&api, "GET /v1/agent/health/service/id/a1?format=text", "").await;
    assert_eq!(
        (answer.status.as_u16(), json_of(&answer), header(&answer, "x-consul-reason")),
        (503, json!("critical"), "critical")
    );
    for (verb, status, word) in [("pass", 200, "passing"), ("warn", 429, "warning"), ("fail", 503, "critical")] {
        assert_eq!(put(&api, &format!("check/{verb}/service:a1?note=n"), Value::Null).await.0, 200);
        let (found, health) = get(&api, "health/service/name/api").await;
        assert_eq!((found, &health[0]["AggregatedStatus"]), (status, &json!(word)), "{verb}");
    }
    assert_eq!(put(&api, "service/maintenance/a1?enable=true&reason=r", Value::Null).await.0, 200);
    assert_eq!(get(&api, "health/service/id/a1?format=text").await, (503, json!("maintenance")));
    assert_eq!(put(&api, "service/deregister/a1", Value::Null).await, (200, json!("")));
    assert_eq!(get(&api, "services").await, (200, json!({})));
    assert_eq!(get(&api, "health/service/name/api").await, (404, json!([])));
}

#[tokio::test]
async fn what_is_unknown_is_said_in_consuls_words() {
    let (api, _tasks) = agent().await;
    put(&api, "check/register", json!({"Name": "mem", "HTTP": "http://127.0.0.1:1/", "Interval": "10s"})).await;
    let service = "Unknown service ID \"x\". Ensure that the service ID is passed, not the service name.";
    let check = "Unknown check ID \"x\". Ensure that the check ID is passed, not the check name.";
    let table = [
        ("service/deregister/x", Value::Null, 404, service),
        ("service/maintenance/x?enable=true", Value::Null, 404, service),
        ("check/deregister/x", Value::Null, 404, check),
        ("check/pass/x", Value::Null, 404, check),
        ("check/pass/mem", Value::Null, 500, "CheckID \"mem\" does not have associated TTL"),
        ("check/update/x", json!({"Status": "bogus"}), 400, "Invalid check status: 'bogus'"),
        ("check/register", json!({"Name": "c", "TTL": "1s", "ServiceID": "x"}), 404, "ServiceID \"x\" does not exist"),
        ("service/register", json!({"Name": "x", "Foo": 1}), 400, "Request decode failed: json: unknown field \"Foo\""),
        ("maintenance", Value::Null, 400, "Missing value for enable"),
        ("maintenance?enable=maybe", Value::Null, 400, "Invalid value for enable: \"maybe\""),
        ("service/maintenance/?enable=true", Value::Null, 400, "Missing service ID"),
    ];
    for (path, body, status, text) in table {
        assert_eq!(put(&api, path, body).await, (status, json!(text)), "{path}");
    }
    assert_eq!(get(&api, "service/x").await, (404, json!("unknown service ID: x")));
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_waited_for_by_its_hash() {
    let (api, _tasks) = agent().await;
    put(&api, "service/register", json!({"Name": "api"})).await;
    let first = ask(&api, "GET /v1/agent/service/api", "").await;
    let hash = header(&first, "x-consul-contenthash").to_owned();
    assert_eq!((json_of(&first)["ContentHash"].as_str(), hash.len()), (Some(hash.as_str()), 16));
    let same = ask(&api, &format!("GET /v1/agent/service/api?hash={hash}&wait=1s"), "").await;
    assert_eq!(header(&same, "x-consul-contenthash"), hash, "answered when the time was up");
    put(&api, "service/register", json!({"Name": "api", "Port": 1})).await;
    let other = ask(&api, &format!("GET /v1/agent/service/api?hash={hash}"), "").await;
    assert_ne!(header(&other, "x-consul-contenthash"), hash);
}

#[tokio::test]
async fn the_agent_says_who_it_is() {
    let (api, _tasks) = agent().await;
    let (status, own) = get(&api, "self").await;
    assert_eq!((status, &own["Config"]["Datacenter"], &own["Config"]["Server"]), (200, &json!("dc1"), &json!(false)));
    assert_eq!((&own["Config"]["NodeName"], &own["Member"]["Name"]), (&json!("n1"), &json!("n1")));
    assert_eq!(get(&api, "version").await.1["HumanVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(get(&api, "metrics").await.1["Counters"], json!([]));
    assert_eq!(put(&api, "reload", Value::Null).await, (200, json!("")));
    assert_eq!(put(&api, "leave", Value::Null).await.0, 500);
}

#[tokio::test]
async fn who_waits_for_an_instance_is_woken_without_a_hub() {
    let agent = Spoke::start("node-1", &[]).await;
    let api = Consul::new(Arc::clone(&agent.agent) as Arc<dyn Backend>, Options::default(), Metrics::default());
    assert_eq!(put(&api, "service/register", json!({"Name": "web", "Port": 80})).await.0, 200);
    let hash = header(&ask(&api, "GET /v1/agent/service/web", "").await, "x-consul-contenthash").to_owned();
    let line = format!("GET /v1/agent/service/web?hash={hash}&wait=10m");
    let both =
        async { tokio::join!(ask(&api, &line, ""), put(&api, "service/register", json!({"Name": "web", "Port": 81}))) };
    let (waited, _) = tokio::time::timeout(Duration::from_mins(1), both).await.expect("nobody was woken");
    assert_eq!(json_of(&waited)["Port"], 81);
}
