//! Prometheus with `consul_sd`: targets come and go with registrations, with the labels Consul's have.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use thane_testkit::client::HttpsClient;
use thane_testkit::peer::{Guarded, PeerHome, free_ports};

use super::{everybody, ours};

/// It asks for services every 30 s unless told, and waits for health by blocking.
const PATIENCE: Duration = Duration::from_secs(40);

struct Prometheus {
    address: String,
    _program: Guarded,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn start(home: &PeerHome, consul: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [port] = free_ports().unwrap();
        let config = json!({"scrape_configs": [{
            "job_name": "all", "scrape_interval": "1h",
            "consul_sd_configs": [{"server": consul, "refresh_interval": "1s"}],
        }]});
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config.to_string()).unwrap();
        let address = format!("127.0.0.1:{port}");
        let arguments = [
            format!("--config.file={}", file.display()),
            format!("--storage.tsdb.path={}", folder.path().join("data").display()),
            format!("--web.listen-address={address}"),
        ];
        let log = folder.path().join("log");
        let program = Guarded::start(&home.program("prometheus"), &arguments, &log, Some(folder.path())).unwrap();
        Self { address, _program: program, _folder: folder }
    }

    /// The labels of the target at an address once it is there, or nothing once it is not.
    async fn target(&self, at: &str, wanted: bool) -> Option<Value> {
        let client = HttpsClient::plain(&self.address);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = Request::get("/api/v1/targets").header("host", &self.address).body(Full::default()).unwrap();
            let body = client.exchange(request).await.map(|answer| answer.body).unwrap_or_default();
            let targets: Option<Value> = serde_json::from_slice(&body).ok();
            if let Some(targets) = targets {
                let all = targets["data"]["activeTargets"].as_array().cloned().unwrap_or_default();
                let labels = |target: &Value| target["discoveredLabels"].clone();
                let found = all.iter().map(labels).find(|labels| labels["__address__"] == at);
                if found.is_some() == wanted {
                    return found;
                }
            }
            assert!(Instant::now() < deadline, "no change of {at} within {PATIENCE:?}");
            // Another program's state can only be asked for, not awaited.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn put(address: &str, path: &str, body: &Value) {
    let request = Request::put(path).header("host", address).body(Full::from(body.to_string())).unwrap();
    let answer = HttpsClient::plain(address).exchange(request).await.unwrap();
    assert!(answer.status.is_success(), "{path}: {}", String::from_utf8_lossy(&answer.body));
}

/// What Prometheus says of an instance that is registered, and that it forgets it afterwards.
async fn followed(home: &PeerHome, address: &str) -> Value {
    let prometheus = Prometheus::start(home, address);
    let service = json!({"Name": "web", "ID": "web-1", "Address": "10.3.3.3", "Port": 9100, "Tags": ["a", "b"],
        "Meta": {"team": "core"}, "Check": {"TTL": "1m", "Status": "passing"}});
    put(address, "/v1/agent/service/register", &service).await;
    let labels = prometheus.target("10.3.3.3:9100", true).await.unwrap();
    let moved = json!({"Name": "web", "ID": "web-1", "Address": "10.3.3.4", "Port": 9100});
    put(address, "/v1/agent/service/register", &moved).await;
    prometheus.target("10.3.3.4:9100", true).await;
    prometheus.target("10.3.3.3:9100", false).await;
    put(address, "/v1/agent/service/deregister/web-1", &Value::Null).await;
    prometheus.target("10.3.3.4:9100", false).await;
    labels
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_follows_registrations() {
    let Some((home, thane)) = ours(&["consul", "prometheus"]).await else { return };
    let (_consul, addresses) = everybody(&home, &thane).await;
    let (theirs, found) = tokio::join!(followed(&home, &addresses[0]), followed(&home, &addresses[1]));
    let names = |labels: &Value| -> BTreeSet<String> { labels.as_object().unwrap().keys().cloned().collect() };
    // What a real Consul says about its own version is its own.
    let own = |name: &String| !name.starts_with("__meta_consul_metadata_consul_");
    let wanted: BTreeSet<String> = names(&theirs).into_iter().filter(own).collect();
    assert_eq!(names(&found), wanted);
    for label in
        ["service", "service_id", "service_address", "service_port", "tags", "dc", "health", "service_metadata_team"]
    {
        let label = format!("__meta_consul_{label}");
        assert_eq!(found[&label], theirs[&label], "{label}");
    }
}
