//! argocd-agent's hub with our agent, and our hub with argocd-agent's agent: everything its protocol has.

use std::process::Command;

use bytes::Bytes;
use futures::StreamExt;
use http::Request;
use http_body_util::{BodyStream, Full};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};
use thane_testkit::client::HttpsClient;
use thane_testkit::fleet::{LivePair, Program, Stop};
use thane_testkit::peer::{PeerHome, in_own_network};

use crate::{PATIENCE, redis, talker, terminals};

#[test]
fn our_hub_with_its_agent() {
    run("pairs::our_hub_with_its_agent", Program::Thane, Program::Go);
}

#[test]
fn its_hub_with_our_agent() {
    run("pairs::its_hub_with_our_agent", Program::Go, Program::Thane);
}

/// What both of its own programs do, so that nobody takes a fault of ours for the protocol; not run by itself.
#[test]
#[ignore = "the reference: it says what its own programs do"]
fn its_hub_with_its_agent() {
    run("pairs::its_hub_with_its_agent", Program::Go, Program::Go);
}

fn run(name: &str, hub: Program, agent: Program) {
    let home = PeerHome::locate();
    if let Err(absence) = LivePair::require(&home) {
        return absence.tell();
    }
    if !in_own_network(&["--exact", name, "--nocapture", "--include-ignored"]) {
        return;
    }
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(async {
        let mut pair = LivePair::start(&home, hub, agent).await.unwrap_or_else(|error| panic!("{error:#}"));
        let bed = Bed { client: HttpsClient::new(&pair.proxy).unwrap(), hub };
        make_objects(&pair).await;
        bed.until_it_says(200).await;
        bed.requests(agent).await;
        bed.changes(&pair).await;
        bed.logs().await;
        let kubeconfig = pair.folder().join("proxied");
        std::fs::write(&kubeconfig, pair.proxy.kubeconfig("default").unwrap()).unwrap();
        terminals::sized(&kubeconfig).await;
        terminals::commands(&home, &kubeconfig, hub).await;
        redis::asked(&pair, hub).await;
        bed.gone(&mut pair).await;
        pair.stop().await.unwrap();
    });
}

struct Bed {
    client: HttpsClient,
    hub: Program,
}

async fn make_objects(pair: &LivePair) {
    let pods: Api<Pod> = Api::namespaced(pair.spoke_client(), "default");
    pods.create(&PostParams::default(), &serde_json::from_value(talker()).unwrap()).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(pair.spoke_client(), "default");
    for (name, annotations) in
        [("ours", json!({"argocd.argoproj.io/tracking-id": "shop:/ConfigMap:default/ours"})), ("other", json!({}))]
    {
        let map = json!({"metadata": {"name": name, "annotations": annotations}, "data": {"a": "1"}});
        maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }
    let running = await_condition(pods, "talker", conditions::is_pod_running());
    tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

impl Bed {
    async fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Bytes) {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder().method(method).uri(path).header("host", self.client.address());
        let request = request.header("content-type", kind).body(Full::new(body)).unwrap();
        let answer = self.client.exchange(request).await.unwrap();
        (answer.status.as_u16(), answer.body)
    }

    fn of(&self, go: u16, ours: u16) -> u16 {
        if self.hub == Program::Go { go } else { ours }
    }

    /// What is asked for, the answer's code of its hub and of ours, and words of a good answer.
    async fn requests(&self, agent: Program) {
        // Its agent calls it a fault, ours a refusal; our hub does not even ask its agent.
        let listed = if agent == Program::Go { 500 } else { 403 };
        let cases = [
            ("/version".to_owned(), 200, 200, "1.28"),
            ("/api".to_owned(), 200, 200, "v1"),
            ("/apis".to_owned(), 200, 200, "argoproj.io"),
            ("/api/v1".to_owned(), 200, 200, "configmaps"),
            ("/apis/argoproj.io/v1alpha1".to_owned(), 200, 200, "applications"),
            ("/apis/none.example/v1".to_owned(), 404, 404, ""),
            (format!("{MAPS}/ours"), 200, 200, r#""a":"1""#),
            (format!("{MAPS}/other"), 403, 403, ""),
            (format!("{MAPS}/none"), 404, 404, ""),
            (MAPS.to_owned(), listed, 501, ""),
            (format!("{MAPS}?watch=true"), listed, 501, ""),
            ("/api/v1/namespaces/default/events?limit=1".to_owned(), 200, 200, "items"),
            ("/api/v1/namespaces/default/pods/talker".to_owned(), 200, 200, "talker"),
            ("/api/v1/namespaces/default/pods/talker/status".to_owned(), 200, 200, "Running"),
            ("/no/such/path".to_owned(), 400, 404, ""),
        ];
        for (path, go, ours, words) in cases {
            let (status, body) = self.ask("GET", &path, &Value::Null).await;
            let body = String::from_utf8_lossy(&body);
            assert_eq!(status, self.of(go, ours), "{path}: {body}");
            assert!(body.contains(words), "{path}: {body}");
        }
    }

    async fn changes(&self, pair: &LivePair) {
        let made = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "made", "annotations": {"argocd.argoproj.io/tracking-id": "shop:/ConfigMap:default/made"}},
        });
        let patch = json!({"data": {"b": "2", "a": null}});
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        let cases = [
            ("POST", MAPS.to_owned(), &made, 200, 201),
            ("POST", MAPS.to_owned(), &made, 409, 409),
            ("POST", format!("{MAPS}?dryRun=All"), &made, 409, 409),
            ("PATCH", format!("{MAPS}/ours"), &patch, 200, 200),
            ("PATCH", format!("{MAPS}/other"), &patch, 403, 403),
            ("DELETE", format!("{MAPS}/made"), &options, 200, 200),
            ("DELETE", format!("{MAPS}/made"), &options, 404, 404),
            ("DELETE", format!("{MAPS}/other"), &options, 403, 403),
            ("PUT", format!("{MAPS}/ours"), &made, 403, 501),
        ];
        for (method, path, body, go, ours) in cases {
            let (status, answer) = self.ask(method, &path, body).await;
            assert_eq!(status, self.of(go, ours), "{method} {path}: {}", String::from_utf8_lossy(&answer));
        }
        let maps: Api<ConfigMap> = Api::namespaced(pair.spoke_client(), "default");
        let data = maps.get("ours").await.unwrap().data.unwrap();
        assert_eq!(data.into_iter().collect::<Vec<_>>(), [("b".to_owned(), "2".to_owned())]);
        assert_eq!(maps.get("other").await.unwrap().data.unwrap()["a"], "1");
        assert!(maps.get_opt("made").await.unwrap().is_none());
    }

    async fn logs(&self) {
        let log = "/api/v1/namespaces/default/pods/talker/log?container=main";
        let (status, body) = self.ask("GET", &format!("{log}&tailLines=3&timestamps=true"), &Value::Null).await;
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert_eq!((status, text.lines().count()), (200, 3), "{text}");
        assert!(text.lines().all(|line| line.starts_with("20") && line.contains("Z line ")), "{text}");
        let (_, body) = self.ask("GET", &format!("{log}&tailLines=1"), &Value::Null).await;
        let has_time = body.starts_with(b"20");
        assert_eq!(has_time, self.hub == Program::Go, "only its hub tells the time unasked: {body:?}");
        let (status, _) = self.ask("GET", "/api/v1/namespaces/default/pods/none/log", &Value::Null).await;
        assert_eq!(status, self.of(200, 404));
        let request = Request::get(format!("{log}&follow=true&tailLines=2")).header("host", self.client.address());
        let response = self.client.stream(request.body(Full::default()).unwrap()).await.unwrap();
        let mut body = BodyStream::new(response.into_body());
        let mut text = String::new();
        let following = async {
            while text.lines().count() < 20 {
                let frame = body.next().await.unwrap().unwrap();
                text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
            }
        };
        tokio::time::timeout(PATIENCE, following).await.unwrap();
        let number = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u32>().unwrap();
        let numbers: Vec<u32> = text.lines().take(19).map(number).collect();
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "without gap or repeat: {numbers:?}");
    }

    /// An agent that is not there.
    async fn gone(&self, pair: &mut LivePair) {
        pair.stop_agent(Stop::Asked).await.unwrap();
        // Its end shows when its connection has.
        self.until_it_says(502).await;
        pair.start_agent().await.unwrap();
        self.until_it_says(200).await;
    }

    /// Asks for an object until the answer has this code.
    async fn until_it_says(&self, code: u16) {
        let asked = async {
            while self.ask("GET", &format!("{MAPS}/ours"), &Value::Null).await.0 != code {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.unwrap();
    }
}

/// kubectl with a kubeconfig, for whoever wants its exit code.
pub(crate) fn kubectl(home: &PeerHome, kubeconfig: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(home.program("kubectl"));
    command.arg("--kubeconfig").arg(kubeconfig).args(arguments).env("HOME", kubeconfig.parent().unwrap());
    command
}
