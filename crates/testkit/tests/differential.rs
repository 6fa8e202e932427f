//! Every scripted sequence against a real kube-apiserver and against ours.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]
#![expect(clippy::print_stderr, reason = "a difference must say where it is")]

use std::path::Path;

use thane_testkit::differential::{Report, Sequence, load_all, run_all};
use thane_testkit::peer::{EmbeddedApi, kubernetes_or_skip};

/// The sequences whose `file:name` contains `THANE_SEQUENCES`, or all.
fn sequences() -> Vec<Sequence> {
    let mut all = load_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("sequences")).unwrap();
    if let Ok(wanted) = std::env::var("THANE_SEQUENCES") {
        all.retain(|sequence| format!("{}:{}", sequence.file, sequence.name).contains(&wanted));
    }
    all
}

/// A sequence that differs from itself would prove nothing about another server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequences_are_deterministic_on_kubernetes() {
    let Some((_, reference)) = kubernetes_or_skip(&[]).await else { return };
    let sequences = sequences();
    let first = run_all(&reference, &sequences, "one");
    let second = run_all(&reference, &sequences, "two");
    let (first, second) = tokio::try_join!(first, second).unwrap();
    let report = Report::new(&sequences, &first, &second);
    eprintln!("{report}");
    assert_eq!(report.failed(), 0, "some sequences are not deterministic");
}

/// What clients see of us is what they see of Kubernetes, but for what the scripts accept with a reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thane_answers_as_kubernetes_does() {
    let Some((_, reference)) = kubernetes_or_skip(&[]).await else { return };
    let thane = EmbeddedApi::start().await.unwrap();
    let sequences = sequences();
    let expected = run_all(&reference, &sequences, "k");
    let found = run_all(&thane, &sequences, "t");
    let (expected, found) = tokio::try_join!(expected, found).unwrap();
    let report = Report::new(&sequences, &expected, &found);
    eprintln!("{report}");
    thane.stop().await.unwrap();
    assert_eq!(report.failed(), 0, "some answers are not those of Kubernetes");
}

/// What a server must say whether or not there is another one to ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_believed_is_told_so_and_a_kind_that_goes_takes_nothing_new() {
    let thane = EmbeddedApi::start().await.unwrap();
    let mut sequences = sequences();
    sequences.retain(|sequence| ["bad-certificate", "crd-terminating"].contains(&sequence.name.as_str()));
    let found = run_all(&thane, &sequences, "t").await.unwrap();
    thane.stop().await.unwrap();
    for (sequence, recording) in sequences.iter().zip(&found) {
        let statuses: Vec<i64> = recording.records.iter().filter_map(|record| record["status"].as_i64()).collect();
        let expected: &[i64] =
            if sequence.name == "bad-certificate" { &[401; 4] } else { &[201, 200, 403, 403, 200, 404] };
        assert_eq!(statuses, expected, "{}: {:#?}", sequence.name, recording.records);
    }
}
