//! Names on both sides, patterns and routes.

use serde_json::{Value, json};

use super::*;
use crate::object::{IGNORE_SYNC, Key, Kind, NAMESPACE_REMAPPED};

fn key(kind: Kind, namespace: &str, name: &str) -> Key {
    Key { kind, namespace: namespace.to_owned(), name: name.to_owned() }
}

#[test]
fn names_are_those_of_dns() {
    for (name, label, subdomain) in [
        ("a", true, true),
        ("a-b-1", true, true),
        ("1", true, true),
        ("a.b", false, true),
        ("", false, false),
        ("-a", false, false),
        ("a-", false, false),
        ("a.-b", false, false),
        ("a..b", false, false),
        (".a", false, false),
        ("A", false, false),
        ("a_b", false, false),
        ("a/b", false, false),
        ("../a", false, false),
        ("ä", false, false),
        ("a b", false, false),
        ("a\0", false, false),
    ] {
        assert_eq!((is_dns_label(name), is_dns_subdomain(name)), (label, subdomain), "{name:?}");
    }
    assert!(is_dns_label(&"x".repeat(63)) && !is_dns_label(&"x".repeat(64)));
    assert!(is_dns_subdomain(&"x".repeat(253)) && !is_dns_subdomain(&"x".repeat(254)));
}

#[test]
fn patterns_match_as_in_argo_cd() {
    for (pattern, name, expected) in [
        ("*", "anything", true),
        ("team-*", "team-a", true),
        ("team-*", "a-team-a", false),
        ("team", "team", true),
        ("team", "team-a", false),
        ("te?m", "team", true),
        ("te?m", "tem", false),
        ("team-[ab]", "team-b", true),
        ("team-[ab]", "team-c", false),
        ("team-[!ab]", "team-c", true),
        ("team-[a-c]", "team-b", true),
        ("{a,b}-*", "b-x", true),
        ("{a,b}-*", "c-x", false),
        ("a.b", "aXb", false),
        ("\\*", "*", true),
        ("\\*", "a", false),
        ("/^team-[0-9]+$/", "team-12", true),
        ("/^team-[0-9]+$/", "team-x", false),
        ("/eam/", "team", true),
        ("[", "[", false),
        ("{a", "a", false),
        ("a]", "a]", false),
        ("/(/", "(", false),
        ("/(?=a)/", "a", false),
        ("", "", true),
        ("", "a", false),
    ] {
        assert_eq!(Pattern::new(pattern).matches(name), expected, "{pattern} {name}");
    }
    assert!(!Pattern::new("/(/").is_valid() && Pattern::new("a*").is_valid());
    assert_eq!(Pattern::new("/a/").to_string(), "/a/");
}

#[test]
fn an_application_has_one_agent() {
    let by_name = |name: &str, namespace: &str| {
        with(app(), &[("/metadata/namespace", json!(namespace)), ("/spec/destination/name", json!(name))])
    };
    let ignored = with(app(), &[("/metadata/labels", json!({ IGNORE_SYNC: "true" }))]);
    let narrow = HubSide { allowed_namespaces: vec![Pattern::new("spoke*")], ..hub_side() };
    let none = HubSide { allowed_namespaces: Vec::new(), ..hub_side() };
    let mirror = annotated(by_name("cluster", "team-x"), SOURCE_UID, "u");
    for (name, hub, app, autonomous, expected) in [
        ("by namespace", hub_side(), app(), false, Route::To("spoke")),
        ("by namespace, whatever the destination", hub_side(), by_name("x", "one"), false, Route::To("one")),
        ("left alone", hub_side(), ignored, false, Route::Ignored),
        ("allowed", narrow.clone(), by_name("x", "spoke-2"), false, Route::To("spoke-2")),
        ("not allowed", narrow, by_name("x", "other"), false, Route::Ignored),
        ("none allowed", none, app(), false, Route::Ignored),
        ("by destination", hub_by_destination(), by_name("one", "team-a"), false, Route::To("one")),
        ("hub's own namespace", hub_by_destination(), by_name("one", "argocd"), false, Route::To("one")),
        ("not allowed by destination", hub_by_destination(), by_name("one", "other"), false, Route::Ignored),
        ("the hub itself", hub_by_destination(), by_name("in-cluster", "team-a"), false, Route::Nowhere),
        ("no destination", hub_by_destination(), by_name("", "team-a"), false, Route::Nowhere),
        ("a mirror", hub_by_destination(), mirror.clone(), true, Route::To("team-x")),
        ("a copy of another hub", hub_by_destination(), mirror, false, Route::To("cluster")),
    ] {
        assert_eq!(route(&hub, &app, autonomous), expected, "{name}");
    }
}

#[test]
fn keys_are_translated_both_ways() {
    use Kind::{AppProject, Application, Repository};
    let managed = (hub_side(), agent_side(), managed_agent());
    let spoke = Agent { namespace: "argocd-spoke".to_owned(), ..managed_agent() };
    let by_destination = (hub_by_destination(), agent_by_destination(), spoke);
    let autonomous = (hub_side(), autonomous_side(), autonomous_agent());
    for ((hub, side, known), kind, on_hub, here, remapped) in [
        (&managed, Application, ("spoke", "a"), ("argocd", "a"), false),
        (&managed, AppProject, ("argocd", "p"), ("argocd", "p"), false),
        (&managed, Repository, ("argocd", "r"), ("argocd", "r"), false),
        (&by_destination, Application, ("argocd", "a"), ("argocd-spoke", "a"), true),
        (&by_destination, Application, ("team-a", "a"), ("team-a", "a"), false),
        (&autonomous, Application, ("spoke", "a"), ("argocd", "a"), false),
        (&autonomous, AppProject, ("argocd", "spoke-p"), ("argocd", "p"), false),
    ] {
        let (on_hub, here) = (key(kind, on_hub.0, on_hub.1), key(kind, here.0, here.1));
        assert_eq!(agent_key(side, &on_hub).as_ref(), Ok(&here));
        assert_eq!(hub_key(hub, known, &here, remapped).as_ref(), Ok(&on_hub));
    }
}

#[test]
fn a_moved_application_is_reported_under_its_name_on_the_hub() {
    let moved = annotated(with(copy(), &[("/metadata/namespace", json!("argocd-spoke"))]), NAMESPACE_REMAPPED, "true");
    assert_eq!(reported_key(&agent_by_destination(), Kind::Application, &moved).namespace, "argocd");
    assert_eq!(reported_key(&agent_side(), Kind::Application, &copy()).namespace, "argocd");
}

#[test]
fn an_agent_cannot_reach_beyond_its_own_with_a_name() {
    let spoke = Agent { namespace: "argocd-spoke".to_owned(), ..managed_agent() };
    let claimed = hub_key(&hub_by_destination(), &spoke, &key(Kind::Application, "team-a", "a"), true).unwrap();
    assert_eq!(claimed.namespace, "team-a", "only what is in the agent's own namespace can have been moved");
    let odd = hub_key(&hub_side(), &autonomous_agent(), &key(Kind::AppProject, "argocd", "../x"), false);
    assert_eq!(odd.unwrap_err().reason, Reason::Invalid);
    let long = hub_key(&hub_side(), &autonomous_agent(), &key(Kind::AppProject, "argocd", &"x".repeat(250)), false);
    assert_eq!(long.unwrap_err().reason, Reason::Invalid);
}

#[test]
fn prefixes_come_off_only_where_they_are_one() {
    for (project, expected) in [("spoke-p", "p"), ("spoke-", "spoke-"), ("spokep", "spokep"), ("other-p", "other-p")] {
        assert_eq!(unprefixed_project("spoke", project), expected);
    }
}

#[test]
fn equal_is_what_an_api_server_takes_for_equal() {
    for (a, b, expected) in [
        (json!({ "a": 1 }), json!({ "a": 1.0 }), true),
        (json!({ "a": null }), json!({}), true),
        (json!({}), json!({ "a": null }), true),
        (json!({ "a": [] }), json!({}), false),
        (json!([1, 2]), json!([2, 1]), false),
        (json!({ "a": { "b": null } }), json!({ "a": {} }), true),
        (json!("1"), json!(1), false),
        (Value::Null, json!({}), false),
    ] {
        assert_eq!(same(&a, &b), expected, "{a} {b}");
    }
}
