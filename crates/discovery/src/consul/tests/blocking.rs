use std::time::Duration;

use futures::FutureExt;

use super::*;

fn index(answer: &Answer) -> u64 {
    header(answer, "x-consul-index").parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_blocked_query_waits_for_its_own_topic() {
    let server = server().await;
    let api = &server.api;
    ask(api, "PUT /v1/kv/a", "1").await;
    let before = index(&ask(api, "GET /v1/kv/a", "").await);
    let line = format!("GET /v1/kv/a?index={before}&wait=1h");
    let mut blocked = Box::pin(ask(api, &line, ""));
    assert!((&mut blocked).now_or_never().is_none());
    ask(api, "PUT /v1/kv/b", "unrelated").await;
    ask(api, "PUT /v1/kv/a", "1").await;
    assert!((&mut blocked).now_or_never().is_none(), "neither another key nor the same value wakes it");
    ask(api, "PUT /v1/kv/a", "2").await;
    let answer = blocked.await;
    assert!(index(&answer) > before);
    assert_eq!(json_of(&answer)[0]["Value"], "Mg==");
}

#[tokio::test(start_paused = true)]
async fn a_blocked_query_ends_by_itself() {
    let server = server().await;
    ask(&server.api, "PUT /v1/kv/a", "1").await;
    let table =
        [("wait=20ms", 20), ("wait=10s", 10_000), ("", 300_000), ("wait=1000h", 600_000), ("wait=-5s", 300_000)];
    for (wait, milliseconds) in table {
        let started = tokio::time::Instant::now();
        // Far above any index there is: a client that was somewhere else waits too.
        let answer = ask(&server.api, &format!("GET /v1/kv/a?index=999999&{wait}"), "").await;
        assert_eq!(answer.status, StatusCode::OK, "{wait}");
        let (low, high) =
            (Duration::from_millis(milliseconds), Duration::from_millis(milliseconds + milliseconds / 16 + 2));
        assert!((low..=high).contains(&started.elapsed()), "{wait}: {:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_stays_blocked() {
    let server = server().await;
    let api = &server.api;
    ask(api, "PUT /v1/kv/dir/a", "1").await;
    ask(api, "DELETE /v1/kv/dir/a", "").await;
    let before = index(&ask(api, "GET /v1/kv/dir/?recurse", "").await);
    let line = format!("GET /v1/kv/dir/?recurse&index={before}&wait=1h");
    let mut blocked = Box::pin(ask(api, &line, ""));
    assert!((&mut blocked).now_or_never().is_none());
    ask(api, "PUT /v1/kv/dir/b", "1").await;
    assert_eq!(blocked.await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn too_many_blocked_queries_are_refused() {
    let server = server().await;
    let api = &server.api;
    let mut one = Box::pin(ask(api, "GET /v1/kv/a?index=99", ""));
    let mut two = Box::pin(ask(api, "GET /v1/health/service/a?index=99", ""));
    assert!((&mut one).now_or_never().is_none() && (&mut two).now_or_never().is_none());
    let refused = ask(api, "GET /v1/kv/b?index=99", "").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(ask(api, "GET /v1/kv/b", "").await.status, StatusCode::NOT_FOUND, "who does not wait is answered");
    drop(one);
    assert!(ask(api, "GET /v1/kv/b?index=99", "").now_or_never().is_none(), "a place is free again");
}

#[tokio::test(start_paused = true)]
async fn events_are_waited_for_by_the_newest_id() {
    let server = server().await;
    let api = &server.api;
    let empty = ask(api, "GET /v1/event/list", "").await;
    assert_eq!((index(&empty), json_of(&empty)), (1, json!([])));
    let mut blocked = Box::pin(ask(api, "GET /v1/event/list?index=1&name=deploy", ""));
    assert!((&mut blocked).now_or_never().is_none());
    ask(api, "PUT /v1/event/fire/other", "x").await;
    assert!((&mut blocked).now_or_never().is_none(), "another event");
    ask(api, "PUT /v1/event/fire/deploy", "x").await;
    let answer = blocked.await;
    assert_eq!(json_of(&answer)[0]["Name"], "deploy");
    assert_ne!(index(&answer), 1);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_the_same_gets_the_same_bytes() {
    let server = server().await;
    let api = &server.api;
    let (one, two) =
        ("GET /v1/health/service/web?index=99&wait=1h", "GET /v1/health/service/WEB?index=98&wait=1h&stale");
    let mut waiting = [Box::pin(ask(api, one, "")), Box::pin(ask(api, two, ""))];
    assert!(waiting.iter_mut().all(|query| query.now_or_never().is_none()));
    // Above what both know.
    for port in 0..120 {
        register(api, json!({"Node": "a", "Address": "10.0.0.1", "Service": {"Service": "web", "Port": port}})).await;
    }
    let [one, two] = waiting;
    let (one, two) = (one.await, two.await);
    assert_eq!(json_of(&one)[0]["Service"]["Port"], 119);
    assert_eq!(one.body(), two.body());
    let three = ask(api, "GET /v1/health/service/web", "").await;
    assert!(std::ptr::eq(two.body(), three.body()), "kept since it was asked for twice");
}
