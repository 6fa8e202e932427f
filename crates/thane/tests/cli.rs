//! The binary as people run it: help, errors, exit codes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/place.rs"]
mod place;

use std::process::Output;

use assert_cmd::Command;
use place::Place;

/// Exit code, stdout and stderr in one text, for snapshots.
fn show(place: &Place, arguments: &[&str]) -> String {
    let output = place.run(arguments);
    format!(
        "exit {}\n--- stdout\n{}--- stderr\n{}",
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap()
    )
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn help_of_every_command() {
    let place = Place::new();
    let commands: Vec<&[&str]> = vec![
        &[],
        &["up"],
        &["hub"],
        &["agent"],
        &["agents"],
        &["agents", "create"],
        &["agents", "list"],
        &["agents", "inspect"],
        &["agents", "kubeconfig"],
        &["agents", "rotate"],
        &["agents", "block"],
        &["agents", "unblock"],
        &["agents", "remove"],
        &["agents", "resync"],
        &["services"],
        &["services", "list"],
        &["services", "show"],
        &["services", "register"],
        &["services", "deregister"],
        &["kv"],
        &["kv", "get"],
        &["kv", "put"],
        &["kv", "list"],
        &["kv", "delete"],
        &["nodes"],
        &["nodes", "list"],
        &["nodes", "show"],
        &["checks"],
        &["checks", "list"],
        &["checks", "update"],
        &["sessions"],
        &["sessions", "list"],
        &["sessions", "destroy"],
        &["tokens"],
        &["tokens", "create"],
        &["tokens", "list"],
        &["tokens", "show"],
        &["tokens", "delete"],
        &["registry"],
        &["registry", "save"],
        &["registry", "restore"],
        &["image"],
        &["image", "import"],
        &["image", "list"],
        &["image", "rm"],
        &["jwt"],
        &["jwt", "create-key"],
        &["doctor"],
        &["apply"],
        &["get"],
        &["delete"],
        &["watch"],
        &["pki"],
        &["pki", "init"],
        &["pki", "issue"],
        &["pki", "inspect"],
        &["pki", "renew"],
        &["config", "show"],
        &["version"],
        &["completions"],
    ];
    for command in commands {
        let mut arguments = command.to_vec();
        arguments.push("--help");
        let name = format!("help-{}", if command.is_empty() { "thane".to_owned() } else { command.join("-") });
        insta::assert_snapshot!(name, show(&place, &arguments));
    }
}

#[test]
fn errors_have_a_code_a_next_step_and_an_exit_code() {
    let place = Place::new();
    place.write("bad.yaml", "up:\n  clusters: many\n");
    place.write("broken.yaml", "apiVersion: v1\nmetadata: {}\n");
    place.write("nowhere", KUBECONFIG);
    place.write("not-a-kubeconfig", "a: [\n");
    let cases: [(&str, &[&str]); 13] = [
        ("no-command", &[]),
        ("unknown-command", &["fly"]),
        ("unknown-flag", &["get", "pods", "--sideways"]),
        ("bad-value-in-file", &["config", "show", "--config", "bad.yaml"]),
        ("missing-file", &["config", "show", "--config", "absent.yaml"]),
        ("bad-flag-value", &["config", "show", "--log-format", "loud"]),
        ("no-kubeconfig", &["get", "pods"]),
        ("bad-kubeconfig", &["get", "pods", "--kubeconfig", "not-a-kubeconfig"]),
        ("unknown-context", &["get", "pods", "--kubeconfig", "nowhere", "--context", "mars"]),
        ("no-authority", &["pki", "issue", "agent", "a"]),
        ("not-a-certificate", &["pki", "inspect", "bad.yaml"]),
        ("bad-file-name", &["pki", "issue", "agent", "../a"]),
        ("broken-manifest", &["apply", "-f", "broken.yaml", "--kubeconfig", "nowhere"]),
    ];
    for (name, arguments) in cases {
        insta::assert_snapshot!(format!("error-{name}"), show(&place, arguments));
    }
}

/// Port 1 on loopback: nothing listens there.
const KUBECONFIG: &str = r"
apiVersion: v1
kind: Config
current-context: nowhere
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: u, user: {}}]
contexts: [{name: nowhere, context: {cluster: c, user: u}}]
";

#[test]
fn a_server_that_is_not_there_ends_with_three() {
    let place = Place::new();
    place.write("nowhere", KUBECONFIG);
    let output = place.run(&["get", "pods", "--kubeconfig", "nowhere"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.starts_with("error[THANE-1202]: http://127.0.0.1:1/: "), "{message}");
}

#[test]
fn version_is_text_or_structured() {
    let place = Place::new();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(stdout(&place.run(&["version"])), format!("thane {version}\n"));
    let json: serde_json::Value = serde_json::from_str(&stdout(&place.run(&["version", "-o", "json"]))).unwrap();
    assert_eq!(json["version"], version);
    assert_eq!(
        stdout(&place.run(&["version", "-o", "yaml"])).replace('"', ""),
        format!("name: thane\nversion: {version}\n")
    );
}

#[test]
fn completions_know_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&place.run(&["completions", shell])).contains("completions"), "{shell}");
    }
}

#[test]
fn configuration_shows_where_values_come_from() {
    let place = Place::new();
    place.write("thane.yaml", "up:\n  clusters: 2\nlog:\n  level: warn\n");
    let variables = [("THANE_CONFIG", "thane.yaml"), ("THANE_UP_GRACE", "1m"), ("THANE_UPP_GRACE", "1m")];
    let shown = place.run_with(&variables, &["config", "show", "--origin", "--log-level", "debug"]);
    insta::assert_snapshot!("config-origin", stdout(&shown));
    assert_eq!(String::from_utf8(shown.stderr).unwrap(), "warning: THANE_UPP_GRACE sets nothing\n");
    let json = stdout(&place.run_with(&variables, &["config", "show", "-o", "json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["up"]["clusters"], &json["up"]["grace"]), (&2.into(), &"1m".into()));
    insta::assert_snapshot!("config-defaults", stdout(&place.run(&["config", "show", "-o", "yaml"])));
}

#[test]
fn certificates_are_made_inspected_and_renewed() {
    let place = Place::new();
    let json =
        |arguments: &[&str]| -> serde_json::Value { serde_json::from_str(&stdout(&place.run(arguments))).unwrap() };
    let authority = json(&["pki", "init", "--dir", "pki", "--name", "test fleet", "-o", "json"]);
    assert_eq!(authority["details"]["subjectName"], "CN=test fleet");
    let again = place.run(&["pki", "init", "--dir", "pki"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("THANE-1102"));

    let issue = ["pki", "issue", "server", "hub", "--dir", "pki", "--san", "localhost", "--san", "127.0.0.1"];
    let issued = place.run(&issue);
    assert!(issued.status.success() && issued.stdout.is_empty());
    let before = json(&["pki", "inspect", "pki/hub.crt", "--ca", "pki/ca.crt", "-o", "json"]);
    assert_eq!(before[0]["names"], serde_json::json!(["localhost", "127.0.0.1"]));
    let after = json(&["pki", "renew", "hub", "--dir", "pki", "--lifetime", "30d", "-o", "json"]);
    assert_eq!(after["details"]["names"], before[0]["names"]);
    assert_ne!(after["details"]["serial"], before[0]["serial"]);
    assert!(stdout(&place.run(&["pki", "inspect", "pki/hub.crt"])).contains("(29 days left)"));

    json(&["pki", "issue", "agent", "cluster-1", "--dir", "pki", "-o", "json"]);
    json(&["pki", "renew", "ca", "--dir", "pki", "-o", "json"]);
    json(&["pki", "inspect", "pki/cluster-1.crt", "--ca", "pki/ca.crt", "-o", "json"]);
    assert!(place.run(&["pki", "init", "--dir", "other"]).status.success());
    let foreign = place.run(&["pki", "inspect", "pki/hub.crt", "--ca", "other/ca.crt"]);
    assert_eq!(foreign.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&foreign.stderr).contains("signed by an unknown authority"));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let place = Place::new();
    let thane = assert_cmd::cargo::cargo_bin("thane");
    let script = format!("{} completions bash | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}", thane.display());
    let output = Command::new("bash").current_dir(place.path()).args(["-c", &script]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
