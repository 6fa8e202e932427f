use super::*;

#[tokio::test]
async fn everything_is_saved_and_put_back() {
    let server = server().await;
    let api = &server.api;
    ask(api, "PUT /v1/kv/a", "1").await;
    register(api, json!({"Node": "a", "Address": "10.0.0.1", "Service": {"Service": "web"}})).await;
    let saved = ask(api, "GET /v1/snapshot", "").await;
    assert_eq!((saved.status, header(&saved, "content-type")), (StatusCode::OK, "application/octet-stream"));
    ask(api, "PUT /v1/kv/a", "2").await;
    ask(api, "DELETE /v1/kv/a", "").await;
    let index: u64 = header(&ask(api, "GET /v1/kv/?keys", "").await, "x-consul-index").parse().unwrap();
    for (what, text) in [("garbage", "begin"), ("", "begin")] {
        let refused = ask(api, "PUT /v1/snapshot", what).await;
        assert_eq!(refused.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(json_of(&refused).as_str().unwrap().contains(text));
    }
    assert_eq!(ask(api, "PUT /v1/snapshot", saved.body().to_vec()).await.status, StatusCode::OK);
    let read = ask(api, "GET /v1/kv/a", "").await;
    assert_eq!(json_of(&read)[0]["Value"], "MQ==");
    assert!(header(&read, "x-consul-index").parse::<u64>().unwrap() > index, "an index never goes back");
    assert_eq!(ask(api, "DELETE /v1/snapshot", "").await.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn only_who_may_replace_everything_may_send_much() {
    let server = server().await;
    let max = |token: Option<&str>| {
        let (method, mut headers) = (Method::PUT, HeaderMap::new());
        if let Some(token) = token {
            headers.insert("x-consul-token", HeaderValue::from_str(token).unwrap());
        }
        let head = |path| Head { method: &method, path, query: None, headers: &headers };
        assert_eq!(server.api.body_max(&head("/v1/kv/a")), BODY_BYTES_MAX);
        server.api.body_max(&head("/v1/snapshot"))
    };
    assert!(max(None) > BODY_BYTES_MAX);
    let answer = server.api.answer(request("PUT /v1/acl/bootstrap", "")).await;
    let secret = json_of(&answer)["SecretID"].as_str().unwrap().to_owned();
    assert_eq!((max(None), max(Some("forged"))), (BODY_BYTES_MAX, BODY_BYTES_MAX));
    assert!(max(Some(&secret)) > BODY_BYTES_MAX);
}
