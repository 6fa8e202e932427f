use http::StatusCode;
use http_body_util::BodyExt;
use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::net::{Network, Tcp};
use crate::telemetry::{self, LogConfig};

struct Running {
    tasks: Tasks,
    address: SocketAddr,
    readiness: Readiness,
    health: Readiness,
    levels: LogLevels,
    /// The filter lives as long as its subscriber.
    _logs: Box<dyn tracing::Subscriber + Send + Sync>,
}

async fn start() -> Running {
    let (tasks, _supervisor) = Tasks::root("test");
    let (logs, levels) = telemetry::subscriber(&LogConfig::default(), false, std::io::sink).unwrap();
    let (readiness, health) = (Readiness::new(), Readiness::new());
    let row = Row {
        key: "up.clusters".to_owned(),
        value: json!(1),
        origin: "default".to_owned(),
        variable: "THANE_UP_CLUSTERS".to_owned(),
    };
    let admin = Admin {
        tasks: tasks.clone(),
        readiness: readiness.clone(),
        health: health.clone(),
        registry: crate::metrics::registry("1", Timestamp::UNIX_EPOCH, &tasks),
        levels: levels.clone(),
        config: vec![row],
    };
    let listener = Tcp.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr();
    serve(admin, listener, &tasks);
    Running { tasks, address, readiness, health, levels, _logs: Box::new(logs) }
}

impl Running {
    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (StatusCode, String) {
        let io = crate::net::Connector::connect(&Tcp, "127.0.0.1", self.address.port()).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io)).await.unwrap();
        self.tasks.spawn("client", connection);
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response =
            sender.send_request(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()).await.unwrap();
        let status = response.status();
        (status, String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        self.ask("GET", path, &[], "").await
    }
}

#[tokio::test]
async fn health_metrics_and_the_inside_are_shown() {
    let running = start().await;
    assert_eq!(running.get("/livez").await, (StatusCode::OK, "ok\n".to_owned()));
    assert_eq!(running.get("/readyz").await.0, StatusCode::OK);
    let condition = running.readiness.condition("api");
    assert_eq!(running.get("/readyz").await, (StatusCode::SERVICE_UNAVAILABLE, "[-]api failed: starting\n".to_owned()));
    condition.holds();
    assert_eq!(running.get("/readyz").await.0, StatusCode::OK);
    assert_eq!(running.get("/healthz").await, (StatusCode::OK, "ok\n".to_owned()));
    let hub = running.health.condition("hub");
    assert_eq!(running.get("/healthz").await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(running.get("/readyz").await.0, StatusCode::OK);
    hub.holds();
    assert_eq!(running.get("/healthz").await.0, StatusCode::OK);
    assert!(running.get("/metrics").await.1.contains("thane_build_info"));
    assert!(running.get("/debug/tasks").await.1.contains("test/admin listener"));
    let config: serde_json::Value = serde_json::from_str(&running.get("/debug/config").await.1).unwrap();
    assert_eq!(config[0]["variable"], "THANE_UP_CLUSTERS");
    assert_eq!(running.get("/nothing").await.0, StatusCode::NOT_FOUND);
    assert_eq!(running.ask("POST", "/livez", &[], "").await.0, StatusCode::METHOD_NOT_ALLOWED);
    assert!(running.tasks.shutdown(Duration::from_secs(30)).await.is_empty());
}

#[tokio::test]
async fn levels_change_over_http_but_not_from_a_web_page() {
    let running = start().await;
    assert_eq!(running.get("/debug/log").await, (StatusCode::OK, "info\n".to_owned()));
    let put = async |headers: &[(&str, &str)], body: &str| running.ask("PUT", "/debug/log", headers, body).await.0;
    assert_eq!(put(&[], "info,kv=debug").await, StatusCode::OK);
    assert_eq!(running.levels.current(), "info,kv=debug");
    assert_eq!(put(&[], "kv=loud").await, StatusCode::BAD_REQUEST);
    assert_eq!(put(&[], &"x".repeat(5000)).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(put(&[("origin", "http://evil.example")], "trace").await, StatusCode::FORBIDDEN);
    assert_eq!(put(&[("host", "evil.example")], "trace").await, StatusCode::FORBIDDEN);
    assert_eq!(running.ask("DELETE", "/debug/log", &[], "").await.0, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(running.levels.current(), "info,kv=debug");
}
