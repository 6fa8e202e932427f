//! A Redis on each side, and a client that talks to the hub's proxy.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use thane_testkit::fleet::Programs;
use thane_testkit::peer::{Absence, Guarded, PeerHome, Thane, free_ports, home_or_skip};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{PYTHON, content, script};

/// The longest anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// The longest one answer may take.
const ANSWER: Duration = Duration::from_secs(10);

/// What is answered in all before the connection is closed, or says nothing more.
async fn exchange(port: u16, said: &str, expected: &str) -> Result<(), String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(|error| error.to_string())?;
    stream.write_all(said.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut heard = vec![0; expected.len()];
    let reading = tokio::time::timeout(ANSWER, stream.read_exact(&mut heard)).await;
    let text = String::from_utf8_lossy(&heard).into_owned();
    match reading {
        Ok(Ok(_)) if text == expected => {}
        other => return Err(format!("{said:?}: {other:?} {text:?} instead of {expected:?}")),
    }
    match tokio::time::timeout(Duration::from_millis(300), stream.read_u8()).await {
        Ok(Ok(more)) => Err(format!("{said:?}: {:?} comes after {text:?}", char::from(more))),
        _ => Ok(()),
    }
}

async fn until(port: u16, said: &str, expected: &str) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = exchange(port, said, expected).await {
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn redis(home: &PeerHome, folder: &Path, port: u16, more: &[&str]) -> Guarded {
    let (port, place) = (port.to_string(), folder.display().to_string());
    let arguments = ["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no", "--dir", &place];
    let arguments = [&arguments[..], more].concat();
    let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    let log = folder.join(format!("{port}.log"));
    Guarded::start(&home.program("redis-server"), &arguments, &log, Some(folder)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_agents_redis_know_is_read_through_the_hub() {
    let Some(home) = home_or_skip(&["redis-server", PYTHON]) else { return };
    let found = Programs::locate(&home);
    let Ok(program) = found.thane().map_err(Absence::tell) else { return };
    let folder = tempfile::tempdir().unwrap();
    let [hub, cluster] = free_ports().unwrap();
    let _servers = [hub, cluster].map(|port| redis(&home, folder.path(), port, &[]));
    let (hub_address, cluster_address) = (format!("127.0.0.1:{hub}"), format!("127.0.0.1:{cluster}"));
    let arguments = ["--ephemeral-ports", "--redis", &hub_address, "--cluster-redis", &cluster_address];
    let thane = Thane::start(program, &arguments).await.unwrap_or_else(|error| panic!("{error:#}"));
    let proxy = thane.published("redis-proxy").unwrap();
    let (_, port) = proxy.split_once(':').unwrap();
    let mut command = Command::new(home.program(PYTHON));
    command.arg(script("redis_check.py")).args([port, &hub.to_string(), &cluster.to_string()]);
    content(command, &proxy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_past_a_password() {
    let Some(home) = home_or_skip(&["redis-server"]) else { return };
    let found = Programs::locate(&home);
    let Ok(program) = found.thane().map_err(Absence::tell) else { return };
    let folder = tempfile::tempdir().unwrap();
    let [hub, cluster] = free_ports().unwrap();
    let _servers = [hub, cluster].map(|port| redis(&home, folder.path(), port, &["--requirepass", "secret"]));
    // Hub and agent know the password of both.
    let knowing = folder.path().join("knowing");
    let program = program.canonicalize().unwrap();
    std::fs::write(&knowing, format!("#!/bin/sh\nREDIS_PASSWORD=secret exec {} \"$@\"\n", program.display())).unwrap();
    std::fs::set_permissions(&knowing, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (hub_address, cluster_address) = (format!("127.0.0.1:{hub}"), format!("127.0.0.1:{cluster}"));
    let arguments = ["--ephemeral-ports", "--redis", &hub_address, "--cluster-redis", &cluster_address];
    until(hub, "AUTH secret\r\n", "+OK\r\n").await;
    let key = "app|resources-tree|cluster-1_shop|1.8.3";
    until(cluster, "AUTH secret\r\nSET app|resources-tree|shop|1.8.3 value\r\n", "+OK\r\n+OK\r\n").await;
    let thane = Thane::start(&knowing, &arguments).await.unwrap_or_else(|error| panic!("{error:#}"));
    let proxy = thane.published("redis-proxy").unwrap();
    let port: u16 = proxy.split_once(':').unwrap().1.parse().unwrap();
    let known = format!("AUTH secret\r\nGET {key}\r\n");
    until(port, &known, "+OK\r\n$5\r\nvalue\r\n").await;
    let refused = "-NOAUTH Authentication required.\r\n";
    let malformed =
        "-ERR Protocol error: quotes and control characters in an inline request are not understood here\r\n";
    for (said, expected) in [
        (format!("GET {key}\r\nPING\r\n"), refused.repeat(2)),
        (format!("SUBSCRIBE {key}\r\nGET {key}\r\nGET {key}\r\n"), refused.repeat(3)),
        (
            format!("AUTH wrong\r\nGET {key}\r\n"),
            format!("-WRONGPASS invalid username-password pair or user is disabled.\r\n{refused}"),
        ),
        (format!("\x0b\r\nGET {key}\r\nGET {key}\r\n"), malformed.to_owned()),
        (format!("\"CLIENT\" REPLY SKIP\r\nGET {key}\r\nGET {key}\r\n"), malformed.to_owned()),
        (format!("\r\n \t\r\nGET {key}\r\nGET {key}\r\n"), refused.repeat(2)),
    ] {
        exchange(port, &said, &expected).await.unwrap();
    }
}
