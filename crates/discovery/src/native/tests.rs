use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::*;
use crate::agent::tests::bed::{Door, Hub, Spoke};
use crate::backend::LocalAgent;
use crate::command::Command;
use crate::http::{Content, Query};
use crate::model::{Policy, Resource, Rule, Token};

struct Bed {
    hub: Hub,
    agent: Spoke,
    native: Native,
    door: Option<Door>,
}

async fn bed() -> Bed {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.settled().await;
    let counted = Arc::clone(&agent.agent);
    let metrics = move || {
        let mut registry = thane_runtime::metrics::Registry::default();
        counted.register_metrics(&mut registry);
        thane_runtime::metrics::encode(&registry).unwrap()
    };
    let options = Options { metrics_text: Some(Arc::new(metrics)), ..Options::default() };
    let native = Native::new(Arc::clone(&agent.agent) as Arc<dyn Backend>, options);
    Bed { hub, agent, native, door: Some(door) }
}

fn request(method: Method, target: &str, body: impl Into<Bytes>) -> Request {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut headers = HeaderMap::new();
    // As curl sends it.
    headers.insert("content-type", HeaderValue::from_static("application/x-www-form-urlencoded"));
    Request {
        method,
        path: percent_decoded(path).unwrap(),
        query: Query::parse(query).unwrap(),
        headers,
        body: Ok(body.into()),
        peer: SocketAddr::from(([127, 0, 0, 1], 1)),
    }
}

impl Bed {
    async fn ask(&self, method: Method, target: &str, body: impl Into<Bytes>) -> (u16, Value) {
        let answer = self.native.answer(request(method, target, body)).await;
        let body = serde_json::from_slice(answer.body()).unwrap_or(Value::Null);
        (answer.status.as_u16(), body)
    }

    async fn get(&self, target: &str) -> (u16, Value) {
        self.ask(Method::GET, target, "").await
    }
}

#[tokio::test]
async fn services_are_registered_listed_and_found() {
    let bed = bed().await;
    let web = r#"{"id": "web-1", "name": "web", "address": "10.0.0.9", "port": 80, "tags": ["a"], "meta": {"v": "1"}, "check": {"type": "ttl", "ttl": "10s"}}"#;
    assert_eq!(bed.ask(Method::POST, "/agent/service/register", web).await.0, 200);
    assert_eq!(bed.ask(Method::PUT, "/agent/service/register", r#"{"Name": "web", "Port": 81}"#).await.0, 200);
    let (status, services) = bed.get("/agent/services").await;
    assert_eq!((status, services.as_array().map(Vec::len)), (200, Some(2)));
    assert_eq!(services[1]["id"], "web-1");
    assert_eq!(services[1]["status"], "critical");
    bed.agent.settled().await;
    bed.agent.until(&Topic::Service("web".to_owned()), |data| data.rows.len() == 2).await;
    let (_, found) = bed.get("/agent/catalog/service/web").await;
    let ports: Vec<&Value> = found.as_array().unwrap().iter().map(|it| &it["port"]).collect();
    assert_eq!(ports, [&json!(81), &json!(80)]);
    assert_eq!((&found[0]["node"], &found[0]["address"]), (&json!("node-1"), &json!("127.0.0.1")));
    assert_eq!(bed.get("/agent/catalog/service/web?tag=A").await.1.as_array().map(Vec::len), Some(1));
    assert_eq!(bed.get("/agent/catalog/service/web?passing").await.1.as_array().map(Vec::len), Some(1));
    bed.agent.until(&Topic::Services, |data| !data.rows.is_empty()).await;
    assert_eq!(bed.get("/agent/catalog/services").await, (200, json!({"web": ["a"]})));
    assert_eq!(bed.ask(Method::DELETE, "/agent/service/deregister/web-1", "").await.0, 200);
    assert_eq!(bed.ask(Method::DELETE, "/agent/service/deregister/web-1", "").await.0, 404);
    assert_eq!(bed.get("/agent/services").await.1.as_array().map(Vec::len), Some(1));
    let head =
        Head { method: &Method::GET, path: "/agent/catalog/service/web", query: None, headers: &HeaderMap::new() };
    bed.agent.until(&Topic::Service("web".to_owned()), |data| data.rows.len() == 1).await;
    bed.agent.until(&Topic::Tokens, |_| true).await;
    let quick = bed.native.quick(&head).expect("it is here");
    assert_eq!(quick.headers["x-cache"], "HIT");
}

/// In Konsul a TTL check could only be told that it passes.
#[tokio::test]
async fn defect_15_a_ttl_check_is_told_any_status_and_output() {
    let bed = bed().await;
    let check = r#"{"id": "alive", "ttl": "30s"}"#;
    assert_eq!(bed.ask(Method::POST, "/agent/check/register", check).await.0, 200);
    for (body, status, output) in [
        (r#"{"status": "warning", "output": "tired"}"#, "warning", "tired"),
        (r#"{"Status": "fail", "Output": "gone"}"#, "critical", "gone"),
        ("", "passing", ""),
    ] {
        assert_eq!(bed.ask(Method::PUT, "/agent/check/update/alive", body).await.0, 200);
        let (_, checks) = bed.get("/agent/checks").await;
        assert_eq!((&checks[0]["status"], &checks[0]["output"]), (&json!(status), &json!(output)));
        assert_eq!(checks[0]["type"], "ttl");
    }
    for (target, body, status) in [
        ("/agent/check/update/none", "", 404),
        ("/agent/check/update/alive", r#"{"status": "fine"}"#, 400),
        ("/agent/check/register", r#"{"name": "x", "type": "docker"}"#, 400),
        ("/agent/check/register", r#"{"name": "x"}"#, 400),
        ("/agent/check/register", r#"{"name": "x", "args": ["true"], "service_id": "none"}"#, 404),
        ("/agent/check/register", "{", 400),
        ("/agent/service/register", r#"{"port": 1}"#, 400),
        ("/agent/service/register", r#"{"name": "x", "colour": "red"}"#, 400),
        ("/agent/service/register", r#"{"name": "x", "address": "0.0.0.0"}"#, 400),
    ] {
        assert_eq!(bed.ask(Method::PUT, target, body).await.0, status, "{target} {body}");
    }
    assert_eq!(bed.ask(Method::DELETE, "/agent/check/deregister/alive", "").await.0, 200);
    assert_eq!(bed.get("/agent/checks").await, (200, json!([])));
}

/// In Konsul a key with a slash was not found.
#[tokio::test]
async fn defect_12_keys_are_read_written_listed_and_removed() {
    let bed = bed().await;
    assert_eq!(bed.get("/agent/kv/app/a").await.0, 404);
    let (status, put) = bed.ask(Method::PUT, "/agent/kv/app/a?flags=7", "one").await;
    assert_eq!((status, &put["success"]), (200, &json!(true)));
    let (status, entry) = bed.get("/agent/kv/app/a").await;
    assert_eq!((status, &entry["value"], &entry["flags"]), (200, &json!("one"), &json!(7)));
    let index = entry["modify_index"].as_u64().unwrap();
    assert_eq!(bed.ask(Method::PUT, &format!("/agent/kv/app/a?cas={}", index - 1), "x").await.0, 409);
    assert_eq!(bed.ask(Method::POST, &format!("/agent/kv/app/a?cas={index}"), "two").await.0, 200);
    bed.ask(Method::PUT, "/agent/kv/app/b%2Fc", Bytes::from_static(&[0xff, 0xfe])).await;
    for target in ["/agent/kv/app/*", "/agent/kv?prefix=app/", "/agent/kv/app/?prefix"] {
        let (status, list) = bed.get(target).await;
        assert_eq!((status, list.as_array().map(Vec::len)), (200, Some(2)), "{target}");
        assert_eq!((&list[1]["key"], &list[1]["encoding"]), (&json!("app/b/c"), &json!("base64")));
    }
    assert_eq!(bed.ask(Method::DELETE, "/agent/kv/app/a?cas=1", "").await.0, 409);
    assert_eq!(bed.ask(Method::DELETE, "/agent/kv/app/a", "").await.0, 200);
    assert_eq!(bed.get("/agent/kv/app/a").await.0, 404);
    assert_eq!(bed.ask(Method::DELETE, "/agent/kv/app/*", "").await.0, 200);
    assert_eq!(bed.get("/agent/kv?prefix").await, (200, json!([])));
    for (target, status) in [("/agent/kv/a?cas=x", 400), ("/agent/kv", 400), ("/agent/kv/", 400)] {
        assert_eq!(bed.ask(Method::PUT, target, "v").await.0, status, "{target}");
    }
    assert_eq!(bed.ask(Method::PUT, "/agent/kv/a", vec![0; 512 * 1024 + 1]).await.0, 413);
}

#[tokio::test]
async fn a_key_is_watched_by_waiting() {
    let bed = bed().await;
    bed.ask(Method::PUT, "/agent/kv/a", "1").await;
    let index = bed.get("/agent/kv/a").await.1["modify_index"].as_u64().unwrap();
    let target = format!("/agent/kv/a?index={index}&wait=1m");
    let (waited, ()) = tokio::join!(bed.get(&target), async {
        bed.ask(Method::PUT, "/agent/kv/b", "unrelated").await;
        bed.ask(Method::PUT, "/agent/kv/a", "2").await;
    });
    assert_eq!(waited.1["value"], "2");
    let (status, same) = bed.get(&format!("/agent/kv/a?index={}&wait=10ms", index + 100)).await;
    assert_eq!((status, &same["value"]), (200, &json!("2")), "after the wait what there is");
    assert_eq!(bed.get("/agent/kv/a?index=1&wait=soon").await.0, 400);
    assert_eq!(bed.get("/agent/kv/a?index=-1").await.0, 400);
}

async fn next(body: &mut http_body_util::combinators::BoxBody<Bytes, std::io::Error>) -> String {
    let frame = tokio::time::timeout(Duration::from_secs(30), body.frame()).await.expect("an event");
    String::from_utf8(frame.unwrap().unwrap().into_data().unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn keys_are_watched_by_events_that_can_be_resumed() {
    let bed = bed().await;
    bed.ask(Method::PUT, "/agent/kv/app/a", "1").await;
    let mut asking = request(Method::GET, "/agent/kv/app/*", "");
    asking.headers.insert("accept", HeaderValue::from_static("text/event-stream"));
    let answer = bed.native.answer(asking.clone()).await;
    let Content::Stream(mut body) = answer.content else { panic!() };
    let first = next(&mut body).await;
    assert!(first.starts_with("event: snapshot\nid: ") && first.contains("\"app/a\""), "{first}");
    bed.ask(Method::PUT, "/agent/kv/app/b", "2").await;
    let set = next(&mut body).await;
    assert!(set.starts_with("event: set\nid: ") && set.contains("\"app/b\""), "{set}");
    bed.ask(Method::DELETE, "/agent/kv/app/a", "").await;
    let delete = next(&mut body).await;
    assert!(delete.starts_with("event: delete\nid: ") && delete.contains("\"app/a\""), "{delete}");
    let id = delete.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    drop(body);
    asking.headers.insert("last-event-id", HeaderValue::from_str(&id).unwrap());
    let Content::Stream(mut body) = bed.native.answer(asking.clone()).await.content else { panic!() };
    bed.ask(Method::PUT, "/agent/kv/app/c", "3").await;
    assert!(next(&mut body).await.contains("\"app/c\""));
    drop(body);
    // Something happened in between: everything is told again.
    let Content::Stream(mut body) = bed.native.answer(asking).await.content else { panic!() };
    assert!(next(&mut body).await.starts_with("event: snapshot\n"));
}

#[tokio::test]
async fn the_agent_says_how_it_is() {
    let mut bed = bed().await;
    let (status, own) = bed.get("/agent/self").await;
    assert_eq!((status, &own["node_name"], &own["datacenter"]), (200, &json!("node-1"), &json!("dc1")));
    bed.agent.until(&Topic::Tokens, |_| true).await;
    assert_eq!(bed.get("/agent/health").await.1["connected"], true);
    assert_eq!(bed.ask(Method::POST, "/agent/reload", "").await.0, 200);
    let metrics = bed.native.answer(request(Method::GET, "/agent/metrics", "")).await;
    let text = String::from_utf8(metrics.body().to_vec()).unwrap();
    assert!(text.contains("konsul_agent_batches_total") && text.ends_with("# EOF\n"), "{text}");
    for (method, target, status) in [
        (Method::GET, "/agent/nothing", 404),
        (Method::GET, "/agent/service/deregister/", 404),
        (Method::GET, "/agent/reload", 405),
        (Method::DELETE, "/agent/services", 405),
        (Method::OPTIONS, "/agent/services", 200),
    ] {
        assert_eq!(bed.ask(method, target, "").await.0, status, "{target}");
    }
    bed.door.take().unwrap().close().await;
    while bed.agent.is_connected() {
        tokio::task::yield_now().await;
    }
    assert_eq!(bed.get("/agent/health").await.1["connected"], false);
    assert_eq!(bed.ask(Method::PUT, "/agent/kv/a", "x").await, (500, json!({"error": "No cluster leader"})));
    assert_eq!(bed.ask(Method::POST, "/agent/service/register", r#"{"name": "web"}"#).await.0, 200);
}

/// A token `secret` for keys under `app/` and the service `web`, and one that may make others.
async fn close(bed: &Bed) {
    let rule = |resource, name: &str| Rule { resource, name: name.to_owned(), exact: false, policy: Policy::Write };
    let token = Token {
        accessor: "app".to_owned(),
        secret_digest: crate::access::digest("secret"),
        rules: vec![rule(Resource::Key, "app/"), rule(Resource::Service, "web")],
        ..Token::default()
    };
    let root = Token {
        accessor: "root".to_owned(),
        secret_digest: crate::access::digest("root"),
        rules: vec![rule(Resource::Acl, "")],
        ..Token::default()
    };
    for token in [root, token] {
        bed.hub.registry.write_from(None, Command::PutToken(token)).await.unwrap();
    }
    bed.agent.until(&Topic::Tokens, |data| data.rows.len() == 2).await;
}

#[tokio::test]
async fn tokens_decide_what_is_allowed() {
    let bed = bed().await;
    close(&bed).await;
    for (method, target, body, status) in [
        (Method::PUT, "/agent/kv/app/a", "1", 403),
        (Method::PUT, "/agent/kv/app/a?token=secret", "1", 200),
        (Method::PUT, "/agent/kv/other?token=secret", "1", 403),
        (Method::GET, "/agent/kv/app/a?token=forged", "", 403),
        (Method::DELETE, "/agent/kv/*?token=secret", "", 403),
        (Method::POST, "/agent/service/register?token=secret", r#"{"name": "web"}"#, 200),
        (Method::POST, "/agent/service/register?token=secret", r#"{"name": "db"}"#, 403),
        (Method::DELETE, "/agent/service/deregister/web", "", 403),
        (Method::POST, "/agent/reload", "", 403),
    ] {
        assert_eq!(bed.ask(method, target, body).await.0, status, "{target} {body}");
    }
    assert_eq!(bed.get("/agent/services").await, (200, json!([])), "what may not be seen is not there");
}

#[tokio::test]
async fn nobody_takes_the_check_of_a_service_that_is_not_theirs() {
    let bed = bed().await;
    let db = r#"{"name": "db", "check": {"checkid": "alive", "ttl": "30s"}}"#;
    assert_eq!(bed.ask(Method::POST, "/agent/service/register", db).await.0, 200);
    assert_eq!(bed.ask(Method::POST, "/agent/check/register", r#"{"id": "disk", "ttl": "30s"}"#).await.0, 200);
    close(&bed).await;
    let web = r#"{"name": "web"}"#;
    assert_eq!(bed.ask(Method::POST, "/agent/service/register?token=secret", web).await.0, 200);
    let backend = Arc::clone(&bed.agent.agent) as Arc<dyn Backend>;
    let consul =
        crate::consul::Consul::new(backend, crate::consul::Options::default(), crate::consul::Metrics::default());
    for id in ["alive", "disk"] {
        for (target, body) in [
            ("/agent/check/register", json!({"id": id, "ttl": "1s", "service_id": "web"})),
            ("/agent/service/register", json!({"name": "web", "check": {"checkid": id, "ttl": "1s"}})),
            ("/v1/agent/check/register", json!({"ID": id, "Name": "x", "TTL": "1s", "ServiceID": "web"})),
            ("/v1/agent/check/register", json!({"Name": id, "TTL": "1s", "ServiceID": "web"})),
            ("/v1/agent/service/register", json!({"Name": "web", "Check": {"CheckID": id, "TTL": "1s"}})),
        ] {
            let asked = request(Method::PUT, &format!("{target}?token=secret"), body.to_string());
            let answer =
                if target.starts_with("/v1") { consul.answer(asked).await } else { bed.native.answer(asked).await };
            assert_eq!(answer.status, 403, "{target} {body}: {:?}", answer.body());
        }
    }
    assert_eq!(bed.agent.check("alive").map(|check| check.service_id.clone()).as_deref(), Some("db"));
    let own = json!({"Name": "web", "Check": {"CheckID": "own", "TTL": "1s"}});
    for _ in 0..2 {
        let asked = request(Method::PUT, "/v1/agent/service/register?token=secret", own.to_string());
        let answer = consul.answer(asked).await;
        assert_eq!(answer.status, 200, "{:?}", answer.body());
    }
}

/// A token that is taken back while somebody waits or watches counts no longer.
#[tokio::test]
async fn who_waits_is_answered_by_what_their_token_may_do_then() {
    let bed = bed().await;
    close(&bed).await;
    let (status, put) = bed.ask(Method::PUT, "/agent/kv/app/a?token=secret", "1").await;
    assert_eq!(status, 200, "{put}");
    let index = bed.get("/agent/kv/app/a?token=secret").await.1["modify_index"].as_u64().unwrap();
    let watching = bed.native.answer(request(Method::GET, "/agent/kv/app/*?watch&token=secret", "")).await;
    let Content::Stream(mut body) = watching.content else { panic!() };
    assert!(next(&mut body).await.starts_with("event: snapshot\n"));
    let target = format!("/agent/kv/app/a?token=secret&index={index}&wait=10m");
    let taken_back = async {
        bed.hub.registry.write_from(None, Command::DeleteToken("app".to_owned())).await.unwrap();
        bed.agent.until(&Topic::Tokens, |data| data.rows.len() == 1).await;
        bed.hub.registry.write_from(None, crate::agent::tests::put("app/a", "2")).await.unwrap();
    };
    let (waited, ()) = tokio::join!(bed.get(&target), taken_back);
    assert_eq!(waited.0, 403, "{waited:?}");
    let last = next(&mut body).await;
    assert!(last.starts_with("event: error\n") && last.contains("ACL not found"), "{last}");
    assert!(body.frame().await.is_none(), "it has ended");
}

#[tokio::test]
async fn health_and_metrics_are_told_before_the_hub_is_there() {
    let gone = Hub::start().await.door("agent-1").await.close().await;
    let mut options = crate::agent::Options::new("node-1");
    options.adjustable.hubs = vec![gone.to_string()];
    let agent = Spoke::with(options, crate::agent::tests::bed::store()).await;
    let native = Native::new(Arc::clone(&agent.agent) as Arc<dyn Backend>, Options::default());
    for (target, status) in [("/agent/health", 200), ("/agent/metrics", 200), ("/agent/services", 403)] {
        let answer = native.answer(request(Method::GET, target, "")).await;
        assert_eq!(answer.status.as_u16(), status, "{target}");
    }
}
