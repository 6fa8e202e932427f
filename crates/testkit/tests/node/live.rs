//! kubectl through the hub, on a real cluster with a node.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use thane_testkit::fleet::Mode;
use thane_testkit::peer::Node;

use crate::{Stage, plain};

/// The agent's name.
const AGENT: &str = "live-one";
/// The longest anything may take.
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) async fn run(stage: &Stage<'_>) -> Result<()> {
    let proxy = stage.fleet.open_live().await?;
    plain("an agent in a pod", stage.fleet.deploy_agent(AGENT, Mode::Managed)).await?;
    let kubeconfig = stage.fleet.kubeconfig_of_ann(AGENT, &proxy).await?;
    let through = Through {
        program: stage.home.program("kubectl"),
        kubeconfig,
        direct: stage.node.api().kubeconfig().to_owned(),
    };
    let steps: [(&str, Step); 6] = [
        ("kubectl through the hub: objects", Through::objects),
        ("kubectl through the hub: watch", Through::watch),
        ("kubectl through the hub: logs", Through::logs),
        ("kubectl through the hub: exec and cp", Through::commands),
        ("kubectl through the hub: a terminal", Through::terminal),
        ("kubectl through the hub: a forwarded port", Through::port),
    ];
    let outcome = async {
        for (what, step) in steps {
            let through = through.clone();
            let work = async { tokio::task::spawn_blocking(move || step(&through)).await? };
            plain(what, work).await?;
        }
        anyhow::Ok(())
    };
    if let Err(error) = outcome.await {
        return Err(error.context(stage.fleet.last_words().await));
    }
    through.direct(&["delete", "deployment", "web", "--namespace=default"])?;
    plain("nobody complains", stage.fleet.quiet()).await?;
    stage.fleet.remove_agent().await
}

type Step = fn(&Through) -> Result<()>;

/// kubectl on both ways to the cluster.
#[derive(Clone)]
struct Through {
    program: PathBuf,
    kubeconfig: PathBuf,
    direct: PathBuf,
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that counts its lines, with the programs that `kubectl cp` wants.
fn deployment(image: &str) -> Value {
    let script = "/busybox mkdir -p /bin /tmp; /busybox --install -s /bin; httpd -p 8123 -h /tmp; \
                  i=0; while true; do i=$((i+1)); echo line $i; sleep 0.2; done";
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main", "image": image, "args": ["sh", "-c", script],
                    "env": [{"name": "PATH", "value": "/bin"}], "securityContext": {"runAsUser": 0},
                }],
            }},
        },
    })
}

impl Through {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments).env("HOME", self.home());
        command
    }

    fn home(&self) -> PathBuf {
        self.kubeconfig.parent().map(ToOwned::to_owned).unwrap_or_default()
    }

    fn says(&self, arguments: &[&str]) -> Result<String> {
        said(&self.command(arguments).output()?).with_context(|| arguments.join(" "))
    }

    fn says_with(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        child.stdin.take().context("its input")?.write_all(input.as_bytes())?;
        said(&child.wait_with_output()?).with_context(|| arguments.join(" "))
    }

    /// On the cluster itself.
    fn direct(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.direct).args(arguments).env("HOME", self.home());
        said(&command.output()?).with_context(|| arguments.join(" "))
    }

    fn objects(&self) -> Result<()> {
        self.direct(&["wait", "--for=condition=Established", "crd/applications.argoproj.io", "--timeout=60s"])?;
        let mut apply = Command::new(&self.program);
        apply.arg("--kubeconfig").arg(&self.direct).args(["apply", "-f", "-"]).env("HOME", self.home());
        let mut apply = apply.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        apply.stdin.take().context("its input")?.write_all(deployment(Node::BUSYBOX).to_string().as_bytes())?;
        ensure!(apply.wait()?.success(), "the deployment was not made");
        self.says(&["rollout", "status", "deployment/web", "--namespace=default", "--timeout=120s"])?;
        ensure!(self.says(&["api-resources"])?.contains("deployments"), "no discovery");
        ensure!(self.says(&["get", "nodes"])?.contains("node"), "no nodes");
        let pods = self.says(&["get", "pods", "--all-namespaces", "--output=wide"])?;
        ensure!(pods.contains("thane-agent") && pods.contains("web-"), "{pods}");
        let described = self.says(&["describe", "deployment", "web", "--namespace=default"])?;
        ensure!(described.contains("Available"), "{described}");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dry", "namespace": "default"}});
        self.says_with(&["apply", "--dry-run=server", "-f", "-"], &map.to_string())?;
        let missing = self.command(&["get", "configmap", "dry", "--namespace=default"]).output()?;
        ensure!(!missing.status.success() && told(&missing).contains("not found"), "{}", told(&missing));
        let secret = self.command(&["get", "secrets", "--namespace=kube-system"]).output()?;
        ensure!(told(&secret).contains("forbidden"), "the agent may read Secrets elsewhere: {}", told(&secret));
        self.says(&["rollout", "restart", "deployment/web", "--namespace=default"])?;
        self.says(&["rollout", "status", "deployment/web", "--namespace=default", "--timeout=120s"])?;
        Ok(())
    }

    fn watch(&self) -> Result<()> {
        let mut command = self.command(&["get", "configmaps", "--namespace=default", "--watch-only", "--output=name"]);
        let mut watching = Running(command.stdout(Stdio::piped()).spawn()?);
        let mut lines = BufReader::new(watching.0.stdout.take().context("its output")?).lines();
        let seen = std::thread::spawn(move || lines.next());
        let deadline = Instant::now() + PATIENCE;
        // The watch begins when it begins: something is seen of what is made again and again.
        for round in 0.. {
            if seen.is_finished() {
                break;
            }
            ensure!(Instant::now() < deadline, "nothing is seen");
            self.direct(&["create", "configmap", &format!("seen-{round}"), "--namespace=default"])?;
        }
        let line = seen.join().ok().flatten().context("the watch ended")??;
        ensure!(line.starts_with("configmap/seen-"), "{line}");
        Ok(())
    }

    fn logs(&self) -> Result<()> {
        let mut command = self.command(&["logs", "-f", "deployment/web", "--namespace=default"]);
        let mut following = Running(command.stdout(Stdio::piped()).spawn()?);
        let lines = BufReader::new(following.0.stdout.take().context("its output")?).lines();
        for (number, line) in lines.take(20).enumerate() {
            let (line, expected) = (line?, format!("line {}", number + 1));
            ensure!(line == expected, "the log has a gap or a repeat: {line:?} instead of {expected:?}");
        }
        Ok(())
    }

    fn commands(&self) -> Result<()> {
        ensure!(self.says(&exec(&["--", "echo", "hello"]))? == "hello\n", "no output");
        let failed = self.command(&exec(&["--", "sh", "-c", "exit 7"])).output()?;
        ensure!(failed.status.code() == Some(7), "{}", told(&failed));
        let large = "x".repeat(300_000);
        ensure!(self.says_with(&exec(&["-i", "--", "cat"]), &large)? == large, "input is not whole");
        let pods = self.says(&["get", "pods", "--namespace=default", "--selector=app=web", "--output=name"])?;
        let pod = pods.lines().next().and_then(|line| line.split_once('/')).context("a pod")?.1.to_owned();
        let (there, here, back) =
            (format!("default/{pod}:/tmp/here"), self.home().join("sent"), self.home().join("back"));
        std::fs::write(&here, [0, 255, 10])?;
        self.says(&["cp", &here.display().to_string(), &there])?;
        self.says(&["cp", &there, &back.display().to_string()])?;
        ensure!(std::fs::read(back)? == [0, 255, 10], "the file is another one");
        Ok(())
    }

    /// A shell in a terminal, of the size of ours, until it is left.
    fn terminal(&self) -> Result<()> {
        let shell = format!(
            "stty rows 33 cols 99; exec {} --kubeconfig {} exec -it deployment/web --namespace=default -- sh",
            self.program.display(),
            self.kubeconfig.display()
        );
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", &shell, "/dev/null"]).env("HOME", self.home());
        let mut session = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
        let (mut keys, mut screen) =
            (session.0.stdin.take().context("its input")?, session.0.stdout.take().context("its output")?);
        let mut shown = String::new();
        let deadline = Instant::now() + PATIENCE;
        let mut until = |words: &str| -> Result<()> {
            let mut buffer = [0; 4096];
            while !shown.contains(words) {
                let count = screen.read(&mut buffer)?;
                if count == 0 || Instant::now() > deadline {
                    bail!("{words:?} is not shown: {shown}");
                }
                shown.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
            Ok(())
        };
        until("# ")?;
        keys.write_all(b"stty size; echo $((40 + 2))-answer\n")?;
        until("33 99")?;
        until("42-answer")?;
        keys.write_all(b"exit 5\n")?;
        let ended = session.0.wait()?;
        ensure!(ended.code() == Some(5), "{ended}");
        Ok(())
    }

    fn port(&self) -> Result<()> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command =
            self.command(&["port-forward", "deployment/web", "--namespace=default", &format!("{port}:8123")]);
        let _forwarding = Running(command.stdout(Stdio::null()).spawn()?);
        let fetched = || {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
            stream.write_all(b"GET /here HTTP/1.0\r\n\r\n").ok()?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).ok()?;
            answer.ends_with(&[0, 255, 10]).then_some(())
        };
        let deadline = Instant::now() + PATIENCE;
        while fetched().is_none() {
            ensure!(Instant::now() < deadline, "the forwarded port does not answer");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

/// A command in the pod.
fn exec<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["exec", "deployment/web", "--namespace=default"], more].concat()
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn said(output: &Output) -> Result<String> {
    ensure!(output.status.success(), "{}", told(output));
    Ok(String::from_utf8(output.stdout.clone())?)
}
