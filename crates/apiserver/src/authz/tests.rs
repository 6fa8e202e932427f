use serde_json::{Value, json};

use super::*;

fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    User { name: name.to_owned(), groups, ..User::default() }
}

/// `verb group/resource/subresource namespace/name`, with `-` for nothing.
fn action(text: &str) -> Action {
    let (verb, rest) = text.split_once(' ').unwrap();
    if rest.starts_with('/') {
        return Action { verb: verb.to_owned(), path: Some(rest.to_owned()), ..Action::default() };
    }
    let (what, place) = rest.split_once(' ').unwrap();
    let part = |text: &str, at: usize| text.split('/').nth(at).unwrap_or_default().trim_matches('-').to_owned();
    Action {
        verb: verb.to_owned(),
        group: part(what, 0),
        version: "v1".to_owned(),
        resource: part(what, 1),
        subresource: part(what, 2),
        namespace: part(place, 0),
        name: part(place, 1),
        path: None,
    }
}

fn role(kind: &str, namespace: &str, name: &str, rules: &Value) -> Value {
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "rules": rules})
}

fn binding(namespace: &str, role: (&str, &str), subject: &Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    json!({
        "kind": kind, "metadata": {"name": format!("{}-of-{}", role.1, subject["name"].as_str().unwrap()), "namespace": namespace},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role.0, "name": role.1}, "subjects": [subject],
    })
}

fn ann() -> Value {
    json!({"kind": "User", "apiGroup": RBAC_GROUP, "name": "ann"})
}

/// Whether ann, with one cluster role of one rule, may do something.
fn allows(rule: &Value, text: &str) -> bool {
    let book = [role("ClusterRole", "", "r", &json!([rule])), binding("", ("ClusterRole", "r"), &ann())];
    RuleBook::new(&book).decide(&user("ann", &[]), &action(text)).allowed
}

#[test]
fn a_rule_allows_what_it_names_and_nothing_else() {
    let reader = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]});
    for (text, expected) in [
        ("get -/pods ns/a", true),
        ("list -/pods ns/-", true),
        ("list -/pods -/-", true),
        ("get -/pods/log ns/a", true),
        ("get -/pods/exec ns/a", false),
        ("delete -/pods ns/a", false),
        ("get apps/pods ns/a", false),
        ("get -/secrets ns/a", false),
        ("get /healthz", false),
    ] {
        assert_eq!(allows(&reader, text), expected, "{text}");
    }
    let named = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["a"]});
    assert!(
        allows(&named, "delete x/y ns/a") && !allows(&named, "delete x/y ns/b") && !allows(&named, "list x/y ns/-")
    );
    let scale = json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["*/scale"]});
    assert!(allows(&scale, "get apps/deployments/scale ns/a") && !allows(&scale, "get apps/deployments ns/a"));
    let every = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    assert!(allows(&every, "get -/pods/log ns/a") && !allows(&every, "get /healthz"));
    let paths = json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/openapi/*"]});
    for (text, expected) in
        [("get /healthz", true), ("get /openapi/v3", true), ("get /healthz/x", false), ("post /healthz", false)]
    {
        assert_eq!(allows(&paths, text), expected, "{text}");
    }
    assert!(
        !allows(&json!({"verbs": "get", "apiGroups": 1}), "get -/pods ns/a"),
        "what has the wrong type grants nothing"
    );
}

#[test]
fn a_binding_reaches_as_far_as_its_namespace() {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let robot = json!({"kind": "ServiceAccount", "name": "robot"});
    let objects = [
        role("ClusterRole", "", "reads", &rules),
        role("Role", "there", "local", &rules),
        binding("here", ("ClusterRole", "reads"), &ann()),
        binding("there", ("Role", "local"), &robot),
        binding("here", ("Role", "gone"), &ann()),
    ];
    let book = RuleBook::new(&objects);
    let may = |who: &User, text: &str| book.decide(who, &action(text)).allowed;
    assert!(may(&user("ann", &[]), "get -/pods here/a"));
    assert!(!may(&user("ann", &[]), "get -/pods there/a") && !may(&user("ann", &[]), "get -/pods -/a"));
    assert!(may(&user("system:serviceaccount:there:robot", &[]), "get -/pods there/a"));
    assert!(!may(&user("system:serviceaccount:here:robot", &[]), "get -/pods there/a"));
    assert!(may(&user("anybody", &[MASTERS]), "delete x/y z/a"));
    let why = book.decide(&user("ann", &[]), &action("get -/pods here/a")).reason;
    assert_eq!(why, r#"RBAC: allowed by RoleBinding "reads-of-ann/here" of ClusterRole "reads" to User "ann""#);
    let missing = book.decide(&user("ann", &[]), &action("list -/pods here/-")).reason;
    assert_eq!(missing, r#"RBAC: role.rbac.authorization.k8s.io "gone" not found"#);
}

#[test]
fn what_is_taken_away_is_gone() {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let (reads, bound) = (role("ClusterRole", "", "reads", &rules), binding("", ("ClusterRole", "reads"), &ann()));
    let mut book = RuleBook::new([&reads, &bound]);
    let before = book.clone();
    let may = |book: &RuleBook| book.decide(&user("ann", &[]), &action("get -/pods ns/a")).allowed;
    book.delete(&bound);
    assert!(may(&before) && !may(&book), "a snapshot stays as it was");
    book.apply(&bound);
    assert!(may(&book));
    book.apply(&role("ClusterRole", "", "reads", &json!([])));
    assert!(!may(&book));
}

#[test]
fn nobody_grants_more_than_they_have() {
    let reads = json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]);
    let own = [role("ClusterRole", "", "reads", &reads), binding("", ("ClusterRole", "reads"), &ann())];
    let with = |rule: Value| {
        let more = [role("ClusterRole", "", "more", &json!([rule])), binding("", ("ClusterRole", "more"), &ann())];
        RuleBook::new(own.iter().chain(&more))
    };
    let book = RuleBook::new(&own);
    let write = |book: &RuleBook, resource: &str, object: &Value, old: Option<&Value>| {
        let write = RoleWrite { resource, request_name: "", object, old };
        escalation_errors(book, &user("ann", &[]), write).map_err(|failure| failure.code)
    };
    assert_eq!(write(&book, "clusterroles", &role("ClusterRole", "", "mine", &reads), None), Ok(()));
    let secrets = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]);
    let greedy = role("ClusterRole", "", "greedy", &secrets);
    assert_eq!(write(&book, "clusterroles", &greedy, None), Err(403));
    assert_eq!(write(&book, "clusterroles", &greedy, Some(&greedy)), Ok(()), "nothing is granted that was not");
    let escalate = with(json!({"verbs": ["escalate"], "apiGroups": [RBAC_GROUP], "resources": ["clusterroles"]}));
    assert_eq!(write(&escalate, "clusterroles", &greedy, None), Ok(()));
    let mut gathering = role("ClusterRole", "", "gathers", &json!([]));
    gathering["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    assert_eq!(write(&book, "clusterroles", &gathering, None), Err(403));

    let everything = role("ClusterRole", "", "all", &json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]));
    let book = RuleBook::new(own.iter().chain([&everything]));
    let bob = || json!({"kind": "User", "apiGroup": RBAC_GROUP, "name": "bob"});
    let bind = |role: &str| binding("", ("ClusterRole", role), &bob());
    assert_eq!(write(&book, "clusterrolebindings", &bind("reads"), None), Ok(()));
    assert_eq!(write(&book, "clusterrolebindings", &bind("all"), None), Err(403));
    assert_eq!(write(&book, "clusterrolebindings", &bind("absent"), None), Err(404));
    let mut binds = with(
        json!({"verbs": ["bind"], "apiGroups": [RBAC_GROUP], "resources": ["clusterroles"], "resourceNames": ["all"]}),
    );
    binds.apply(&everything);
    assert_eq!(write(&binds, "clusterrolebindings", &bind("all"), None), Ok(()));
}

#[test]
fn a_refusal_says_who_what_and_where() {
    let told = |text: &str| forbidden(&user("a<b", &[]), &action(text), "").message;
    assert_eq!(
        told("get -/pods/log ns/a"),
        r#"pods "a" is forbidden: User "a&lt;b" cannot get resource "pods/log" in API group "" in the namespace "ns""#
    );
    assert_eq!(
        told("list -/nodes -/-"),
        r#"nodes is forbidden: User "a&lt;b" cannot list resource "nodes" in API group "" at the cluster scope"#
    );
    assert_eq!(told("get /logs"), r#"forbidden: User "a&lt;b" cannot get path "/logs""#);
}
