//! A plain machine's agent and a hub with a registry, as processes: registered, found over HTTP, kept over restarts.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::Value;
use thane_runtime::{Clock, SystemClock, pki};

use crate::fleet;
use crate::place::Place;
use crate::role::{PATIENCE, Role, answer, ask, free_port};

/// Writes the certificate and the authority that an agent's cluster has as files, as a machine without Kubernetes has them.
async fn certificates(place: &Place, client: kube::Client) {
    let secrets: Api<Secret> = Api::namespaced(client, "argocd");
    for (secret, key, file) in [
        ("argocd-agent-client-tls", "tls.crt", "agent.crt"),
        ("argocd-agent-client-tls", "tls.key", "agent.key"),
        ("argocd-agent-ca", "ca.crt", "ca.crt"),
    ] {
        let data = secrets.get(secret).await.unwrap().data.unwrap();
        place.write(file, std::str::from_utf8(&data[key].0).unwrap());
    }
}

/// Issues an agent's certificate in this name by the fleet's own authority, as files.
async fn issue(place: &Place, client: kube::Client, name: &str, file: &str) {
    let secrets: Api<Secret> = Api::namespaced(client, "argocd");
    let data = secrets.get("argocd-agent-ca").await.unwrap().data.unwrap();
    let text = |key: &str| std::str::from_utf8(&data[key].0).unwrap().to_owned();
    let authority = pki::Authority::from_pem(&text("tls.crt"), &text("tls.key")).unwrap();
    let lifetime = Duration::from_hours(1);
    let identity = authority.issue(&pki::Request::agent(name), SystemClock::new().now(), lifetime).unwrap();
    place.write(&format!("{file}.crt"), &identity.cert_pem);
    place.write(&format!("{file}.key"), &identity.key_pem);
}

/// The line that starts an agent on a plain machine; where its API is.
fn plain_agent(port: &str, node: &str, file: &str) -> (String, u16) {
    let [api, dns] = [free_port(), free_port()];
    let line = format!(
        "agent --fleet=false --discovery-data data-{file} --node-name {node} --server-address 127.0.0.1 \
         --server-port {port} --root-ca-path ca.crt --tls-client-cert {file}.crt --tls-client-key {file}.key \
         --metrics-port 0 --discovery-address 127.0.0.1:{api} --dns-address 127.0.0.1:{dns}"
    );
    (line, api)
}

fn body(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or(Value::Null)
}

/// Asks until the answer is as wanted.
async fn until(port: u16, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let asked = async {
        loop {
            let found = body(&answer(port, path));
            if wanted(&found) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("{path}: {}", answer(port, path)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_machine_registers_and_is_found() {
    let (place, running) = fleet();
    certificates(&place, running.client("cluster-1").await).await;
    let direct = free_port();
    let line = format!(
        "hub --context hub --listen-host 127.0.0.1 --listen-port 0 --metrics-port 0 \
         --discovery-data registry --discovery-address 127.0.0.1:{direct}"
    );
    let mut hub = Role::start(&place, &[], &line);
    let address = hub.wait_for("agents can call")["address"].as_str().unwrap().to_owned();
    let port = address.rsplit(':').next().unwrap().to_owned();
    let [api, consul, dns] = [free_port(), free_port(), free_port()];
    let line = format!(
        "agent --fleet=false --discovery-data agent --node-name web-1 --server-address 127.0.0.1 --server-port {port} \
         --root-ca-path ca.crt --tls-client-cert agent.crt --tls-client-key agent.key --metrics-port 0 \
         --discovery-address 127.0.0.1:{api} --consul-address 127.0.0.1:{consul} --dns-address 127.0.0.1:{dns}"
    );
    let mut agent = Role::start(&place, &[], &line);
    agent.wait_for("services are registered and found here");
    let registered = ask(api, "PUT", "/v1/agent/service/register", r#"{"name": "web", "port": 80}"#);
    assert!(registered.starts_with("HTTP/1.1 200"), "{registered}");
    let is_there = |found: &Value| found[0]["Service"]["Port"] == 80 && found[0]["Node"]["Node"] == "web-1";
    for port in [api, consul, direct] {
        until(port, "/v1/health/service/web?passing", is_there).await;
    }
    // Who has no agent registers with the hub itself.
    let registered = ask(direct, "PUT", "/v1/agent/service/register", r#"{"name": "lone", "port": 81}"#);
    assert!(registered.starts_with("HTTP/1.1 200"), "{registered}");
    let is_lone = |found: &Value| found[0]["Service"]["Port"] == 81 && found[0]["Node"]["Node"] == "thane-hub";
    until(api, "/v1/health/service/lone", is_lone).await;
    let session = ask(direct, "PUT", "/v1/session/create", "{}");
    assert!(session.starts_with("HTTP/1.1 200"), "{session}");
    let ours = until(api, "/agent/services", |found| found[0]["name"] == "web").await;
    assert_eq!(ours[0]["port"], 80);
    let counted = answer(api, "/agent/metrics");
    assert!(counted.contains("konsul_agent_local_services_total 1"), "{counted}");
    assert!(counted.contains(r#"thane_discovery_requests_total{api="consul",code="200",via="agent"}"#), "{counted}");

    // killed, not asked: what was answered is still there
    drop(agent);
    drop(hub);
    let mut agent = Role::start(&place, &[], &line);
    agent.wait_for("services are registered and found here");
    until(api, "/v1/agent/services", |found| found["web"]["Port"] == 80).await;
    let (code, told) = agent.stop();
    assert_eq!(code, Some(0), "{told}");
}

/// An agent is who its certificate says, and a node is the agent's that registered it: nothing that is sent changes that.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_who_its_certificate_says() {
    let (place, running) = fleet();
    certificates(&place, running.client("cluster-1").await).await;
    for (name, file) in [("owner", "owner"), ("intruder", "intruder"), ("other", "other"), ("Not A Name", "nameless")] {
        issue(&place, running.client("hub").await, name, file).await;
    }
    let line = "hub --context hub --listen-host 127.0.0.1 --listen-port 0 --metrics-port 0 --discovery-data registry";
    let mut hub = Role::start(&place, &[], line);
    let address = hub.wait_for("agents can call")["address"].as_str().unwrap().to_owned();
    let port = address.rsplit(':').next().unwrap();
    let (line, owner) = plain_agent(port, "web-1", "owner");
    let mut first = Role::start(&place, &[], &line);
    first.wait_for("services are registered and found here");
    ask(owner, "PUT", "/v1/agent/service/register", r#"{"name": "web", "port": 80}"#);
    until(owner, "/v1/health/service/web?consistent", |found| found[0]["Service"]["Port"] == 80).await;

    let (line, _) = plain_agent(port, "web-1", "intruder");
    let mut intruder = Role::start(&place, &[], &line);
    let reason = intruder.wait_for("not connected to the hub")["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("belongs to another agent"), "{reason}");
    let (line, _) = plain_agent(port, "web-9", "nameless");
    let mut nameless = Role::start(&place, &[], &line);
    let reason = nameless.wait_for("not connected to the hub")["reason"].as_str().unwrap().to_owned();
    assert!(reason.to_lowercase().contains("authenticat"), "{reason}");

    let (line, other) = plain_agent(port, "web-2", "other");
    let mut second = Role::start(&place, &[], &line);
    second.wait_for("connected");
    for (path, body) in [
        ("/v1/catalog/register", r#"{"Node": "web-1", "Address": "10.0.0.9", "Service": {"Service": "web"}}"#),
        ("/v1/catalog/register", r#"{"Node": "WEB-1", "Address": "10.0.0.9"}"#),
        ("/v1/catalog/deregister", r#"{"Node": "web-1"}"#),
        ("/v1/catalog/deregister", r#"{"Node": "web-1", "ServiceID": "web"}"#),
    ] {
        let refused = ask(other, "PUT", path, body);
        assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("belongs to agent"), "{refused}");
    }
    let found = until(other, "/v1/health/service/web?consistent", |found| found[0].is_object()).await;
    assert_eq!(
        (&found[0]["Node"]["Node"], &found[0]["Node"]["Address"], &found[1]),
        (&"web-1".into(), &"127.0.0.1".into(), &Value::Null)
    );
}
