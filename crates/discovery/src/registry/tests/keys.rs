//! Keys and locks.

use super::*;

#[test]
fn values_are_set_compared_and_deleted() {
    let mut bench = Bench::new();
    let delete = |verb, key: &str, index| Command::Kv(KvOp { index, ..op(verb, key) });
    bench.check(&[
        (set("a", "1"), "true"),
        (set("a", "1"), "true"),
        (cas("a", "2", 0), "false"),
        (cas("a", "2", 9), "false"),
        (cas("a", "2", 1), "true"),
        (cas("b", "x", 1), "false"),
        (cas("b", "x", 0), "true"),
        (delete(KvVerb::DeleteCas, "b", 1), "false"),
        (delete(KvVerb::DeleteCas, "b", 3), "true"),
        (delete(KvVerb::DeleteCas, "b", 3), "true"),
        (delete(KvVerb::Delete, "nothing", 0), "true"),
        (set("", "1"), "500 Must provide key"),
        (delete(KvVerb::Get, "a", 0), "400 Invalid KVS operation"),
        (set(&"k".repeat(4000), "1"), "413 the key is longer than 3072 bytes"),
        (
            set("big", &"v".repeat(VALUE_BYTES_MAX + 1)),
            "413 Value for key \"big\" is too large (524289 > 524288 bytes)",
        ),
        (set("big", &"v".repeat(VALUE_BYTES_MAX)), "true"),
        (delete(KvVerb::DeleteTree, "", 0), "true"),
    ]);
    assert_eq!(bench.tables.index(), 6, "what changes nothing has no index");
    assert_eq!(bench.topic(&Topic::Keys(String::new())).rows, []);
}

#[test]
fn an_index_is_a_topics_own_and_stays_when_the_rows_go() {
    let mut bench = Bench::new();
    let index = |bench: &Bench, topic: Topic| bench.topic(&topic).index;
    let (key, tree) = (|| Topic::Key("a/b".to_owned()), || Topic::Keys("a/".to_owned()));
    bench.check(&[(set("a/b", "1"), "true"), (set("c", "1"), "true")]);
    assert_eq!((index(&bench, key()), index(&bench, tree())), (1, 1));
    bench.check(&[(Command::Kv(op(KvVerb::DeleteTree, "a/")), "true"), (set("c", "2"), "true")]);
    assert_eq!((index(&bench, key()), index(&bench, tree())), (3, 3));
    assert_eq!(index(&bench, Topic::Key("never".to_owned())), 0);
    assert_eq!(index(&bench, Topic::Keys(String::new())), 4);
}

#[test]
fn forgotten_rows_raise_the_floor_and_never_lower_an_index() {
    let mut bench = Bench::new();
    bench.tables = Tables::new("test").with_tombs_max(2);
    for key in ["a", "b", "c", "d"] {
        bench.check(&[(set(key, "1"), "true"), (Command::Kv(op(KvVerb::Delete, key)), "true")]);
    }
    assert_eq!(bench.tables.tombs(), 2);
    let gone = bench.topic(&Topic::Key("a".to_owned()));
    assert_eq!(gone.index, 4, "b's deletion was the last one forgotten");
    let all = bench.topic(&Topic::Keys(String::new()));
    assert_eq!(bench.tables.delta(&Topic::Keys(String::new()), &all, 3).since, None, "too long ago");
    assert_eq!(bench.tables.delta(&Topic::Keys(String::new()), &all, 4).removed.len(), 2);
}

#[test]
fn a_lock_is_held_once_counted_and_kept_by_a_plain_write() {
    let mut bench = Bench::new();
    bench.check(&[
        (register(node("n1"), None, vec![]), "ok"),
        (Command::CreateSession(session("s1", "N1", Behavior::Release)), "s1"),
        (Command::CreateSession(session("s2", "n1", Behavior::Release)), "s2"),
        (lock("k", "nobody"), "500 invalid session \"nobody\""),
        (lock("k", ""), "500 missing session"),
        (lock("k", "s1"), "true"),
        (lock("k", "s1"), "true"),
        (lock("k", "s2"), "false"),
        (unlock("k", "s2"), "false"),
        (unlock("other", "s2"), "false"),
    ]);
    assert_eq!(bench.key("k"), Some((String::new(), 4, 1, Some("s1".to_owned()))), "taken again changes nothing");
    bench.check(&[(set("k", "v"), "true")]);
    assert_eq!(bench.key("k"), Some(("v".to_owned(), 5, 0, Some("s1".to_owned()))));
    bench.check(&[(unlock("k", "s1"), "true"), (lock("k", "s2"), "true"), (unlock("k", "s2"), "true")]);
    bench.check(&[(lock("k", "s1"), "true")]);
    assert_eq!(bench.key("k").map(|(.., locks, _)| locks), Some(2));
}

#[test]
fn after_an_invalidation_a_lock_has_to_wait_and_after_a_release_not() {
    let mut bench = Bench::new();
    bench.check(&[
        (register(node("n1"), None, vec![]), "ok"),
        (Command::CreateSession(session("s1", "n1", Behavior::Release)), "s1"),
        (Command::CreateSession(session("s2", "n1", Behavior::Delete)), "s2"),
        (Command::CreateSession(session("s3", "n1", Behavior::Delete)), "s3"),
        (lock("kept", "s1"), "true"),
        (lock("gone", "s2"), "true"),
        (lock("free", "s1"), "true"),
        (unlock("free", "s1"), "true"),
        (Command::DestroySession("s1".to_owned()), "ok"),
        (Command::DestroySession("s2".to_owned()), "ok"),
        (Command::DestroySession("s2".to_owned()), "ok"),
        (lock("free", "s3"), "true"),
        (lock("kept", "s3"), "false"),
        (lock("gone", "s3"), "false"),
        (set("gone", "a plain write may"), "true"),
    ]);
    assert_eq!(bench.key("kept").and_then(|(.., session)| session), None);
    bench.pass(14);
    bench.check(&[(lock("kept", "s3"), "false")]);
    bench.pass(1);
    bench.check(&[(lock("kept", "s3"), "true")]);
    let before = bench.tables.index();
    bench.due(&Due::Delay("gone".to_owned()));
    assert_eq!(bench.tables.index(), before, "nobody sees a delay pass");
    bench.check(&[(lock("gone", "s3"), "true")]);
}
