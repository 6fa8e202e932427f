//! Transactions.

use super::*;
use crate::command::{CatalogVerb, TxnOp, TxnResult};

fn kv(verb: KvVerb, key: &str, value: &str, index: Index) -> TxnOp {
    TxnOp::Kv(KvOp { value: Bytes::from(value.to_owned()), index, ..op(verb, key) })
}

fn with_session(verb: KvVerb, key: &str, session: &str) -> TxnOp {
    TxnOp::Kv(KvOp { session: session.to_owned(), ..op(verb, key) })
}

fn txn(ops: Vec<TxnOp>) -> Command {
    Command::Txn(ops)
}

#[test]
fn all_or_nothing_with_every_reason() {
    let mut bench = Bench::new();
    bench.check(&[
        (register(node("n1"), None, vec![]), "ok"),
        (Command::CreateSession(session("s1", "n1", Behavior::Release)), "s1"),
        (set("a", "1"), "true"),
        (lock("held", "s1"), "true"),
    ]);
    let before = bench.tables.clone();
    let failures: Vec<(TxnOp, &str)> = vec![
        (kv(KvVerb::Cas, "a", "", 9), "failed to set key \"a\", index is stale"),
        (kv(KvVerb::DeleteCas, "a", "", 9), "failed to delete key \"a\", index is stale"),
        (with_session(KvVerb::Lock, "a", "x"), "invalid session \"x\""),
        (
            with_session(KvVerb::Unlock, "a", "s1"),
            "failed to unlock key \"a\", lock isn't held, or is held by another session",
        ),
        (kv(KvVerb::Get, "none", "", 0), "key \"none\" doesn't exist"),
        (kv(KvVerb::CheckIndex, "none", "", 0), "failed to check index, key \"none\" doesn't exist"),
        (kv(KvVerb::CheckIndex, "a", "", 9), "failed index check for key \"a\", current modify index 3 != 9"),
        (with_session(KvVerb::CheckSession, "none", "s1"), "failed to check session, key \"none\" doesn't exist"),
        (
            with_session(KvVerb::CheckSession, "held", "s2"),
            "failed session check for key \"held\", current session \"s1\" != \"s2\"",
        ),
        (kv(KvVerb::CheckNotExists, "a", "", 0), "key \"a\" exists"),
        (TxnOp::Node(CatalogVerb::Get, Box::new(node("x")), 0), "node \"x\" doesn't exist"),
        (TxnOp::Node(CatalogVerb::Cas, Box::new(node("n1")), 9), "failed to set node \"n1\", index is stale"),
        (TxnOp::Node(CatalogVerb::DeleteCas, Box::new(node("n1")), 9), "failed to delete node \"n1\", index is stale"),
        (
            TxnOp::Service(CatalogVerb::Set, "x".to_owned(), Box::new(service("w", "web", &[])), 0),
            "Missing node registration",
        ),
        (
            TxnOp::Service(CatalogVerb::Get, "n1".to_owned(), Box::new(service("w", "web", &[])), 0),
            "service \"w\" on node \"n1\" doesn't exist",
        ),
        (
            TxnOp::Check(CatalogVerb::Cas, "n1".to_owned(), Box::new(check("c", "", Status::Passing)), 9),
            "failed to set check \"c\" on node \"n1\", index is stale",
        ),
    ];
    let ops = [kv(KvVerb::Set, "new", "1", 0)].into_iter().chain(failures.iter().map(|(op, _)| op.clone())).collect();
    let expected: Vec<String> =
        failures.iter().enumerate().map(|(number, (_, what))| format!("{}: {what}", number + 1)).collect();
    bench.check(&[(txn(ops), expected.join("; ").as_str())]);
    assert_eq!(bench.tables, before);
}

#[test]
fn operations_see_each_other_and_share_an_index() {
    let mut bench = Bench::new();
    bench.check(&[(set("t/1", "1"), "true"), (set("t/2", "2"), "true")]);
    let ops = vec![
        kv(KvVerb::Set, "a", "1", 0),
        kv(KvVerb::Get, "a", "", 0),
        kv(KvVerb::CheckIndex, "a", "", 3),
        kv(KvVerb::DeleteTree, "t/", "", 0),
        kv(KvVerb::GetTree, "a", "", 0),
        kv(KvVerb::GetOrEmpty, "t/1", "", 0),
        kv(KvVerb::CheckNotExists, "t/1", "", 0),
        TxnOp::Node(CatalogVerb::Set, Box::new(node("n1")), 0),
        TxnOp::Service(CatalogVerb::Cas, "N1".to_owned(), Box::new(service("w", "web", &["x"])), 0),
        TxnOp::Check(CatalogVerb::Set, "n1".to_owned(), Box::new(check("c", "w", Status::Passing)), 0),
    ];
    let outcome = bench.run(&txn(ops)).expect("happens");
    let Outcome::Txn(Ok(results)) = outcome else { panic!("{outcome:?}") };
    let texts: Vec<String> = results
        .iter()
        .map(|result| match result {
            TxnResult::Kv(it) => format!("{}={:?}@{}", it.value.key, it.value.value, it.modify_index),
            TxnResult::Node(it) => format!("{}@{}", it.value.name, it.modify_index),
            TxnResult::Service(it) => format!("{}@{}", it.value.id, it.modify_index),
            TxnResult::Check(node, it) => {
                format!("{node}/{}{:?}@{}", it.value.id, it.value.service_tags, it.modify_index)
            }
        })
        .collect();
    let expected =
        ["a=b\"\"@3", "a=b\"1\"@3", "a=b\"\"@3", "a=b\"1\"@3", "t/1=b\"\"@0", "n1@3", "w@3", "n1/c[\"x\"]@3"];
    assert_eq!(texts, expected);
    assert_eq!(bench.tables.index(), 3);
    assert_eq!(bench.reload(), bench.tables);
}

#[test]
fn what_is_too_much_or_comes_too_soon_is_refused_before() {
    let mut bench = Bench::new();
    bench.check(&[
        (register(node("n1"), None, vec![]), "ok"),
        (Command::CreateSession(session("s1", "n1", Behavior::Release)), "s1"),
        (Command::CreateSession(session("s2", "n1", Behavior::Release)), "s2"),
        (lock("k", "s1"), "true"),
        (Command::DestroySession("s1".to_owned()), "ok"),
        (
            txn(vec![with_session(KvVerb::Lock, "k", "s2"), kv(KvVerb::Set, "", "", 0)]),
            "0: failed to lock key \"k\" due to lock delay; 1: Must provide key",
        ),
        (
            txn(vec![
                kv(KvVerb::GetTree, "", "", 0),
                kv(KvVerb::Get, "none", "", 0),
                TxnOp::Node(CatalogVerb::Set, Box::new(node("")), 0),
                TxnOp::Service(CatalogVerb::Delete, "n1".to_owned(), Box::new(service("w", "", &[])), 0),
            ]),
            "0: Must provide key; 2: Must provide node; 3: Must provide service name (Service.Service) when service ID \
             is provided",
        ),
        (txn(vec![kv(KvVerb::Get, "k", "", 0); 129]), "413 Transaction contains too many operations (129 > 128)"),
    ]);
}
