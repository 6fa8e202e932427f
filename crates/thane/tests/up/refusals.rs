//! What `thane up` does not start with.

use std::net::TcpListener;
use std::path::Path;

use crate::place::Place;
use crate::running::Running;

/// Runs `thane up`, which must refuse; what it told.
fn refused(place: &Place, variables: &[(&str, &str)], arguments: &[&str], exit: i32) -> String {
    let mut all = vec!["up"];
    all.extend(arguments);
    let output = place.run_with(variables, &all);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(exit), "{told}");
    told
}

fn contains_all(told: &str, parts: &[&str]) {
    for part in parts {
        assert!(told.contains(part), "{part:?} is missing in\n{told}");
    }
}

#[test]
fn a_directory_in_use() {
    let place = Place::new();
    let running = Running::start(&place, &["--clusters", "0"]);
    let kubeconfig = std::fs::read(place.path().join(".thane/kubeconfig")).unwrap();
    let told = refused(&place, &[], &["--ephemeral-ports"], 1);
    contains_all(&told, &["THANE-1005", ".thane is in use by process", "--data"]);
    assert_eq!(std::fs::read(place.path().join(".thane/kubeconfig")).unwrap(), kubeconfig);
    // Nothing is left behind by a process that had no time to tidy up.
    running.kill();
    assert_eq!(Running::start(&place, &["--clusters", "0"]).stop("-TERM").0, Some(0));
}

#[test]
fn a_damaged_file_is_left_as_it_is() {
    let place = Place::new();
    let (code, _) = Running::start(&place, &["--clusters", "0"]).stop("-TERM");
    assert_eq!(code, Some(0));
    let file = place.path().join(".thane/hub/data.redb");
    let sound = std::fs::read(&file).unwrap();
    let mut flipped = sound.clone();
    let (from, to) = (4096, flipped.len());
    for byte in &mut flipped[from..to] {
        *byte = !*byte;
    }
    let cases = [b"not a database".to_vec(), Vec::new(), sound[..sound.len() / 2].to_vec(), flipped];
    for (number, damaged) in cases.into_iter().enumerate() {
        std::fs::write(&file, &damaged).unwrap();
        let told = refused(&place, &[], &["--ephemeral-ports", "--clusters", "0"], 1);
        contains_all(&told, &["THANE-1006", "hub/data.redb", "never reset by itself"]);
        assert!(std::fs::read(&file).unwrap() == damaged, "case {number}: the file was changed");
        assert!(!place.path().join(".thane/kubeconfig").exists(), "nothing runs that it could lead to");
    }
    std::fs::write(&file, sound).unwrap();
    assert_eq!(Running::start(&place, &["--clusters", "0"]).stop("-TERM").0, Some(0));
}

#[test]
fn a_port_that_is_taken_is_named_with_the_way_out() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let port = format!("port {} on 127.0.0.1 is already taken", taken.local_addr().unwrap().port());
    for variables in [
        [("THANE_UP_API_ADDRESS", address.as_str()), ("THANE_ADMIN_ADDRESS", "127.0.0.1:0")],
        [("THANE_UP_API_ADDRESS", "127.0.0.1:0"), ("THANE_ADMIN_ADDRESS", address.as_str())],
    ] {
        let told = refused(&place, &variables, &["--clusters", "0"], 1);
        contains_all(&told, &["THANE-1002", &port, "--ephemeral-ports"]);
    }
}

#[test]
fn settings_that_make_no_sense() {
    let place = Place::new();
    place.write("typo.yaml", "up:\n  cluster: 2\n");
    place.write("keys.yaml", "keys: [{id: a, secret: c2hvcnQ=}]\n");
    place.write("tokens.csv", "secret,ann\n");
    place.write("file", "");
    let check = |variables: &[(&str, &str)], arguments: &[&str], exit: i32, parts: &[&str]| {
        contains_all(&refused(&place, variables, arguments, exit), parts);
    };
    let free = "--ephemeral-ports";
    check(&[], &["--clusters", "many"], 2, &["invalid value 'many'"]);
    check(&[], &["--clusters", "-1"], 2, &["unexpected argument"]);
    check(&[], &["--sideways"], 2, &["unexpected argument '--sideways'"]);
    check(&[], &["--clusters", "65"], 2, &["THANE-1001", "65 clusters are too many"]);
    check(&[], &["--config", "typo.yaml"], 2, &["THANE-1001", "typo.yaml", "cluster"]);
    check(&[("THANE_UP_API_ADDRESS", "here")], &[], 2, &["THANE-1001", "THANE_UP_API_ADDRESS"]);
    check(&[("THANE_UP_API_ADDRESS", "127.0.0.1:65535")], &[], 2, &["THANE-1001", "above port 65535"]);
    check(&[], &["--log-level", "loud!"], 2, &["THANE-1001"]);
    check(&[], &[free, "--encryption-keys", "keys.yaml"], 2, &["THANE-1001", "32 bytes"]);
    check(&[], &[free, "--token-file", "tokens.csv"], 2, &["THANE-1001", "token,name,uid"]);
    check(&[], &[free, "--token-file", "absent.csv"], 1, &["THANE-1003", "absent.csv"]);
    check(&[], &[free, "--encryption-keys", "absent.yaml"], 1, &["THANE-1003", "absent.yaml"]);
    check(&[], &[free, "--data", "file"], 1, &["THANE-1003", "file"]);
    assert!(!Path::new("file/hub").exists());
}
