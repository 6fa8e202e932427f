use std::collections::BTreeSet;

use super::*;
use crate::authz::{Action, RuleBook, User};

fn book() -> RuleBook {
    let all = [cluster_roles(), cluster_role_bindings(), roles(), role_bindings()].concat();
    RuleBook::new(&all)
}

fn may(name: &str, groups: &[&str], action: &Action) -> bool {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    book().decide(&User { name: name.to_owned(), groups, ..User::default() }, action).allowed
}

fn path(path: &str) -> Action {
    Action { verb: "get".to_owned(), path: Some(path.to_owned()), ..Action::default() }
}

fn on(verb: &str, resource: &str, namespace: &str, name: &str) -> Action {
    Action {
        verb: verb.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..Action::default()
    }
}

#[test]
fn everybody_finds_out_what_there_is_and_nothing_more() {
    let (known, unknown) = (["system:authenticated"], ["system:unauthenticated"]);
    assert!(may("ann", &known, &path("/apis/apps")) && !may("x", &unknown, &path("/apis/apps")));
    assert!(may("ann", &known, &path("/healthz")) && may("x", &unknown, &path("/healthz")));
    assert!(!may("ann", &known, &path("/metrics")) && may("m", &["system:monitoring"], &path("/metrics")));
    assert!(!may("ann", &known, &on("list", "pods", "default", "")));
    assert!(may("ann", &["system:masters"], &on("delete", "nodes", "", "n")));
}

#[test]
fn parts_of_the_system_have_their_roles() {
    let scheduler = "system:kube-scheduler";
    assert!(may(scheduler, &[], &on("list", "pods", "", "")) && !may(scheduler, &[], &on("get", "secrets", "", "s")));
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    assert!(may(collector, &[], &on("delete", "configmaps", "default", "c")));
    assert!(!may(collector, &[], &on("create", "configmaps", "default", "c")));
    let reads = on("get", "configmaps", "kube-system", "extension-apiserver-authentication");
    assert!(may(scheduler, &[], &reads) && !may("ann", &[], &reads));
}

#[test]
fn roles_for_people_are_made_of_their_parts() {
    let all = cluster_roles();
    let rules = |name: &str| {
        let role = all.iter().find(|role| role["metadata"]["name"] == name).unwrap();
        Rule::list(role).into_iter().map(|rule| rule.to_value().to_string()).collect::<BTreeSet<_>>()
    };
    assert!(!rules("view").is_empty());
    assert!(rules("edit").is_superset(&rules("view")) && rules("admin").is_superset(&rules("edit")));
    assert!(rules("admin").is_superset(&rules("system:aggregate-to-admin")));
    assert!(!rules("view").iter().any(|rule| rule.contains("secrets")));
}

#[test]
fn every_binding_names_a_role_there_is() {
    let known = |objects: Vec<Value>| -> BTreeSet<String> {
        let key = |object: &Value| {
            format!("{}/{}", object["metadata"]["namespace"].as_str().unwrap_or_default(), object["metadata"]["name"])
        };
        let keys: BTreeSet<String> = objects.iter().map(key).collect();
        assert_eq!(keys.len(), objects.len(), "no two have one name");
        keys
    };
    let roles: BTreeSet<String> = known(cluster_roles()).into_iter().chain(known(roles())).collect();
    known(cluster_role_bindings());
    known(role_bindings());
    for binding in cluster_role_bindings().iter().chain(&role_bindings()) {
        let local = binding["roleRef"]["kind"] == "Role";
        let namespace = binding["metadata"]["namespace"].as_str().filter(|_| local).unwrap_or_default();
        assert!(roles.contains(&format!("{namespace}/{}", binding["roleRef"]["name"])), "{binding}");
    }
}

#[test]
fn an_upgrade_adds_what_is_missing_and_takes_nothing() {
    let wanted =
        cluster_role_bindings().into_iter().find(|object| object["metadata"]["name"] == "cluster-admin").unwrap();
    assert_eq!(reconciled(&wanted, &wanted), None);
    let mut stored = wanted.clone();
    stored["subjects"] = json!([{"kind": "User", "name": "ann"}]);
    let subjects = reconciled(&stored, &wanted).unwrap()["subjects"].clone();
    assert_eq!(subjects.as_array().unwrap().len(), 2);
    stored["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] = "false".into();
    assert_eq!(reconciled(&stored, &wanted), None, "somebody wants it to stay as it is");
    let role = cluster_roles().into_iter().find(|object| object["metadata"]["name"] == "system:discovery").unwrap();
    let mut stored = role.clone();
    stored["rules"] = json!([{"verbs": ["get"], "nonResourceURLs": ["/mine"]}]);
    assert_eq!(reconciled(&stored, &role).unwrap()["rules"].as_array().unwrap().len(), 2);
}
