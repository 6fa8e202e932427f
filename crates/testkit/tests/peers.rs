//! Real peers start, answer, and leave nothing behind.

use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, PostParams};
use thane_testkit::peer::{Guarded, KubeApiServer, home_or_skip};

#[tokio::test]
async fn kubernetes_starts_answers_and_goes() {
    let Some(home) = home_or_skip(KubeApiServer::programs()) else { return };
    let server = KubeApiServer::start(&home, false).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(server.client().await.unwrap(), "default");
    let metadata = ObjectMeta { name: Some("hello".to_owned()), ..ObjectMeta::default() };
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    let created = maps.create(&PostParams::default(), &map).await.unwrap();
    assert!(created.metadata.uid.is_some());

    let folder = server.kubeconfig().parent().unwrap().to_owned();
    let processes = server.processes();
    assert_eq!(processes.len(), 2, "etcd and kube-apiserver");
    drop(server);
    assert!(!folder.exists());
    assert!(!processes.into_iter().any(alive));
}

/// Whether a process still runs; one that only waits to be buried does not.
fn alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// The environment variable that makes this test program the one to be killed.
const VICTIM: &str = "THANE_TEST_VICTIM_FOLDER";

#[test]
fn nothing_survives_a_killed_test() {
    if let Some(folder) = std::env::var_os(VICTIM) {
        let folder = Path::new(&folder);
        let sleep = Guarded::start(Path::new("sleep"), &["600".to_owned()], &folder.join("log"), Some(folder)).unwrap();
        std::fs::write(folder.with_extension("ready"), format!("{:?}", sleep.members())).unwrap();
        std::thread::sleep(std::time::Duration::from_mins(10));
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("victim");
    std::fs::create_dir(&folder).unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "nothing_survives_a_killed_test"])
        .env(VICTIM, &folder)
        .spawn()
        .unwrap();
    wait_until(|| folder.with_extension("ready").exists());
    victim.kill().unwrap();
    victim.wait().unwrap();
    wait_until(|| !folder.exists());
}

/// Waits for another process, which nothing announces.
fn wait_until(mut holds: impl FnMut() -> bool) {
    let held = (0..3000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        holds()
    });
    assert!(held, "not within half a minute");
}
