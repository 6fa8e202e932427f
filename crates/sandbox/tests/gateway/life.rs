//! Sessions from their beginning to their end.

use http::Method;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use thane_sandbox::kinds::Sandbox;

use crate::bed::{Bed, call, gone};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_a_sandbox_from_its_beginning_to_its_end() {
    let bed = Bed::new().await;
    bed.pool("p", 2, true).await;
    let body = json!({
        "poolRef": "p", "idleTimeoutSeconds": 60, "env": {"A": "b"},
        "files": [{"path": "/workspace/f", "content": "aGk=", "mode": "0600"}],
    });
    let info = bed.post("/v1/sessions", body).await.expect(201);
    let id = info["id"].as_str().unwrap();
    assert!(id.starts_with("gw-") && id.split('-').nth(2).unwrap().len() == 8, "{info}");
    for (field, value) in [("sandboxName", id), ("namespace", "default"), ("poolRef", "p"), ("phase", "Ready")] {
        assert_eq!(info[field], value, "{info}");
    }
    let sandbox = bed.sandboxes().get(id).await.unwrap();
    let status = sandbox.status.clone().unwrap();
    assert_eq!(info["podName"].as_str(), status.pod_name.as_deref());
    assert_eq!(info["podIP"].as_str(), status.pod_ip.as_deref());
    assert_eq!(sandbox.spec.idle_timeout_seconds, Some(60));
    let fake = bed.fake(id);
    assert_eq!(fake.state.lock().env["A"], "b");
    assert_eq!(&fake.state.lock().files["/workspace/f"][..], b"hi");
    let forked = bed.post(&format!("/v1/sessions/{id}/fork"), json!({"snapshotID": "-1"})).await.expect(201);
    let fork = bed.fake(forked["sessions"][0]["id"].as_str().unwrap());
    assert_eq!(fork.state.lock().env["A"], "b", "a fork has the same environment");

    assert_eq!(bed.get(&format!("/v1/sessions/{id}")).await.expect(200)["podName"], info["podName"]);
    bed.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    gone(bed.sandboxes(), id).await;
    assert_eq!(bed.get(&format!("/v1/sessions/{id}")).await.fault(), (404, "user".to_owned()));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_had_says_why() {
    let bed = Bed::new().await;
    bed.pool("empty", 0, true).await;
    let ask = async |body| bed.post("/v1/sessions", body).await;
    assert_eq!(ask(json!({"poolRef": "none"})).await.fault(), (404, "user".to_owned()));
    let empty = ask(json!({"poolRef": "empty", "onEmpty": "fail"})).await;
    assert_eq!(empty.fault(), (503, "infra".to_owned()));
    assert!(empty.headers.contains_key("retry-after"));
    assert_eq!(ask(json!({"poolRef": "empty", "waitSeconds": 0})).await.fault(), (503, "infra".to_owned()));
    for wrong in [
        json!({}),
        json!({"poolRef": "No Name"}),
        json!({"poolRef": "p", "namespace": "../x"}),
        json!({"poolRef": "p", "idleTimeoutSeconds": -1}),
        json!({"poolRef": "p", "env": {"A=": ""}}),
        json!({"poolRef": "p", "files": [{"path": "/a", "content": "%"}]}),
        json!({"poolRef": "p", "onEmpty": "sometimes"}),
        json!({"poolRef": "p", "env": (0..10_001).map(|n| (n.to_string(), json!(""))).collect::<serde_json::Map<_, _>>()}),
    ] {
        assert_eq!(ask(wrong.clone()).await.fault(), (400, "user".to_owned()), "{wrong}");
    }
    let large = bed.call(Method::POST, "/v1/sessions", &[], vec![b' '; 9 << 20]).await;
    assert_eq!(large.fault(), (413, "user".to_owned()));
    assert_eq!(bed.get("/v1/nothing").await.fault(), (404, "user".to_owned()));
    assert_eq!(bed.delete("/v1/sessions").await.fault(), (405, "user".to_owned()));
    let left = bed.sandboxes().list(&ListParams::default()).await.unwrap().items;
    for sandbox in left {
        gone(bed.sandboxes(), &sandbox.metadata.name.unwrap()).await;
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_listed_page_by_page() {
    let bed = Bed::new().await;
    bed.pool("p", 3, true).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(bed.session("p").await);
    }
    made.sort();
    let first = bed.get("/v1/sessions?limit=2").await;
    let cursor = first.headers["x-next-cursor"].to_str().unwrap().to_owned();
    let second = bed.get(&format!("/v1/sessions?limit=2&cursor={cursor}")).await;
    assert!(!second.headers.contains_key("x-next-cursor"));
    let names = [first.json(), second.json()].map(|page| page.as_array().unwrap().clone()).concat();
    let names: Vec<_> = names.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, made);
    assert_eq!(bed.get("/v1/sessions?cursor=x").await.fault(), (400, "user".to_owned()));
    assert_eq!(bed.get("/v1/sessions?limit=x").await.fault(), (400, "user".to_owned()));
    assert_eq!(bed.get("/v1/sessions?namespace=other").await.json(), json!([]));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_gateway_serves_any_session() {
    let bed = Bed::new().await;
    bed.pool("p", 1, true).await;
    let id = bed.session("p").await;
    bed.execute(&id, &[&["echo", "one"]]).await;
    let other = bed.another().await;
    let path = format!("/v1/sessions/{id}/execute");
    let body = json!({"steps": [{"command": ["echo", "two"]}]}).to_string();
    let done = call(other.address, Method::POST, &path, &[], body.into()).await.expect(200);
    assert_eq!(done["results"][0]["index"], 1);
    other.stop().await;
    assert_eq!(bed.execute(&id, &[&["echo", "three"]]).await[0]["index"], 2);
    bed.end().await;
}

/// What nobody was told of carries the time by which it should have been told, so that the operator can undo it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_marked_until_somebody_knows_of_it() {
    let bed = Bed::new().await;
    bed.pool("p", 2, true).await;
    let told = async |id: &str| {
        let is_told = |sandbox: Option<&Sandbox>| {
            sandbox.is_some_and(|one| !one.annotations().contains_key(thane_sandbox::names::CLAIM_UNTIL))
        };
        let waited = kube::runtime::wait::await_condition(bed.sandboxes(), id, is_told);
        tokio::time::timeout(crate::bed::PATIENCE, waited).await.unwrap().unwrap();
    };
    let id = bed.session("p").await;
    told(&id).await;
    // As if the gateway had been killed between its answer and that: whoever uses it knows of it.
    let again = json!({"metadata": {"annotations": {thane_sandbox::names::CLAIM_UNTIL: "2999-01-01T00:00:00Z"}}});
    bed.sandboxes().patch(&id, &PatchParams::default(), &Patch::Merge(&again)).await.unwrap();
    let other = bed.another().await;
    let seen = call(other.address, Method::GET, &format!("/v1/sessions/{id}"), &[], String::new().into()).await;
    assert_eq!(seen.expect(200)["id"], id.as_str());
    told(&id).await;
    other.stop().await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_made_by_hand_is_a_session_for_once() {
    let bed = Bed::new().await;
    bed.pool("p", 2, true).await;
    // What the operator does for those that no gateway claims for.
    let claims = thane_sandbox::claims::Claims::start(
        bed.client.clone(),
        thane_runtime::SystemClock::shared(),
        &bed.tasks.child("operator"),
    );
    for (name, keep_alive) in [("once", Some(false)), ("stays", None)] {
        let spec = json!({"poolRef": "p", "keepAlive": keep_alive});
        let sandbox =
            json!({"apiVersion": "arl.infra.io/v1alpha1", "kind": "Sandbox", "metadata": {"name": name}, "spec": spec});
        let sandbox: Sandbox = serde_json::from_value(sandbox).unwrap();
        let sandbox = bed.sandboxes().create(&PostParams::default(), &sandbox).await.unwrap();
        let waiting = thane_sandbox::claims::OnEmpty::Wait(crate::bed::PATIENCE);
        claims.claim(&crate::bed::at("p"), &sandbox, waiting).await.unwrap();
    }
    // The watch tells of it in its own time.
    let ready =
        |sandbox: Option<&Sandbox>| sandbox.is_some_and(|one| one.status.as_ref().is_some_and(|s| s.pod_ip.is_some()));
    kube::runtime::wait::await_condition(bed.sandboxes(), "stays", ready).await.unwrap();
    let other = bed.another().await;
    for name in ["once", "stays"] {
        let path = format!("/v1/sessions/{name}/execute");
        let body = json!({"steps": [{"command": ["echo", "hi"]}]}).to_string();
        let done = call(other.address, Method::POST, &path, &[], body.into()).await.expect(200);
        assert_eq!(done["results"][0]["output"]["stdout"], "hi\n");
    }
    gone(bed.sandboxes(), "once").await;
    assert!(bed.sandboxes().get_opt("stays").await.unwrap().is_some());
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_says_how_it_is() {
    let bed = Bed::new().await;
    bed.pool("p", 1, true).await;
    let id = bed.session("p").await;
    bed.execute(&id, &[&["grumble", "x"]]).await;
    assert_eq!(&bed.get("/healthz").await.body[..], b"ok");
    assert_eq!(bed.get("/debug/health").await.json()["sessions"], 1);
    let metrics = String::from_utf8(bed.get("/metrics").await.body.to_vec()).unwrap();
    for line in [
        "arl_gateway_active_sessions 1",
        "arl_gateway_step_result_total{step_type=\"command\",result=\"error\"} 1",
        "arl_gateway_pod_allocation_result_total{pool=\"p\",result=\"success\"} 1",
        "arl_gateway_sidecar_call_seconds_count{method=\"RunStep\"} 1",
        "arl_gateway_http_requests_total{route=\"/v1/sessions/{id}/execute\",code=\"200\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is missing in {metrics}");
    }
    let document = bed.get("/openapi.json").await.json();
    assert!(document["paths"]["/v1/sessions/{id}/execute"]["post"].is_object());
    bed.end().await;
}
