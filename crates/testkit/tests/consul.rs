//! Every scripted sequence against a real Consul and against ours.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]
#![expect(clippy::print_stderr, reason = "a difference must say where it is")]

#[path = "consul/ours.rs"]
mod ours;
#[path = "consul/tokens.rs"]
mod tokens;

use std::path::Path;

use ours::Ours;
use thane_testkit::differential::{Report, Sequence, load_all, run_consul};
use thane_testkit::peer::{Consul, home_or_skip};

/// What both call their node.
const NODE: &str = "n1";

/// The sequences of a folder whose `file:name` contains `THANE_SEQUENCES`, or all.
fn sequences(folder: &str) -> Vec<Sequence> {
    let mut all = load_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
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

/// What clients see of us is what they see of Consul, but for what the scripts accept with a reason: whether they ask an
/// agent or, having none, the hub itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thane_answers_as_consul_does() {
    let Some(home) = home_or_skip(Consul::programs()) else { return };
    let consul = Consul::start(&home, NODE).await.unwrap_or_else(|error| panic!("{error:#}"));
    let (hub, agent) = (Ours::hub(NODE).await, Ours::agent(NODE).await);
    let all = sequences("consul");
    // A hub has no agent beside it.
    let common: Vec<Sequence> = all.iter().filter(|sequence| sequence.file != "agent.yaml").cloned().collect();
    let (expected, through_agent, from_hub) = tokio::join!(
        run_consul(consul.address(), &all, &[]),
        run_consul(&agent.address, &all, &[]),
        run_consul(&hub.address, &common, &[])
    );
    let pairs = all.iter().zip(&expected).filter(|(sequence, _)| sequence.file != "agent.yaml");
    let expected_of_hub: Vec<_> = pairs.map(|(_, recording)| recording.clone()).collect();
    let agents = Report::new(&all, &expected, &through_agent);
    let hubs = Report::new(&common, &expected_of_hub, &from_hub);
    eprintln!("an agent:\n{agents}\nthe hub:\n{hubs}");
    agent.stop().await;
    hub.stop().await;
    assert_eq!((agents.failed(), hubs.failed()), (0, 0), "some answers are not those of Consul");
}

/// What a token may and may not is the same, and is said in the same words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_judged_as_consul_judges_them() {
    let Some(home) = home_or_skip(Consul::programs()) else { return };
    let consul = Consul::start_closed(&home, NODE, tokens::ROOT).await.unwrap_or_else(|error| panic!("{error:#}"));
    let (ours, registry) = Ours::hub_and_registry(NODE).await;
    tokens::give_to_consul(&consul).await;
    tokens::give_to_ours(&registry).await;
    let all = sequences("consul/tokens");
    let (expected, found) = tokio::join!(run_consul(consul.address(), &all, &[]), run_consul(&ours.address, &all, &[]));
    let report = Report::new(&all, &expected, &found);
    eprintln!("{report}");
    ours.stop().await;
    assert_eq!(report.failed(), 0, "some tokens are judged differently");
}
