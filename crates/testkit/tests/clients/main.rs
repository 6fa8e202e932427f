//! Programs of others that use Consul, unchanged, against ours; and against a real Consul, so that what they are held to
//! is what Consul does.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

mod access;
mod dig;
mod prometheus;
mod redis;

use std::path::{Path, PathBuf};
use std::process::Command;

use thane_testkit::fleet::Programs;
use thane_testkit::peer::{Consul, PeerHome, Thane, home_or_skip};

const PYTHON: &str = "../clients/python/bin/python";
const PATRONI: &str = "../clients/python/bin/patroni";
const NODE_MODULES: &str = "../clients/node/node_modules";

/// Ours with two agents, and the peers; `None` after saying loudly what is missing.
async fn ours(programs: &[&str]) -> Option<(PeerHome, Thane)> {
    let home = home_or_skip(programs)?;
    let found = Programs::locate(&home);
    let program = found.thane().map_err(thane_testkit::peer::Absence::tell).ok()?;
    let thane = Thane::start(program, &["--ephemeral-ports", "--clusters", "2"]).await;
    Some((home, thane.unwrap_or_else(|error| panic!("{error:#}"))))
}

/// Where Consul's API is: a real one's, and that of two of our agents.
async fn everybody(home: &PeerHome, thane: &Thane) -> (Consul, Vec<String>) {
    let consul = Consul::start(home, "n1").await.unwrap_or_else(|error| panic!("{error:#}"));
    let mut addresses = vec![consul.address().to_owned()];
    addresses.extend(["discovery", "discovery-cluster-2"].map(|name| thane.published(name).unwrap()));
    (consul, addresses)
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/clients").join(name)
}

/// Runs a program to its end; it must be content.
async fn content(mut command: Command, address: &str) {
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && told.contains("content"), "against {address}:\n{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_program_is_content() {
    let Some((home, thane)) = ours(&["consul", PYTHON]).await else { return };
    let (_consul, addresses) = everybody(&home, &thane).await;
    for address in addresses {
        let (host, port) = address.split_once(':').unwrap();
        let mut command = Command::new(home.program(PYTHON));
        command.arg(script("check.py")).args([host, port]);
        content(command, &address).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patroni_elects_its_leaders() {
    let Some((home, thane)) = ours(&["consul", PYTHON, PATRONI]).await else { return };
    let (_consul, addresses) = everybody(&home, &thane).await;
    for address in addresses {
        let (host, port) = address.split_once(':').unwrap();
        let mut command = Command::new(home.program(PYTHON));
        command.arg(script("patroni_check.py")).args([host, port]);
        content(command, &address).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_javascript_program_is_content() {
    let package = format!("{NODE_MODULES}/consul/package.json");
    let Some((home, thane)) = ours(&["consul", &package]).await else { return };
    let (_consul, addresses) = everybody(&home, &thane).await;
    for address in addresses {
        let (host, port) = address.split_once(':').unwrap();
        let mut command = Command::new("node");
        command.env("NODE_PATH", home.program(NODE_MODULES)).arg(script("check.js")).args([host, port]);
        content(command, &address).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rust_program_is_content() {
    let Some((home, thane)) = ours(&["consul", "rs-consul-check"]).await else { return };
    let (_consul, addresses) = everybody(&home, &thane).await;
    for address in addresses {
        let mut command = Command::new(home.program("rs-consul-check"));
        command.arg(format!("http://{address}"));
        content(command, &address).await;
    }
}
