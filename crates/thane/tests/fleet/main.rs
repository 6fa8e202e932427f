//! Hub, agents and those who administer them, as people run them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/place.rs"]
mod place;
#[path = "../up/running.rs"]
#[expect(dead_code, reason = "others need more of it")]
mod running;

mod agentctl;
mod commands;
mod deploy;
mod discovery;
mod doctor;
mod refusals;
mod role;
mod roles;

use std::process::Output;

use serde_json::Value;

use place::Place;
use running::Running;

/// A hub's API and one cluster's, with nothing of a fleet on them.
fn bare() -> (Place, Running) {
    let place = Place::new();
    let alone = [("THANE_UP_ROLES", "false")];
    let running = Running::start_with(&place, &alone, &["--ephemeral-ports", "--clusters", "1"]);
    (place, running)
}

/// The same with all that agent `cluster-1` and its hub need to meet on loopback.
fn fleet() -> (Place, Running) {
    let (place, running) = bare();
    for command in [
        "pki init --context hub",
        "pki issue principal --san localhost --san 127.0.0.1 --context hub",
        "jwt create-key --context hub",
        "agents create cluster-1 --context hub --agent-context cluster-1",
    ] {
        succeed(&place, command);
    }
    (place, running)
}

/// Runs a command line whose words have no spaces.
fn run(place: &Place, line: &str) -> Output {
    place.run(&line.split(' ').collect::<Vec<_>>())
}

/// Runs a command that has to succeed, and gives its output.
fn succeed(place: &Place, line: &str) -> String {
    let output = run(place, line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The same for a command that answers in JSON.
fn json(place: &Place, line: &str) -> Value {
    serde_json::from_str(&succeed(place, &format!("{line} -o json"))).unwrap()
}

/// Runs a command that has to fail, and checks its exit code, its error code and some words.
fn fail(place: &Place, line: &str, exit: i32, code: &str, words: &[&str]) {
    let output = run(place, line);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit), "{line}: {told}");
    for word in [code].iter().chain(words) {
        assert!(told.contains(word), "{line}: {word} is missing in {told}");
    }
}
