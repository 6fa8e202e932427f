use std::collections::BTreeSet;

use thane_agent::connection::{Failure, State, Tried};
use thane_api::event::{DIGEST, Mode, PONG};
use thane_api::wire::version::VersionRequest;
use thane_api::wire::version::version_client::VersionClient;
use thane_hub::gate::Certificates;
use thane_runtime::net::{Connector, Tcp};
use tokio::io::AsyncReadExt;
use tonic::Code;

use crate::bed::{Bed, Setup, event, within};

#[tokio::test]
async fn both_sides_know_each_other_and_events_pass_both_ways() {
    let mut bed = Bed::start().await;
    let mut config = bed.config();
    config.mode = Mode::Autonomous;
    let (mut stream, mut opened) = bed.pair("agent-a", config).await;
    let both = BTreeSet::from([DIGEST.to_owned(), PONG.to_owned()]);
    assert_eq!((&*opened.agent, &*opened.hub_version, &*opened.hub_namespace), ("agent-a", "1.2.3", "argocd"));
    assert_eq!(opened.capabilities, both);
    let identity = &stream.identity;
    assert_eq!((&*identity.agent, identity.mode, &*identity.agent_namespace), ("agent-a", Mode::Autonomous, "spoke"));
    assert!(identity.capabilities.is_superset(&both) && identity.version == "1.2.3");
    assert_eq!(identity.fingerprint.as_ref().map(String::len), Some(64));
    for n in 0..300 {
        let (down, up) = (event(&format!("down-{n}"), "{}"), event(&format!("up-{n}"), vec![b' '; 10_000]));
        stream.outgoing.send(down.clone()).await.unwrap();
        opened.outgoing.send(up.clone()).await.unwrap();
        assert_eq!(within(opened.incoming.recv()).await, Some(Ok(down)));
        assert_eq!(within(stream.incoming.recv()).await, Some(Ok(up)));
    }
}

#[tokio::test]
async fn either_side_may_close_and_the_agent_comes_back() {
    let mut bed = Bed::start().await;
    let dialer = bed.dialer("agent-a", bed.config());
    let state = dialer.state();
    let mut agent = bed.agent(dialer);
    let (first, opened) = (within(bed.streams.recv()).await.unwrap(), within(agent.recv()).await.unwrap());
    first.close.cancel();
    within(opened.close.cancelled()).await;
    let (second, opened) = (within(bed.streams.recv()).await.unwrap(), within(agent.recv()).await.unwrap());
    opened.close.cancel();
    within(second.close.cancelled()).await;
    let (third, opened) = (within(bed.streams.recv()).await.unwrap(), within(agent.recv()).await.unwrap());
    drop(third.outgoing);
    within(opened.close.cancelled()).await;
    let (fourth, _opened) = (within(bed.streams.recv()).await.unwrap(), within(agent.recv()).await.unwrap());
    assert!(!fourth.close.is_cancelled());
    within(async { state.clone().wait_for(|state| *state == State::Connected).await.map(drop) }).await.unwrap();
}

#[tokio::test]
async fn an_agent_survives_the_end_of_its_hub() {
    let mut bed = Bed::start().await;
    let dialer = bed.dialer("agent-a", bed.config());
    let mut state = dialer.state();
    let mut agent = bed.agent(dialer);
    let (stream, opened) = (within(bed.streams.recv()).await.unwrap(), within(agent.recv()).await.unwrap());
    assert!(bed.hub.shutdown(crate::bed::PATIENCE).await.is_empty());
    within(opened.close.cancelled()).await;
    assert!(stream.close.is_cancelled());
    let unreachable = |state: &State| matches!(state, State::Failed(Failure::Unreachable { .. }));
    within(state.wait_for(unreachable)).await.unwrap();
}

#[tokio::test]
async fn the_hub_says_its_version_and_takes_any_of_an_agent() {
    let bed = Bed::start().await;
    let client = bed.client(None).await;
    let version = VersionClient::new(client).version(VersionRequest {}).await.unwrap().into_inner().version;
    assert_eq!(version, "argocd-agent-1.2.3");
    let (_client, answer) = bed.authenticated("agent-a").await;
    assert_eq!((&*answer.version, &*answer.principal_namespace), ("0.9.0", "argocd"));
}

#[tokio::test]
async fn an_attempt_tells_what_it_found() {
    let bed = Bed::start().await;
    let tried = bed.dialer("agent-a", bed.config()).attempt(&bed.tasks).await.unwrap();
    let expected =
        Tried { agent: "agent-a".to_owned(), hub_version: "1.2.3".to_owned(), hub_namespace: "argocd".to_owned() };
    assert_eq!(tried, expected);
    let refused = bed.dialer("argocd", bed.config()).attempt(&bed.tasks).await.unwrap_err();
    assert!(matches!(refused, Failure::Refused { code: Code::Unauthenticated, .. }), "{refused}");
}

#[tokio::test]
async fn a_second_connection_of_an_agent_takes_over() {
    let mut bed = Bed::start().await;
    let (first, first_opened) = bed.pair("agent-a", bed.config()).await;
    // The first agent would come back and take over in turn.
    let mut slow = bed.config();
    slow.backoff_first = crate::bed::PATIENCE;
    let (other, _other) = bed.pair("agent-b", slow.clone()).await;
    let (second, second_opened) = bed.pair("agent-a", slow).await;
    within(first.close.cancelled()).await;
    within(first_opened.close.cancelled()).await;
    assert_eq!(second.identity.agent, "agent-a");
    assert!(!other.close.is_cancelled());
    drop((second, second_opened));
}

#[tokio::test]
async fn without_tls_a_password_can_be_enough() {
    let dir = tempfile::tempdir().unwrap();
    let (hashes, secret) = (dir.path().join("hashes"), dir.path().join("secret"));
    let hash = bcrypt::hash("open sesame", 4).unwrap();
    std::fs::write(&hashes, format!("agent-p:{hash}\n")).unwrap();
    std::fs::write(&secret, "agent-p:open sesame\n").unwrap();
    let method: &'static str = Box::leak(format!("userpass:{}", hashes.display()).into_boxed_str());
    let setup =
        Setup { methods: vec![method], certificates: Certificates::NotNeeded, plaintext: true, ..Setup::default() };
    let mut bed = Bed::with(setup).await;
    let mut config = bed.config();
    config.credentials = format!("userpass:{}", secret.display()).parse().unwrap();
    let (stream, opened) = bed.pair("unused", config.clone()).await;
    assert_eq!((&*stream.identity.agent, &*opened.agent), ("agent-p", "agent-p"));
    assert_eq!(stream.identity.fingerprint, None);
    std::fs::write(&secret, "agent-p:guess\n").unwrap();
    let refused = bed.dialer("unused", config.clone()).attempt(&bed.tasks).await.unwrap_err();
    assert!(matches!(refused, Failure::Refused { code: Code::Unauthenticated, .. }), "{refused}");
    std::fs::remove_file(&secret).unwrap();
    let failure = bed.dialer("unused", config).attempt(&bed.tasks).await.unwrap_err();
    assert_eq!(failure.label(), "credentials");
}

#[tokio::test]
async fn whoever_says_nothing_is_cut() {
    let mut setup = Setup::default();
    setup.config.handshake_timeout = std::time::Duration::from_millis(20);
    let bed = Bed::with(setup).await;
    let mut read = [0; 1024];
    let mut silent = bed.dial(Some(&bed.identity("agent-a")), b"h2").await;
    while within(silent.read(&mut read)).await.is_ok_and(|read| read > 0) {}
    let mut without_tls = Tcp.connect("127.0.0.1", bed.address.port()).await.unwrap();
    assert!(matches!(within(without_tls.read(&mut read)).await, Ok(0) | Err(_)));
}

#[tokio::test]
async fn whoever_is_turned_away_hears_why() {
    let mut bed = Bed::start().await;
    let dialer = bed.dialer("agent-a", bed.config());
    let mut state = dialer.state();
    let _agent = bed.agent(dialer);
    let stream = within(bed.streams.recv()).await.unwrap();
    stream.refuse(tonic::Status::failed_precondition("make it known first"));
    let refused = |state: &State| match state {
        State::Failed(Failure::Refused { code, message, .. }) => {
            *code == Code::FailedPrecondition && message == "make it known first"
        }
        _ => false,
    };
    within(state.wait_for(refused)).await.unwrap();
}
