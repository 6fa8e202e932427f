//! Steps and what becomes of them.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::bed::{Bed, call};

/// Events of a stream: their names and data.
fn events(body: &[u8]) -> Vec<(String, Value)> {
    let text = std::str::from_utf8(body).unwrap();
    let blocks = text.split("\n\n").filter(|block| !block.is_empty());
    let read = |block: &str| {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        (field("event:"), serde_json::from_str(&field("data:")).unwrap())
    };
    blocks.map(read).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_are_run_in_order_and_cost_one_call_each() {
    let bed = Bed::new().await;
    bed.pool("p", 1, true).await;
    let id = bed.session("p").await;
    bed.execute(&id, &[&["echo", "warm"]]).await;
    let fake = bed.fake(&id);
    let before = fake.state.lock().calls.len();
    let body = json!({"traceID": "t", "steps": [
        {"name": "one", "command": ["echo", "a", "b"], "env": {"K": "v"}, "workDir": "/tmp"},
        {"name": "two", "command": ["grumble", "no"]},
        {"name": "three", "command": ["sleep"], "timeoutSeconds": 1.5},
        {"name": "four", "command": ["bomb"]},
        {"name": "five", "command": ["nothing"]},
    ]});
    let done = bed.post(&format!("/v1/sessions/{id}/execute"), body).await.expect(200);
    assert_eq!(fake.state.lock().calls[before..], ["RunStep"; 5], "nothing else is asked");
    assert_eq!(done["sessionID"], id.as_str());
    assert!(done["totalDurationMs"].is_i64());
    let results = done["results"].as_array().unwrap();
    let expected = json!({
        "index": 1, "name": "one", "snapshot_id": "1", "duration_ms": 1, "timestamp": "2023-11-14T22:13:20.001Z", "error": null,
        "output": {"stdout": "a b\n", "stderr": "", "exit_code": 0},
        "input": {"name": "one", "command": ["echo", "a", "b"], "env": {"K": "v"}, "workDir": "/tmp"},
    });
    assert_eq!(results[0], expected);
    let ends: Vec<_> =
        results.iter().map(|one| (one["output"]["exit_code"].clone(), one["error"]["kind"].clone())).collect();
    let kinds = [(0, None), (1, None), (124, Some("timeout")), (137, Some("oom")), (127, Some("user"))];
    assert_eq!(ends, kinds.map(|(code, kind)| (json!(code), json!(kind))));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rest_is_left_when_that_is_asked() {
    let bed = Bed::new().await;
    bed.pool("p", 1, true).await;
    let id = bed.session("p").await;
    let body = json!({"stopOnError": true, "steps": [{"command": ["grumble"]}, {"command": ["echo"]}]});
    let done = bed.post(&format!("/v1/sessions/{id}/execute"), body).await.expect(200);
    assert_eq!(done["results"].as_array().unwrap().len(), 1);
    for wrong in [
        json!({"steps": []}),
        json!({"steps": [{"command": []}]}),
        json!({"steps": [{"command": ["a\u{0}b"]}]}),
        json!({"steps": [{"command": "ls"}]}),
        json!({"steps": [{"command": ["ls"]}], "operationID": "a/b"}),
    ] {
        let answer = bed.post(&format!("/v1/sessions/{id}/execute"), wrong).await;
        assert_eq!(answer.fault(), (400, "user".to_owned()));
        assert!(answer.json()["error"].as_str().unwrap().contains(['s', 'o']));
    }
    let absent = bed.post("/v1/sessions/gw-1-00000000/execute", json!({"steps": [{"command": ["ls"]}]})).await;
    assert_eq!(absent.fault(), (404, "user".to_owned()));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_of_any_kind_and_size_is_told() {
    let bed = Bed::new().await;
    bed.pool("p", 1, true).await;
    let id = bed.session("p").await;
    let results = bed.execute(&id, &[&["binary"], &["flood"]]).await;
    assert_eq!(results[0]["output"]["stdout_base64"], "/wBh");
    assert_eq!(results[0]["output"]["stdout"], "\u{fffd}\u{0}a");
    assert_eq!(results[1]["output"]["stdout"].as_str().unwrap().len(), 1 << 20);
    assert_eq!(results[1]["output"]["stdout_truncated"], true);

    let body = json!({"steps": [{"command": ["echo", "h\u{20ac}\u{20ac}\u{20ac}"]}, {"command": ["binary"]}, {"command": ["grumble", "x"]}]});
    let path = format!("/v1/sessions/{id}/execute");
    let streamed = bed.call(Method::POST, &path, &[("accept", "text/event-stream")], body.to_string()).await;
    assert_eq!((streamed.status, &streamed.headers["content-type"]), (200, &"text/event-stream".parse().unwrap()));
    let events = events(&streamed.body);
    let data = |name: &str, index: i64| -> Vec<&Value> {
        let wanted = events.iter().filter(|(event, data)| event == name && data["index"] == index);
        wanted.map(|(_, data)| data).collect()
    };
    let text: String = data("stdout", 2).iter().map(|data| data["data"].as_str().unwrap()).collect();
    assert_eq!(text, "h\u{20ac}\u{20ac}\u{20ac}\n", "no character is cut");
    assert_eq!(data("stdout", 3), [&json!({"index": 3, "data": "/wBh", "encoding": "base64"})]);
    assert_eq!(data("stderr", 4), [&json!({"index": 4, "data": "x"})]);
    assert_eq!(data("result", 4)[0]["output"]["exit_code"], 1);
    assert_eq!(events.iter().filter(|(name, _)| name == "ping").count(), 3);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_is_done_once_whoever_is_asked() {
    let bed = Bed::new().await;
    bed.pool("p", 2, true).await;
    let id = bed.session("p").await;
    bed.session("p").await;
    let path = format!("/v1/sessions/{id}/execute");
    let body = |second: &str| json!({"operationID": "op-1", "steps": [{"command": ["echo", "1"]}, {"command": ["echo", second]}]});
    let first = bed.post(&path, body("2")).await.expect(200);
    let other = bed.another().await;
    let again = call(other.address, Method::POST, &path, &[], body("2").to_string().into()).await.expect(200);
    assert_eq!(first["results"], again["results"]);
    assert_eq!(bed.fake(&id).state.lock().records.len(), 2);
    let shorter = json!({"operationID": "op-1", "steps": [{"command": ["echo", "1"]}]});
    for wrong in [body("3"), shorter, json!({"operationID": "op-1", "steps": [{"command": ["echo", "0"]}]})] {
        assert_eq!(bed.post(&path, wrong).await.fault(), (409, "user".to_owned()));
    }
    assert_eq!(bed.fake(&id).state.lock().records.len(), 2, "nothing was run");
    for path in ["/v1/operations/op-1".to_owned(), format!("/v1/operations/op-1?sessionID={id}")] {
        let told = call(other.address, Method::GET, &path, &[], bytes::Bytes::new()).await.expect(200);
        assert_eq!((&told["status"], &told["sessionID"]), (&json!("done"), &json!(id)));
        assert_eq!(told["result"]["results"], first["results"]);
    }
    assert_eq!(bed.get("/v1/operations/op-2").await.fault(), (404, "user".to_owned()));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_sandbox_is_our_fault_and_told_soon() {
    let bed = Bed::new().await;
    bed.pool("p", 3, true).await;
    let began = Instant::now();
    let id = bed.session("p").await;
    bed.execute(&id, &[&["echo"]]).await;
    bed.lose(&id).await;
    let execute = format!("/v1/sessions/{id}/execute");
    let steps = json!({"steps": [{"command": ["echo"]}]});
    let restore = bed.post(&format!("/v1/sessions/{id}/restore"), json!({"snapshotID": "0"})).await;
    let history = bed.get(&format!("/v1/sessions/{id}/history")).await;
    for answer in [bed.post(&execute, steps.clone()).await, restore, history] {
        assert_eq!(answer.fault(), (410, "infra".to_owned()));
    }
    // Under a step that runs.
    let id = bed.session("p").await;
    let path = format!("/v1/sessions/{id}/execute");
    let hang = json!({"steps": [{"command": ["echo"]}, {"command": ["hang"]}]});
    let hanging = bed.post(&path, hang.clone());
    let losing = async {
        while bed.bound_to(&id).is_none_or(|fake| fake.calls("RunStep") < 2) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        bed.lose(&id).await;
    };
    let (answer, ()) = tokio::join!(hanging, losing);
    let results = answer.expect(200)["results"].clone();
    assert_eq!(results[0]["error"], Value::Null);
    assert_eq!((&results[1]["error"]["kind"], &results[1]["index"]), (&json!("infra"), &json!(1)), "{results}");
    // A session that is deleted under its step.
    let id = bed.session("p").await;
    let path = format!("/v1/sessions/{id}/execute");
    let hanging = bed.call(Method::POST, &path, &[("accept", "text/event-stream")], hang.to_string());
    let deleting = async {
        while bed.bound_to(&id).is_none_or(|fake| fake.calls("RunStep") < 2) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        bed.delete(&format!("/v1/sessions/{id}")).await.expect(204);
        bed.fake(&id).kill().await;
    };
    let (answer, ()) = tokio::join!(hanging, deleting);
    let last = events(&answer.body).pop().unwrap();
    assert_eq!((last.0.as_str(), &last.1["error"]["kind"]), ("result", &json!("infra")));
    assert_eq!(last.1["index"], 1);
    assert!(began.elapsed() < crate::bed::PATIENCE, "nothing hangs");
    bed.end().await;
}
