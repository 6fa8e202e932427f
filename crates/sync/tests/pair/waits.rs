//! What cannot be done for now, what does not fit, and what went back: nothing else waits for it.

use super::*;

fn one_at_a_time() -> Pair {
    let mut options = Options::default();
    options.inbox.concurrency = 1;
    Pair::with(Mode::Managed, Placement::Namespace, &options)
}

fn revision(object: &Value) -> &str {
    object["spec"]["source"]["targetRevision"].as_str().unwrap()
}

fn set_revision(api: &mut Api, key: &Key, revision: &str) {
    api.edit(key, |app| app["spec"]["source"]["targetRevision"] = json!(revision));
}

fn is_first(_: &Key, write: &Write) -> bool {
    matches!(write, Write::Create(object) | Write::Replace(object) if revision(object) == "1")
}

#[test]
fn what_fails_for_now_holds_up_no_other_object() {
    let mut pair = one_at_a_time();
    for name in ["a", "b", "c"] {
        pair.hub_api.create(Kind::Application, application("alpha", name)).unwrap();
    }
    pair.fails = |key, _| key.name == "a";
    pair.connect(&ALL);
    pair.pass(30);
    let is_there = ["a", "b", "c"].map(|name| pair.agent_api.get(&key(OURS, name)).is_some());
    assert_eq!(is_there, [false, true, true]);
    assert_eq!(pair.hub.core.outbox.len(), 1, "it is not acknowledged before it is done");
    pair.fails = |_, _| false;
    pair.pass(15);
    assert!(pair.agent_api.get(&key(OURS, "a")).is_some());
    assert!(pair.hub.core.outbox.is_empty());
}

#[test]
fn a_newer_state_takes_the_place_of_one_that_keeps_failing() {
    let mut pair = managed();
    pair.fails = is_first;
    pair.connect(&ALL);
    pair.pass(20);
    assert!(pair.agent_api.get(&key(OURS, "shop")).is_none());
    set_revision(&mut pair.hub_api, &key("alpha", "shop"), "2");
    pair.pass(1);
    assert_eq!(revision(pair.agent_api.get(&key(OURS, "shop")).unwrap()), "2");
    pair.pass(60);
    assert!(pair.hub.core.is_quiet() && pair.agent.core.is_quiet());
}

#[test]
fn one_that_keeps_failing_and_is_deleted_is_over() {
    let mut pair = managed();
    pair.fails = is_first;
    pair.connect(&ALL);
    pair.pass(20);
    pair.hub_api.delete(&key("alpha", "shop"), None).unwrap();
    pair.pass(1);
    assert!(pair.hub.core.is_quiet() && pair.agent.core.is_quiet());
    pair.fails = |_, _| false;
    pair.pass(60);
    assert!(pair.agent_api.get(&key(OURS, "shop")).is_none());
}

#[test]
fn a_repair_that_keeps_failing_gives_way_to_what_the_hub_wants() {
    let mut pair = managed();
    pair.connect(&ALL);
    pair.fails = is_first;
    set_revision(&mut pair.agent_api, &key(OURS, "shop"), "tampered");
    pair.pass(20);
    assert_eq!(revision(pair.agent_api.get(&key(OURS, "shop")).unwrap()), "tampered");
    set_revision(&mut pair.hub_api, &key("alpha", "shop"), "2");
    pair.settle();
    assert_eq!(revision(pair.agent_api.get(&key(OURS, "shop")).unwrap()), "2");
    pair.pass(60);
    assert!(pair.hub.core.is_quiet() && pair.agent.core.is_quiet());
}

#[test]
fn a_copy_that_does_not_go_away_holds_up_neither_others_nor_its_successors_end() {
    let mut pair = one_at_a_time();
    let mut held = application("alpha", "shop");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    pair.hub_api.create(Kind::Application, held).unwrap();
    pair.connect(&ALL);
    let (source, copy) = (key("alpha", "shop"), key(OURS, "shop"));
    assert!(pair.agent_api.get(&copy).is_some());
    let release = |api: &mut Api, key: &Key| api.edit(key, |app| app["metadata"]["finalizers"] = json!([]));
    release(&mut pair.hub_api, &source);
    pair.hub_api.delete(&source, None).unwrap();
    pair.hub_api.create(Kind::Application, application("alpha", "shop")).unwrap();
    pair.pass(2);
    assert!(!pair.agent_api.get(&copy).unwrap()["metadata"]["deletionTimestamp"].is_null(), "something holds it");
    assert!(!pair.agent.core.is_quiet(), "its successor waits");
    pair.hub_api.create(Kind::Application, application("alpha", "other")).unwrap();
    pair.pass(2);
    assert!(pair.agent_api.get(&key(OURS, "other")).is_some());
    pair.hub_api.delete(&source, None).unwrap();
    pair.pass(2);
    assert!(pair.hub.core.is_quiet() && pair.agent.core.is_quiet(), "there is nothing left to wait for");
    release(&mut pair.agent_api, &copy);
    pair.pass(30);
    assert!(pair.agent_api.get(&copy).is_none());
}

#[test]
fn a_comparison_larger_than_the_queue_comes_to_an_end() {
    for mode in [Mode::Managed, Mode::Autonomous] {
        let mut options = Options::default();
        options.outbox.queue_max = 20;
        let mut pair = Pair::with(mode, Placement::Namespace, &options);
        for number in 0..60 {
            let name = format!("app-{number}");
            match mode {
                Mode::Managed => pair.hub_api.create(Kind::Application, application("alpha", &name)),
                Mode::Autonomous => pair.agent_api.create(Kind::Application, application(OURS, &name)),
            }
            .unwrap();
        }
        pair.connect(&[]);
        pair.pass(120);
        assert_eq!((pair.hub_api.objects.len(), pair.agent_api.objects.len()), (60, 60), "{mode:?}");
        assert!(pair.hub.core.is_quiet() && pair.agent.core.is_quiet());
        let before = pair.sent.len();
        pair.pass(60);
        assert_eq!(pair.sent.len(), before, "{mode:?}: it settles");
    }
}

#[test]
fn a_comparison_is_put_off_by_time_and_not_by_how_often_it_is_asked_about() {
    let mut pair = managed();
    pair.fails = is_first;
    pair.connect(&ALL);
    let before = pair.sent(false, &Type::Digest).len();
    pair.agent.core.forget_peer_state();
    let now = pair.now();
    for _ in 0..100 {
        pair.agent.tick(now);
    }
    pair.settle();
    assert_eq!(pair.sent(false, &Type::Digest).len(), before);
}

#[test]
fn an_api_that_was_restored_from_a_copy_is_followed_again() {
    let mut pair = autonomous();
    pair.connect(&ALL);
    let (source, mirror) = (key(OURS, "shop"), key("alpha", "shop"));
    let (objects, version) = (pair.agent_api.objects.clone(), pair.agent_api.version);
    for number in ["2", "3", "4"] {
        set_revision(&mut pair.agent_api, &source, number);
        pair.settle();
    }
    assert_eq!(revision(pair.hub_api.get(&mirror).unwrap()), "4");
    (pair.agent_api.objects, pair.agent_api.version) = (objects.clone(), version);
    let now = pair.now();
    for kind in Kind::ALL {
        let of_kind = objects.iter().filter(|(key, _)| key.kind == kind);
        pair.agent.relisted(now, kind, version, of_kind.map(|(key, object)| (key.clone(), object.clone())).collect());
    }
    pair.settle();
    assert_eq!(revision(pair.hub_api.get(&mirror).unwrap()), "1");
    set_revision(&mut pair.agent_api, &source, "5");
    pair.settle();
    assert_eq!(revision(pair.hub_api.get(&mirror).unwrap()), "5");
}
