//! Tests of the API over a registry in memory.

mod access;
mod acl;
mod agent;
mod blocking;
mod local;
mod snapshot;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};
use thane_kv::{MemoryOptions, MemoryStore};
use thane_runtime::{SystemClock, Tasks};

use super::{Consul, Metrics, Options};
use crate::backend::{Backend, Place};
use crate::http::{Answer, BODY_BYTES_MAX, Head, Query, Request, Routes, TooLarge, percent_decoded};
use crate::hub;

/// The API over a registry of its own.
struct Server {
    api: Arc<Consul>,
    registry: Arc<hub::Registry>,
    // Tasks end with it.
    _tasks: Tasks,
}

fn place() -> Place {
    Place {
        datacenter: "dc1".to_owned(),
        node: "n1".to_owned(),
        node_id: "6b0e0b2c-0000-4000-8000-000000000001".to_owned(),
        address: "127.0.0.1".to_owned(),
    }
}

async fn registry(tasks: &Tasks) -> Arc<hub::Registry> {
    let store = MemoryStore::new(MemoryOptions::default());
    let options = hub::Options { place: place(), ..hub::Options::default() };
    hub::Registry::open(store, options, SystemClock::shared(), tasks).await.unwrap()
}

async fn server() -> Server {
    let (tasks, _) = Tasks::root("test");
    let registry = registry(&tasks).await;
    let backend: Arc<dyn Backend> = Arc::clone(&registry) as _;
    let api = Arc::new(Consul::new(backend, Options { blocked_max: 2, ..Options::default() }, Metrics::default()));
    Server { api, registry, _tasks: tasks }
}

fn request(line: &str, body: impl Into<Bytes>) -> Request {
    let (method, target) = line.split_once(' ').unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Request {
        method: Method::from_bytes(method.as_bytes()).unwrap(),
        path: percent_decoded(path).unwrap(),
        query: Query::parse(query).unwrap(),
        headers: HeaderMap::new(),
        body: Ok(body.into()),
        peer: SocketAddr::from(([127, 0, 0, 1], 1)),
    }
}

fn with_token(mut request: Request, token: &str) -> Request {
    request.headers.insert(HeaderName::from_static("x-consul-token"), HeaderValue::from_str(token).unwrap());
    request
}

/// The long way; what can be answered quickly must be the same.
async fn ask(api: &Consul, line: &str, body: impl Into<Bytes>) -> Answer {
    let answer = api.answer(request(line, body)).await;
    if let (Some(quick), Some(target)) = (quick(api, line), line.strip_prefix("GET ")) {
        assert_eq!(quick.status, answer.status, "{target}");
        assert_eq!(json_of(&quick), json_of(&answer), "{target}");
        assert_eq!(quick.headers, answer.headers, "{target}");
    }
    answer
}

fn quick(api: &Consul, line: &str) -> Option<Answer> {
    let (method, target) = line.split_once(' ')?;
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let (method, headers) = (Method::from_bytes(method.as_bytes()).unwrap(), HeaderMap::new());
    api.quick(&Head { method: &method, path, query, headers: &headers })
}

fn json_of(answer: &Answer) -> Value {
    serde_json::from_slice(answer.body()).unwrap_or_else(|_| String::from_utf8_lossy(answer.body()).into_owned().into())
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

async fn register(api: &Consul, body: Value) {
    let answer = ask(api, "PUT /v1/catalog/register", body.to_string()).await;
    assert_eq!((answer.status, json_of(&answer)), (StatusCode::OK, json!(true)), "{body}");
}

#[tokio::test]
async fn hot_reads_say_what_the_long_way_says() {
    let server = server().await;
    let api = &server.api;
    register(
        api,
        json!({"Node": "a", "Address": "10.0.0.1", "Service": {"Service": "Web", "Port": 1},
        "Check": {"Name": "c", "ServiceID": "Web", "Status": "passing"}}),
    )
    .await;
    register(
        api,
        json!({"Node": "b", "Address": "10.0.0.2", "Service": {"Service": "Web", "Tags": ["x"]},
        "Check": {"Name": "c", "ServiceID": "Web", "Status": "critical"}}),
    )
    .await;
    ask(api, "PUT /v1/kv/a/b", "value").await;
    let hot = [
        "GET /v1/health/service/web",
        "GET /v1/health/service/WEB?passing",
        "GET /v1/health/service/web?stale",
        "GET /v1/health/service/web?passing=1&cached",
        "GET /v1/catalog/service/web",
        "GET /v1/catalog/service/none",
        "GET /v1/kv/a/b",
        "GET /v1/kv/a/b?stale",
    ];
    for line in hot {
        assert!(quick(api, line).is_some(), "{line} is answered at once");
        assert_eq!(ask(api, line, "").await.status, StatusCode::OK, "{line}");
    }
    let cold = [
        "GET /v1/kv/a/b?raw",
        "GET /v1/kv/none",
        "GET /v1/kv/a//b",
        "GET /v1/kv/",
        "GET /v1/kv/a%2fb",
        "GET /v1/health/service/web?passing=maybe",
        "GET /v1/health/service/web?index=1",
        "GET /v1/health/service/web?stale&consistent",
        "GET /v1/health/service/",
        "GET /v1/catalog/service/web?dc=elsewhere",
        "PUT /v1/kv/a/b",
    ];
    for line in cold {
        assert!(quick(api, line).is_none(), "{line} needs more than a look");
    }
}

/// What the hub says of what only an agent has.
const NO_AGENT: &str = "this is the hub: what an agent registers is registered with that agent; ask the agent of that \
                        machine, or use /v1/catalog/register";

#[tokio::test]
async fn errors_have_consuls_status_and_words() {
    let server = server().await;
    let table = [
        ("GET /v1/kv/", "", 400, "Missing key name"),
        ("GET /v1/kv/x?dc=nowhere", "", 500, "No path to datacenter"),
        ("GET /v1/kv/x?index=abc", "", 400, "Invalid index"),
        ("GET /v1/kv/x?wait=abc", "", 400, "Invalid wait time"),
        ("PUT /v1/kv/x?cas=x", "1", 500, "strconv.ParseUint: parsing \"x\": invalid syntax"),
        (
            "PUT /v1/kv/x?cas=99999999999999999999",
            "1",
            500,
            "strconv.ParseUint: parsing \"99999999999999999999\": value out of range",
        ),
        ("PUT /v1/kv/x?cas=1&acquire=y", "1", 400, "Conflicting flags: acquire=y&cas=1\n"),
        ("POST /v1/kv/x", "", 405, "method POST not allowed"),
        ("GET /v1/nothing", "", 404, "Invalid URL path: not a recognized HTTP API endpoint\n"),
        ("PUT /v1/session/renew/x", "", 404, "Session id 'x' not found"),
        (
            "PUT /v1/txn",
            "{}",
            400,
            "Failed to parse body: json: cannot unmarshal object into Go value of type api.TxnOps",
        ),
        ("PUT /v1/event/fire/x?tag=a", "", 500, "Cannot provide tag filter without service filter"),
        (
            "GET /v1/catalog/nodes?filter=Foo==1",
            "",
            500,
            "Failed to create boolean expression evaluator: Selector \"Foo\" is not valid",
        ),
        ("GET /v1/agent/services", "", 404, NO_AGENT),
    ];
    for (line, body, status, text) in table {
        let answer = ask(&server.api, line, body).await;
        assert_eq!((answer.status.as_u16(), json_of(&answer)), (status, json!(text)), "{line}");
        assert_eq!(header(&answer, "content-type"), "text/plain; charset=utf-8", "{line}");
    }
    let large = Request { body: Err(TooLarge { declared: Some(BODY_BYTES_MAX + 1) }), ..request("PUT /v1/kv/x", "") };
    let answer = server.api.answer(large).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    let text = "Request body(524289 bytes) too large, max size: 524288 bytes. See ";
    assert!(json_of(&answer).as_str().unwrap().starts_with(text));
}

#[tokio::test]
async fn headers_say_how_fresh_an_answer_is() {
    let server = server().await;
    let answer = ask(&server.api, "GET /v1/kv/none", "").await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert_ne!(header(&answer, "x-consul-index"), "0", "with 0 a client would not block");
    assert_eq!(header(&answer, "x-consul-knownleader"), "true");
    assert_eq!(header(&answer, "x-consul-lastcontact"), "0");
    assert_eq!(header(&answer, "x-consul-effective-consistency"), "");
    for (query, word) in
        [("", "leader"), ("?stale", "stale"), ("?consistent", "consistent"), ("?max_stale=1s", "stale")]
    {
        let answer = ask(&server.api, &format!("GET /v1/catalog/nodes{query}"), "").await;
        assert_eq!(header(&answer, "x-consul-effective-consistency"), word);
    }
    let answer = ask(&server.api, "GET /v1/health/service/x?cached", "").await;
    assert_eq!((header(&answer, "x-cache"), header(&answer, "age")), ("HIT", "0"));
    let answer = ask(&server.api, "OPTIONS /v1/kv/x", "").await;
    assert_eq!((answer.status, header(&answer, "allow")), (StatusCode::OK, "OPTIONS,GET,PUT,DELETE"));
}

#[tokio::test]
async fn pretty_is_indented() {
    let server = server().await;
    ask(&server.api, "PUT /v1/kv/a", "x").await;
    let answer = ask(&server.api, "GET /v1/kv/a?pretty", "").await;
    assert!(answer.body().starts_with(b"[\n    {\n        \"LockIndex\": 0,\n"), "{answer:?}");
    assert!(answer.body().ends_with(b"]\n"));
}
