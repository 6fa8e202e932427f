//! Sessions.

use super::*;

fn with_ttl(seconds: u64) -> Command {
    let ttl = Some(Duration::from_secs(seconds));
    Command::CreateSession(Session { ttl, ..session("s", "n1", Behavior::Release) })
}

fn bound(id: &str, checks: &[&str]) -> Command {
    let node_checks = checks.iter().map(|check| (*check).to_owned()).collect();
    Command::CreateSession(Session { node_checks, ..session(id, "n1", Behavior::Release) })
}

#[test]
fn a_session_needs_a_node_well_checks_and_a_sane_time() {
    let mut bench = Bench::new();
    bench.check(&[
        (with_ttl(20), "500 Missing node registration"),
        (register(node("n1"), None, vec![check("bad", "", Status::Critical), check("ok", "", Status::Warning)]), "ok"),
        (with_ttl(9), "500 Invalid Session TTL '9000000000', must be between [10s=24h0m0s]"),
        (with_ttl(86_401), "500 Invalid Session TTL '86401000000000', must be between [10s=24h0m0s]"),
        (bound("s", &["none"]), "500 Missing check 'none' registration"),
        (bound("s", &["ok", "bad"]), "500 Check 'bad' is in critical state"),
        (Command::CreateSession(session("s", "", Behavior::Release)), "500 Must provide Node"),
        (Command::CreateSession(session("", "n1", Behavior::Release)), "500 Missing session ID"),
        (Command::RenewSession("s".to_owned()), "none"),
        (with_ttl(10), "s"),
        (with_ttl(10), "s"),
        (with_ttl(11), "500 session ID is in use"),
        (Command::RenewSession("s".to_owned()), "s"),
    ]);
    assert_eq!(bench.tables.index(), 2);
    let applied = bench.due(&Due::Session("s".to_owned()));
    assert_eq!((applied.index, bench.topic(&Topic::Sessions).rows.len()), (3, 0));
}

#[test]
fn a_session_ends_with_its_check_its_service_or_its_node() {
    let ends: [(&str, Command); 5] = [
        ("a check turns critical", register(node("n1"), None, vec![check("c", "w", Status::Critical)])),
        ("a check goes", deregister("n1", None, Some("c"))),
        ("the service of a check goes", deregister("n1", Some("w"), None)),
        ("the node goes", deregister("N1", None, None)),
        ("it is destroyed", Command::DestroySession("s".to_owned())),
    ];
    for (why, end) in ends {
        let mut bench = Bench::new();
        bench.check(&[
            (register(node("n1"), Some(service("w", "web", &[])), vec![check("c", "w", Status::Passing)]), "ok"),
            (bound("s", &["c"]), "s"),
            (bound("other", &[]), "other"),
            (lock("k", "s"), "true"),
            (register(node("n1"), None, vec![check("c", "w", Status::Warning)]), "ok"),
        ]);
        assert_eq!(bench.topic(&Topic::Sessions).rows.len(), 2, "{why}");
        bench.check(&[(end, "ok")]);
        assert!(bench.tables.session("s").is_none(), "{why}");
        assert_eq!(bench.key("k").and_then(|(.., session)| session), None, "{why}");
        assert_eq!(bench.tables.session("other").is_none(), why == "the node goes", "{why}");
    }
}
