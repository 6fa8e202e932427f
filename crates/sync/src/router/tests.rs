use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::*;
use crate::mapping::{Pattern, Placement};

fn router(placement: Placement) -> Router {
    let allowed_namespaces = vec![Pattern::glob("*")];
    Router::new(Arc::new(HubSide { namespace: "argocd".into(), placement, allowed_namespaces }))
}

fn app(namespace: &str, destination: &str, version: u64) -> Object {
    Arc::new(json!({
        "metadata": {"name": "web", "namespace": namespace, "uid": "u", "resourceVersion": version.to_string()},
        "spec": {"destination": {"name": destination}},
    }))
}

fn project(target: &str, version: u64) -> Object {
    Arc::new(json!({
        "metadata": {"name": "team", "namespace": "argocd", "uid": "p", "resourceVersion": version.to_string()},
        "spec": {"sourceNamespaces": [target], "destinations": [{"name": target, "namespace": "*"}]},
    }))
}

fn repository() -> Object {
    Arc::new(json!({
        "metadata": {
            "name": "repo", "namespace": "argocd", "uid": "r", "resourceVersion": "7",
            "labels": {"argocd.argoproj.io/secret-type": "repository"},
        },
        "data": {"project": BASE64_STANDARD.encode("team")},
    }))
}

/// News as text: the agent, the name, and whether it is there or gone.
fn told(news: &[News]) -> Vec<String> {
    let tell = |news: &News| match &news.seen {
        Seen::Applied(_) => format!("{} has {}", news.agent, news.key.name),
        Seen::Gone(version) => format!("{} loses {} at {version:?}", news.agent, news.key.name),
    };
    news.iter().map(tell).collect()
}

#[test]
fn applications_go_to_the_agent_of_their_namespace_once_it_is_there() {
    let mut router = router(Placement::Namespace);
    assert!(router.applied(Kind::Application, app("alpha", "", 1)).is_empty());
    assert_eq!(router.keys(Kind::Application).len(), 1);
    assert!(told(&router.add_agent("beta")).is_empty());
    assert_eq!(told(&router.add_agent("alpha")), ["alpha has web"]);
    assert!(router.add_agent("alpha").is_empty(), "it is known");
    assert_eq!(told(&router.applied(Kind::Application, app("alpha", "", 2))), ["alpha has web"]);
    router.remove_agent("alpha");
    assert!(!router.has_agent("alpha"));
    assert!(router.applied(Kind::Application, app("alpha", "", 3)).is_empty());
    assert_eq!(told(&router.add_agent("alpha")), ["alpha has web"]);
    let key = Key::of(Kind::Application, &app("alpha", "", 3));
    assert_eq!(told(&router.gone(&key, Some(9))), ["alpha loses web at Some(9)"]);
    assert!(router.gone(&key, Some(9)).is_empty());
    assert!(router.keys(Kind::Application).is_empty());
}

#[test]
fn by_destination_an_application_moves_from_one_agent_to_another() {
    let mut router = router(Placement::Destination);
    router.add_agent("alpha");
    router.add_agent("beta");
    assert_eq!(told(&router.applied(Kind::Application, app("apps", "alpha", 1))), ["alpha has web"]);
    let moved = router.applied(Kind::Application, app("apps", "beta", 2));
    assert_eq!(told(&moved), ["alpha loses web at Some(2)", "beta has web"]);
    assert_eq!(told(&router.applied(Kind::Application, app("apps", "in-cluster", 3))), ["beta loses web at Some(3)"]);
}

#[test]
fn an_application_that_is_to_be_left_alone_is_still_missed_when_it_goes() {
    let mut router = router(Placement::Namespace);
    let mut ignored: Value = (*app("alpha", "", 2)).clone();
    ignored["metadata"]["labels"] = json!({"argocd-agent.argoproj-labs.io/ignore-sync": "true"});
    let key = Key::of(Kind::Application, &ignored);
    assert!(router.applied(Kind::Application, Arc::new(ignored.clone())).is_empty());
    assert!(router.add_agent("alpha").is_empty());
    assert_eq!(router.keys(Kind::Application), std::slice::from_ref(&key));
    assert_eq!(told(&router.applied(Kind::Application, app("alpha", "", 3))), ["alpha has web"]);
    assert!(router.applied(Kind::Application, Arc::new(ignored)).is_empty());
    assert_eq!(told(&router.gone(&key, None)), ["alpha loses web at None"]);
}

#[test]
fn projects_and_their_repositories_go_to_managed_agents_that_they_name() {
    let mut router = router(Placement::Namespace);
    router.add_agent("alpha");
    router.add_agent("beta");
    assert!(router.applied(Kind::AppProject, project("alpha", 1)).is_empty(), "no mode is known");
    assert!(router.applied(Kind::Repository, repository()).is_empty());
    assert_eq!(told(&router.set_mode("alpha", Mode::Managed)), ["alpha has team", "alpha has repo"]);
    assert!(router.set_mode("alpha", Mode::Managed).is_empty());
    assert!(router.set_mode("beta", Mode::Managed).is_empty());
    assert!(router.set_mode("gamma", Mode::Managed).is_empty(), "there is no such agent");
    let moved = router.applied(Kind::AppProject, project("beta", 2));
    let expected = ["alpha loses team at None", "beta has team", "alpha loses repo at None", "beta has repo"];
    assert_eq!(told(&moved), expected);
    let key = Key::of(Kind::AppProject, &project("beta", 2));
    let ended = router.gone(&key, Some(5));
    assert_eq!(told(&ended), ["beta loses team at Some(5)", "beta loses repo at None"]);
    assert_eq!(told(&router.applied(Kind::AppProject, project("beta", 6))), ["beta has team", "beta has repo"]);
    let key = Key::of(Kind::Repository, &repository());
    assert_eq!(told(&router.gone(&key, Some(8))), ["beta loses repo at Some(8)"]);
}

#[test]
fn an_autonomous_agent_is_told_of_its_own_mirrors_only() {
    let mut router = router(Placement::Namespace);
    router.add_agent("alpha");
    router.set_mode("alpha", Mode::Autonomous);
    assert!(router.applied(Kind::AppProject, project("alpha", 1)).is_empty(), "the hub's own");
    let mut mirror: Value = (*project("alpha", 2)).clone();
    mirror["metadata"]["name"] = json!("alpha-team");
    mirror["metadata"]["annotations"] = json!({"argocd.argoproj.io/source-uid": "s"});
    assert_eq!(told(&router.applied(Kind::AppProject, Arc::new(mirror.clone()))), ["alpha has alpha-team"]);
    mirror["spec"]["sourceNamespaces"] = json!(["beta"]);
    assert_eq!(told(&router.applied(Kind::AppProject, Arc::new(mirror))), ["alpha loses alpha-team at None"]);
}
