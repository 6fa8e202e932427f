//! What happens when nobody says anything.

use jiff::Timestamp;

use super::*;
use crate::access::builtin::MANAGEMENT;
use crate::access::digest;
use crate::model::{Status, Token};

fn lock_holder(rows: &[crate::topic::Row]) -> Option<String> {
    match rows {
        [crate::topic::Row::Key(entry)] => entry.value.session.clone(),
        _ => None,
    }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_lives_between_once_and_twice_its_time() {
    let running = Running::open(&memory()).await;
    running.run(instance("n1", "web", "w1")).await;
    running.run(session("short", "n1", Some(10))).await;
    running.run(session("for ever", "n1", None)).await;
    assert!(is_true(&running.run(lock("k", "short")).await));
    for _ in 0..5 {
        pass(12).await;
        let renewed = running.run(Command::RenewSession("short".to_owned())).await;
        assert!(matches!(renewed.outcome, Outcome::Session(Some(_))));
    }
    pass(10).await;
    assert_eq!(running.rows(Topic::Sessions).await.len(), 2, "not before its time");
    let wake = running.registry.changed(&Topic::Key("k".to_owned()));
    let ended = tokio::time::Instant::now();
    wake.await;
    assert!(ended.elapsed() <= Duration::from_secs(11), "twice its time at most");
    assert_eq!(running.rows(Topic::Sessions).await.len(), 1);
    assert_eq!(running.run(Command::RenewSession("short".to_owned())).await.outcome, Outcome::Session(None));
    assert!(!is_true(&running.run(lock("k", "for ever")).await), "its holder was invalidated");
    pass(16).await;
    assert!(is_true(&running.run(lock("k", "for ever")).await));
    assert_eq!(running.registry.metrics().expired.get(), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_agent_turns_critical_and_is_forgotten_in_the_end() {
    let running = Running::open(&memory()).await;
    running.run(batch("agent-1", 1, true, &["w1"])).await;
    running.run(batch("agent-2", 1, true, &["w2"])).await;
    for _ in 0..6 {
        pass(10).await;
        running.registry.agent_seen("agent-1");
        running.registry.agent_seen("stranger");
    }
    assert_eq!(running.statuses("web").await, [Status::Passing, Status::Critical]);
    running.registry.agent_seen("agent-2");
    pass(1).await;
    assert_eq!(running.statuses("web").await, [Status::Passing, Status::Passing]);
    pass(60).await;
    assert_eq!(running.statuses("web").await, [Status::Critical, Status::Critical]);
    running.run(batch("agent-1", 2, false, &[])).await;
    assert_eq!(running.statuses("web").await, [Status::Passing, Status::Critical]);
    for _ in 0..(72 * 360 + 60) {
        pass(10).await;
        running.registry.agent_seen("agent-1");
    }
    assert_eq!(running.statuses("web").await, [Status::Passing]);
    assert_eq!(running.rows(Topic::Nodes).await.len(), 1);
    assert_eq!(running.registry.metrics().reaped.get(), 1);
    running.stop().await;
}

/// A process that was stopped, a machine that was, a disk that hung.
#[tokio::test(start_paused = true)]
async fn a_hub_that_stood_still_gives_everybody_their_full_time() {
    let clock = thane_runtime::ManualClock::new(Timestamp::UNIX_EPOCH);
    let running = Running::open_with(&memory(), Options::default(), Arc::new(clock.clone())).await;
    running.run(batch("agent-1", 1, true, &["w1"])).await;
    running.run(session("s", "node-of-agent-1", Some(10))).await;
    let both = async |seconds| {
        for _ in 0..seconds {
            clock.advance(Duration::from_secs(1));
            pass(1).await;
        }
    };
    both(4).await;
    for asleep in [31, 3600] {
        clock.advance(Duration::from_secs(asleep));
        both(15).await;
        assert_eq!(running.statuses("web").await, [Status::Passing], "after {asleep} s");
        assert_eq!(running.rows(Topic::Sessions).await.len(), 1);
    }
    both(10).await;
    assert_eq!(running.rows(Topic::Sessions).await.len(), 0);
    both(10).await;
    assert_eq!(running.statuses("web").await, [Status::Critical], "nobody was heard of since");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_hub_gives_everybody_their_full_time() {
    let (store, clock) = (memory(), clock());
    let open = || Running::open_with(&store, Options::default(), Arc::clone(&clock));
    let running = open().await;
    running.run(batch("agent-1", 1, true, &["w1"])).await;
    running.run(batch("lost", 1, true, &["w2"])).await;
    running.run(session("s", "node-of-agent-1", Some(10))).await;
    running.run(session("ended", "node-of-agent-1", None)).await;
    running.run(lock("delayed", "ended")).await;
    running.run(lock("held", "s")).await;
    for _ in 0..5 {
        pass(9).await;
        running.registry.agent_seen("agent-1");
        running.run(Command::RenewSession("s".to_owned())).await;
    }
    running.run(Command::DestroySession("ended".to_owned())).await;
    pass(1).await;
    running.stop().await;
    pass(73 * 3600).await;

    let running = open().await;
    pass(19).await;
    assert_eq!(running.statuses("web").await, [Status::Passing, Status::Critical], "nobody is judged at once");
    assert_eq!(lock_holder(&running.rows(Topic::Key("held".to_owned())).await).as_deref(), Some("s"));
    pass(2).await;
    assert_eq!(running.rows(Topic::Sessions).await.len(), 0, "nobody renewed it");
    pass(10).await;
    assert_eq!(running.statuses("web").await, [Status::Critical], "one is lost, one was lost for too long");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_delay_survives_a_restart() {
    let (store, clock) = (memory(), clock());
    let open = || Running::open_with(&store, Options::default(), Arc::clone(&clock));
    let running = open().await;
    running.run(instance("n1", "web", "w1")).await;
    running.run(session("one", "n1", None)).await;
    running.run(session("two", "n1", None)).await;
    running.run(lock("k", "one")).await;
    running.run(Command::DestroySession("one".to_owned())).await;
    running.stop().await;
    pass(10).await;
    let running = open().await;
    assert!(!is_true(&running.run(lock("k", "two")).await));
    pass(6).await;
    assert!(is_true(&running.run(lock("k", "two")).await));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_expires_on_the_hub_also_after_a_restart() {
    let store = memory();
    let running = Running::open(&store).await;
    let token = |accessor: &str, expires| Token {
        accessor: accessor.to_owned(),
        secret_digest: digest(accessor),
        rule_sets: vec![MANAGEMENT.to_owned()],
        expires,
        ..Token::default()
    };
    let until = |second| Timestamp::from_second(second).ok();
    for token in [token("root", None), token("brief", until(60)), token("long", until(600))] {
        running.run(Command::PutToken(token)).await;
    }
    pass(59).await;
    assert_eq!(running.rows(Topic::Tokens).await.len(), 3);
    running.registry.changed(&Topic::Tokens).await;
    assert_eq!(running.rows(Topic::Tokens).await.len(), 2);
    running.stop().await;
    let running = Running::open(&store).await;
    assert_eq!(running.rows(Topic::Tokens).await.len(), 2);
    running.registry.changed(&Topic::Tokens).await;
    assert_eq!(running.rows(Topic::Tokens).await.len(), 1);
    running.stop().await;
}
