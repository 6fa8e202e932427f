use super::*;
use crate::access::ANONYMOUS;

const ROOT: &str = "aaaaaaaa-0000-4000-8000-000000000001";

/// A server with its first token.
async fn closed() -> Server {
    let server = server().await;
    let body = json!({"BootstrapSecret": ROOT}).to_string();
    let answer = server.api.answer(request("PUT /v1/acl/bootstrap", body)).await;
    assert_eq!((answer.status, &json_of(&answer)["SecretID"]), (StatusCode::OK, &json!(ROOT)));
    server
}

async fn told(server: &Server, token: &str, line: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = request(line, body);
    let request = if token.is_empty() { request } else { with_token(request, token) };
    let answer = server.api.answer(request).await;
    (answer.status.as_u16(), json_of(&answer))
}

async fn root(server: &Server, line: &str, body: Value) -> (u16, Value) {
    told(server, ROOT, line, &body).await
}

#[tokio::test]
async fn the_first_token_closes_what_was_open() {
    let server = server().await;
    assert_eq!(told(&server, "", "GET /v1/acl/tokens", &Value::Null).await, (200, json!([])));
    assert_eq!(told(&server, "", "PUT /v1/kv/a", &json!("x")).await.0, 200);
    assert_eq!(told(&server, "", "PUT /v1/acl/token", &json!({})).await.0, 500, "the first has to rule");
    let (status, first) = told(&server, "", "PUT /v1/acl/bootstrap", &Value::Null).await;
    assert_eq!((status, &first["ID"], &first["Local"]), (200, &first["SecretID"], &json!(false)));
    assert_eq!(first["Policies"], json!([{"ID": "00000000-0000-0000-0000-000000000001", "Name": "global-management"}]));
    let secret = first["SecretID"].as_str().unwrap();
    assert_eq!(told(&server, "", "GET /v1/kv/a", &Value::Null).await.0, 403);
    assert_eq!(told(&server, secret, "GET /v1/kv/a", &Value::Null).await.0, 200);
    let (status, again) = told(&server, "", "PUT /v1/acl/bootstrap", &Value::Null).await;
    let again = again.as_str().unwrap();
    assert_eq!(
        (status, &again[..61]),
        (403, "Permission denied: ACL bootstrap no longer allowed (reset ind"),
        "{again}"
    );
}

#[tokio::test]
async fn a_token_is_made_shown_changed_copied_and_deleted() {
    let server = closed().await;
    let rules = r#"key_prefix "app/" { policy = "write" }"#;
    let (status, policy) = root(&server, "PUT /v1/acl/policy", json!({"Name": "app", "Rules": rules})).await;
    assert_eq!((status, &policy["Rules"]), (200, &json!(rules)));
    let (status, made) =
        root(&server, "PUT /v1/acl/token", json!({"description": "d", "Policies": [{"Name": "app"}]})).await;
    let (secret, accessor) = (made["SecretID"].as_str().unwrap(), made["AccessorID"].as_str().unwrap());
    assert_eq!((status, &made["Policies"]), (200, &json!([{"ID": policy["ID"], "Name": "app"}])));
    assert_eq!(told(&server, secret, "PUT /v1/kv/app/a", &json!(1)).await.0, 200);
    assert_eq!(told(&server, secret, "PUT /v1/kv/other", &json!(1)).await.0, 403);

    let path = format!("/v1/acl/token/{accessor}");
    let shown = root(&server, &format!("GET {path}"), Value::Null).await.1;
    assert_eq!((&shown["SecretID"], &shown["Hash"]), (&json!("<hidden>"), &made["Hash"]), "nobody can look it up");
    let own = told(&server, secret, "GET /v1/acl/token/self", &Value::Null).await.1;
    assert_eq!((&own["SecretID"], &own["AccessorID"]), (&json!(secret), &json!(accessor)));
    let accessors =
        |list: &Value| list.as_array().unwrap().iter().map(|it| it["AccessorID"].clone()).collect::<Vec<_>>();
    let listed = root(&server, "GET /v1/acl/tokens", Value::Null).await.1;
    assert!(accessors(&listed).contains(&json!(accessor)) && accessors(&listed).contains(&json!(ANONYMOUS)));
    let with_policy = format!("GET /v1/acl/tokens?policy={}", policy["ID"].as_str().unwrap());
    assert_eq!(accessors(&root(&server, &with_policy, Value::Null).await.1), [json!(accessor)]);

    let copy = root(&server, &format!("PUT {path}/clone"), json!({"Description": "copy"})).await.1;
    assert_eq!((&copy["Policies"], &copy["Description"]), (&made["Policies"], &json!("copy")));
    assert_ne!(copy["SecretID"], made["SecretID"]);
    // What was read is written back with its secret hidden.
    let mut changed = shown.clone();
    changed["Policies"] = json!([]);
    changed["Rules"] = json!("key \"only\" { policy = \"read\" }");
    let (status, changed) = root(&server, &format!("PUT {path}"), changed).await;
    assert_eq!((status, &changed["CreateIndex"]), (200, &made["CreateIndex"]), "{changed}");
    assert_eq!(told(&server, secret, "PUT /v1/kv/app/a", &json!(1)).await.0, 403, "at once");
    assert_eq!(told(&server, secret, "GET /v1/kv/only", &Value::Null).await.0, 404);
    let copied = copy["SecretID"].as_str().unwrap();
    assert_eq!(told(&server, copied, "PUT /v1/kv/app/a", &json!(1)).await.0, 200);
    let policy = format!("DELETE /v1/acl/policy/{}", policy["ID"].as_str().unwrap());
    assert_eq!(root(&server, &policy, Value::Null).await, (200, json!(true)));
    assert_eq!(told(&server, copied, "PUT /v1/kv/app/a", &json!(1)).await.0, 403, "its rules are gone");
    assert_eq!(root(&server, &format!("DELETE {path}"), Value::Null).await, (200, json!(true)));
    assert_eq!(told(&server, secret, "GET /v1/kv/only", &Value::Null).await, (403, json!("ACL not found")));
}

#[tokio::test]
async fn identities_and_the_token_of_those_without_one() {
    let server = closed().await;
    register(&server.api, json!({"Node": "n9", "Address": "10.0.0.1", "Service": {"Service": "web"}}), ROOT).await;
    let identities = json!({"ServiceIdentities": [{"ServiceName": "web"}],
        "NodeIdentities": [{"NodeName": "n9", "Datacenter": "dc1"}]});
    let made = root(&server, "PUT /v1/acl/token", identities.clone()).await.1;
    assert_eq!(made["ServiceIdentities"], identities["ServiceIdentities"]);
    assert_eq!(made["NodeIdentities"], identities["NodeIdentities"]);
    let secret = made["SecretID"].as_str().unwrap();
    let again = json!({"Node": "n9", "Address": "10.0.0.2", "Service": {"Service": "web", "Port": 1}});
    assert_eq!(told(&server, secret, "PUT /v1/catalog/register", &again).await, (200, json!(true)));
    let other = json!({"Node": "n9", "Address": "10.0.0.2", "Service": {"Service": "db"}});
    assert_eq!(told(&server, secret, "PUT /v1/catalog/register", &other).await.0, 403);
    let path = format!("PUT /v1/acl/token/{ANONYMOUS}");
    let rules = json!({"Rules": "service_prefix \"\" { policy = \"read\" } node_prefix \"\" { policy = \"read\" }"});
    assert_eq!(root(&server, &path, rules).await.1["SecretID"], "anonymous");
    let found = told(&server, "", "GET /v1/catalog/service/web", &Value::Null).await.1;
    assert_eq!(found[0]["ServicePort"], 1);
}

const ABSENT: &str = "11111111-0000-4000-8000-000000000009";

type Refused<'a> = ((&'static str, Value), u16, &'a str);

async fn refuses(server: &Server, table: Vec<Refused<'_>>) {
    for ((line, body), status, text) in table {
        assert_eq!(root(server, line, body.clone()).await, (status, json!(text)), "{line} {body}");
    }
}

#[tokio::test]
async fn what_consul_refuses_of_policies_is_refused_in_its_words() {
    let policy = |body: Value| ("PUT /v1/acl/policy", body);
    let bare = |line: &'static str| (line, Value::Null);
    let table = vec![
        (
            policy(json!({"Name": "bad name"})),
            500,
            "Invalid Policy: invalid Name. Only alphanumeric characters, a single '/', '-' and '_' are allowed",
        ),
        (policy(json!({"Rules": ""})), 500, "Invalid Policy: no Name is set"),
        (policy(json!({"Foo": 1})), 400, "Policy decoding failed: json: unknown field \"Foo\""),
        (policy(json!({"ID": ABSENT, "Name": "x"})), 400, "Cannot specify the ID when creating a new policy"),
        (policy(json!({"Name": "x", "Rules": "operator = \"x\""})), 500, "Invalid operator policy: \"x\""),
        (
            policy(json!({"Name": "global-management"})),
            500,
            "Invalid Policy: A Policy with Name \"global-management\" already exists",
        ),
        (bare("GET /v1/acl/policy/name/p9"), 404, "Requested policy does not exist: ACL not found"),
        (bare("GET /v1/acl/policy/abc"), 500, "failed acl policy lookup: index error: UUID must be 36 characters"),
        (bare("GET /v1/acl/policy/"), 400, "Missing policy ID"),
        (
            bare("DELETE /v1/acl/policy/00000000-0000-0000-0000-000000000001"),
            500,
            "Delete operation not permitted on the builtin global-management policy",
        ),
        (bare("DELETE /v1/acl/policy/11111111-0000-4000-8000-000000000009"), 404, "Cannot find policy to delete"),
    ];
    refuses(&closed().await, table).await;
}

#[tokio::test]
async fn what_consul_refuses_of_tokens_is_refused_in_its_words() {
    let server = closed().await;
    let known = root(&server, "PUT /v1/acl/token", json!({})).await.1["AccessorID"].as_str().unwrap().to_owned();
    let token = |body: Value| ("PUT /v1/acl/token", body);
    let bare = |line: &'static str| (line, Value::Null);
    let table = vec![
        (token(Value::Null), 400, "Token decoding failed: EOF"),
        (token(json!({"SecretID": "abc"})), 500, "Invalid Token: SecretID - not a valid UUID"),
        (token(json!({"SecretID": ROOT})), 500, "Invalid Token: SecretID is already in use"),
        (token(json!({"AccessorID": known})), 500, "Invalid Token: AccessorID is already in use"),
        (token(json!({"Policies": [{"Name": "nope"}]})), 500, "No such ACL policy with name \"nope\""),
        (
            token(json!({"Roles": [{"ID": ABSENT}]})),
            500,
            "No such ACL role with ID \"11111111-0000-4000-8000-000000000009\"",
        ),
        (
            token(json!({"ServiceIdentities": [{"ServiceName": "We b"}]})),
            500,
            "Service identity \"We b\" has an invalid name. Only lowercase alphanumeric characters, '-' and '_' are allowed",
        ),
        (
            token(json!({"NodeIdentities": [{"NodeName": "n1"}]})),
            500,
            "Node identity is missing the datacenter field on this token",
        ),
        (
            token(json!({"ExpirationTTL": "30s"})),
            500,
            "ExpirationTime cannot be less than 1m0s in the future (was 30s)",
        ),
        (token(json!({"ExpirationTTL": "-1h"})), 500, "Token Expiration TTL '-1h0m0s' should be > 0"),
        (
            token(json!({"ExpirationTTL": "1h", "ExpirationTime": "2999-01-01T00:00:00Z"})),
            500,
            "Token Expiration TTL and Expiration Time cannot both be set",
        ),
        (token(json!({"ExpirationTime": "1999-01-01T00:00:00Z"})), 500, "ExpirationTime cannot be before CreateTime"),
        (token(json!({"ExpirationTTL": "long"})), 400, "Token decoding failed: time: invalid duration \"long\""),
        (token(json!({"ExpirationTime": "soon"})), 400, "Token decoding failed: \"soon\" is no time"),
        (bare("GET /v1/acl/token/abc"), 500, "failed acl token lookup: index error: UUID must be 36 characters"),
        (bare("GET /v1/acl/token/11111111-0000-4000-8000-000000000009"), 403, "token does not exist: ACL not found"),
        (
            bare("DELETE /v1/acl/token/00000000-0000-0000-0000-000000000002"),
            500,
            "Delete operation not permitted on the anonymous token",
        ),
        (bare("DELETE /v1/acl/token/11111111-0000-4000-8000-000000000009"), 404, "Cannot find token to delete"),
        (bare("GET /v1/acl/list"), 404, "Invalid URL path: not a recognized HTTP API endpoint\n"),
    ];
    refuses(&server, table).await;
    let changed = root(&server, &format!("PUT /v1/acl/token/{known}"), json!({"SecretID": ABSENT})).await;
    assert_eq!(changed, (500, json!("Changing a token's SecretID is not permitted")));
    let own = root(&server, "GET /v1/acl/token/self", Value::Null).await.1["AccessorID"].as_str().unwrap().to_owned();
    let gone = root(&server, &format!("DELETE /v1/acl/token/{own}"), Value::Null).await;
    assert_eq!(gone, (500, json!("Deletion of the request's authorization token is not permitted")));
}

#[tokio::test]
async fn a_token_without_the_right_to_rule_rules_nothing() {
    let server = closed().await;
    let weak = root(&server, "PUT /v1/acl/token", json!({})).await.1;
    let (weak, known) = (weak["SecretID"].as_str().unwrap(), weak["AccessorID"].as_str().unwrap());
    for (line, body) in [
        ("GET /v1/acl/tokens", Value::Null),
        ("GET /v1/acl/policies", Value::Null),
        ("PUT /v1/acl/token", json!({})),
        ("PUT /v1/acl/policy", json!({"Name": "x"})),
        ("GET /v1/snapshot", Value::Null),
        ("PUT /v1/snapshot", json!("garbage")),
    ] {
        let (status, text) = told(&server, weak, line, &body).await;
        assert_eq!(status, 403, "{line}");
        assert!(
            text.as_str()
                .unwrap()
                .starts_with(&format!("Permission denied: token with AccessorID '{known}' lacks permission 'acl:")),
            "{text}"
        );
    }
}

async fn register(api: &Consul, body: Value, token: &str) {
    let request = with_token(request("PUT /v1/catalog/register", body.to_string()), token);
    assert_eq!(api.answer(request).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_token_says_when_it_expires_and_that_cannot_be_changed() {
    let server = closed().await;
    let (status, made) = root(&server, "PUT /v1/acl/token", json!({"ExpirationTTL": "1h"})).await;
    assert_eq!((status, made.get("ExpirationTTL")), (200, None));
    let time = |key: &str| made[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let lasts = time("ExpirationTime").duration_since(time("CreateTime")).as_secs();
    assert!((3_590..=3_600).contains(&lasts), "{lasts}");
    let path = format!("PUT /v1/acl/token/{}", made["AccessorID"].as_str().unwrap());
    let (status, kept) =
        root(&server, &path, json!({"Description": "x", "ExpirationTime": made["ExpirationTime"]})).await;
    assert_eq!((status, &kept["ExpirationTime"]), (200, &made["ExpirationTime"]));
    for other in [json!({"ExpirationTTL": "2h"}), json!({"ExpirationTime": "2999-01-01T00:00:00Z"})] {
        let (status, text) = root(&server, &path, other).await;
        let text = text.as_str().unwrap().to_owned();
        assert!(status == 500 && text.starts_with("Cannot change expiration time of "), "{text}");
    }
    let (_, lasting) = root(&server, "PUT /v1/acl/token", json!({})).await;
    assert_eq!(lasting.get("ExpirationTime"), None);
}
