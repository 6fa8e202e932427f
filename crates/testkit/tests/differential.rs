//! Every scripted sequence against a real kube-apiserver.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]
#![expect(clippy::print_stderr, reason = "a skipped test must say why, and a difference where")]

use std::path::Path;

use thane_testkit::differential::{Report, Sequence, load_all, run_all};
use thane_testkit::peer::{Absence, KubeApiServer, PeerHome};

/// The sequences whose `file:name` contains `THANE_SEQUENCES`, or all.
fn sequences() -> Vec<Sequence> {
    let mut all = load_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("sequences")).unwrap();
    if let Ok(wanted) = std::env::var("THANE_SEQUENCES") {
        all.retain(|sequence| format!("{}:{}", sequence.file, sequence.name).contains(&wanted));
    }
    all
}

/// A real Kubernetes, or `None` after saying loudly why there is none.
async fn kubernetes() -> Option<KubeApiServer> {
    let home = PeerHome::locate();
    match home.require(KubeApiServer::programs()) {
        Ok(()) => Some(KubeApiServer::start(&home, true).await.unwrap()),
        Err(Absence::Skip(why)) => {
            eprintln!("SKIPPED, nothing was compared: {why}");
            None
        }
        Err(Absence::Fail(why)) => panic!("{why}"),
    }
}

/// A sequence that differs from itself would prove nothing about another server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequences_are_deterministic_on_kubernetes() {
    let Some(reference) = kubernetes().await else { return };
    let sequences = sequences();
    let first = run_all(&reference, &sequences, "one");
    let second = run_all(&reference, &sequences, "two");
    let (first, second) = tokio::try_join!(first, second).unwrap();
    let report = Report::new(&sequences, &first, &second);
    eprintln!("{report}");
    assert_eq!(report.failed(), 0, "some sequences are not deterministic");
}
