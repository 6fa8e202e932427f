//! A Redis on each side, and a client that talks to the hub's proxy.

use std::process::Command;

use thane_testkit::fleet::Programs;
use thane_testkit::peer::{Absence, Guarded, PeerHome, Thane, free_ports, home_or_skip};

use super::{PYTHON, content, script};

fn redis(home: &PeerHome, folder: &std::path::Path, port: u16) -> Guarded {
    let (port, place) = (port.to_string(), folder.display().to_string());
    let arguments = ["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no", "--dir", &place];
    let log = folder.join(format!("{port}.log"));
    Guarded::start(&home.program("redis-server"), &arguments.map(str::to_owned), &log, Some(folder)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_agents_redis_know_is_read_through_the_hub() {
    let Some(home) = home_or_skip(&["redis-server", PYTHON]) else { return };
    let found = Programs::locate(&home);
    let Ok(program) = found.thane().map_err(Absence::tell) else { return };
    let folder = tempfile::tempdir().unwrap();
    let [hub, cluster] = free_ports().unwrap();
    let _servers = [hub, cluster].map(|port| redis(&home, folder.path(), port));
    let (hub_address, cluster_address) = (format!("127.0.0.1:{hub}"), format!("127.0.0.1:{cluster}"));
    let arguments = ["--ephemeral-ports", "--redis", &hub_address, "--cluster-redis", &cluster_address];
    let thane = Thane::start(program, &arguments).await.unwrap_or_else(|error| panic!("{error:#}"));
    let proxy = thane.published("redis-proxy").unwrap();
    let (_, port) = proxy.split_once(':').unwrap();
    let mut command = Command::new(home.program(PYTHON));
    command.arg(script("redis_check.py")).args([port, &hub.to_string(), &cluster.to_string()]);
    content(command, &proxy).await;
}
