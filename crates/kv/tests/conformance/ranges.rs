//! Reading many keys, now and in the past.

use bytes::Bytes;
use thane_kv::{Error, Query};

use crate::harness::{Backend, delete, key, listed, pairs, put, write};

pub(crate) async fn a_prefix_finds_its_keys_in_order(backend: &dyn Backend) {
    let store = backend.store();
    write(&store, &[put("b/2", "2"), put("b/10", "10"), put("a", ""), put("c", ""), put("b", ""), put("b0", "")]).await;
    assert_eq!(listed(&store, "b/", None).await, ["b/10=10", "b/2=2"]);
    assert_eq!(listed(&store, "", None).await.len(), 6);
    assert_eq!(listed(&store, "x", None).await.len(), 0);
}

pub(crate) async fn a_prefix_of_highest_bytes_has_an_end(backend: &dyn Backend) {
    let store = backend.store();
    for name in [&[0xff][..], &[0xff, 0xff], &[0xfe, 0xff], &[0xfe]] {
        let mutation = thane_kv::Mutation::Put { key: Bytes::copy_from_slice(name), value: key(""), lease: None };
        write(&store, &[mutation]).await;
    }
    let count =
        async |prefix: &[u8]| store.range(Query::prefix(Bytes::copy_from_slice(prefix))).await.unwrap().entries.len();
    assert_eq!(count(&[0xff]).await, 2);
    assert_eq!(count(&[0xfe]).await, 2);
    assert_eq!(count(&[0xff, 0xff]).await, 1);
}

pub(crate) async fn bounds_are_inclusive_and_exclusive(backend: &dyn Backend) {
    let store = backend.store();
    write(&store, &[put("a", ""), put("b", ""), put("c", ""), put("d", "")]).await;
    let query = Query { start: key("b"), end: Some(key("d")), ..Query::prefix(key("")) };
    assert_eq!(pairs(&store.range(query.clone()).await.unwrap().entries), ["b=", "c="]);
    let open = Query { end: None, ..query.clone() };
    assert_eq!(pairs(&store.range(open).await.unwrap().entries), ["b=", "c=", "d="]);
    for end in ["b", "a"] {
        let none = Query { end: Some(key(end)), ..query.clone() };
        assert_eq!(store.range(none).await.unwrap().entries, []);
    }
}

pub(crate) async fn a_limit_cuts_and_counts(backend: &dyn Backend) {
    let store = backend.store();
    write(&store, &[put("k/a", ""), put("k/b", ""), put("k/c", ""), put("l", "")]).await;
    let check = async |limit, count_rest, expected: (usize, bool, Option<u64>)| {
        let query = Query { limit: Some(limit), count_rest, ..Query::prefix(key("k/")) };
        let page = store.range(query).await.unwrap();
        assert_eq!((page.entries.len(), page.more, page.rest), expected, "limit {limit}");
    };
    check(0, true, (0, true, Some(3))).await;
    check(2, false, (2, true, None)).await;
    check(2, true, (2, true, Some(1))).await;
    check(3, true, (3, false, Some(0))).await;
    check(4, false, (3, false, None)).await;
}

pub(crate) async fn keys_only_leaves_values_out(backend: &dyn Backend) {
    let store = backend.store();
    let revision = write(&store, &[put("a", "long")]).await;
    let page = store.range(Query { keys_only: true, ..Query::prefix(key("")) }).await.unwrap();
    assert_eq!(page.entries[0].value, key(""));
    assert_eq!(page.entries[0].mod_revision, revision);
}

pub(crate) async fn pages_at_one_revision_make_a_whole(backend: &dyn Backend) {
    let store = backend.store();
    for index in 0..10 {
        write(&store, &[put(&format!("k{index}"), "old")]).await;
    }
    let mut query = Query { limit: Some(3), ..Query::prefix(key("k")) };
    let mut seen = Vec::new();
    loop {
        let page = store.range(query.clone()).await.unwrap();
        seen.extend(pairs(&page.entries));
        query.at = Some(page.revision);
        let Some(last) = page.entries.last().filter(|_| page.more) else { break };
        query.start = [&last.key[..], b"\0"].concat().into();
        write(&store, &[put("k0", "new"), put("k9", "new"), delete("k5"), put(&format!("k{}x", seen.len()), "new")])
            .await;
    }
    assert_eq!(seen, (0..10).map(|index| format!("k{index}=old")).collect::<Vec<_>>());
}

pub(crate) async fn every_past_state_can_be_read(backend: &dyn Backend) {
    let store = backend.store();
    let base = store.revision();
    write(&store, &[put("a", "1"), put("b", "1")]).await;
    write(&store, &[put("a", "2")]).await;
    write(&store, &[delete("b"), put("c", "1")]).await;
    write(&store, &[put("b", "2"), delete("a")]).await;
    write(&store, &[put("z", "1")]).await;
    let check = async |step: u64, expected: &[&str]| {
        assert_eq!(listed(&store, "", Some(base + step)).await, expected, "after step {step}");
    };
    check(0, &[]).await;
    check(1, &["a=1", "b=1"]).await;
    check(2, &["a=2", "b=1"]).await;
    check(3, &["a=2", "c=1"]).await;
    check(4, &["b=2", "c=1"]).await;
    check(5, &["b=2", "c=1", "z=1"]).await;
    assert_eq!(listed(&store, "a", Some(base + 2)).await, ["a=2"]);
}

pub(crate) async fn a_past_entry_has_its_past_numbers(backend: &dyn Backend) {
    let store = backend.store();
    let created = write(&store, &[put("a", "1")]).await;
    let modified = write(&store, &[put("a", "2")]).await;
    write(&store, &[put("a", "3")]).await;
    let page = store.range(Query { at: Some(modified), ..Query::prefix(key("a")) }).await.unwrap();
    let entry = &page.entries[0];
    assert_eq!((entry.create_revision, entry.mod_revision, entry.version), (created, modified, 2));
    assert_eq!(page.revision, modified);
}

pub(crate) async fn limits_hold_in_the_past(backend: &dyn Backend) {
    let store = backend.store();
    let past = write(&store, &[put("a", ""), put("c", ""), put("e", "")]).await;
    write(&store, &[delete("a"), put("b", ""), delete("e"), put("f", "")]).await;
    let query = Query { at: Some(past), limit: Some(2), count_rest: true, ..Query::prefix(key("")) };
    let page = store.range(query.clone()).await.unwrap();
    assert_eq!((pairs(&page.entries), page.more, page.rest), (vec!["a=".into(), "c=".into()], true, Some(1)));
    let page = store.range(Query { limit: Some(3), ..query }).await.unwrap();
    assert_eq!((pairs(&page.entries).len(), page.more, page.rest), (3, false, Some(0)));
}

pub(crate) async fn the_future_cannot_be_read(backend: &dyn Backend) {
    let store = backend.store();
    let revision = write(&store, &[put("a", "1")]).await;
    let query = Query { at: Some(revision + 1), ..Query::prefix(key("")) };
    let result = store.range(query).await;
    assert!(
        matches!(result, Err(Error::Future { requested, current }) if (requested, current) == (revision + 1, revision))
    );
}

pub(crate) async fn a_page_tells_its_revision(backend: &dyn Backend) {
    let store = backend.store();
    let revision = write(&store, &[put("a", "1")]).await;
    assert_eq!(store.range(Query::prefix(key("none"))).await.unwrap().revision, revision);
}
