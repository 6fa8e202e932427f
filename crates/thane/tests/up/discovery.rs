//! The discovery commands against `thane up`, as people and scripts run them.

use std::process::Output;

use serde_json::{Value, json};

use crate::place::Place;
use crate::running::Running;

/// Runs a command line whose words have no spaces.
fn run(place: &Place, variables: &[(&str, &str)], line: &str) -> Output {
    place.run_with(variables, &line.split(' ').collect::<Vec<_>>())
}

fn stdout(output: &Output, line: &str) -> String {
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn succeed(place: &Place, line: &str) -> String {
    stdout(&run(place, &[], line), line)
}

fn json_of(place: &Place, line: &str) -> Value {
    serde_json::from_str(&succeed(place, &format!("{line} -o json"))).unwrap()
}

/// Runs a command that has to fail: its exit code and a part of what it says.
fn fail(place: &Place, token: &str, line: &str, exit: i32, part: &str) {
    let variables: &[(&str, &str)] = if token.is_empty() { &[] } else { &[("THANE_DISCOVERY_TOKEN", token)] };
    let output = run(place, variables, line);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit), "{line}: {told}");
    assert!(told.contains(part), "{line}: {told}");
}

/// Lists until one has what is wanted: what is registered with an agent reaches the hub a moment later.
fn until(place: &Place, line: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..400 {
        // What is not there yet is an error.
        let output = run(place, &[], &format!("{line} -o json"));
        let found = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        if wanted(&found) {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    panic!("{line}: {}", json_of(place, line));
}

#[test]
fn services_keys_nodes_checks_and_sessions() {
    let place = Place::new();
    let running = Running::start(&place, &["--clusters", "1"]);
    until(&place, "nodes list", |found| found.as_array().is_some_and(|rows| !rows.is_empty()));

    succeed(&place, "services register web --id web-1 --port 80 --tag v1 --meta team=a --ttl 60s");
    succeed(&place, "checks update service:web-1 passing --note fine");
    let found = until(&place, "services show web --passing", |found| found[0]["Service"]["Port"] == 80);
    assert_eq!(found[0]["Service"]["Tags"], json!(["v1"]));
    let names = json_of(&place, "services list");
    assert!(names.as_array().unwrap().contains(&json!({"Name": "web", "Tags": ["v1"]})), "{names}");
    assert!(succeed(&place, "services show web").contains("web-1"));
    let checks = json_of(&place, "checks list --service web");
    assert_eq!((&checks[0]["Status"], &checks[0]["Output"]), (&json!("passing"), &json!("fine")));
    fail(&place, "", "checks update nothing passing", 1, "THANE-1504");
    let node = json_of(&place, "nodes list")[0]["Node"].as_str().unwrap().to_owned();
    assert_eq!(json_of(&place, &format!("nodes show {node}"))[0]["ID"], "web-1");
    fail(&place, "", "nodes show nothing", 1, "THANE-1504");
    succeed(&place, "services deregister web-1");
    until(&place, "services show web", Value::is_null);
    fail(&place, "", "services show web", 1, "THANE-1504");
    fail(&place, "", "services deregister web-1", 1, "");

    succeed(&place, "kv put app/a one");
    assert_eq!(succeed(&place, "kv get app/a"), "one");
    let entry = json_of(&place, "kv get app/a");
    assert_eq!(entry["Value"], "b25l");
    fail(&place, "", "kv put app/a two --cas 1", 1, "app/a");
    succeed(&place, &format!("kv put app/a two --cas {}", entry["ModifyIndex"]));
    let keys = json_of(&place, "kv list app/");
    assert_eq!((keys.as_array().unwrap().len(), &keys[0]["Key"]), (1, &json!("app/a")));
    succeed(&place, "kv delete app/ --recurse");
    fail(&place, "", "kv get app/a", 1, "THANE-1504");
    assert_eq!(json_of(&place, "kv list"), json!([]));

    assert_eq!(json_of(&place, "sessions list"), json!([]));
    succeed(&place, "sessions destroy 11111111-0000-4000-8000-000000000009");
    fail(&place, "", "kv get a --address 127.0.0.1:1", 3, "THANE-1501");
    running.kill();
}

#[test]
fn tokens_close_the_registry_and_snapshots_hold_everything() {
    let place = Place::new();
    let running = Running::start(&place, &["--clusters", "1"]);
    until(&place, "nodes list", |found| found.as_array().is_some_and(|rows| !rows.is_empty()));
    assert_eq!(json_of(&place, "tokens list"), json!([]));
    succeed(&place, "kv put app/a kept");
    succeed(&place, "kv put other/a kept");
    let saved = json_of(&place, "registry save open.snapshot");
    let length = std::fs::metadata(place.path().join("open.snapshot")).unwrap().len();
    assert_eq!((&saved["done"], saved["bytes"].as_u64()), (&json!("saved"), Some(length)));

    fail(&place, "", "tokens create --allow key_prefix:app/=write", 1, "has to have acl");
    fail(&place, "", "tokens create --allow nonsense", 2, "is no rule");
    let root = succeed(&place, "tokens create --description root --policy global-management");
    let root = root.trim();
    assert_eq!(root.len(), 36, "only the secret goes to stdout");
    fail(&place, "", "kv get app/a", 4, "THANE-1502");
    fail(&place, "forged", "kv get app/a", 4, "ACL not found");
    let as_root = |line: &str| stdout(&run(&place, &[("THANE_DISCOVERY_TOKEN", root)], line), line);
    let weak = as_root("tokens create --description app --allow key_prefix:app/=write --service web -o json");
    let weak: Value = serde_json::from_str(&weak).unwrap();
    let (secret, id) = (weak["SecretID"].as_str().unwrap(), weak["AccessorID"].as_str().unwrap());
    let as_weak = |line: &str| stdout(&run(&place, &[("THANE_DISCOVERY_TOKEN", secret)], line), line);
    assert_eq!(as_weak("kv get app/a"), "kept");
    as_weak("services register web --port 1");
    fail(&place, secret, "kv get other/a", 4, "lacks permission 'key:read' on \"other/a\"");
    fail(&place, secret, "tokens list", 4, "lacks permission 'acl:read'");
    fail(&place, secret, "registry save weak.snapshot", 4, "lacks permission 'acl:write'");
    assert!(!place.path().join("weak.snapshot").exists());

    let shown: Value = serde_json::from_str(&as_root(&format!("tokens show {id} -o json"))).unwrap();
    assert_eq!((&shown["SecretID"], &shown["Description"]), (&json!("<hidden>"), &json!("app")));
    let text = as_root(&format!("tokens show {id}"));
    assert!(text.contains("key_prefix \"app/\" { policy = \"write\" }"), "{text}");
    assert!(as_root("tokens list").contains("global-management"));
    as_root("registry save closed.snapshot");
    as_root(&format!("tokens delete {id}"));
    fail(&place, secret, "kv get app/a", 4, "ACL not found");
    fail(&place, root, &format!("tokens delete {id}"), 1, "THANE-1504");
    as_root("kv delete app/a");
    as_root("registry restore closed.snapshot");
    assert_eq!(as_weak("kv get app/a"), "kept", "what was deleted is back, the token too");
    place.write("broken.snapshot", "thane registry 1\nnot really");
    fail(&place, root, "registry restore broken.snapshot", 1, "not a usable snapshot");
    fail(&place, root, "registry restore absent.snapshot", 1, "absent.snapshot");
    running.kill();
}
