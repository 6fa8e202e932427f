//! A hub and an agent as two processes, with no more rights than `deploy/` gives them.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use crate::place::Place;
use crate::role::{PATIENCE, Role, answer, free_port, status};
use crate::running::Running;
use crate::{fleet, json, run, succeed};

/// How long anything may take on a machine that does many things at once.
const APPLICATION: &str = r"
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop, namespace: cluster-1}
spec:
  project: default
  source: {repoURL: 'https://example.com/repo', path: shop}
  destination: {name: cluster-1, namespace: default}
";

/// What argocd-agent's dashboards ask for, after one Application went from the hub to the cluster.
const HUB_METRICS: &[&str] = &[
    "argocd_principal_connected_agents 1",
    "argocd_principal_agent_connections_total{agent_name=\"cluster-1\"} 1",
    "principal_agent_avg_connection_time ",
    "principal_applications_created 1",
    "principal_applications_updated ",
    "principal_app_projects_deleted 0",
    "principal_repositories_created 0",
    "principal_events_received ",
    "principal_events_sent ",
    "argocd_agent_build_info{version=",
];
const AGENT_METRICS: &[&str] = &[
    "argocd_agent_connection_status 1",
    "argocd_agent_connection_start_timestamp_seconds 1",
    "argocd_agent_connections_total 1",
    "argocd_agent_auth_failures_total 0",
    "agent_events_received ",
    "agent_events_sent ",
    "agent_event_propagation_latency_seconds_count{resource_type=\"application\"} 1",
];

/// Gives the roles the rights of `deploy/`, and nothing else of it.
fn allow(place: &Place) {
    for (role, context) in [("hub", "hub"), ("agent", "cluster-1")] {
        let file = format!("{}/../../deploy/{role}/20-rights.yaml", env!("CARGO_MANIFEST_DIR"));
        succeed(place, &format!("apply -f {file} --context {context}"));
    }
}

/// A kubeconfig for a service account, and nobody else.
async fn account(place: &Place, running: &Running, context: &str, name: &str) -> String {
    let client = running.client(context).await;
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
    let path = format!("/api/v1/namespaces/argocd/serviceaccounts/{name}/token");
    let request = http::Request::post(path).header("content-type", "application/json");
    let answer: Value = client.request(request.body(asked.to_string().into_bytes()).unwrap()).await.unwrap();
    let known = std::fs::read_to_string(place.path().join(".thane/kubeconfig")).unwrap();
    let known: Value = serde_saphyr::from_str(&known).unwrap();
    let cluster = known["clusters"].as_array().unwrap().iter().find(|cluster| cluster["name"] == context).unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "only", "clusters": [cluster],
        "users": [{"name": name, "user": {"token": answer["status"]["token"]}}],
        "contexts": [{"name": "only", "context": {"cluster": context, "user": name}}],
    });
    let file = format!("{name}.kubeconfig");
    place.write(&file, &kubeconfig.to_string());
    file
}

fn resource(group: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1alpha1", kind))
}

/// Waits until the hub has written down whether the agent is connected.
async fn connected(hub: &Client, wanted: bool) {
    let agents: Api<DynamicObject> = Api::all_with(hub.clone(), &resource("thane.dev", "Agent"));
    let is_so = |agent: Option<&DynamicObject>| agent.is_some_and(|agent| agent.data["status"]["connected"] == wanted);
    tokio::time::timeout(PATIENCE, await_condition(agents, "cluster-1", is_so)).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_travels_and_certificates_change_without_a_restart() {
    let (place, running) = fleet();
    allow(&place);
    let hubs = account(&place, &running, "hub", "thane-hub").await;
    let agents = account(&place, &running, "cluster-1", "thane-agent").await;
    let (metrics, agent_metrics, health) = (free_port(), free_port(), free_port());
    let line = format!("hub --kubeconfig {hubs} --listen-host 127.0.0.1 --listen-port 0 --metrics-port {metrics}");
    let mut hub = Role::start(&place, &[], &line);
    let address = hub.wait_for("agents can call")["address"].as_str().unwrap().to_owned();
    let port = address.rsplit(':').next().unwrap();
    assert_eq!(status(metrics, "/healthz"), "HTTP/1.1 200 OK");
    let line = format!(
        "agent --kubeconfig {agents} --server-address 127.0.0.1 --server-port {port} --metrics-port {agent_metrics} --healthz-port {health}"
    );
    let mut agent = Role::start(&place, &[], &line);
    agent.wait_for("connected");

    let (hub_client, cluster) = (running.client("hub").await, running.client("cluster-1").await);
    connected(&hub_client, true).await;
    place.write("application.yaml", APPLICATION);
    succeed(&place, "apply -f application.yaml --context hub");
    let applications: Api<DynamicObject> =
        Api::namespaced_with(cluster, "argocd", &resource("argoproj.io", "Application"));
    let is_there = |app: Option<&DynamicObject>| app.is_some();
    tokio::time::timeout(PATIENCE, await_condition(applications, "shop", is_there)).await.unwrap().unwrap();
    assert_eq!(status(health, "/healthz"), "HTTP/1.1 200 OK");
    let doctor =
        format!("doctor --context hub --agent-context cluster-1 --server-address 127.0.0.1 --server-port {port}");
    assert_eq!(json(&place, &doctor)["wrong"], 0);
    for (port, lines) in [(metrics, HUB_METRICS), (agent_metrics, AGENT_METRICS)] {
        let told = answer(port, "/metrics");
        for line in lines {
            assert!(told.lines().any(|found| found.starts_with(line)), "{line} is missing in\n{told}");
        }
    }

    succeed(&place, "agents resync cluster-1 --context hub");
    hub.wait_for("everything is sent again, as was asked for");
    // The old certificate is cut off, and the new one is in use at once.
    let rotated = json(&place, "agents rotate cluster-1 --context hub --agent-context cluster-1 --block-old");
    assert_eq!(rotated["blocked"].as_array().unwrap().len(), 2);
    agent.wait_for("connected");
    succeed(&place, "agents block cluster-1 --context hub");
    connected(&hub_client, false).await;
    assert_eq!(run(&place, &doctor).status.code(), Some(1));
    succeed(&place, "agents unblock cluster-1 --context hub");
    agent.wait_for("connected");
    // A new key for tokens asks everyone to prove again who they are, no more.
    succeed(&place, "jwt create-key --context hub --force");
    hub.wait_for("certificates or keys have changed and are in use");

    for role in [agent, hub] {
        let (code, told) = role.stop();
        assert_eq!(code, Some(0), "{told}");
        assert!(!told.contains("\"ERROR\""), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_of_argocd_agent_bring_its_defaults_along() {
    let (place, running) = fleet();
    let (metrics, health, listen) = (free_port().to_string(), free_port().to_string(), free_port().to_string());
    let kubeconfig = place.path().join(".thane/kubeconfig").display().to_string();
    let hub_variables = [
        ("KUBECONFIG", kubeconfig.as_str()),
        ("ARGOCD_PRINCIPAL_LISTEN_PORT", &listen),
        ("ARGOCD_PRINCIPAL_METRICS_PORT", &metrics),
        ("ARGOCD_PRINCIPAL_HEALTH_CHECK_PORT", &health),
        ("ARGOCD_PRINCIPAL_NAMESPACE", "argocd"),
        ("ARGOCD_PRINCIPAL_ALLOWED_NAMESPACES", "*"),
        ("ARGOCD_PRINCIPAL_AUTH", "mtls:CN=([^,]+)"),
        ("ARGOCD_PRINCIPAL_DISABLE_REDIS_PROXY", "true"),
        ("ARGOCD_PRINCIPAL_OTLP_ADDRESS", "otlp:4317"),
    ];
    let mut hub = Role::start(&place, &hub_variables, "principal --kubecontext hub");
    let warned = hub.wait_for("options of argocd-agent that are accepted and of no effect here");
    assert!(warned["options"].as_str().unwrap().contains("ARGOCD_PRINCIPAL_OTLP_ADDRESS"));
    hub.wait_for("agents can call");
    assert_eq!(status(health.parse().unwrap(), "/healthz"), "HTTP/1.1 200 OK");
    let (metrics, health) = (free_port().to_string(), free_port().to_string());
    let agent_variables = [
        ("KUBECONFIG", kubeconfig.as_str()),
        ("ARGOCD_AGENT_REMOTE_SERVER", "127.0.0.1"),
        ("ARGOCD_AGENT_REMOTE_PORT", &listen),
        ("ARGOCD_AGENT_METRICS_PORT", &metrics),
        ("ARGOCD_AGENT_HEALTH_CHECK_PORT", &health),
        ("ARGOCD_AGENT_CREDS", "mtls:any"),
    ];
    let mut agent = Role::start(&place, &agent_variables, "agent --kubecontext cluster-1");
    // Autonomous, as nobody would guess.
    assert_eq!(agent.wait_for("the agent runs")["mode"], "autonomous");
    agent.wait_for("connected");
    connected(&running.client("hub").await, true).await;
    assert_eq!(json(&place, "agents inspect cluster-1 --context hub")["mode"], "autonomous");
}
