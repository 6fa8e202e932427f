//! Logs, commands and ports, as kube-rs and kubectl ask for them.

use std::path::Path;
use std::process::Stdio;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{AttachParams, LogParams};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::bed::{Bed, holds, on_bed};

async fn kubectl(bed: &Bed, words: &[&str], input: &[u8]) -> Option<(i32, String)> {
    let program = thane_testkit::peer::home_or_skip(&["kubectl"])?.program("kubectl");
    let mut child = Command::new(program)
        .arg("--kubeconfig")
        .arg(bed.kubeconfig())
        .args(words)
        .env("HOME", bed.folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned()))
}

async fn sleeper(bed: &Bed) {
    bed.script("p", "echo first; echo second; exec sleep 600", json!({})).await;
    bed.until("p", "ready", |pod| holds(pod, "Ready")).await;
}

#[test]
fn a_command_has_input_output_and_a_code() {
    on_bed(|bed| async {
        sleeper(&bed).await;
        let pods: Api<Pod> = Api::namespaced(bed.remote().await, "default");
        let how = AttachParams::default().stdin(true).stdout(true).stderr(true);
        let mut running = pods.exec("p", ["sh", "-c", "cat; echo oh >&2; exit 7"], &how).await.unwrap();
        let mut stdin = running.stdin().unwrap();
        // More than fits any buffer on the way, in both directions at once.
        let sent: Vec<u8> = (0..6_000_000_u32).map(|number| (number % 251) as u8).collect();
        let copy = sent.clone();
        let writing = async move {
            stdin.write_all(&copy).await.unwrap();
            stdin.shutdown().await.unwrap();
        };
        let (mut stdout, mut stderr) = (running.stdout().unwrap(), running.stderr().unwrap());
        let reading = async move {
            let (mut out, mut errors) = (vec![0; sent.len()], vec![0; 3]);
            stdout.read_exact(&mut out).await.unwrap();
            assert!(out == sent, "what went in comes out");
            stderr.read_exact(&mut errors).await.unwrap();
            assert_eq!(errors, b"oh\n");
        };
        tokio::time::timeout(crate::bed::PATIENCE, async { tokio::join!(writing, reading) }).await.unwrap();
        let status = running.take_status().unwrap().await.unwrap();
        assert_eq!(status.reason.as_deref(), Some("NonZeroExitCode"));
        running.join().await.unwrap();
        bed
    });
}

#[test]
fn a_port_of_a_pod_can_be_reached() {
    on_bed(|bed| async {
        let server = "import socket; s=socket.socket(); s.bind(('127.0.0.1',80)); s.listen(); \
            c,_=s.accept(); c.sendall(c.recv(99)[::-1]); c.close()";
        let more = json!({"container": {"readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}}});
        bed.script("p", &format!("exec python3 -c \"{server}\""), more).await;
        bed.until("p", "ready", |pod| holds(pod, "Ready")).await;
        let pods: Api<Pod> = Api::namespaced(bed.remote().await, "default");
        let asked = async {
            loop {
                let mut forward = pods.portforward("p", &[80]).await.unwrap();
                let mut stream = forward.take_stream(80).unwrap();
                let mut answer = Vec::new();
                // It may not listen yet, which is an error on the way.
                if stream.write_all(b"hello").await.is_ok()
                    && stream.read_to_end(&mut answer).await.is_ok()
                    && !answer.is_empty()
                {
                    return answer;
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        let answer = tokio::time::timeout(crate::bed::PATIENCE, asked).await.unwrap();
        assert_eq!(answer, b"olleh");
        bed
    });
}

#[test]
fn logs_are_read_whole_in_part_and_as_they_come() {
    on_bed(|bed| async {
        bed.script("p", "echo one; echo two; sleep 1; echo three", json!({})).await;
        bed.phase("p", "Running").await;
        let pods = bed.pods();
        let follow = LogParams { follow: true, ..LogParams::default() };
        let mut stream = pods.log_stream("p", &follow).await.unwrap();
        let mut text = String::new();
        futures::AsyncReadExt::read_to_string(&mut stream, &mut text).await.unwrap();
        assert_eq!(text, "one\ntwo\nthree\n");
        let tail = LogParams { tail_lines: Some(1), ..LogParams::default() };
        assert_eq!(pods.logs("p", &tail).await.unwrap(), "three\n");
        let absent = LogParams { previous: true, ..LogParams::default() };
        assert!(pods.logs("p", &absent).await.is_err());
        bed.phase("p", "Succeeded").await; // a bed removes what has ended
        bed
    });
}

#[test]
fn kubectl_reads_runs_and_copies() {
    on_bed(|bed| async {
        sleeper(&bed).await;
        let Some((code, text)) = kubectl(&bed, &["logs", "p"], b"").await else { return bed };
        assert_eq!((code, text.as_str()), (0, "first\nsecond\n"));
        let (code, text) = kubectl(&bed, &["exec", "p", "--", "sh", "-c", "echo out; exit 5"], b"").await.unwrap();
        assert!(code == 5 && text.starts_with("out\n"), "{code} {text}");
        let (code, text) = kubectl(&bed, &["exec", "-i", "p", "--", "cat"], b"given").await.unwrap();
        assert_eq!((code, text.as_str()), (0, "given"));
        let (code, text) = kubectl(&bed, &["exec", "p", "--", "no-such-program"], b"").await.unwrap();
        assert!(code != 0 && text.contains("no-such-program"), "{text}");
        let file = bed.folder.path().join("file");
        std::fs::write(&file, "content").unwrap();
        let path = file.display().to_string();
        let (code, text) = kubectl(&bed, &["cp", &path, "p:/workspace/copy"], b"").await.unwrap();
        assert_eq!(code, 0, "{text}");
        let back = format!("{path}.back");
        let (code, text) = kubectl(&bed, &["cp", "p:/workspace/copy", &back], b"").await.unwrap();
        assert_eq!(code, 0, "{text}");
        assert_eq!(std::fs::read(Path::new(&back)).unwrap(), b"content");
        // A directory, with what is below it and more than one message holds.
        let tree = bed.folder.path().join("tree");
        std::fs::create_dir_all(tree.join("deep")).unwrap();
        let large: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 253) as u8).collect();
        std::fs::write(tree.join("deep/large"), &large).unwrap();
        let path = tree.display().to_string();
        let (code, text) = kubectl(&bed, &["cp", &path, "p:/workspace/tree"], b"").await.unwrap();
        assert_eq!(code, 0, "{text}");
        let back = format!("{path}.back");
        let (code, text) = kubectl(&bed, &["cp", "p:/workspace/tree", &back], b"").await.unwrap();
        assert_eq!(code, 0, "{text}");
        assert!(std::fs::read(Path::new(&back).join("deep/large")).unwrap() == large);
        let (code, text) = kubectl(&bed, &["get", "pods", "-o", "wide"], b"").await.unwrap();
        assert!(code == 0 && text.contains("Running") && text.contains("1/1"), "{text}");
        bed
    });
}
