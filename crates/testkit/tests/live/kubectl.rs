//! The real kubectl, through the hub of `thane up` to a cluster behind an agent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use thane_testkit::fleet::Programs;
use thane_testkit::peer::{Absence, PeerHome, Thane, home_or_skip};

use crate::{Running, said, told, until};

struct Bed {
    home: PeerHome,
    program: PathBuf,
    thane: Thane,
    folder: TempDir,
}

impl Bed {
    /// `None` after saying loudly what is missing.
    async fn start(arguments: &[&str]) -> Option<Self> {
        let home = home_or_skip(&["kubectl"])?;
        let program = Programs::locate(&home).thane().map_err(Absence::tell).ok()?.to_owned();
        let thane = Thane::start(&program, arguments).await.unwrap_or_else(|error| panic!("{error:#}"));
        let bed = Self { home, program, thane, folder: tempfile::tempdir().unwrap() };
        let hub = bed.thane.kubeconfig().to_str().unwrap().to_owned();
        let kubeconfig = bed.thane_says(&["agents", "kubeconfig", "cluster-1", "--kubeconfig", &hub]);
        std::fs::write(bed.file("kubeconfig"), kubeconfig).unwrap();
        until("the agent is connected", || bed.kubectl(&["get", "namespaces"]).status.success());
        Some(bed)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn thane_says(&self, arguments: &[&str]) -> String {
        said(&Command::new(&self.program).args(arguments).output().unwrap())
    }

    /// kubectl through the hub.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.home.program("kubectl"));
        command.arg("--kubeconfig").arg(self.file("kubeconfig")).args(arguments).env("HOME", self.folder.path());
        command
    }

    fn kubectl(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn says(&self, arguments: &[&str]) -> String {
        said(&self.kubectl(arguments))
    }

    /// kubectl beside the hub, on the cluster itself.
    fn direct(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(self.home.program("kubectl"));
        command.arg("--kubeconfig").arg(self.thane.kubeconfig()).args(["--context", "cluster-1"]).args(arguments);
        said(&command.env("HOME", self.folder.path()).output().unwrap())
    }

    fn apply(&self, object: &Value, more: &[&str]) -> Output {
        let arguments = [&["apply", "-f", "-"][..], more].concat();
        let mut command = self.command(&arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"a": value}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_works_through_the_hub() {
    let Some(bed) = Bed::start(&["--ephemeral-ports"]).await else { return };
    tokio::task::spawn_blocking(move || {
        objects(&bed);
        watches(&bed);
        refusals(&bed);
        pods(&bed);
    })
    .await
    .unwrap();
}

fn objects(bed: &Bed) {
    assert!(bed.says(&["api-resources"]).contains("configmaps"));
    assert!(bed.says(&["api-versions"]).contains("argoproj.io/v1alpha1"));
    said(&bed.apply(&config_map("one", "1"), &[]));
    assert_eq!(bed.direct(&["get", "configmap", "one", "-o", "jsonpath={.data.a}"]), "1");
    assert_eq!(bed.says(&["get", "configmap", "one", "-o", "jsonpath={.data.a}"]), "1");
    said(&bed.apply(&config_map("one", "2"), &["--dry-run=server"]));
    assert_eq!(bed.says(&["get", "configmap", "one", "-o", "jsonpath={.data.a}"]), "1");
    said(&bed.apply(&config_map("one", "3"), &["--server-side", "--force-conflicts"]));
    bed.says(&["patch", "configmap", "one", "--type", "json", "-p", r#"[{"op":"add","path":"/data/b","value":"4"}]"#]);
    assert!(bed.says(&["describe", "configmap", "one"]).contains("b:"));
    assert!(bed.says(&["get", "configmaps", "-A", "--chunk-size=1"]).contains("one"));
    let missing = bed.kubectl(&["get", "configmap", "nothing"]);
    assert!(told(&missing).contains(r#"configmaps "nothing" not found"#), "{}", told(&missing));
    bed.says(&["delete", "configmap", "one"]);
    let large = config_map("large", &"x".repeat(900_000));
    said(&bed.apply(&large, &["--server-side"]));
    assert_eq!(bed.says(&["get", "configmap", "large", "-o", "jsonpath={.data.a}"]).len(), 900_000);
}

fn watches(bed: &Bed) {
    let mut watching = bed.command(&["get", "configmaps", "--watch-only", "-o", "name"]);
    let mut watching = Running(watching.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(watching.0.stdout.take().unwrap()).lines();
    // The watch begins when it begins: something is seen of what is written again and again.
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) && round < 200 {
                round += 1;
                let patch = format!(r#"{{"data":{{"round":"{round}"}}}}"#);
                bed.direct(&["patch", "configmap", "large", "--type", "merge", "-p", &patch]);
            }
        });
        let line = lines.next();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(line.unwrap().unwrap(), "configmap/large");
    });
}

/// Who may not, and what is none.
fn refusals(bed: &Bed) {
    let anonymous = bed.kubectl(&["--as", "somebody", "get", "pods"]);
    assert!(told(&anonymous).contains("impersonated"), "{}", told(&anonymous));
    // A service account of the hub is somebody there, and may use no agent until RBAC says so.
    let hub = |arguments: &[&str]| {
        let mut command = Command::new(bed.home.program("kubectl"));
        command.arg("--kubeconfig").arg(bed.thane.kubeconfig()).args(["--context", "hub"]).args(arguments);
        said(&command.env("HOME", bed.folder.path()).output().unwrap())
    };
    hub(&["create", "serviceaccount", "guest"]);
    let token = hub(&["create", "token", "guest"]).trim().to_owned();
    let text = std::fs::read_to_string(bed.file("kubeconfig")).unwrap();
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains("client-")).collect();
    std::fs::write(bed.file("guest"), kept.join("\n")).unwrap();
    let guest = |arguments: &[&str]| {
        let mut command = Command::new(bed.home.program("kubectl"));
        command.arg("--kubeconfig").arg(bed.file("guest")).args(["--token", &token]).args(arguments);
        command.env("HOME", bed.folder.path()).output().unwrap()
    };
    let refused = guest(&["get", "configmaps"]);
    assert!(told(&refused).contains("cannot proxy resource"), "{}", told(&refused));
    hub(&[
        "create",
        "clusterrole",
        "use-1",
        "--verb=proxy",
        "--resource=agents.thane.dev",
        "--resource-name=cluster-1",
    ]);
    hub(&["create", "clusterrolebinding", "use-1", "--clusterrole=use-1", "--serviceaccount=default:guest"]);
    until("the guest may", || guest(&["get", "configmaps"]).status.success());
    // What may pass is for a guest what a hub of its own lets pass by default; everything is for administrators.
    let refused = guest(&["get", "leases.coordination.k8s.io"]);
    assert!(told(&refused).contains("the policy of live access"), "{}", told(&refused));
    bed.says(&["get", "leases.coordination.k8s.io"]);
}

fn pods(bed: &Bed) {
    if bed.thane.published("gateway").is_err() {
        return Absence::Skip("this machine runs no pods: that takes root".to_owned()).tell();
    }
    let serve = "python3 -m http.server 8123 --bind 0.0.0.0 --directory /tmp >/dev/null 2>&1 &";
    let script = "i=0; while true; do i=$((i+1)); echo line $i; sleep 0.2; done";
    let container = json!({"name": "main", "image": "host", "command": ["sh", "-c", format!("{serve} {script}")]});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    });
    said(&bed.apply(&pod, &[]));
    bed.says(&["wait", "--for=condition=Ready", "pod/p", "--timeout=60s"]);
    assert!(bed.says(&["describe", "pod", "p"]).contains("Status:"));
    logs(bed);
    assert_eq!(bed.says(&["exec", "p", "--", "echo", "hello"]), "hello\n");
    let failed = bed.kubectl(&["exec", "p", "--", "sh", "-c", "echo no >&2; exit 7"]);
    assert_eq!(failed.status.code(), Some(7), "{}", told(&failed));
    let mut cat = bed.command(&["exec", "-i", "p", "--", "cat"]);
    let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let sent = vec![b'x'; 300_000];
    cat.stdin.take().unwrap().write_all(&sent).unwrap();
    assert_eq!(cat.wait_with_output().unwrap().stdout.len(), sent.len());
    let file = bed.file("sent");
    std::fs::write(&file, [0, 255, 10]).unwrap();
    bed.says(&["cp", file.to_str().unwrap(), "p:/tmp/here"]);
    bed.says(&["cp", "p:/tmp/here", bed.file("back").to_str().unwrap()]);
    assert_eq!(std::fs::read(bed.file("back")).unwrap(), [0, 255, 10]);
    port_forward(bed);
    bed.says(&["delete", "pod", "p", "--wait=false"]);
}

fn logs(bed: &Bed) {
    until("it has said something", || bed.says(&["logs", "p"]).contains("line 1\n"));
    let mut following = bed.command(&["logs", "-f", "p"]);
    let mut following = Running(following.stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(following.0.stdout.take().unwrap()).lines();
    for (number, line) in lines.take(8).enumerate() {
        assert_eq!(line.unwrap(), format!("line {}", number + 1));
    }
}

/// A server in the pod, and a client beside kubectl.
fn port_forward(bed: &Bed) {
    let has = bed.kubectl(&["exec", "p", "--", "sh", "-c", "command -v python3"]);
    if !has.status.success() {
        return Absence::Skip("the pod's image has no python3".to_owned()).tell();
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut forwarding = bed.command(&["port-forward", "pod/p", &format!("{port}:8123")]);
    let _forwarding = Running(forwarding.stdout(Stdio::null()).spawn().unwrap());
    let fetched = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(b"GET /here HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        answer.ends_with(&[0, 255, 10]).then_some(())
    };
    until("the forwarded port answers", || fetched().is_some());
}
