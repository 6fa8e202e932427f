//! The real kubectl, on our server and on the real one: it prints the same.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]
#![expect(clippy::print_stderr, reason = "a difference must say where it is")]

use std::path::Path;
use std::time::Instant;

use futures::StreamExt;
use thane_testkit::peer::{EmbeddedApi, home_or_skip, kubernetes_or_skip};
use thane_testkit::scripts::{Script, Session, differences, load_all};

/// Scripts in flight at once.
const PARALLEL: usize = 4;

/// The scripts whose name contains `THANE_SCRIPTS`, or all.
fn scripts() -> Vec<Script> {
    let mut all = load_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("kubectl")).unwrap();
    if let Ok(wanted) = std::env::var("THANE_SCRIPTS") {
        all.retain(|script| script.name.contains(&wanted));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_prints_what_it_prints_on_kubernetes() {
    let Some((home, kubernetes)) = kubernetes_or_skip(&["kubectl", "argocd-agentctl"]).await else { return };
    let thane = EmbeddedApi::start().await.unwrap();
    let scripts = scripts();
    let (home, kubernetes, thane_ref) = (&home, &kubernetes, &thane);
    let runs = scripts.iter().map(async |script| {
        let expected = Session::play(home, kubernetes, script);
        let found = Session::play(home, thane_ref, script);
        let (expected, found) = tokio::try_join!(expected, found)?;
        anyhow::Ok(differences(script, &expected, &found))
    });
    let done: Vec<_> = futures::stream::iter(runs).buffer_unordered(PARALLEL).collect().await;
    let differences: Vec<String> = done.into_iter().flat_map(Result::unwrap).collect();
    thane.stop().await.unwrap();
    for step in scripts.iter().flat_map(|script| &script.steps) {
        if let Some(reason) = &step.differs {
            eprintln!("accepted: {}: {reason}", step.run.lines().next().unwrap_or_default());
        }
    }
    let told = differences.join("\n\nDIFFERS ");
    assert!(differences.is_empty(), "{} steps print something else:\nDIFFERS {told}", differences.len());
}

/// How long the largest definition there is takes, and what it leaves in memory, for people: nothing is asserted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_definitions_are_taken() {
    let Some(home) = home_or_skip(&["kubectl"]) else { return };
    let thane = EmbeddedApi::start().await.unwrap();
    let session = Session::new(&home, thane.endpoint(), "default").unwrap();
    for file in ["argo-workflows/argoproj.io_workflows.yaml", "argo-cd/applicationset-crd.yaml"] {
        let before = (resident(), Instant::now());
        let told = session.run(&format!("kubectl apply --server-side -f $DEFINITIONS/{file}")).await.unwrap();
        let took = before.1.elapsed();
        assert_eq!(told.code, Some(0), "{told}");
        let told = session
            .run(&format!("kubectl wait --for=condition=Established -f $DEFINITIONS/{file} --timeout=60s"))
            .await
            .unwrap();
        assert_eq!(told.code, Some(0), "{told}");
        eprintln!("{file}: applied in {took:.1?}, memory {} MB more", resident().saturating_sub(before.0) / 1024);
    }
    thane.stop().await.unwrap();
}

/// This process's resident memory in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
