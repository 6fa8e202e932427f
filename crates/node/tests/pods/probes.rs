//! Probes, and how a pod is told by them.

use std::process::Stdio;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::process::Command;

use crate::bed::{holds, on_bed};

const SERVER: &str = "import http.server,os\n\
class H(http.server.BaseHTTPRequestHandler):\n\
\x20 def do_GET(self):\n\
\x20  self.send_response(200 if os.path.exists('/tmp/ready') else 503); self.end_headers()\n\
http.server.HTTPServer(('127.0.0.1', 8080), H).serve_forever()";

#[test]
fn a_container_is_ready_when_its_probe_says_so() {
    on_bed(|bed| async {
        let script = format!("(sleep 2; touch /tmp/ready) & exec python3 -c \"{SERVER}\"");
        let more = json!({"container": {
            "ports": [{"name": "web", "containerPort": 8080}],
            "readinessProbe": {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 1},
            "startupProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 60},
        }});
        bed.script("p", &script, more).await;
        let pod = bed.phase("p", "Running").await;
        assert!(!holds(&pod, "Ready"), "{:?}", pod.status);
        bed.until("p", "ready", |pod| holds(pod, "Ready")).await;
        bed
    });
}

#[test]
fn a_sick_container_is_started_again() {
    on_bed(|bed| async {
        let more = json!({"restartPolicy": "Always", "terminationGracePeriodSeconds": 1, "container": {
            "livenessProbe": {"exec": {"command": ["test", "-e", "/tmp/well"]}, "periodSeconds": 1, "failureThreshold": 1},
        }});
        bed.script("p", "sleep 600", more).await;
        bed.until("p", "started again", was_restarted).await;
        bed
    });
}

fn was_restarted(pod: &Pod) -> bool {
    let all = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    all.map(|one| one.restart_count).sum::<i32>() >= 1
}

const TLS_SERVER: &str = "import http.server,ssl\n\
s=http.server.HTTPServer(('127.0.0.1', 8443), http.server.SimpleHTTPRequestHandler)\n\
c=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain('/tmp/c', '/tmp/k')\n\
s.socket=c.wrap_socket(s.socket, server_side=True); s.serve_forever()";

#[test]
fn a_server_with_a_certificate_nobody_knows_is_ready() {
    on_bed(|bed| async {
        let make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -config /tmp/req -subj /CN=x -keyout /tmp/k -out /tmp/c";
        let script = format!(
            "cd /workspace; printf '[req]\\ndistinguished_name=name\\nx509_extensions=more\\n[name]\\n[more]\\nbasicConstraints=CA:false\\n' > /tmp/req; {make} && exec python3 -c \"{TLS_SERVER}\""
        );
        let probe = |scheme: &str| json!({"httpGet": {"scheme": scheme, "port": 8443}, "periodSeconds": 1});
        bed.script("p", &script, json!({"container": {"readinessProbe": probe("HTTPS")}})).await;
        bed.until("p", "ready", |pod| holds(pod, "Ready")).await;
        // Plainly asked, it gives no answer that is HTTP.
        let more = json!({"restartPolicy": "Always", "terminationGracePeriodSeconds": 1, "container": {
            "startupProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1, "failureThreshold": 60},
            "livenessProbe": {"httpGet": {"port": 8443}, "periodSeconds": 1, "failureThreshold": 1},
        }});
        bed.script("q", &script, more).await;
        bed.until("q", "started again", was_restarted).await;
        bed
    });
}

#[test]
fn a_health_service_is_asked_for_the_service_that_is_meant() {
    on_bed(|bed| async {
        let Some(home) = thane_testkit::peer::home_or_skip(&["etcd"]) else { return bed };
        let [client, peer] = thane_testkit::peer::free_ports().unwrap();
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let mut etcd = Command::new(home.program("etcd"))
            .args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
            .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
            .args(["--initial-cluster", &format!("default={}", url(peer))])
            .arg("--data-dir")
            .arg(bed.folder.path().join("etcd"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let grpc = |service: &str| json!({"port": client, "service": service});
        let more =
            json!({"hostNetwork": true, "container": {"readinessProbe": {"grpc": grpc(""), "periodSeconds": 1}}});
        bed.script("p", "exec sleep 600", more).await;
        bed.until("p", "ready", |pod| holds(pod, "Ready")).await;
        let more = json!({"hostNetwork": true, "restartPolicy": "Always", "terminationGracePeriodSeconds": 1, "container": {
            "livenessProbe": {"grpc": grpc("absent"), "periodSeconds": 1, "failureThreshold": 1},
        }});
        bed.script("q", "exec sleep 600", more).await;
        bed.until("q", "started again", was_restarted).await;
        etcd.kill().await.unwrap();
        bed
    });
}
