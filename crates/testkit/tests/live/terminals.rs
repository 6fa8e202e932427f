//! Commands and terminals in a pod behind an agent.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use futures::SinkExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, AttachParams, TerminalSize};
use kube::config::{KubeConfigOptions, Kubeconfig};
use thane_testkit::fleet::Program;
use thane_testkit::peer::PeerHome;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::pairs::kubectl;
use crate::{PATIENCE, told};

/// A shell in a terminal that is resized, typed into, and left.
pub(crate) async fn sized(kubeconfig: &Path) {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(kube::Client::try_from(config).unwrap());
    let params = AttachParams::interactive_tty().container("main");
    let mut process = pods.exec("talker", ["sh"], &params).await.unwrap();
    let (mut keys, mut screen) = (process.stdin().unwrap(), process.stdout().unwrap());
    process.terminal_size().unwrap().send(TerminalSize { width: 99, height: 33 }).await.unwrap();
    let mut shown = String::new();
    let session = async {
        let mut buffer = [0; 4096];
        // A size may come after the first command, so the command is repeated until it has.
        while !shown.contains("33 99") {
            keys.write_all(b"stty size\n").await.unwrap();
            let count = screen.read(&mut buffer).await.unwrap();
            assert!(count > 0, "it ended: {shown}");
            shown.push_str(&String::from_utf8_lossy(&buffer[..count]));
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        keys.write_all(b"exit\n").await.unwrap();
        while screen.read(&mut buffer).await.unwrap_or_default() > 0 {}
    };
    tokio::time::timeout(PATIENCE, session).await.unwrap_or_else(|_| panic!("it did not end: {shown}"));
}

/// What kubectl gets to see, and how it ends.
pub(crate) async fn commands(home: &PeerHome, kubeconfig: &Path, hub: Program) {
    let (home, kubeconfig) = (home.clone(), kubeconfig.to_owned());
    let work = move || {
        let exec = |arguments: &[&str]| kubectl(&home, &kubeconfig, &[&["exec"], arguments].concat());
        let said = exec(&["talker", "--", "echo", "hello"]).output().unwrap();
        assert!(String::from_utf8_lossy(&said.stdout).starts_with("hello"), "{}", told(&said));
        if hub == Program::Go {
            // It closes the connection without a word about how the command ended.
            return;
        }
        assert!(said.status.success(), "{}", told(&said));
        let failed = exec(&["talker", "--", "sh", "-c", "echo no; exit 7"]).output().unwrap();
        assert_eq!((failed.status.code(), &*failed.stdout), (Some(7), &b"no\n"[..]), "{}", told(&failed));
        let mut cat = exec(&["-i", "talker", "--", "cat"]);
        let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        cat.stdin.take().unwrap().write_all(b"typed\n").unwrap();
        let cat = cat.wait_with_output().unwrap();
        assert_eq!((cat.status.code(), &*cat.stdout), (Some(0), &b"typed\n"[..]), "{}", told(&cat));
        let missing = exec(&["none", "--", "true"]).output().unwrap();
        assert!(!missing.status.success(), "{}", told(&missing));
    };
    tokio::task::spawn_blocking(work).await.unwrap();
}
