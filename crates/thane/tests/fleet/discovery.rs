//! A plain machine's agent and a hub with a registry, as processes: registered, found over HTTP, kept over restarts.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::Value;

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
