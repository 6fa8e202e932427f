use futures::FutureExt;

use super::*;
use crate::access::builtin::MANAGEMENT;
use crate::access::{ANONYMOUS, digest};
use crate::backend::Caller;
use crate::command::Command;
use crate::model::{Policy, Resource, Rule, Token};

fn rule(resource: Resource, name: &str, policy: Policy) -> Rule {
    Rule { resource, name: name.to_owned(), exact: false, policy }
}

async fn put(server: &Server, accessor: &str, rules: Vec<Rule>) {
    let root = Token {
        accessor: "root".to_owned(),
        secret_digest: digest("secret-root"),
        rule_sets: vec![MANAGEMENT.to_owned()],
        ..Token::default()
    };
    server.registry.write(&Caller::default(), Command::PutToken(root)).await.unwrap();
    let secret_digest = if accessor == ANONYMOUS { String::new() } else { digest(&format!("secret-{accessor}")) };
    let token = Token { accessor: accessor.to_owned(), secret_digest, rules, ..Token::default() };
    server.registry.write(&Caller::default(), Command::PutToken(token)).await.unwrap();
}

#[tokio::test]
async fn a_token_decides_what_is_seen_and_done() {
    let server = server().await;
    let api = &server.api;
    for name in ["web", "db"] {
        register(api, json!({"Node": "a", "Address": "10.0.0.1", "Service": {"Service": name}})).await;
    }
    ask(api, "PUT /v1/kv/app/a", "1").await;
    ask(api, "PUT /v1/kv/other/a", "1").await;
    assert!(quick(api, "GET /v1/kv/app/a").is_some());
    let rules = vec![
        rule(Resource::Key, "app/", Policy::Write),
        rule(Resource::Node, "", Policy::Read),
        rule(Resource::Service, "web", Policy::Read),
    ];
    put(&server, "t1", rules).await;
    assert!(quick(api, "GET /v1/kv/app/a").is_none(), "somebody has to be asked");
    let table = [
        ("GET /v1/kv/app/a", "secret-t1", 200),
        ("GET /v1/kv/other/a", "secret-t1", 403),
        ("PUT /v1/kv/app/b", "secret-t1", 200),
        ("PUT /v1/kv/other/b", "secret-t1", 403),
        ("DELETE /v1/kv/?recurse", "secret-t1", 403),
        ("GET /v1/kv/app/a", "forged", 403),
        ("GET /v1/kv/app/a", "", 403),
        ("PUT /v1/session/create", "secret-t1", 403),
        ("PUT /v1/event/fire/x", "secret-t1", 403),
        ("GET /v1/agent/self", "secret-t1", 403),
        ("GET /v1/status/leader", "secret-t1", 200),
    ];
    for (line, token, status) in table {
        let request = request(line, "");
        let request = if token.is_empty() { request } else { with_token(request, token) };
        assert_eq!(api.answer(request).await.status.as_u16(), status, "{line} {token}");
    }
    let answer = api.answer(with_token(request("GET /v1/kv/x", ""), "forged")).await;
    assert_eq!(json_of(&answer), "ACL not found");
    let answer = api.answer(with_token(request("GET /v1/kv/?keys", ""), "secret-t1")).await;
    assert_eq!(
        (json_of(&answer), header(&answer, "x-consul-results-filtered-by-acls")),
        (json!(["app/a", "app/b"]), "true")
    );
    assert_eq!(header(&answer, "x-consul-default-acl-policy"), "deny");
    let answer = api.answer(with_token(request("GET /v1/catalog/services", ""), "secret-t1")).await;
    assert_eq!(json_of(&answer), json!({"web": []}));
    let answer = api.answer(with_token(request("GET /v1/health/service/db", ""), "secret-t1")).await;
    assert_eq!((json_of(&answer), header(&answer, "x-consul-results-filtered-by-acls")), (json!([]), "true"));
    let answer = api.answer(request("GET /v1/health/service/db", "")).await;
    assert_eq!(header(&answer, "x-consul-results-filtered-by-acls"), "", "without a token that would tell too much");
    put(&server, ANONYMOUS, vec![rule(Resource::Key, "other/", Policy::Read)]).await;
    assert_eq!(api.answer(request("GET /v1/kv/other/a", "")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_transaction_is_refused_as_a_whole() {
    let server = server().await;
    put(&server, "t1", vec![rule(Resource::Key, "app/", Policy::Write)]).await;
    let ops = json!([{"KV": {"Verb": "set", "Key": "app/a", "Value": "YQ=="}}, {"KV": {"Verb": "set", "Key": "x", "Value": "YQ=="}}]);
    let answer = server.api.answer(with_token(request("PUT /v1/txn", ops.to_string()), "secret-t1")).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    let what = "Permission denied: token with AccessorID 't1' lacks permission 'key:write' on \"x\"";
    assert_eq!(json_of(&answer), json!({"Results": null, "Errors": [{"OpIndex": 1, "What": what}]}));
    let answer = server.api.answer(with_token(request("GET /v1/kv/app/a", ""), "secret-t1")).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn tokens_are_shown_in_three_ways() {
    let server = server().await;
    put(&server, "t1", vec![rule(Resource::Key, "", Policy::Read)]).await;
    let ask = async |line: &str, headers: &[(&str, &str)]| {
        let mut request = request(line, "");
        for (name, value) in headers {
            request
                .headers
                .insert(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        server.api.answer(request).await.status.as_u16()
    };
    assert_eq!(ask("GET /v1/kv/x", &[("x-consul-token", "secret-t1")]).await, 404);
    assert_eq!(ask("GET /v1/kv/x", &[("authorization", "bearer secret-t1")]).await, 404);
    assert_eq!(ask("GET /v1/kv/x", &[("authorization", "Basic secret-t1")]).await, 403);
    assert_eq!(ask("GET /v1/kv/x?token=secret-t1", &[("x-consul-token", "forged")]).await, 404, "the parameter wins");
    assert_eq!(ask("GET /v1/kv/x?token=forged", &[("x-consul-token", "secret-t1")]).await, 403);
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_answered_by_what_their_token_may_do_then() {
    let server = server().await;
    let api = &server.api;
    ask(api, "PUT /v1/kv/app/a", "1").await;
    put(&server, "t1", vec![rule(Resource::Key, "app/", Policy::Write)]).await;
    let asked = |line: &str| with_token(request(line, ""), "secret-t1");
    let before = api.answer(asked("GET /v1/kv/app/a")).await;
    let line = format!("GET /v1/kv/app/a?wait=1h&index={}", header(&before, "x-consul-index"));
    let mut blocked = api.answer(asked(&line));
    assert!((&mut blocked).now_or_never().is_none());
    put(&server, "t1", vec![rule(Resource::Key, "other/", Policy::Read)]).await;
    let change = with_token(request("PUT /v1/kv/app/a", "2"), "secret-root");
    assert_eq!(api.answer(change).await.status, StatusCode::OK);
    assert_eq!(blocked.await.status, StatusCode::FORBIDDEN);
}
