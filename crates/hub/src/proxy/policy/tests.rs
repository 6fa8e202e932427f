use serde_json::json;

use super::*;

fn caller(source: Source, name: &str, groups: &[&str]) -> Caller {
    Caller { name: name.to_owned(), groups: groups.iter().map(|group| (*group).to_owned()).collect(), source }
}

/// `verb kind namespace`, with a dash for none.
fn target(text: &str) -> Target {
    let mut words = text.split(' ');
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
    let verb = words.next().and_then(|word| verbs.into_iter().find(|verb| *verb == word)).unwrap();
    let kind = words.next().unwrap();
    let (whole, subresource) = kind.split_once('/').unwrap_or((kind, ""));
    let (resource, group) = whole.split_once('.').unwrap_or((whole, ""));
    let namespace = words.next().filter(|word| *word != "-").unwrap_or_default();
    let text = str::to_owned;
    Target {
        verb,
        group: text(group),
        resource: text(resource),
        subresource: text(subresource),
        namespace: text(namespace),
        name: String::new(),
    }
}

#[test]
fn the_default_is_what_argo_cd_manages_and_events_to_read() {
    let policy = Policy::new(default_rules());
    let argocd = caller(Source::Argocd, "argocd", &[]);
    for (what, permitted) in [
        ("get deployments.apps a", true),
        ("patch deployments.apps/scale a", true),
        ("create pods/exec a", true),
        ("get pods/log a", true),
        ("delete clusterroles.rbac.authorization.k8s.io -", true),
        ("list events a", true),
        ("watch events.events.k8s.io -", true),
        ("create events a", false),
        ("delete events a", false),
        ("get endpoints a", false),
        ("get leases.coordination.k8s.io a", false),
        ("create serviceaccounts/token a", false),
        ("create tokenreviews.authentication.k8s.io -", false),
        ("create subjectaccessreviews.authorization.k8s.io -", false),
        ("update certificatesigningrequests.certificates.k8s.io/approval -", false),
        ("create nodes/proxy -", false),
        ("create services/proxy a", false),
    ] {
        assert_eq!(policy.permits(&argocd, "x", &target(what)), permitted, "{what}");
    }
    assert!(policy.permits(&argocd, "x", &Target { verb: "get", ..Target::default() }), "discovery");
    assert!(!Policy::new(Vec::new()).permits(&argocd, "x", &target("get pods a")), "no rule, no way");
}

#[test]
fn user_by_agent_by_verb_by_namespace() {
    let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let policy = Policy::new(vec![
        Rule { callers: texts(&["user:ann"]), agents: texts(&["blue-*"]), ..Rule::default() },
        Rule {
            callers: texts(&["group:readers"]),
            verbs: texts(&["get", "list"]),
            namespaces: texts(&["team-*"]),
            kinds: texts(&["pods", "pods/log"]),
            ..Rule::default()
        },
        Rule { callers: texts(&["argocd"]), namespaces: texts(&["*"]), verbs: texts(&["get"]), ..Rule::default() },
    ]);
    let ann = caller(Source::People, "ann", &["system:authenticated"]);
    let bob = caller(Source::People, "bob", &["readers"]);
    let eve = caller(Source::People, "eve", &[]);
    let argocd = caller(Source::Argocd, "argocd", &[]);
    // Argo CD is nobody's namesake.
    let false_ann = caller(Source::Argocd, "ann", &["readers"]);
    for (who, agent, what, permitted) in [
        (&ann, "blue-1", "delete nodes -", true),
        (&ann, "red-1", "get pods team-a", false),
        (&bob, "blue-1", "get pods team-a", true),
        (&bob, "red-1", "list pods team-b", true),
        (&bob, "red-1", "get pods/log team-b", true),
        (&bob, "red-1", "create pods/exec team-b", false),
        (&bob, "red-1", "get pods other", false),
        (&bob, "red-1", "list pods -", false),
        (&bob, "red-1", "watch pods team-a", false),
        (&bob, "red-1", "get secrets team-a", false),
        (&eve, "blue-1", "get pods team-a", false),
        (&argocd, "red-1", "get nodes -", true),
        (&argocd, "red-1", "delete pods team-a", false),
        (&false_ann, "blue-1", "delete nodes -", false),
    ] {
        let permits = policy.permits(who, agent, &target(what));
        assert_eq!(permits, permitted, "{} at {agent}: {what}", who.name);
    }
}

#[test]
fn a_group_may_have_everything_and_others_what_is_configured() {
    let token = target("create serviceaccounts/token a");
    let admin = caller(Source::People, "ann", &["system:authenticated", "system:masters"]);
    // Neither a name nor another door makes a member.
    let others = [
        caller(Source::People, "system:masters", &["system:authenticated"]),
        caller(Source::People, "bob", &["masters", "system"]),
        caller(Source::Argocd, "argocd", &["system:masters"]),
    ];
    let readers = Rule { verbs: vec!["get".to_owned()], kinds: vec!["pods".to_owned()], ..Rule::default() };
    for (rules, updates) in [(Vec::new(), true), (vec![readers], false)] {
        let policy = Policy::configured(&rules);
        assert!(!policy.permits(&admin, "x", &token));
        let policy = policy.with_everything_for("system:masters");
        assert!(policy.permits(&admin, "x", &token) && policy.permits(&admin, "x", &target("delete nodes -")));
        for other in &others {
            assert!(!policy.permits(other, "x", &token), "{other:?}");
            assert!(policy.permits(other, "x", &target("get pods a")));
            assert_eq!(policy.permits(other, "x", &target("update pods a")), updates);
        }
    }
}

#[test]
fn rules_that_would_silently_match_nothing_are_refused() {
    assert_eq!(check(&default_rules()), Ok(()));
    let rule = |field: &str, text: &str| -> Rule { serde_json::from_value(json!({field: [text]})).unwrap() };
    for (field, texts) in [
        ("callers", &["argocd", "people", "user:ann", "group:system:masters"][..]),
        ("agents", &["blue-*", "/^a.*$/"]),
        ("kinds", &["pods", "pods/log", "deployments.apps", "*.authentication.k8s.io", "*", "*/scale", "pods/*"]),
        ("verbs", &["get", "deletecollection", "*"]),
        ("namespaces", &["team-*", "*"]),
    ] {
        for text in texts {
            assert_eq!(check(&[Rule::default(), rule(field, text)]), Ok(()), "{field} {text}");
        }
    }
    for (field, texts) in [
        ("callers", &["", "ann", "user:", "Group:ops", "argo"][..]),
        ("agents", &["", "/(/"]),
        ("kinds", &["Pods", "", "!", "pods/", "deployments.Apps", "pods/log/x", "po ds", "pods.", "!secrets"]),
        ("verbs", &["GET", "", "exec", "!get"]),
        ("namespaces", &[" "]),
    ] {
        for text in texts {
            let refused = check(&[Rule::default(), rule(field, text)]).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("rule 2: {field} {text:?} ")), "{refused}");
        }
    }
}
