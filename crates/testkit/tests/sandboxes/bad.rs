//! What nobody should send: each is answered with whose fault it is, the sandbox goes on, and nothing stays behind.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Map, Value, json};
use thane_testkit::client::HttpsClient;
use thane_testkit::fleet::Programs;
use thane_testkit::peer::{Absence, PeerHome, Thane};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::left;

/// The longest anything may take to come true.
const PATIENCE: Duration = Duration::from_mins(2);
/// What one step says.
const OUTPUT_BYTES: u64 = 1 << 30;
/// The most memory that the program may ever have had, which is less than that.
const HELD_KIB_MAX: u64 = 512 * 1024;

struct Gateway(HttpsClient);

impl Gateway {
    async fn send(&self, method: &str, path: &str, body: Vec<u8>) -> Result<(u16, Value)> {
        let request = Request::builder().method(method).uri(path).header("host", self.0.address());
        let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(body)))?;
        let answer = self.0.exchange(request).await?;
        Ok((answer.status.as_u16(), serde_json::from_slice(&answer.body).unwrap_or_default()))
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let (status, said) = self.send(method, path, body.to_string().into()).await?;
        ensure!(status < 300, "{method} {path}: {status} {said}");
        Ok(said)
    }

    /// A request that must be refused so, and all that is said about it.
    async fn refused(&self, path: &str, body: impl Into<Vec<u8>>, expected: (u16, &str)) -> Result<String> {
        let (status, said) = self.send("POST", path, body.into()).await?;
        ensure!((status, said["kind"].as_str().unwrap_or_default()) == expected, "{path}: {status} {said}");
        ensure!(said["error"].is_string(), "an error is told in words: {said}");
        Ok(said.to_string())
    }

    async fn step(&self, session: &str, step: &Value) -> Result<Value> {
        let path = format!("/v1/sessions/{session}/execute");
        Ok(self.ask("POST", &path, &json!({"steps": [step]})).await?["results"][0].clone())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_should_send_is_answered_and_leaves_nothing() {
    let program = match Programs::locate(&PeerHome::locate()).thane().map(Path::to_owned) {
        Ok(program) => program,
        Err(absence) => return absence.tell(),
    };
    let started = Thane::start(&program, &["--ephemeral-ports", "--clusters", "0"]).await;
    let mut thane = started.unwrap_or_else(|error| panic!("{error:#}"));
    let Ok(address) = thane.published("gateway") else {
        return Absence::Skip("this machine runs no pods: that takes root".to_owned()).tell();
    };
    let gateway = Gateway(HttpsClient::plain(address));
    let outcome = run(&gateway, &thane).await;
    let directory = thane.directory().join("hub/node");
    assert!(thane.end(), "it ends when it is asked to");
    let outcome = outcome.and_then(|()| left::nothing(&directory));
    outcome.unwrap_or_else(|error| panic!("{error:#}"));
}

async fn run(gateway: &Gateway, thane: &Thane) -> Result<()> {
    let pool = |name: &str, image: &str, replicas: i32| json!({"name": name, "image": image, "replicas": replicas});
    gateway.ask("POST", "/v1/pools", &pool("well", "host", 1)).await?;
    requests(gateway).await?;
    absent_image(gateway, &pool("lost", "nowhere:1", 1)).await?;
    let body = json!({"poolRef": "well", "env": variables(10_000)});
    let made = gateway.ask("POST", "/v1/sessions", &body).await?;
    let session = made["id"].as_str().context("a session")?;
    steps(gateway, session).await?;
    paths(gateway, session, thane.kubeconfig()).await?;
    much(gateway, session, thane).await?;
    broken_off(gateway, session).await?;
    gateway.ask("DELETE", &format!("/v1/sessions/{session}"), &Value::Null).await?;
    for name in ["well", "lost"] {
        gateway.ask("DELETE", &format!("/v1/pools/{name}"), &Value::Null).await?;
    }
    Ok(())
}

fn variables(count: usize) -> Map<String, Value> {
    (0..count).map(|number| (format!("V{number}"), json!("x"))).collect()
}

async fn requests(gateway: &Gateway) -> Result<()> {
    let (pools, sessions, user) = ("/v1/pools", "/v1/sessions", (400, "user"));
    let said = gateway.refused(sessions, json!({"poolRef": "none"}).to_string(), (404, "user")).await?;
    ensure!(said.contains("none"), "{said}");
    let negative = json!({"name": "p", "image": "host", "replicas": -1});
    let said = gateway.refused(pools, negative.to_string(), user).await?;
    ensure!(said.contains("replicas"), "{said}");
    gateway.refused(sessions, r#"{"poolRef": "#, user).await?;
    gateway.refused(sessions, &b"{\"poolRef\": \"\xff\xfe\"}"[..], user).await?;
    let many = json!({"poolRef": "well", "env": variables(10_001)});
    gateway.refused(sessions, many.to_string(), user).await.map(|_| ())
}

/// A pool of an image that is not there says so, and so does who waits for it.
async fn absent_image(gateway: &Gateway, pool: &Value) -> Result<()> {
    gateway.ask("POST", "/v1/pools", pool).await?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let body = json!({"poolRef": "lost", "onEmpty": "fail"}).to_string();
        let said = gateway.refused("/v1/sessions", body, (503, "infra")).await?;
        if said.contains("thane image import") {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "it does not say what to do: {said}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn steps(gateway: &Gateway, session: &str) -> Result<()> {
    let path = format!("/v1/sessions/{session}/execute");
    let nul = json!({"steps": [{"command": ["echo", "a\u{0}b"]}]}).to_string();
    gateway.refused(&path, nul, (400, "user")).await?;
    let all = gateway.step(session, &json!({"command": ["sh", "-c", "env | grep -c ^V"]})).await?;
    ensure!(all["output"]["stdout"] == "10000\n", "{all}");
    let late = json!({"command": ["sh", "-c", "trap '' TERM; sleep 100 & sleep 100"], "timeoutSeconds": 0.2});
    let late = gateway.step(session, &late).await?;
    ensure!(late["error"]["kind"] == "timeout" && late["output"]["exit_code"] == 124, "{late}");
    let binary = gateway.step(session, &json!({"command": ["printf", "\\377\\000a"]})).await?;
    ensure!(binary["output"]["stdout_base64"] == "/wBh", "{binary}");
    Ok(())
}

/// A file of the machine, by every way out of the sandbox.
async fn paths(gateway: &Gateway, session: &str, outside: &Path) -> Result<()> {
    gateway.step(session, &json!({"command": ["ln", "-s", "/proc/1/root", "out"]})).await?;
    for before in ["", "/workspace/../..", "/proc/1/root", "/proc/self/root", "/workspace/out"] {
        let (path, body) = (format!("/v1/sessions/{session}/download-file"), format!("{before}{}", outside.display()));
        let (status, said) = gateway.send("POST", &path, json!({"path": body}).to_string().into()).await?;
        ensure!((400..410).contains(&status) && said["kind"] == "user", "{body}: {status} {said}");
    }
    open(gateway, session).await
}

/// What the sandbox's first process has open is no way out either: not for files, and not for steps.
async fn open(gateway: &Gateway, session: &str) -> Result<()> {
    let given = tempfile::NamedTempFile::new()?;
    std::fs::set_permissions(given.path(), PermissionsExt::from_mode(0o644))?;
    for number in 3..32 {
        let root = format!("/proc/self/fd/{number}{}", "/..".repeat(16));
        let (path, file) =
            (format!("/v1/sessions/{session}/download-file"), format!("{root}{}", given.path().display()));
        let (status, said) = gateway.send("POST", &path, json!({"path": file}).to_string().into()).await?;
        ensure!((400..410).contains(&status) && said["kind"] == "user", "{file}: {status} {said}");
        let step = gateway.step(session, &json!({"command": ["ls"], "workDir": root})).await?;
        ensure!(step["error"]["kind"] == "user" && step["output"]["stdout"] == "", "{root}: {step}");
    }
    Ok(())
}

/// An upload that ends in the middle leaves the file as it was, and nothing beside it.
async fn broken_off(gateway: &Gateway, session: &str) -> Result<()> {
    gateway.step(session, &json!({"command": ["sh", "-c", "rm -f out; echo whole > file"]})).await?;
    let address = gateway.0.address();
    for rest in ["content-length: 2000000\r\n\r\n", "transfer-encoding: chunked\r\n\r\n186a0\r\n"] {
        let mut stream = TcpStream::connect(address).await?;
        let head = format!(
            "POST /v1/sessions/{session}/upload-file HTTP/1.1\r\nhost: {address}\r\nx-arl-path: /workspace/file\r\n{rest}"
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&vec![b'x'; 100_000]).await?;
        // Until the first of it is there.
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(stream);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = gateway.step(session, &json!({"command": ["sh", "-c", "cat file; ls -A"]})).await?;
            if seen["output"]["stdout"] == "whole\nfile\n" {
                break;
            }
            ensure!(Instant::now() < deadline, "what broke off is there: {seen}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

/// More output than anybody keeps: the first of it is told, and the rest costs nothing.
async fn much(gateway: &Gateway, session: &str, thane: &Thane) -> Result<()> {
    let command = json!({"command": ["head", "-c", OUTPUT_BYTES.to_string(), "/dev/zero"]});
    let said = gateway.step(session, &command).await?;
    let told = said["output"]["stdout"].as_str().map(str::len);
    ensure!(told == Some(1 << 20) && said["output"]["stdout_truncated"] == true, "{told:?} {}", said["error"]);
    let most: u64 = thane.processes().into_iter().map(peak_kib).sum();
    ensure!(most < HELD_KIB_MAX, "the program came to {most} KiB");
    let next = gateway.step(session, &json!({"command": ["echo", "well"]})).await?;
    ensure!(next["output"]["stdout"] == "well\n", "{next}");
    Ok(())
}

/// The most memory that a process ever had.
fn peak_kib(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
