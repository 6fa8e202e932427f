//! Workflows and workloads on `thane up`, by its own commands: steps in pods, gates, and a hub that is killed in between.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

mod gates;
mod often;

use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use thane_runtime::{Clock as _, SystemClock};
use thane_testkit::fleet::Programs;
use thane_testkit::peer::{Absence, PeerHome, Thane};

/// The longest anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

struct Bed {
    program: PathBuf,
    thane: Thane,
    _folder: TempDir,
}

/// Settings with ports that stay the same when it starts again: what runs in a pod knows its API by one of them.
fn settings() -> String {
    let ports: Vec<TcpListener> = (0..5).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let address = |at: usize| ports[at].local_addr().unwrap().to_string();
    let up = json!({"apiAddress": address(0), "hubAddress": address(1), "proxyAddress": address(2), "gatewayAddress": address(3)});
    json!({"up": up, "admin": {"address": address(4)}}).to_string()
}

impl Bed {
    /// `None` after saying loudly what is missing.
    async fn start() -> Option<Self> {
        let home = PeerHome::locate();
        let program = Programs::locate(&home).thane().map_err(Absence::tell).ok()?.to_owned();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("thane.yaml");
        std::fs::write(&file, settings()).unwrap();
        let started = Thane::start(&program, &["--config", file.to_str().unwrap(), "--clusters", "0"]).await;
        let thane = started.unwrap_or_else(|error| panic!("{error:#}"));
        if thane.published("gateway").is_err() {
            Absence::Skip("this machine runs no pods: that takes root".to_owned()).tell();
            return None;
        }
        Some(Self { program, thane, _folder: folder })
    }

    fn run(&self, words: &str, input: &str) -> Output {
        let mut command = Command::new(&self.program);
        command.args(words.split_whitespace()).arg("--kubeconfig").arg(self.thane.kubeconfig());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn says(&self, words: &str, input: &str) -> String {
        let output = self.run(words, input);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}: {told}\n{}", self.thane.log());
        String::from_utf8(output.stdout).unwrap()
    }

    fn object(&self, what: &str) -> Value {
        serde_json::from_str(&self.says(&format!("get {what} -o json"), "")).unwrap()
    }

    /// Waits for an object to be so.
    async fn until(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let object = self.object(what);
            if is(&object) {
                return object;
            }
            assert!(started.elapsed() < PATIENCE, "{what}: {:#}\n{}", object["status"], self.thane.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn ended(&self, workflow: &str) -> Value {
        let over = |it: &Value| matches!(it["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Error"));
        self.until(&format!("workflow {workflow}"), over).await
    }
}

fn example(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The node of a step.
fn node<'a>(workflow: &'a Value, step: &str) -> &'a Value {
    let status = &workflow["status"];
    let mut nodes = status["nodes"].as_object().into_iter().flatten().map(|(_, node)| node);
    nodes.find(|node| node["displayName"] == step).unwrap_or_else(|| panic!("no {step}: {status:#}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workflows_run_and_go_on_after_a_kill() {
    let Some(mut bed) = Bed::start().await else { return };
    bed.says("workflow submit -", &example("diamond.yaml"));
    let diamond = bed.ended("diamond").await;
    assert_eq!(diamond["status"]["phase"], "Succeeded", "{:#}", diamond["status"]);
    assert_eq!(node(&diamond, "b")["outputs"]["result"], "B after A");
    assert!(bed.says("workflow logs diamond", "").contains("d: D: B after A"));
    assert!(bed.says("workflow get diamond", "").contains("Succeeded"));

    let step = |name: &str, template: &str| json!([{"name": name, "template": template}]);
    often::prepare(&bed);
    let slow = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "slow"}, "spec": {
        "entrypoint": "main", "volumes": often::volumes(), "templates": [
            {"name": "main", "steps": [step("first", "wait"), step("second", "wait"), step("last", "fail")]},
            {"name": "wait", "container": often::counted("sleep 2; echo done")},
            {"name": "fail", "container": often::counted("exit 3")}]}});
    bed.says("workflow submit -", &slow.to_string());
    bed.until("workflow slow", |it| it["status"]["phase"] == "Running").await;
    bed.thane.kill_and_start().await.unwrap();
    let slow = bed.ended("slow").await;
    assert_eq!(slow["status"]["phase"], "Failed", "{:#}", slow["status"]);
    let phases = ["first", "second", "last"].map(|step| node(&slow, step)["phase"].clone());
    assert_eq!(phases, ["Succeeded", "Succeeded", "Failed"]);
    let ran: Vec<String> = often::ran(&bed).into_iter().filter(|line| line.starts_with("slow")).collect();
    assert_eq!(ran.len(), 3, "each step has run once: {ran:?}");

    let cyclic = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "cyclic"}, "spec": {
        "entrypoint": "main", "templates": [{"name": "main", "dag": {"tasks": [
            {"name": "a", "template": "main", "dependencies": ["b"]},
            {"name": "b", "template": "main", "dependencies": ["a"]}]}}]}});
    bed.says("apply -f -", &cyclic.to_string());
    let cyclic = bed.ended("cyclic").await;
    assert!(cyclic["status"]["message"].as_str().unwrap().contains("invalid spec"), "{:#}", cyclic["status"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gates_open_and_stay_closed() {
    let Some(bed) = Bed::start().await else { return };
    bed.says("apply -f -", &example("gate.yaml"));
    bed.until("agentworkload looked", |it| it["status"]["phase"] == "PendingApproval").await;
    bed.says("workload approve looked --reason seen", "");
    let done = bed.until("agentworkload looked", |it| it["status"]["phase"] == "Completed").await;
    let decisions = done["status"]["decisions"].as_array().unwrap();
    let last = decisions.last().unwrap();
    assert_eq!((&last["by"], &last["reason"], &last["allow"]), (&json!("admin"), &json!("seen"), &json!(true)));
    assert_eq!(bed.says("workload logs looked", "").matches("the report of job-1").count(), 1);

    let workload = |name: &str, targets: Value| {
        json!({"apiVersion": "agentic.clawdlinux.org/v1alpha1", "kind": "AgentWorkload", "metadata": {"name": name},
            "spec": {"targetUrls": targets, "orchestration": {"workflowTemplateRef": {"name": "look"}}}})
    };
    bed.says("workload submit -", &workload("denied", json!(["https://example.org"])).to_string());
    bed.until("agentworkload denied", |it| it["status"]["phase"] == "PendingApproval").await;
    bed.says("workload deny denied --reason no", "");
    let denied = bed.until("agentworkload denied", |it| it["status"]["phase"] == "Failed").await;
    assert_eq!(denied["status"]["message"], "gate gate was denied: no");
    let report = bed.object("workflow denied");
    let nodes = report["status"]["nodes"].as_object().unwrap().values();
    assert!(nodes.filter(|node| node["displayName"] == "report").all(|node| node["type"] != "Pod"), "{report:#}");

    bed.says("workload submit -", &workload("aimless", json!([])).to_string());
    let aimless = bed.until("agentworkload aimless", |it| it["status"]["phase"] == "PolicyDenied").await;
    assert_eq!(aimless["status"]["message"], "only what has targets may start");
    assert!(!bed.run("get workflow aimless", "").status.success(), "nothing was made");

    bed.says("delete agentworkload looked", "");
    bed.until("workflows", |it| it["items"].as_array().unwrap().iter().all(|one| one["metadata"]["name"] != "looked"))
        .await;
}

/// A Workflow whose steps run in sandboxes of a pool, one after another.
fn warm(name: &str, steps: &[Value]) -> String {
    let groups: Vec<Value> = steps
        .iter()
        .map(|step| json!([{"name": step["name"], "template": step["name"], "arguments": step["arguments"]}]))
        .collect();
    let mut templates = vec![json!({"name": "main", "steps": groups})];
    templates.extend(steps.iter().map(|step| {
        let mut template = step.clone();
        template.as_object_mut().unwrap().remove("arguments");
        template
    }));
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {"name": name, "annotations": {"thane.dev/pool": "warm"}},
        "spec": {"entrypoint": "main", "templates": templates}})
    .to_string()
}

fn shell(script: &str) -> Value {
    json!({"image": "host", "command": ["sh", "-c", script]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_run_in_warm_sandboxes() {
    let Some(mut bed) = Bed::start().await else { return };
    let pool = json!({"apiVersion": "arl.infra.io/v1alpha1", "kind": "WarmPool", "metadata": {"name": "warm"},
        "spec": {"replicas": 4, "template": {"spec": {"containers": [{"name": "main", "image": "host"}]}}}});
    bed.says("apply -f -", &pool.to_string());
    bed.until("warmpool warm", |it| it["status"]["readyReplicas"] == 4).await;

    let mut diamond: Value = serde_json::from_str(&warm("diamond", &[])).unwrap();
    let task = |name: &str, after: &[&str]| json!({"name": name, "template": "step", "dependencies": after});
    diamond["spec"]["templates"] = json!([
        {"name": "main", "dag": {"tasks": [task("a", &[]), task("b", &["a"]), task("c", &["a"]), task("d", &["b", "c"])]}},
        {"name": "step", "container": shell("true")}]);
    bed.says("workflow submit -", &diamond.to_string());
    let diamond = bed.ended("diamond").await;
    assert_eq!(diamond["status"]["phase"], "Succeeded", "{:#}", diamond["status"]);
    assert_eq!(bed.object("pods -l workflows.argoproj.io/workflow=diamond")["items"], json!([]), "none had a pod");

    pass_on(&bed).await;
    kill_in_the_middle(&mut bed).await;

    bed.says("workflow submit -", &warm("stopped", &[json!({"name": "long", "container": shell("sleep 600")})]));
    bed.until("workflow stopped", |it| {
        it["status"]["nodes"]
            .as_object()
            .is_some_and(|nodes| nodes.values().any(|node| node["type"] == "Pod" && node["phase"] == "Running"))
    })
    .await;
    bed.says("workflow stop stopped", "");
    let stopped = bed.ended("stopped").await;
    assert_eq!(stopped["status"]["phase"], "Failed", "{:#}", stopped["status"]);
    bed.until("sandboxes", |it| it["items"] == json!([])).await;
}

/// What steps leave, and what they said.
async fn pass_on(bed: &Bed) {
    let from = json!({"artifacts": [{"name": "made", "from": "{{steps.make.outputs.artifacts.made}}"}]});
    let given = json!({"parameters": [{"name": "said", "value": "{{steps.make.outputs.parameters.said}} {{steps.make.outputs.result}}"}]});
    let steps = [
        json!({"name": "make", "script": {"image": "host", "command": ["sh"],
                "source": "mkdir -p /tmp/made/below; echo one > /tmp/made/below/file; echo two > /tmp/said; echo three"},
            "outputs": {"artifacts": [{"name": "made", "path": "/tmp/made"}],
                "parameters": [{"name": "said", "valueFrom": {"path": "/tmp/said"}}]}}),
        json!({"name": "take", "arguments": from, "container": shell("cat /in/below/file"),
            "inputs": {"artifacts": [{"name": "made", "path": "/in"}]}, "outputs": {"parameters": [{"name": "n", "valueFrom": {"path": "/in/below/file"}}]}}),
        json!({"name": "pod", "arguments": from, "container": shell("cat /in/below/file"), "sidecars": [{"name": "beside", "image": "host", "command": ["sleep", "60"]}],
            "inputs": {"artifacts": [{"name": "made", "path": "/in"}]}, "outputs": {"parameters": [{"name": "n", "valueFrom": {"path": "/in/below/file"}}]}}),
        json!({"name": "last", "arguments": given, "container": shell("test \"{{inputs.parameters.said}}\" = 'two three' || exit 7"),
            "inputs": {"parameters": [{"name": "said"}]}}),
    ];
    bed.says("workflow submit -", &warm("passing", &steps));
    let passing = bed.ended("passing").await;
    assert_eq!(passing["status"]["phase"], "Succeeded", "{:#}\n{}", passing["status"], bed.thane.log());
    // What a step said outlives its sandbox.
    let kept = |it: &Value| it["items"].as_array().is_some_and(|all| all.len() == 2);
    bed.until("configmaps -l workflows.argoproj.io/workflow=passing", kept).await;
    let logs = bed.says("workflow logs passing", "");
    for line in ["make: three", "take: one", "pod: one"] {
        assert!(logs.lines().any(|other| other == line), "{line}: {logs}");
    }
    for step in ["take", "pod"] {
        assert_eq!(node(&passing, step)["outputs"]["parameters"][0]["value"], "one", "{step}");
    }
    assert_eq!(node(&passing, "pod")["message"], "runs as a pod: it has sidecars");
    assert_eq!(bed.object("pods -l workflows.argoproj.io/workflow=passing")["items"].as_array().unwrap().len(), 1);
}

/// The controller is killed while a step runs, which is then followed to its end.
async fn kill_in_the_middle(bed: &mut Bed) {
    let steps = [
        json!({"name": "first", "container": shell("date +%s%N > /tmp/at"), "outputs": {"parameters": [{"name": "at", "valueFrom": {"path": "/tmp/at"}}]}}),
        json!({"name": "second", "container": shell("date +%s%N > /tmp/at; sleep 6"), "outputs": {"parameters": [{"name": "at", "valueFrom": {"path": "/tmp/at"}}]}}),
        json!({"name": "third", "container": shell("exit 3")}),
    ];
    bed.says("workflow submit -", &warm("killed", &steps));
    let is_second = |it: &Value| {
        it["status"]["nodes"].as_object().is_some_and(|nodes| {
            nodes.values().any(|node| node["displayName"] == "second" && node["phase"] == "Running")
        })
    };
    let before = bed.until("workflow killed", is_second).await;
    // It has its sandbox; nobody is told when its command has begun.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let killed = SystemClock::new().now().as_nanosecond();
    bed.thane.kill_and_start().await.unwrap();
    let after = bed.ended("killed").await;
    assert_eq!(after["status"]["phase"], "Failed", "{:#}\n{}", after["status"], bed.thane.log());
    let phases = ["first", "second", "third"].map(|step| node(&after, step)["phase"].clone());
    assert_eq!(phases, ["Succeeded", "Succeeded", "Failed"]);
    let at = |it: &Value, step: &str| {
        node(it, step)["outputs"]["parameters"][0]["value"].as_str().unwrap().parse::<i128>().unwrap()
    };
    assert_eq!(at(&before, "first"), at(&after, "first"), "what was recorded stays");
    assert!(at(&after, "second") < killed, "what ran was followed to its end and not run again");
}

/// A Workflow with one call of a template.
fn calls(name: &str, step: &Value, templates: &[Value]) -> Value {
    let mut all = vec![json!({"name": "main", "steps": [[step]]})];
    all.extend_from_slice(templates);
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": name},
        "spec": {"entrypoint": "main", "templates": all}})
}

/// Name, Workflow, phase, and words of its message or of a node's.
fn bad() -> Vec<(Value, &'static str, &'static str)> {
    let step = |template: &str| json!({"name": "a", "template": template});
    let echo = json!({"name": "echo", "inputs": {"parameters": [{"name": "p"}]}, "container": shell("echo {{inputs.parameters.p}}")});
    let with = |value: &str| json!({"name": "a", "template": "echo", "arguments": {"parameters": [{"name": "p", "value": value}]}});
    let leaves = |outputs: Value, script: &str| json!({"name": "leaf", "container": shell(script), "outputs": outputs});
    let mut many = with("{{item}}");
    many["withParam"] = json!("[1, 2");
    let down = json!({"s3": {"endpoint": "127.0.0.1:1", "insecure": true, "bucket": "b", "key": "k",
        "accessKeySecret": {"name": "keys", "key": "a"}, "secretKeySecret": {"name": "keys", "key": "a"}}});
    let mut far = json!({"name": "f", "path": "/etc/passwd"});
    far.as_object_mut().unwrap().extend(down.as_object().unwrap().clone());
    vec![
        (calls("unknown", &step("nope"), &[]), "Failed", "template name 'nope' undefined"),
        (calls("missing", &step("echo"), std::slice::from_ref(&echo)), "Failed", "p was not supplied"),
        (calls("endless", &step("main"), &[]), "Failed", "Maximum recursion depth exceeded"),
        (calls("no-list", &many, std::slice::from_ref(&echo)), "Failed", "could not be parsed as a JSON list"),
        (calls("braces", &with("a {{ b"), &[echo]), "Succeeded", ""),
        (
            calls(
                "huge",
                &step("leaf"),
                &[leaves(
                    json!({"parameters": [{"name": "big", "valueFrom": {"path": "/tmp/big"}}]}),
                    "head -c 10000000 /dev/zero | tr '\\0' x > /tmp/big",
                )],
            ),
            "Failed",
            "output parameter big is larger than",
        ),
        (
            calls(
                "absent",
                &step("leaf"),
                &[leaves(json!({"artifacts": [{"name": "f", "path": "/nothing"}]}), "true")],
            ),
            "Failed",
            "no such file or directory",
        ),
        (calls("down", &step("leaf"), &[leaves(json!({"artifacts": [far]}), "true")]), "Failed", "127.0.0.1:1"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_run_says_why() {
    let Some(bed) = Bed::start().await else { return };
    let keys = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"a": "b"}});
    bed.says("apply -f -", &keys.to_string());
    for (workflow, _, _) in bad() {
        bed.says("apply -f -", &workflow.to_string());
    }
    let mut wrong = Vec::new();
    for (workflow, phase, words) in bad() {
        let name = workflow["metadata"]["name"].as_str().unwrap();
        let ended = bed.ended(name).await;
        let nodes =
            ended["status"]["nodes"].as_object().into_iter().flatten().map(|(_, node)| node["message"].as_str());
        let said: Vec<&str> = nodes.chain([ended["status"]["message"].as_str()]).flatten().collect();
        let is_said = words.is_empty() || said.iter().any(|message| message.contains(words));
        if ended["status"]["phase"] != phase || !is_said {
            wrong.push(format!("{name} ended {}: {said:?}", ended["status"]["phase"]));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for name in ["unknown", "missing", "endless", "no-list"] {
        let pods = bed.object(&format!("pods -l workflows.argoproj.io/workflow={name}"));
        assert_eq!(pods["items"], json!([]), "{name}: nothing was made");
    }
    let mut large = calls("large", &json!({"name": "a", "template": "echo"}), &[]);
    large["spec"]["arguments"] = json!({"parameters": [{"name": "p", "value": "x".repeat(10_000_000)}]});
    let refused = bed.run("workflow submit -", &large.to_string());
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("large"), "{told}");
    assert!(!bed.run("get workflow large", "").status.success(), "nothing was made");

    let mut wrong = bad().pop().unwrap().0;
    wrong["metadata"]["name"] = json!("wrong");
    wrong["spec"]["templates"][1]["outputs"]["artifacts"][0]["s3"]["accessKeySecret"]["name"] = json!("no-such-secret");
    bed.says("apply -f -", &wrong.to_string());
    let says = |it: &Value| {
        it["status"]["nodes"].as_object().is_some_and(|nodes| {
            nodes.values().any(|node| node["message"].as_str().is_some_and(|said| said.contains("no-such-secret")))
        })
    };
    bed.until("workflow wrong", says).await;
    bed.says("workflow terminate wrong", "");
    bed.ended("wrong").await;
}
