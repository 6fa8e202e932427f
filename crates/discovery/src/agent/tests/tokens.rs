//! Tokens between an agent and its hub: the agent enforces them alone, and the hub does not take its word.

use std::sync::Arc;

use bytes::Bytes;

use super::bed::{Hub, Spoke, service, store};
use crate::access::builtin::MANAGEMENT;
use crate::access::{Guard, Refused, digest};
use crate::agent::Options;
use crate::backend::{Backend, Caller, Consistency, LocalAgent};
use crate::command::{Command, KvOp, KvVerb, Outcome, Refusal, TxnOp};
use crate::model::{Policy, Resource, Rule, Session, Token};
use crate::topic::Topic;

fn caller(token: &str) -> Caller {
    Caller { token: Some(token.to_owned()).filter(|token| !token.is_empty()) }
}

fn kv(verb: KvVerb, key: &str) -> KvOp {
    KvOp { verb, key: key.to_owned(), value: Bytes::from_static(b"1"), flags: 0, index: 0, session: String::new() }
}

/// A token for everything, and one that may write keys under `app/` and see the service `web`.
async fn close(hub: &Hub) {
    let rule = |resource, name: &str, policy| Rule { resource, name: name.to_owned(), exact: false, policy };
    let root = Token {
        accessor: "root".to_owned(),
        secret_digest: digest("root"),
        rule_sets: vec![MANAGEMENT.to_owned()],
        ..Token::default()
    };
    let weak = Token {
        accessor: "weak".to_owned(),
        secret_digest: digest("weak"),
        rules: vec![
            rule(Resource::Key, "app/", Policy::Write),
            rule(Resource::Service, "web", Policy::Read),
            rule(Resource::Node, "", Policy::Read),
        ],
        ..Token::default()
    };
    for token in [root, weak] {
        hub.registry.write_from(None, Command::PutToken(token)).await.unwrap();
    }
}

/// The agent is asked behind its own guard here, as one would be whose guard is broken or was taken out.
#[tokio::test]
async fn the_hub_checks_again_what_an_agent_passes_on() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.settled().await;
    close(&hub).await;
    let session = Session { id: "s".to_owned(), node: "node-1".to_owned(), ..Session::default() };
    let writes = [
        Command::Kv(kv(KvVerb::Set, "other")),
        Command::Kv(kv(KvVerb::DeleteTree, "")),
        Command::Txn(vec![TxnOp::Kv(kv(KvVerb::Set, "app/a")), TxnOp::Kv(kv(KvVerb::Set, "other"))]),
        Command::CreateSession(session),
        Command::PutToken(Token { accessor: "x".to_owned(), secret_digest: digest("x"), ..Token::default() }),
        Command::DeleteToken("root".to_owned()),
        Command::DeleteRuleSet("x".to_owned()),
    ];
    for command in writes {
        for token in ["", "weak"] {
            let refused = agent.write(&caller(token), command.clone()).await;
            assert!(matches!(refused, Err(Refusal::Forbidden(_))), "{token}: {command:?}: {refused:?}");
        }
        let refused = agent.write(&caller("forged"), command).await;
        assert_eq!(refused, Err(Refusal::Unknown("ACL not found".to_owned())));
    }
    agent.write(&caller("weak"), Command::Kv(kv(KvVerb::Set, "app/a"))).await.unwrap();
    agent.write(&caller("root"), Command::Kv(kv(KvVerb::Set, "other"))).await.unwrap();
    let reads = Command::Txn(vec![TxnOp::Kv(kv(KvVerb::Get, "app/a")), TxnOp::Kv(kv(KvVerb::Get, "other"))]);
    let done = agent.write(&caller("weak"), reads).await.unwrap();
    assert!(matches!(done.outcome, Outcome::Txn(Ok(results)) if results.len() == 1), "one of two may be seen");
}

#[tokio::test]
async fn the_hub_answers_consistent_reads_only_as_far_as_the_token_goes() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.register(service("web", "web", 80), vec![], false).await.unwrap();
    agent.register(service("db", "db", 80), vec![], false).await.unwrap();
    agent.settled().await;
    for key in ["app/a", "other"] {
        hub.registry.write_from(None, Command::Kv(kv(KvVerb::Set, key))).await.unwrap();
    }
    close(&hub).await;
    let read = async |token: &str, topic: Topic| {
        let reading = agent.read_for(&caller(token), &topic, Consistency::Consistent).await;
        reading.map(|reading| (reading.data.rows.len(), reading.data.hidden))
    };
    let key = |name: &str| Topic::Key(name.to_owned());
    assert_eq!(read("weak", key("app/a")).await, Ok((1, false)));
    assert!(matches!(read("weak", key("other")).await, Err(Refusal::Forbidden(why)) if why.contains("'key:read'")));
    assert!(matches!(read("", key("app/a")).await, Err(Refusal::Forbidden(_))));
    assert_eq!(read("forged", key("app/a")).await, Err(Refusal::Unknown("ACL not found".to_owned())));
    assert_eq!(read("weak", Topic::Keys(String::new())).await, Ok((1, true)));
    assert_eq!(read("root", Topic::Keys(String::new())).await, Ok((2, false)));
    assert_eq!(read("weak", Topic::Services).await, Ok((1, true)));
    assert_eq!(read("weak", Topic::Service("db".to_owned())).await, Ok((0, true)));
    assert!(matches!(read("weak", Topic::Tokens).await, Err(Refusal::Forbidden(_))));
}

#[tokio::test]
async fn snapshots_pass_through_an_agent_for_those_who_may() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.settled().await;
    let large = KvOp { value: Bytes::from(vec![7; 500 * 1024]), ..kv(KvVerb::Set, "large") };
    agent.write(&caller(""), Command::Kv(large)).await.unwrap();
    close(&hub).await;
    let saved = agent.save(&caller("root")).await.unwrap();
    assert!(saved.len() > 500 * 1024, "more than one piece");
    for token in ["", "weak"] {
        assert!(matches!(agent.save(&caller(token)).await, Err(Refusal::Forbidden(_))));
        assert!(matches!(agent.restore(&caller(token), saved.clone()).await, Err(Refusal::Forbidden(_))));
    }
    agent.write(&caller("root"), Command::Kv(kv(KvVerb::Delete, "large"))).await.unwrap();
    assert!(matches!(agent.restore(&caller("root"), Bytes::from_static(b"no")).await, Err(Refusal::Failed(_))));
    let index = agent.restore(&caller("root"), saved).await.unwrap();
    assert_eq!(index, hub.registry.index());
    agent.until(&Topic::Key("large".to_owned()), |data| data.rows.len() == 1).await;
}

#[tokio::test]
async fn an_agent_that_was_never_told_lets_nobody_in() {
    let (gone, never) = (Hub::start().await, store());
    let door = gone.door("agent-1").await;
    let address = door.address.clone();
    door.close().await;
    let options = |is_open_until_told| {
        let mut options = Options { is_open_until_told, ..Options::new("node-1") };
        options.adjustable.hubs = vec![address.clone()];
        options
    };
    let agent = Spoke::with(options(false), never).await;
    let guard = Guard::new(Arc::clone(&agent.agent) as _);
    let (nobody, somebody) = tokio::join!(guard.access(None), guard.access(Some("root")));
    assert_eq!((nobody.unwrap_err(), somebody.unwrap_err()), (Refused::Untold, Refused::Untold));
    assert!(!guard.is_open() && guard.quick(None).is_none());
    let text = Refusal::from(Refused::Untold).to_string();
    assert!(text.starts_with("Permission denied: this agent has not been told"), "{text}");
    let open = Spoke::with(options(true), store()).await;
    assert!(Guard::new(Arc::clone(&open.agent) as _).access(None).await.unwrap().is_open());
    let alone = Spoke::start("node-1", &[]).await;
    assert!(Guard::new(Arc::clone(&alone.agent) as _).access(None).await.unwrap().is_open(), "nobody could tell it");
}

#[tokio::test]
async fn rules_hold_without_the_hub_also_after_a_restart() {
    let hub = Hub::start().await;
    let door = hub.door("agent-1").await;
    close(&hub).await;
    let agent = Spoke::start("node-1", &[&door]).await;
    agent.until(&Topic::Tokens, |data| data.rows.len() == 2).await;
    let address = door.close().await;
    let kept = agent.stop().await;
    let mut options = Options { is_open_until_told: true, ..Options::new("node-1") };
    options.adjustable.hubs = vec![address.to_string()];
    let agent = Spoke::with(options, kept).await;
    let guard = Guard::new(Arc::clone(&agent.agent) as _);
    let weak = guard.access(Some("weak")).await.unwrap();
    assert!(weak.allows(Resource::Key, "app/a", Policy::Write) && !weak.allows(Resource::Key, "other", Policy::Read));
    assert!(!guard.access(None).await.unwrap().allows(Resource::Key, "app/a", Policy::Read));
    assert!(matches!(guard.access(Some("forged")).await, Err(Refused::Unknown(_))));
}
