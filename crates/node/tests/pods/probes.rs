//! Probes, and how a pod is told by them.

use serde_json::json;

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
        bed.until("p", "started again", |pod| {
            let all = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
            all.map(|one| one.restart_count).sum::<i32>() >= 1
        })
        .await;
        bed
    });
}
