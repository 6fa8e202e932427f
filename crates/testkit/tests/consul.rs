//! Every scripted sequence against a real Consul and against ours.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]
#![expect(clippy::print_stderr, reason = "a difference must say where it is")]

#[path = "consul/ours.rs"]
mod ours;

use std::path::Path;

use ours::Ours;
use thane_testkit::differential::{Report, Sequence, load_all, run_consul};
use thane_testkit::peer::{Consul, home_or_skip};

/// What both call their node.
const NODE: &str = "n1";

/// The sequences whose `file:name` contains `THANE_SEQUENCES`, or all.
fn sequences() -> Vec<Sequence> {
    let mut all = load_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("consul")).unwrap();
    if let Ok(wanted) = std::env::var("THANE_SEQUENCES") {
        all.retain(|sequence| format!("{}:{}", sequence.file, sequence.name).contains(&wanted));
    }
    all
}

#[test]
fn there_are_enough_sequences() {
    let all = load_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("consul")).unwrap();
    assert!(all.len() >= 80, "{} sequences", all.len());
}

/// What clients see of us is what they see of Consul, but for what the scripts accept with a reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thane_answers_as_consul_does() {
    let Some(home) = home_or_skip(Consul::programs()) else { return };
    let consul = Consul::start(&home, NODE).await.unwrap_or_else(|error| panic!("{error:#}"));
    let ours = Ours::start(NODE).await;
    let sequences = sequences();
    let (expected, found) =
        tokio::join!(run_consul(consul.address(), &sequences, &[]), run_consul(&ours.address, &sequences, &[]));
    let report = Report::new(&sequences, &expected, &found);
    eprintln!("{report}");
    ours.stop().await;
    assert_eq!(report.failed(), 0, "some answers are not those of Consul");
}
