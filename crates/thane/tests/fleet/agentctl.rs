//! What `argocd-agentctl` makes is read here, and what is made here is read by it.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::place::Place;
use crate::{bare, fleet, json, succeed};

/// The program, if `make peers` has built it.
fn agentctl() -> Option<PathBuf> {
    let home = std::env::var_os("THANE_PEERS_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/thane-peers"),
        PathBuf::from,
    );
    let program = home.join("bin/argocd-agentctl");
    if program.is_file() {
        return Some(program);
    }
    assert_ne!(std::env::var("THANE_PEERS_REQUIRED").as_deref(), Ok("1"), "{} is missing", program.display());
    #[expect(clippy::print_stderr, reason = "a test that is left out says so")]
    {
        eprintln!("SKIPPED: {} is missing; `make peers` builds it", program.display());
    }
    None
}

/// Runs it on the APIs of a place, and gives what it printed.
fn ask(program: &PathBuf, place: &Place, line: &str) -> String {
    let output = Command::new(program)
        .args(["--principal-context", "hub", "--agent-context", "cluster-1"])
        .args(line.split(' '))
        .env("KUBECONFIG", place.path().join(".thane/kubeconfig"))
        .env("HOME", place.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn theirs_is_read_here() {
    let Some(program) = agentctl() else { return };
    let (place, _running) = bare();
    for line in [
        "pki init",
        "pki issue principal --ip 127.0.0.1 --dns localhost",
        "jwt create-key",
        "agent create cluster-1 --resource-proxy-server 127.0.0.1:9090 --label tier=one",
        "pki issue agent cluster-1",
    ] {
        ask(&program, &place, line);
    }
    assert_eq!(json(&place, "doctor --context hub --agent-context cluster-1")["wrong"], 0);
    assert_eq!(json(&place, "agents list --context hub -l tier=one")[0]["name"], "cluster-1");
    let seen = json(&place, "agents inspect cluster-1 --context hub");
    assert_eq!(seen["server"], "https://127.0.0.1:9090?agentName=cluster-1");
    assert_eq!(seen["certificate"]["subject"]["commonName"], "cluster-1");
    let theirs: Value = serde_json::from_str(&ask(&program, &place, "jwt inspect-key")).unwrap();
    assert_eq!(json(&place, "jwt inspect-key --context hub")["fingerprint"], theirs["sha256"]);
    // Their authority signs for us.
    succeed(&place, "pki issue resource-proxy --san localhost --context hub");
    succeed(&place, "agents rotate cluster-1 --context hub --agent-context cluster-1");
    assert_eq!(json(&place, "doctor --context hub --agent-context cluster-1")["wrong"], 0);
}

#[test]
fn ours_is_read_by_them() {
    let Some(program) = agentctl() else { return };
    let (place, _running) = fleet();
    assert_eq!(ask(&program, &place, "agent list"), "cluster-1\n");
    let seen: Value = serde_json::from_str(&ask(&program, &place, "agent inspect cluster-1")).unwrap();
    assert_eq!(seen["name"], "cluster-1");
    let theirs: Value = serde_json::from_str(&ask(&program, &place, "jwt inspect-key")).unwrap();
    assert_eq!(json(&place, "jwt inspect-key --context hub")["fingerprint"], theirs["sha256"]);
    // Our authority signs for them, and what they sign is good here.
    ask(&program, &place, "pki issue agent cluster-1 --upsert");
    ask(&program, &place, "agent create green --resource-proxy-server 127.0.0.1:9090");
    assert_eq!(json(&place, "doctor --context hub --agent-context cluster-1")["wrong"], 0);
    assert_eq!(json(&place, "agents inspect green --context hub")["certificate"]["subject"]["commonName"], "green");
}
