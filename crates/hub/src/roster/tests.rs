use serde_json::json;
use thane_sync::mapping::Pattern;
use thane_sync::object::Key;

use super::*;

fn roster(placement: Placement) -> Roster {
    let side = HubSide { namespace: "argocd".to_owned(), placement, allowed_namespaces: vec![Pattern::new("*")] };
    Roster::new(Arc::new(side))
}

fn news(agent: &str, namespace: &str, name: &str, is_gone: bool) -> News {
    let key = Key { kind: Kind::Application, namespace: namespace.to_owned(), name: name.to_owned() };
    let seen = if is_gone { Seen::Gone(None) } else { Seen::Applied(Arc::new(json!({}))) };
    News { agent: agent.to_owned(), key, seen }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn keys_belong_to_agents_by_namespace_or_by_application() {
    let by_namespace = roster(Placement::Namespace);
    by_namespace.registered("one", "https://one".to_owned());
    by_namespace.heard(&news("one", "argocd", "shop", false));
    let by_destination = roster(Placement::Destination);
    by_destination.registered("one", "https://one".to_owned());
    by_destination.heard(&news("one", "argocd", "shop", false));
    by_destination.heard(&news("one", "team", "shop", false));
    by_destination.heard(&news("stranger", "team", "other", false));
    let cases = [
        ("app|resources-tree|one_shop|1.8.3", Some("one"), None),
        ("app|resources-tree|team_shop|1.8.3", None, Some("one")),
        ("app|managed-resources|shop|1.8.3.gz", None, Some("one")),
        ("app|managed-resources|team_other|1.8.3.gz", None, None),
        ("app|resources-tree|one_shop|1|1.8.3", None, None),
        ("cluster|info|https://one|1.8.3", None, None),
    ];
    for (key, namespace, destination) in cases {
        assert_eq!(by_namespace.agent_of(key).as_deref(), namespace, "{key}");
        assert_eq!(by_destination.agent_of(key).as_deref(), destination, "{key}");
    }
    // Parts of a large tree are asked of those who know of them.
    by_namespace.connected("one", &BTreeSet::from([SHARDS.to_owned()]), at(1));
    assert_eq!(by_namespace.agent_of("app|resources-tree|one_shop|1|1.8.3").as_deref(), Some("one"));
    by_destination.removed("one");
    assert_eq!(by_destination.agent_of("app|managed-resources|shop|1.8.3.gz"), None);
}

#[test]
fn the_newest_stream_counts() {
    let roster = roster(Placement::Namespace);
    roster.registered("one", "https://one".to_owned());
    let mut changes = roster.changes();
    let presence = || roster.members()["one"].presence;
    assert_eq!(presence(), Presence::Unseen);
    let first = roster.connected("one", &BTreeSet::new(), at(1));
    let second = roster.connected("one", &BTreeSet::new(), at(2));
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    roster.disconnected("one", first, at(3));
    assert_eq!(presence(), Presence::Connected(at(2)));
    roster.disconnected("one", second, at(4));
    assert_eq!(presence(), Presence::Gone(at(4)));
    roster.registered("one", "https://uno".to_owned());
    assert_eq!((presence(), roster.members()["one"].server.as_str()), (Presence::Gone(at(4)), "https://uno"));
}

#[test]
fn applications_are_counted_where_they_are() {
    let roster = roster(Placement::Destination);
    for agent in ["one", "two"] {
        roster.registered(agent, String::new());
    }
    let counts = || roster.members().values().map(|member| member.applications).collect::<Vec<_>>();
    for (agent, name, is_gone, expected) in [
        ("one", "a", false, [1, 0]),
        ("one", "a", false, [1, 0]),
        ("one", "b", false, [2, 0]),
        ("two", "a", false, [1, 1]),
        // It has moved: that it is gone from there is old news.
        ("one", "a", true, [1, 1]),
        ("two", "a", true, [1, 0]),
        ("two", "c", true, [1, 0]),
    ] {
        roster.heard(&news(agent, "argocd", name, is_gone));
        assert_eq!(counts(), expected, "{agent} {name} {is_gone}");
    }
}
